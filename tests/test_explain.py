"""Why a memory answers as it does."""

from functools import cache
from pathlib import Path

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
import torch

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.memory.explanation import Explanation
from ahop.plots import WaterfallDisplay
from ahop.scale.stores import create_store
from tests import recallers
from tests.paper.worlds import uniform_patterns

matplotlib.use("Agg")
VARIANT = ahop.MixedVariant(0.1, 0.2, 0.3)


@cache
def learned(similarity: str = "mixture", count: int = 200, dimensions: int = 16) -> ahop.AssociativeMemory:
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
    memory = learned().copy()
    memory.separation = ahop.Softmax(beta=0.7)
    for query in VARIANT.sample(memory.patterns, 20, 5).queries:
        assert "safety margin" not in [bar.name for bar in memory.explain(query).bars]


def test_odds_beyond_all_numbers_have_words_on_both_sides() -> None:
    assert "beyond doubt likelier than 1" in str(Explanation(0, 1, 1.0, 1e4, ()))
    assert "beyond doubt less likely than unknown" in str(Explanation(0, "unknown", 1.0, -1e4, ()))
    assert "7.39 times less likely than unknown" in str(Explanation(0, "unknown", 1.0, -2.0, ()))


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


@pytest.mark.parametrize("similarity", ["mixture", "additive", "nuisance", "footprint", "auto"])
@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_the_bars_against_unknown_sum_to_its_log_odds(similarity: str, rate: float) -> None:
    memory = learned(similarity).copy()
    assert memory.detector is not None
    memory.detector.rate = rate
    strangers = VARIANT.sample(uniform_patterns(50, 16, seed=9), 10, 6).queries.double()
    queries = [*VARIANT.sample(memory.patterns, 10, 5).queries.double(), *strangers]
    memory = memory.double()  # so that even what is nearly certain has digits
    answers = memory.recall(torch.stack(queries))
    assert answers.unknown is not None
    for query, sure, unknown in zip(queries, answers.posterior[:, 0], answers.unknown, strict=True):
        explained = memory.explain(query, against="unknown")
        assert explained.rival == "unknown"
        assert sum(bar.log_odds for bar in explained.bars) == pytest.approx(explained.log_odds, abs=1e-9)
        assert explained.log_odds == pytest.approx(float((sure * (1 - unknown) / unknown).log()), abs=1e-5)
        told = {bar.name: bar.log_odds for bar in explained.bars}
        assert told.get("prior", 0.0) == pytest.approx(float(np.log((1 - rate) / rate)))
        assert told["other answers"] == pytest.approx(float(sure.log()), abs=1e-9)


def test_against_unknown_each_dimension_tells_its_part_of_the_score() -> None:
    memory = learned()
    assert memory.detector is not None
    query = VARIANT.sample(memory.patterns, 1, 5).queries
    query[0, 3] = torch.nan
    explained = memory.explain(query, against="unknown")
    told = [bar for bar in explained.bars if bar.name.startswith("dimension")]
    score = float(memory.scores(query).max())
    assert sum(bar.log_odds for bar in told) == pytest.approx(memory.detector.worth_of_best * score, rel=1e-5)
    assert {bar.rival for bar in told} == {None}
    assert next(bar.word for bar in told if bar.name == "dimension 3") == "missing"


def test_who_cannot_tell_unknown_queries_says_so_and_a_label_of_that_name_comes_first() -> None:
    patterns = uniform_patterns(3, 4)
    with pytest.raises(UnsupportedError, match=r"ahop\.fit"):
        ahop.AssociativeMemory(patterns).explain(patterns[0], against="unknown")
    named = ahop.AssociativeMemory(patterns, labels=["here", "there", "unknown"])
    assert named.explain(patterns[0], against="unknown").bars[0].rival is not None
    alone = ahop.AssociativeMemory(learned().patterns[:1], model=learned().model)
    assert alone.explain(alone.patterns[0], against="unknown").rival == "unknown"


def same(explained: Explanation, other: Explanation) -> bool:
    ours, theirs = ({bar.name: (bar.word, round(bar.log_odds, 3)) for bar in each.bars} for each in (explained, other))
    return ours == theirs and (explained.answer, explained.rival) == (other.answer, other.rival)


def test_indexes_and_stores_explain_as_the_memory_does(tmp_path: Path) -> None:
    memory, store = recallers.fitted(), create_store(tmp_path / "table", recallers.fitted())
    others = (ahop.index(memory, candidates=400), store, store.index(candidates=400))
    for query in recallers.copies(memory.patterns, 3, seed=5)[0].queries:
        for against in (None, "unknown", 7):
            expected = memory.explain(query, against=against, group="up")
            assert all(same(each.explain(query, against=against, group="up"), expected) for each in others)


def test_rivals_that_are_not_there_are_refused(tmp_path: Path) -> None:
    memory = recallers.fitted()
    index, query = ahop.index(memory), memory.patterns[0]
    index.remove([7])
    with pytest.raises(InvalidValueError, match="was removed"):
        index.explain(query, against=7)
    store = create_store(tmp_path / "table", memory)
    for recaller in (store, store.index()):
        with pytest.raises(InvalidValueError, match="not there: 4000"):
            recaller.explain(query, against=4000)
        with pytest.raises(InvalidTypeError, match="number of a pattern"):
            recaller.explain(query, against="seven")


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


@pytest.mark.filterwarnings("error")
def test_a_value_beyond_all_differences_speaks_for_neither() -> None:
    memory = ahop.AssociativeMemory(torch.tensor([[0.0, 1.0], [0.0, 2.0]]), ahop.EuclideanSimilarity())
    said = memory.explain([3e38, 1.2])
    assert next(bar.log_odds for bar in said.bars if bar.name == "dimension 0") == 0
