"""Probabilities that no known origin was compared with say so wherever they are told; nothing is promised on them."""

from pathlib import Path
from typing import Any

import pytest
import torch

import ahop
from ahop.client import Client
from ahop.errors import UnsupportedError
from ahop.service.testing import running
from tests.console import run
from tests.paper.worlds import uniform_patterns as uniform

pytest.importorskip("lance")

DAMAGE = ahop.MixedVariant(0.2, 0.3, 0.3, seed=0)


@pytest.fixture(scope="module")
def patterns() -> torch.Tensor:
    return uniform(128, 16, seed=0)


@pytest.fixture(scope="module")
def unlabeled(patterns: torch.Tensor) -> ahop.AssociativeMemory:
    log = DAMAGE.sample(patterns, 128, seed=1).queries
    return ahop.fit(patterns, queries=log, similarity="mixture", progress=False)


@pytest.fixture(scope="module")
def labeled(patterns: torch.Tensor) -> ahop.AssociativeMemory:
    return ahop.fit(patterns, pairs=DAMAGE.sample(patterns, 128, seed=1), similarity="mixture", progress=False)


def test_a_report_without_labels_begins_with_the_word(unlabeled: ahop.AssociativeMemory) -> None:
    assert str(unlabeled.report).startswith("Unchecked: ")
    assert "no labels used" in str(unlabeled.report)


def test_labels_check_probabilities(labeled: ahop.AssociativeMemory) -> None:
    assert labeled.recall(labeled.patterns[:2]).is_checked
    assert "nchecked" not in str(labeled.report)


def test_many_labels_beside_a_log_check_them_too(patterns: torch.Tensor) -> None:
    log = DAMAGE.sample(patterns, 100, seed=1).queries
    pairs = DAMAGE.sample(patterns, 64, seed=2)
    memory = ahop.fit(patterns, queries=log, pairs=pairs, similarity="mixture", progress=False)
    assert memory.recall(patterns[:1]).is_checked


def test_a_memory_that_was_never_fitted_is_unchecked(patterns: torch.Tensor) -> None:
    assert not ahop.AssociativeMemory(patterns).recall(patterns[:1]).is_checked
    assert not ahop.fit(ahop.AssociativeMemory(patterns), variant=DAMAGE, progress=False).model.is_checked


def test_what_was_carried_over_is_unchecked(labeled: ahop.AssociativeMemory) -> None:
    moved = DAMAGE.sample(labeled.patterns, 400, seed=3).queries + 0.8
    adapted = ahop.adapt(labeled, moved, progress=False)
    assert adapted.report is not None
    assert adapted.report.adapted is not None
    assert adapted.recall(moved[:1]).is_checked is not adapted.report.adapted.is_kept


def test_every_recaller_says_whether_it_is_checked(
    unlabeled: ahop.AssociativeMemory, labeled: ahop.AssociativeMemory, tmp_path: Path
) -> None:
    for name, memory in {"unlabeled": unlabeled, "labeled": labeled}.items():
        asked, expected = memory.patterns[:3], name == "labeled"
        memory.save(tmp_path / f"{name}.ahop")
        store = ahop.create_store(tmp_path / f"{name}.lance", memory)
        recallers: list[Any] = [memory, memory.copy(), ahop.load(tmp_path / f"{name}.ahop"), ahop.index(memory)]
        for each in [*recallers, store, store.index()]:
            assert each.recall(asked).is_checked is expected, each
            assert each.recall(asked.numpy()).is_checked is expected, each
        with running(tmp_path, str(tmp_path / f"{name}.ahop")) as service, Client(service.url) as client:
            assert client.recall(asked).is_checked is expected
            assert service.ask("GET", f"/collections/{name}")[1]["checked"] is expected


def test_nothing_is_promised_on_unchecked_probabilities(
    unlabeled: ahop.AssociativeMemory, labeled: ahop.AssociativeMemory, tmp_path: Path
) -> None:
    held_out = DAMAGE.sample(unlabeled.patterns, 200, seed=4)
    costs = {"wrong": 20.0, "ask": 1.0}
    with pytest.raises(UnsupportedError, match="no label has checked"):
        ahop.policy(unlabeled, held_out, costs=costs)
    assert ahop.policy(labeled, held_out, costs=costs).accept_from == pytest.approx(0.95)
    assert ahop.policy(unlabeled, held_out, precision=0.8).promise, "held-out pairs check it"
    report = ahop.watch(unlabeled, held_out.queries)
    assert (report.accuracy, report.unknown) == (None, None)
    assert "cannot be told" in str(report)
    assert ahop.watch(labeled, held_out.queries).accuracy is not None


def test_the_command_line_refuses_a_precision_that_nobody_has_checked(
    unlabeled: ahop.AssociativeMemory, tmp_path: Path
) -> None:
    unlabeled.save(tmp_path / "memory.ahop")
    rows = "\n".join(",".join(f"{value:.4f}" for value in row) for row in unlabeled.patterns[:4].tolist())
    (tmp_path / "asked.csv").write_text(",".join(f"c{place}" for place in range(16)) + "\n" + rows + "\n")
    told = run(f"ahop recall {tmp_path}/memory.ahop {tmp_path}/asked.csv")
    assert told.code == 0
    assert "Unchecked" in told.stdout
    refused = run(f"ahop recall {tmp_path}/memory.ahop {tmp_path}/asked.csv --precision 0.9")
    assert refused.code == 1
    assert "--held-out" in refused.stderr


def test_too_few_queries_keep_the_plain_metric_and_say_so() -> None:
    patterns = torch.rand(60, 16, generator=torch.Generator().manual_seed(0))
    queries = ahop.MixedVariant(0.3, 0.3, 0.3, seed=0).sample(patterns, 11, seed=1).queries
    with pytest.warns(UserWarning, match="11 queries are too few to learn from, 12 are the least"):
        memory = ahop.fit(patterns, queries=queries, progress=False)
    assert isinstance(memory.report, ahop.FitReport)
    assert memory.report.chosen == "euclidean"
    assert "11 unlabeled queries are too few to learn from" in str(memory.report)
    assert not memory.model.is_checked
