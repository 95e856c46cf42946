"""Pictures are drawn from what was learned, and say what they need."""

import sys
from pathlib import Path

import matplotlib.pyplot
import pytest
import torch

import ahop
from ahop.memory.report import FitReport
from ahop.plots import (
    CorruptionDisplay,
    EnergyDisplay,
    FootprintDisplay,
    LearningCurveDisplay,
    NuisanceDisplay,
    PoolDisplay,
    RecallDisplay,
    ReliabilityDisplay,
)

matplotlib.use("Agg")
PATTERNS = 2 * torch.rand(60, 5, generator=torch.Generator().manual_seed(0)) - 1
VARIANT = ahop.MixedVariant(0.2, 0.2, 0.5)


def learned(similarity: str) -> ahop.AssociativeMemory:
    return ahop.fit(PATTERNS, variant=VARIANT, samples=100, similarity=similarity, progress=False)


@pytest.mark.parametrize("similarity", ["mixture", "additive", "debiased", "euclidean"])
def test_a_memory_shows_how_a_value_speaks_and_how_far_copies_are_shifted(similarity: str) -> None:
    display = CorruptionDisplay.from_memory(learned(similarity), dimension=2)
    shift = float(VARIANT.constant_bias(5)[2])
    best = display.asked[display.phi.argmax(0)]
    middle = len(best) // 2
    if similarity != "euclidean":  # a reading speaks most for the stored value that it is shifted from
        assert float(best[middle] - display.stored[middle]) == pytest.approx(shift, abs=0.25)
    assert float(display.shifts[2]) == pytest.approx(shift, abs=0.15)
    figure = display.plot()
    assert [axis.get_xlabel() for axis in figure.axes[:2]] == ["stored value (dimension 2)", "dimension"]
    matplotlib.pyplot.close(figure)


def test_a_similarity_that_is_no_sum_has_no_such_picture() -> None:
    memory = ahop.AssociativeMemory(PATTERNS, ahop.AdaptiveSimilarity(5))
    with pytest.raises(ahop.errors.AhopError, match="no sum over dimensions"):
        CorruptionDisplay.from_memory(memory)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    display = CorruptionDisplay.from_memory(learned("mixture"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'ahop\[plots\]'"):
        display.plot()


def test_the_picture_of_a_memory_that_was_saved_is_the_same(tmp_path: Path) -> None:
    memory = learned("mixture")
    memory.save(tmp_path / "memory.ahop")
    pictures = []
    for each in (memory, ahop.load(tmp_path / "memory.ahop")):
        figure = CorruptionDisplay.from_memory(each, dimension=1).plot()
        figure.savefig(tmp_path / "picture.png", metadata={"Software": None})
        matplotlib.pyplot.close(figure)
        pictures.append((tmp_path / "picture.png").read_bytes())
    assert pictures[0] == pictures[1]


def pairs(count: int, seed: int = 0) -> tuple[list[int], torch.Tensor]:
    drawn = VARIANT.sample(PATTERNS, count, seed=seed)
    return drawn.origins.tolist(), drawn.queries


def test_a_recall_shows_its_answers_and_none() -> None:
    display = RecallDisplay.from_recall(learned("mixture").recall(pairs(2)[1], k=60), query=1)
    assert display.names[0] == str(pairs(2)[0][1])
    figure = display.plot()
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [*display.names, "none that is stored"]
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(1, abs=1e-3)
    matplotlib.pyplot.close(figure)


def test_reliability_counts_all_answers_and_is_off_by_little_if_calibrated() -> None:
    display = ReliabilityDisplay.from_pairs(learned("mixture"), pairs(400, seed=7), bins=5)
    assert sum(display.counts) == 400
    assert list(display.said) == sorted(display.said)
    assert display.error < 0.15
    assert all(share.low <= share.value <= share.high for share in display.right)
    matplotlib.pyplot.close(display.plot())


def test_a_footprint_ends_at_the_similarity_in_all_dimensions() -> None:
    memory = learned("mixture")
    display = FootprintDisplay.from_memory(memory, PATTERNS[4] + 0.1, count=3)
    found = PATTERNS[[int(name) for name in display.names]]
    whole = ahop.EuclideanSimilarity()(found, PATTERNS[4:5] + 0.1)[0]
    torch.testing.assert_close(display.footprints[:, -1], whole)
    matplotlib.pyplot.close(display.plot())


def test_an_energy_is_drawn_for_each_state() -> None:
    path = ahop.iterate(ahop.zoo.m_hop(PATTERNS), PATTERNS[:6])
    figure = EnergyDisplay.from_trajectory(path).plot()
    assert len(figure.axes[0].lines) == 6 + 1  # and the line at zero
    matplotlib.pyplot.close(figure)


def test_a_pool_marks_what_was_chosen() -> None:
    memory = ahop.fit(PATTERNS, variant=VARIANT, samples=200, similarity=["mixture", "euclidean"], progress=False)
    assert isinstance(memory.report, FitReport)
    display = PoolDisplay.from_report(memory.report)
    assert {trial.name for trial in display.trials} == {"mixture", "euclidean"}
    figure = display.plot()
    assert figure.axes[0].get_title(loc="left") in ("Chosen: blue", "Pooled: blue")
    matplotlib.pyplot.close(figure)


def test_a_learning_curve_fits_from_few_pairs_to_all() -> None:
    display = LearningCurveDisplay.from_pairs(
        PATTERNS, pairs(60), pairs(100, seed=3), counts=(20, 500), similarity="euclidean"
    )
    assert display.counts == (20, 60)
    assert display.held_out == 100
    matplotlib.pyplot.close(display.plot())


def test_nuisance_shows_the_direction_that_copies_move_along() -> None:
    generator = torch.Generator().manual_seed(1)
    origins = torch.arange(200) % 60
    copies = (
        PATTERNS[origins] + torch.randn(200, 1, generator=generator) + 0.05 * torch.randn(200, 5, generator=generator)
    )
    memory = ahop.fit(PATTERNS, pairs=(origins.tolist(), copies), similarity="nuisance", progress=False)
    display = NuisanceDisplay.from_memory(memory, count=2)
    first = display.directions[0].abs()  # an offset: the same in all dimensions
    assert float(first.std() / first.mean()) < 0.3
    assert display.shares[0] > 0.8
    matplotlib.pyplot.close(display.plot())
    with pytest.raises(ahop.errors.AhopError, match="nuisance"):
        NuisanceDisplay.from_memory(learned("mixture"))
