"""Accuracy without labels, and drift: what is estimated holds, and chance raises no alarm."""

from functools import cache
from pathlib import Path

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
import torch
from torch import Generator, Tensor
from torch.testing import assert_close

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.memory.decisions import Share
from ahop.memory.unknown import Evidence
from ahop.operate.drift import Seen, drift_between
from ahop.plots import WatchDisplay
from tests.paper.worlds import uniform_patterns

matplotlib.use("Agg")
VARIANT = ahop.MixedVariant(0.2, 0.3, 0.3)
COUNT, DIMENSIONS = 200, 16


@cache
def memory(similarity: str = "mixture") -> ahop.AssociativeMemory:
    patterns = uniform_patterns(COUNT, DIMENSIONS)
    return ahop.fit(patterns, variant=VARIANT, samples=300, similarity=similarity, progress=False)


def fresh(count: int, seed: int) -> ahop.Pairs:
    return VARIANT.sample(memory().patterns, count, seed)


def strangers(count: int) -> Tensor:
    return VARIANT.sample(uniform_patterns(COUNT, DIMENSIONS, seed=99), count, 7).queries


def accuracy(of: ahop.AssociativeMemory, queries: Tensor, origins: Tensor) -> float:
    return float((of.recall(queries).indices[:, 0] == origins).double().mean())


# How many answers are right?


def accuracy_of(report: ahop.watching.WatchReport) -> Share:
    """Of a memory that was fitted with labels."""
    assert report.accuracy is not None
    return report.accuracy


def test_the_estimate_is_the_mean_confidence_at_the_share_of_unknown_queries() -> None:
    queries = torch.cat([fresh(300, 5).queries, strangers(100)])
    report, told = ahop.watch(memory(), queries), memory().copy()
    assert report.unknown is not None
    assert told.detector is not None
    told.detector.rate = report.unknown.value
    answer = told.recall(queries)
    assert accuracy_of(report).value == pytest.approx(float(answer.confidence.mean()), abs=1e-6)
    assert answer.unknown is not None  # at the most likely share, the mean of what it is for each query
    assert report.unknown.value == pytest.approx(float(answer.unknown.double().mean()), abs=1e-6)
    assert report.unknown.low < 0.25 < report.unknown.high


def test_the_interval_holds_the_true_accuracy() -> None:
    test = fresh(1000, 6)
    report = ahop.watch(memory(), test.queries)
    truth = accuracy(memory(), test.queries, test.origins)
    assert accuracy_of(report).low <= truth <= accuracy_of(report).high
    assert accuracy_of(report).high - accuracy_of(report).low < 0.15
    narrow = accuracy_of(ahop.watch(memory(), test.queries, confidence=0.5))
    assert narrow.value == accuracy_of(report).value
    assert accuracy_of(report).low < narrow.low < narrow.high < accuracy_of(report).high


@pytest.mark.parametrize("pairs", [30, 300])
def test_few_pairs_do_not_tell_strangers_from_damage(pairs: int) -> None:
    few = ahop.fit(memory().patterns, pairs=fresh(pairs, 3), similarity="mixture", progress=False)
    queries = torch.cat([fresh(300, 5).queries, strangers(300)])
    report, answer = ahop.watch(few, queries), few.recall(queries)
    assert report.unknown is not None
    assert report.unknown.low > 0.1
    said = float(answer.posterior.mean())
    assert (accuracy_of(report).high >= said) == (pairs < 100)
    assert accuracy_of(report).value < said


def test_probabilities_that_no_label_has_checked_are_no_accuracy() -> None:
    plain = ahop.AssociativeMemory(memory().patterns, ahop.EuclideanSimilarity())
    queries = fresh(50, 5).queries
    report = ahop.watch(plain, queries)
    assert (report.accuracy, report.unknown) == (None, None)
    assert "cannot be told" in str(report)
    assert "never calibrated" in str(report)
    assert report.drift == ()
    assert "no reference" in str(report)


def test_a_rate_that_was_set_is_taken_at_its_word() -> None:
    told, queries = memory().copy(), fresh(50, 5).queries
    assert told.detector is not None
    told.detector.rate = 0.0
    report = ahop.watch(told, queries)
    assert report.unknown is not None
    assert report.unknown.value == pytest.approx(0.0, abs=1e-9)
    assert accuracy_of(report).value == pytest.approx(float(told.recall(queries).posterior.mean()), abs=1e-6)


# What has moved?


def test_the_order_of_the_queries_changes_nothing() -> None:
    queries = fresh(200, 5).queries
    order = torch.randperm(200, generator=Generator().manual_seed(0))
    one, other = ahop.watch(memory(), queries), ahop.watch(memory(), queries[order])
    assert accuracy_of(one).value == pytest.approx(accuracy_of(other).value, abs=1e-6)
    assert [(each.name, each.what, each.p) for each in one.drift] == [(e.name, e.what, e.p) for e in other.drift]


def test_fresh_queries_raise_no_more_alarms_than_allowed() -> None:
    alarms = sum(ahop.watch(memory(), fresh(100, 100 + seed).queries).alarm for seed in range(20))
    assert alarms <= 4  # one expected; more than four come by chance once in 380 such tests
    other_patterns = torch.arange(20).repeat(10)  # which patterns are asked for is no drift
    asked = VARIANT.corrupt(memory().patterns[other_patterns], Generator().manual_seed(3))
    assert ahop.watch(memory(), asked).drift[0].p > 0.001


def test_permutations_keep_the_rate_of_false_alarms_however_dimensions_depend_on_each_other() -> None:
    alarms, generator = 0, Generator().manual_seed(0)
    for _ in range(40):
        rows = torch.randn(80, 1, generator=generator) + 0.2 * torch.randn(80, 5, generator=generator)
        values = rows.round(decimals=1).numpy()  # with ties
        seen = Seen(values, np.zeros_like(values), torch.rand(80, generator=generator).numpy())
        then, now = seen.rows(slice(50)), seen.rows(slice(50, None))
        alarms += drift_between(then, now, list("abcde"), 0.2)[0].p <= 0.2
    assert 2 <= alarms <= 16  # eight expected


@pytest.mark.parametrize("what", ["shift", "gain", "spread", "stuck", "missing"])
def test_a_sensor_that_drifts_is_named_and_told_how(what: str) -> None:
    queries = fresh(400, 5).queries.clone()
    values = queries[:, 3].clone()
    moved = {
        "shift": values + 0.8,
        "gain": 2.5 * values,
        "spread": values + 1.5 * torch.randn(400, generator=Generator().manual_seed(0)),
        "stuck": torch.full_like(values, 0.25),
        "missing": values.masked_fill(torch.arange(400) % 3 == 0, torch.nan),
    }
    queries[:, 3] = moved[what]
    report = ahop.watch(memory(), queries)
    assert report.alarm
    first = report.moved[0]
    assert first.name == "dimension 3"
    assert first.what in (what, "spread" if what == "gain" else what)  # who doubles what it sees spreads it too
    assert "dimension 3" in str(report)
    if what == "missing":
        assert first.now == pytest.approx(134 / 400)
    if what == "stuck":
        assert first.now == pytest.approx(0.25)
    if what == "shift":
        assert first.now - first.before == pytest.approx(0.8, abs=0.15)
    assert sum(row["moved"] is True for row in report.rows()) == len(report.moved)
    assert len(report.rows()) == DIMENSIONS
    assert "<td>dimension 3</td>" in report._repr_html_()


def test_names_come_from_frames_and_a_column_that_is_gone_is_told() -> None:
    names = [f"ap{number}" for number in range(DIMENSIONS)]
    rooms = [f"room {number}" for number in range(COUNT)]
    stored = pd.DataFrame(memory().patterns.numpy(), rooms, names)
    some = fresh(200, 1)
    copies = pd.DataFrame(some.queries.numpy(), columns=names)
    named = ahop.fit(stored, pairs=([rooms[row] for row in some.origins], copies), similarity="mixture", progress=False)
    asked = pd.DataFrame(fresh(200, 2).queries.numpy(), columns=names).drop(columns="ap4")
    first = ahop.watch(named, asked).moved[0]
    assert (first.name, first.what, first.before, first.now) == ("ap4", "missing", 0.0, 1.0)
    assert str(first) == "ap4 (missing 0 % -> 100 %)"


def test_groups_and_windows_are_watched_by_themselves() -> None:
    devices = ["phone", "tablet"] * 150
    some = fresh(300, 1)
    by_device = ahop.fit(memory().patterns, pairs=some, groups=devices, similarity="mixture", progress=False)
    queries = fresh(300, 2).queries.clone()
    queries[1::2, 5] += 1.5
    report = ahop.watch(by_device, queries, groups=devices)
    assert {name: each.alarm for name, each in report.groups.items()} == {"phone": False, "tablet": True}
    assert "Groups that have moved: tablet." in str(report)
    alone = by_device.recall(queries[1::2], groups=devices[1::2])
    assert report.groups["tablet"].queries == len(alone.indices) == 150
    stranger = ahop.watch(by_device, queries[:20], groups=["desk"] * 20).groups["desk"]
    assert stranger.reference == 0
    assert stranger.drift == ()
    late = torch.cat([queries[::2], queries[1::2]])
    windows = ahop.watch(memory(), late, windows=2).windows
    assert [each.alarm for each in windows] == [False, True]
    assert sum(each.queries for each in windows) == 300
    with pytest.raises(InvalidTypeError, match="reference_groups"):
        ahop.watch(by_device, queries, groups=devices, reference=queries)
    with pytest.raises(ShapeError, match="groups"):
        ahop.watch(by_device, queries, groups=devices[:3])


def test_a_reference_of_ones_own_is_taken() -> None:
    then = fresh(300, 3).queries + 1.0
    report = ahop.watch(memory(), fresh(200, 4).queries + 1.0, reference=then)
    assert not report.alarm
    assert report.reference == 300
    plain = ahop.AssociativeMemory(memory().patterns)
    assert ahop.watch(plain, fresh(100, 4).queries, reference=fresh(100, 5).queries).reference == 100


def test_what_a_fit_keeps_is_saved_and_loaded(tmp_path: Path) -> None:
    queries = fresh(100, 5).queries
    memory().save(tmp_path / "memory.ahop")
    again = ahop.load(tmp_path / "memory.ahop")
    kept, ours = again.model.reference, memory().model.reference
    assert kept is not None
    assert ours is not None
    assert torch.equal(kept.queries, ours.queries)
    assert ahop.watch(again, queries) == ahop.watch(memory(), queries)
    many = ahop.fit(
        memory().patterns, pairs=fresh(1500, 2), groups=["a", "b", "c"] * 500, similarity="debiased", progress=False
    )
    reference = many.model.reference
    assert reference is not None
    assert len(reference.queries) == 500  # a third, evenly taken
    many.save(tmp_path / "many.ahop")
    loaded = ahop.load(tmp_path / "many.ahop").model.reference
    assert loaded is not None
    assert loaded.groups == reference.groups


def test_gaps_one_dimension_one_pattern_and_other_dtypes() -> None:
    queries = fresh(60, 5).queries.clone()
    queries[::2] = torch.nan  # nothing was observed
    report = ahop.watch(memory(), queries)
    assert 0 <= accuracy_of(report).low <= accuracy_of(report).value <= accuracy_of(report).high <= 1
    line = torch.linspace(-5, 5, 20)[:, None]
    single = ahop.fit(line, variant=ahop.NoisyVariant(0.01), samples=100, similarity="mixture", progress=False)
    asked = ahop.NoisyVariant(0.01).sample(line, 100, 3).queries
    assert not ahop.watch(single, asked).alarm
    assert ahop.watch(single, 9 + asked.double().numpy()).alarm
    one = ahop.AssociativeMemory(line[:1])
    assert ahop.watch(one, asked[:1], reference=asked).drift[0].p > 0.05
    same = np.zeros((30, 1))
    assert ahop.watch(one, same, reference=same).drift[0].size == 0


def test_what_cannot_be_watched_is_refused_with_the_mend() -> None:
    with pytest.raises(InvalidValueError, match="at least one query"):
        ahop.watch(memory(), torch.zeros(0, DIMENSIONS))
    with pytest.raises(InvalidValueError, match="`reference` must hold at least one"):
        ahop.watch(memory(), fresh(3, 1).queries, reference=torch.zeros(0, DIMENSIONS))
    with pytest.raises(InvalidValueError, match="between 0 and 1"):
        ahop.watch(memory(), fresh(3, 1).queries, false_alarms=5.0)
    with pytest.raises(InvalidTypeError, match="give both"):
        ahop.watch(memory(), fresh(3, 1).queries, reference_groups=["a"])


def test_a_picture_shows_windows_and_dimensions() -> None:
    queries = fresh(200, 5).queries.clone()
    queries[100:, 2] += 2.0
    report = ahop.watch(memory(), queries, windows=4)
    display = WatchDisplay.from_report(report, count=5)
    figure = display.plot()
    assert [patch.get_width() for patch in figure.axes[1].patches] == [each.size for each in report.drift[:5]]
    assert len(figure.axes[0].get_xticks()) == 4
    matplotlib.pyplot.close(figure)


# Following it.


def drifted(queries: Tensor) -> Tensor:
    shift = torch.zeros(DIMENSIONS)
    shift[:5] = torch.tensor([0.8, -0.8, 0.8, -0.8, 0.8])
    return queries + shift


@pytest.mark.parametrize("similarity", ["mixture", "additive"])
def test_a_memory_follows_a_drift_without_labels(similarity: str, tmp_path: Path) -> None:
    test, before = fresh(500, 6), memory(similarity)
    later = drifted(test.queries)
    adapted = ahop.adapt(before, drifted(fresh(300, 7).queries), progress=False)
    found = accuracy(before, test.queries, test.origins)
    lost = found - accuracy(before, later, test.origins)
    assert lost > 0.2
    assert accuracy(adapted, later, test.origins) > found - 0.2 * lost
    told = adapted.report
    assert isinstance(told, ahop.FitReport)
    assert told.adapted is not None
    assert told.adapted.is_kept
    assert "adapted (" in str(told)
    assert not ahop.watch(adapted, later[:200]).alarm  # what is usual now is the new reference
    assert "carried over" in str(ahop.watch(adapted, later[:20]))
    adapted.save(tmp_path / "adapted.ahop")
    again = ahop.load(tmp_path / "adapted.ahop")
    assert again.report == told
    assert_close(again.recall(later).posterior, adapted.recall(later).posterior)


def test_a_memory_stays_as_it_is_where_nothing_has_moved() -> None:
    queries = fresh(256, 7).queries
    same = ahop.adapt(memory(), queries, progress=False)
    assert isinstance(same.report, ahop.FitReport)
    assert same.report.adapted is not None
    assert not same.report.adapted.is_kept
    assert "unchanged, the gain is within chance" in str(same.report)
    assert torch.equal(same.recall(queries).posterior, memory().recall(queries).posterior)


def test_the_group_that_drifts_is_followed_alone() -> None:
    test, devices = fresh(300, 6), ["phone"] * 40 + ["tablet"] * 260
    queries = torch.cat([test.queries[:40], drifted(test.queries[40:])])
    adapted = ahop.adapt(memory(), queries, groups=devices, progress=False)
    assert list(adapted.model.groups) == ["tablet"]
    right = adapted.recall(queries, groups=devices).indices[:, 0] == test.origins
    was = memory().recall(queries).indices[:, 0] == test.origins
    assert torch.equal(right[:40], was[:40])
    assert right[40:].sum() > was[40:].sum() + 20
    assert isinstance(adapted.report, ahop.FitReport)
    assert adapted.report.adapted is not None
    assert adapted.report.adapted.way.startswith("tablet")


def test_a_memory_with_a_similarity_of_its_own_is_aligned() -> None:
    plain = ahop.fit(ahop.zoo.a_hop(memory().patterns), pairs=fresh(200, 1), progress=False)
    test = fresh(300, 6)
    adapted = ahop.adapt(plain, drifted(fresh(256, 7).queries), progress=False)
    assert adapted.report is not None
    assert adapted.report.adapted is not None
    assert adapted.report.adapted.way == "aligned"
    later = drifted(test.queries)
    assert accuracy(adapted, later, test.origins) > accuracy(plain, later, test.origins) + 0.05


def test_what_cannot_be_followed_is_refused_with_the_mend() -> None:
    with pytest.raises(UnsupportedError, match="that was fitted"):
        ahop.adapt(ahop.AssociativeMemory(memory().patterns), fresh(50, 1).queries)
    with pytest.raises(InvalidValueError, match="longer log"):
        ahop.adapt(memory(), fresh(3, 1).queries)
    with pytest.raises(InvalidValueError, match="longer log"):
        ahop.adapt(memory(), fresh(10, 1).queries, groups=range(10))


def test_evidence_without_its_best_row_is_that_of_the_others() -> None:
    scores = torch.randn(50, 12, generator=Generator().manual_seed(0), dtype=torch.float64) * 5
    best = scores.sort(-1, descending=True).values
    found = Evidence.of(scores).without_best(best[:, 1], best[:, 2])
    assert_close(found.features(), Evidence.of(best[:, 1:]).features())
