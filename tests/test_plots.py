"""Pictures are drawn from what was learned, and say what they need."""

import sys
from pathlib import Path

import matplotlib.pyplot
import pytest
import torch

import ahop
from ahop.plots import CorruptionDisplay

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
