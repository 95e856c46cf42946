"""What notebooks show of the things that people hold in their hands."""

from pathlib import Path
from typing import Any

import pytest
import torch

import ahop

PATTERNS = 2 * torch.rand(30, 4, generator=torch.Generator().manual_seed(0)) - 1
LABELS = [f"<{row}>" for row in range(30)]


def memory() -> ahop.AssociativeMemory:
    return ahop.fit(PATTERNS, variant=ahop.NoisyVariant(0.01), samples=64, labels=LABELS, progress=False)


def shown(thing: Any) -> str:
    words = thing._repr_html_()
    assert words.count("<table>") == words.count("</table>") == 1
    return str(words)


def test_a_memory_its_report_and_its_answers_are_tables() -> None:
    made = memory()
    assert "30 rows of 4 dimensions" in shown(made)
    assert "&lt;0&gt;" in shown(made)
    assert "<0>" not in shown(made)
    assert "log-loss" in shown(made.report)
    answer = shown(made.recall(PATTERNS[:12], k=2))
    assert "&lt;3&gt;" in answer
    assert "2 more queries" in answer
    assert "Nothing was learned yet" in shown(ahop.AssociativeMemory(PATTERNS))


def test_a_report_of_a_solver_is_a_table() -> None:
    made = ahop.fit(ahop.zoo.a_hop(PATTERNS), variant=ahop.NoisyVariant(0.01), samples=32, progress=False)
    assert "<td>before</td>" in shown(made.report)


def test_an_index_is_a_table() -> None:
    pytest.importorskip("faiss")
    assert "30 of 4 dimensions" in shown(ahop.index(ahop.AssociativeMemory(PATTERNS, ahop.EuclideanSimilarity())))


def test_a_store_is_a_table(tmp_path: Path) -> None:
    pytest.importorskip("lance")
    made = ahop.AssociativeMemory(PATTERNS, ahop.EuclideanSimilarity())
    store = ahop.create_store(tmp_path / "rooms.lance", made, metadata={"floor": torch.arange(30)})
    words = shown(store)
    assert "30 of 4 dimensions" in words
    assert "floor" in words
