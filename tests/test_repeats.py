"""Labels that repeat: one pattern for each, learned from rows that were left out; known groups speak for new ones."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator, Tensor
from torch.testing import assert_close

import ahop
from ahop.errors import InvalidValueError
from ahop.fitting.unlabeled.donors import repetitions
from ahop.fitting.unlabeled.repeats import Repeats

PLACES, WIDTH = 60, 12


def survey(groups: int = 6, seed: int = 0, spread: float = 3.0) -> tuple[Tensor, list[str], list[str], Tensor]:
    """Every place twice by each group; rows, labels, groups and the places themselves."""
    generator = Generator().manual_seed(seed)
    places = 2 * torch.randn(PLACES, WIDTH, generator=generator)
    offsets = spread * torch.randn(groups, generator=generator)
    rows, labels, names = [], [], []
    for group in range(groups):
        for _ in range(2):
            copies = places + offsets[group] + 0.8 * torch.randn(places.shape, generator=generator)
            rows.append(copies.masked_fill(torch.rand(places.shape, generator=generator) < 0.2, torch.nan))
            labels += [f"place {number}" for number in range(PLACES)]
            names += [f"phone {group}"] * PLACES
    return torch.cat(rows), labels, names, places


def visits(places: Tensor, offset: float, seed: int) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(seed)
    origins = torch.randint(PLACES, (200,), generator=generator)
    copies = places[origins] + offset + 0.8 * torch.randn(200, WIDTH, generator=generator)
    return origins, copies.masked_fill(torch.rand(copies.shape, generator=generator) < 0.2, torch.nan)


def right(memory: ahop.AssociativeMemory, queries: Tensor, origins: Tensor) -> tuple[float, float]:
    """The share of right answers, and what was said."""
    answer = memory.recall(queries)
    assert answer.labels is not None
    hits = [label == f"place {origin}" for label, origin in zip(answer.labels[:, 0], origins.tolist(), strict=True)]
    return float(np.mean(hits)), float(answer.posterior[:, 0].mean())


@pytest.fixture(scope="module")
def surveyed() -> tuple[ahop.AssociativeMemory, Tensor]:
    rows, labels, names, places = survey()
    return ahop.fit(rows, labels=labels, groups=names, similarity="mixture", progress=False), places


def test_a_label_has_one_pattern_and_its_probabilities_are_checked(
    surveyed: tuple[ahop.AssociativeMemory, Tensor],
) -> None:
    memory, _ = surveyed
    assert memory.labels is not None
    assert memory.labels.tolist() == [f"place {number}" for number in range(PLACES)]
    assert memory.model.is_checked
    assert sorted(memory.model.groups) == [f"phone {number}" for number in range(6)]
    assert "Leaving out each of 6 groups in turn" in str(memory.report)


def test_a_new_group_is_answered_once_its_log_was_seen(surveyed: tuple[ahop.AssociativeMemory, Tensor]) -> None:
    memory, places = surveyed
    origins, queries = visits(places, 7.0, seed=1)
    followed = ahop.adapt(memory, queries[:50], progress=False)
    assert isinstance(followed.report, ahop.FitReport)
    assert followed.report.adapted is not None
    assert followed.report.adapted.offset is not None
    found, said = right(followed, queries[50:], origins[50:])
    assert found >= right(memory, queries[50:], origins[50:])[0] + 0.1
    assert abs(found - said) <= 0.08
    assert followed.model.is_checked
    assert followed.recall(queries[:1]).is_checked
    accuracy = ahop.watch(followed, queries[50:]).accuracy
    assert accuracy is not None
    assert accuracy.low <= found <= accuracy.high


def test_groups_are_followed_by_name(surveyed: tuple[ahop.AssociativeMemory, Tensor]) -> None:
    memory, places = surveyed
    origins, queries = visits(places, -6.0, seed=2)
    followed = ahop.adapt(memory, queries[:50], groups=["new"] * 50, progress=False)
    answer = followed.recall(queries[50:], groups=["new"] * 150)
    assert answer.labels is not None
    hits = [
        label == f"place {origin}" for label, origin in zip(answer.labels[:, 0], origins[50:].tolist(), strict=True)
    ]
    assert np.mean(hits) >= right(memory, queries[50:], origins[50:])[0] + 0.1


def test_a_log_beside_the_rows_is_followed_at_once(surveyed: tuple[ahop.AssociativeMemory, Tensor]) -> None:
    memory, places = surveyed
    rows, labels, names, _ = survey()
    _, queries = visits(places, 7.0, seed=1)
    at_once = ahop.fit(rows, labels=labels, groups=names, queries=queries[:50], similarity="mixture", progress=False)
    later = ahop.adapt(memory, queries[:50], progress=False)
    assert_close(at_once.recall(queries).posterior, later.recall(queries).posterior)


def test_a_file_keeps_it(surveyed: tuple[ahop.AssociativeMemory, Tensor], tmp_path: Path) -> None:
    memory, places = surveyed
    _, queries = visits(places, 7.0, seed=1)
    followed = ahop.adapt(memory, queries[:50], progress=False)
    followed.save(tmp_path / "survey.ahop")
    loaded = ahop.load(tmp_path / "survey.ahop")
    assert str(loaded.report) == str(followed.report)
    assert loaded.model.is_checked
    assert_close(loaded.recall(queries).posterior, followed.recall(queries).posterior)


def test_a_log_that_repeats_itself_as_no_known_group_does_is_not_checked(
    surveyed: tuple[ahop.AssociativeMemory, Tensor], tmp_path: Path
) -> None:
    memory, places = surveyed
    _, queries = visits(places, 7.0, seed=1)
    stuck = queries[torch.arange(30) // 3]
    followed = ahop.adapt(memory, stuck, progress=False)
    assert not followed.recall(queries).is_checked
    assert "20 of them repeat another one" in str(followed.report)
    assert ahop.watch(followed, queries).accuracy is None
    followed.save(tmp_path / "stuck.ahop")
    assert not ahop.load(tmp_path / "stuck.ahop").model.is_checked
    once_twice = torch.cat([queries[:29], queries[:1]])
    assert ahop.adapt(memory, once_twice, progress=False).model.is_checked
    both = torch.cat([stuck, queries[50:80]])
    names = ["stuck"] * 30 + ["new"] * 30
    by_name = ahop.adapt(memory, both, groups=names, progress=False)
    assert not by_name.model.is_checked
    # The group that is stuck is still there when another one follows.
    assert not ahop.adapt(by_name, queries[80:110], groups=["third"] * 30, progress=False).model.is_checked


def test_a_known_group_that_is_stuck_does_not_speak_for_new_ones() -> None:
    rows, labels, names, places = survey()
    stuck = torch.tensor([name == "phone 3" for name in names])
    rows[stuck] = rows[stuck][:1].expand(int(stuck.sum()), -1)
    memory = ahop.fit(rows, labels=labels, groups=names, similarity="mixture", progress=False)
    assert isinstance(memory.report, ahop.FitReport)
    assert memory.report.repeats is not None
    assert memory.report.repeats.right >= 0.95  # with it, a sixth would be wrong
    origins, queries = visits(places, 7.0, seed=1)
    found, said = right(ahop.adapt(memory, queries[:50], progress=False), queries[50:], origins[50:])
    assert abs(found - said) <= 0.05


def test_coarse_rows_repeat_in_known_groups_too() -> None:
    rows, labels, names, places = survey(spread=0.0)
    memory = ahop.fit(
        rows[:, :4].sign().nan_to_num(0.0), labels=labels, groups=names, similarity="mixture", progress=False
    )
    _, queries = visits(places, 0.0, seed=1)
    reference = memory.model.reference
    assert reference is not None
    assert repetitions(reference, queries[:, :4].sign().nan_to_num(0.0)) == 0
    assert repetitions(reference, torch.ones(40, 4)) == 39


def test_rows_without_groups_are_left_out_one_by_one() -> None:
    rows, labels, _, places = survey(groups=2, spread=0.0)
    memory = ahop.fit(rows, labels=labels, similarity="mixture", progress=False)
    assert len(memory) == PLACES
    assert memory.model.is_checked
    assert not memory.model.groups
    origins, queries = visits(places, 0.0, seed=3)
    found, said = right(memory, queries, origins)
    assert abs(found - said) <= 0.08


def test_labels_that_repeat_within_one_group_are_refused_with_the_mend() -> None:
    rows, labels, _, _ = survey(groups=1)
    with pytest.raises(InvalidValueError, match="Leave `groups` out"):
        ahop.fit(rows, labels=labels, groups=labels, progress=False)


def test_few_groups_promise_nothing_for_a_new_one() -> None:
    rows, labels, names, places = survey(groups=3)
    memory = ahop.fit(rows, labels=labels, groups=names, similarity="mixture", progress=False)
    followed = ahop.adapt(memory, visits(places, 7.0, seed=1)[1], progress=False)
    assert not followed.model.is_checked


def test_patterns_are_made_without_the_copies_that_they_are_compared_with() -> None:
    rows, labels, names, _ = survey(groups=3)
    identities = torch.tensor([int(label.split()[1]) for label in labels])
    groups = torch.tensor([int(name.split()[1]) for name in names])
    patterns, pairs = Repeats(rows, identities, groups).pairs(0)
    for origin, copy in zip(pairs.origins[:50].tolist(), pairs.queries[:50], strict=True):
        out = groups[(torch.eq(rows, copy) | (rows.isnan() & copy.isnan())).all(-1)]
        used = rows[(identities == origin) & (groups != out)]
        share = (~used.isnan()).double().mean(0)
        assert_close(patterns[origin], used.nanmean(0).where(share >= 0.3, torch.nan), equal_nan=True)
    for part, (left, asked) in enumerate(Repeats(rows, identities, groups).in_turn()):
        used = rows[(identities == 0) & (groups != part)]
        assert_close(left[0], used.nanmean(0).where((~used.isnan()).double().mean(0) >= 0.3, torch.nan), equal_nan=True)
        assert set(groups[asked].tolist()) == {part}
