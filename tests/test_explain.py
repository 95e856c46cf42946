"""Why a memory answers as it does."""

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
import torch

import ahop
from ahop.errors import ShapeError, UnsupportedError
from ahop.plots import WaterfallDisplay
from tests.paper.worlds import uniform_patterns

matplotlib.use("Agg")
VARIANT = ahop.MixedVariant(0.1, 0.2, 0.3)


def learned(similarity: str | list[str] = "mixture", count: int = 200, dimensions: int = 16) -> ahop.AssociativeMemory:
    patterns = uniform_patterns(count, dimensions)
    return ahop.fit(patterns, variant=VARIANT, samples=200, similarity=similarity, progress=False)


@pytest.mark.parametrize("similarity", ["mixture", "additive", "nuisance", "footprint", "debiased", "cosine", "auto"])
def test_the_bars_sum_to_the_log_odds_of_the_answer(similarity: str) -> None:
    memory = learned(similarity)
    for query in VARIANT.sample(memory.patterns, 20, 5).queries:
        explained, answer = memory.explain(query), memory.recall(query[None], k=2)
        expected = float((answer.posterior[0, 0] / answer.posterior[0, 1]).log())
        assert sum(bar.log_odds for bar in explained.bars) == pytest.approx(explained.log_odds, abs=1e-9)
        assert explained.log_odds == pytest.approx(expected, abs=1e-5)
        assert explained.posterior == pytest.approx(float(answer.posterior[0, 0]), abs=1e-9)
        assert (explained.answer, explained.rival) == tuple(answer.indices[0].tolist())


def test_without_a_floor_nothing_is_left_to_doubt() -> None:
    memory = learned()
    memory.separation = ahop.Softmax(beta=0.7)
    for query in VARIANT.sample(memory.patterns, 20, 5).queries:
        assert "doubt" not in [bar.name for bar in memory.explain(query).bars]


def test_an_outlier_is_named() -> None:
    memory = learned(dimensions=32)
    pairs = ahop.MixedVariant(0.0, 0.2, 0.3).sample(memory.patterns, 1000, 7)
    generator = torch.Generator().manual_seed(0)
    place = torch.randint(32, (1000,), generator=generator)
    queries = pairs.queries.clone()
    queries[torch.arange(1000), place] = 4.0
    named = 0
    for query, dimension in zip(queries[:200], place[:200].tolist(), strict=True):
        words = {bar.name: bar.word for bar in memory.explain(query).bars}
        named += words[f"dimension {dimension}"] == "outlier"
    assert named >= 190


def test_dimensions_and_patterns_have_their_names() -> None:
    rooms = pd.DataFrame([[-40.0, -70.0, -90.0], [-80.0, -50.0, -60.0]], ["hall", "yard"], ["north", "south", "east"])
    memory = ahop.AssociativeMemory(
        rooms, ahop.EuclideanSimilarity(), ahop.Softmax(0.01), log_prior=torch.tensor([0.0, -1.0])
    )
    explained = memory.explain(rooms.iloc[0])
    assert explained.answer == "hall"
    assert explained.rival == "yard"
    assert {bar.name for bar in explained.bars} == {"north", "south", "east", "prior"}
    assert explained.bars[0].name == "north"
    assert explained.bars[0].seen == -40
    assert explained.bars[0].rival == -80
    assert "north (speaks for, +16.0)" in str(explained)
    assert "<td>north</td>" in explained._repr_html_()
    assert pd.DataFrame(explained.rows())["log_odds"].sum() == pytest.approx(explained.log_odds)


def test_a_rival_can_be_named_and_what_is_missing_is_said() -> None:
    memory = learned(count=20, dimensions=4)
    query = VARIANT.sample(memory.patterns, 1, 5).queries[0].numpy().copy()
    query[2] = np.nan
    explained = memory.explain(query, against=7)
    assert explained.rival == 7
    assert {bar.name: bar.word for bar in explained.bars}["dimension 2"] == "missing"


def test_one_query_is_explained_at_a_time_and_one_pattern_has_no_rival() -> None:
    memory = ahop.AssociativeMemory(uniform_patterns(3, 4))
    with pytest.raises(ShapeError, match="one row"):
        memory.explain(uniform_patterns(2, 4))
    with pytest.raises(UnsupportedError, match="no rival"):
        ahop.AssociativeMemory(uniform_patterns(1, 4)).explain(uniform_patterns(1, 4))


def test_a_waterfall_ends_at_the_log_odds() -> None:
    memory = learned(dimensions=16)
    explained = memory.explain(VARIANT.sample(memory.patterns, 1, 5).queries)
    display = WaterfallDisplay.from_explanation(explained, count=5)
    assert len(display.bars) == 6
    figure = display.plot()
    widths = [patch.get_width() for patch in figure.axes[0].patches]
    assert sum(widths[:-1]) == pytest.approx(explained.log_odds)
    assert widths[-1] == pytest.approx(explained.log_odds)
    matplotlib.pyplot.close(figure)
