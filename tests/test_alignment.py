"""What devices add and multiply is found from few pairs, taken off, and never does harm."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop.fitting.corruption.alignment import Alignment, fit_alignment
from tests.strategies import FEW, seeds

DIMENSIONS = 10


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Devices:
    """Copies of some devices: `gain * pattern + offset`, and noise."""

    offset: Tensor
    gain: Tensor
    noise: Tensor

    @property
    def patterns(self) -> Tensor:
        return normal(60, self.offset.shape[1])

    def sample(self, count: int, seed: int = 1) -> tuple[ahop.Pairs, list[str]]:
        device = torch.arange(count) % len(self.offset)
        generator = torch.Generator().manual_seed(seed)
        origins = torch.randint(60, (count,), generator=generator)
        noise = torch.randn(count, self.offset.shape[1], generator=generator) * self.noise[device].unsqueeze(-1)
        copies = self.gain[device].unsqueeze(-1) * self.patterns[origins] + self.offset[device] + noise
        return ahop.Pairs(origins, copies), [f"device {number}" for number in device.tolist()]

    def align(self, count: int, gaps: float = 0.0, seed: int = 1) -> Alignment:
        pairs, _ = self.sample(count, seed)
        hidden = torch.rand(pairs.queries.shape, generator=torch.Generator().manual_seed(seed)) < gaps
        copies, number = pairs.queries.masked_fill(hidden, torch.nan), len(self.offset)
        return fit_alignment(
            self.patterns[pairs.origins], copies, torch.ones(count), torch.arange(count) % number, number
        )

    def fit(self, count: int = 80, name: str = "debiased", with_groups: bool = True) -> ahop.AssociativeMemory:
        pairs, names = self.sample(count)
        groups = names if with_groups else None
        return ahop.fit(self.patterns, pairs=pairs, groups=groups, similarity=name, progress=False)

    def found(self, memory: ahop.AssociativeMemory, with_groups: bool = True) -> float:
        pairs, names = self.sample(600, seed=2)
        answer = memory.recall(pairs.queries, groups=names if with_groups else None)
        return float((answer.indices[:, 0] == pairs.origins).double().mean())

    def found_alone(self, count: int = 80, name: str = "debiased") -> float:
        """By a fit to each device alone, from as many pairs as it has among those of all."""
        (pairs, _), (test, _) = self.sample(count), self.sample(600, seed=2)
        number, hits = len(self.offset), 0.0
        for device in range(number):
            mine, asked = slice(device, None, number), slice(device, None, number)
            known = ahop.Pairs(pairs.origins[mine], pairs.queries[mine])
            fitted = ahop.fit(self.patterns, pairs=known, similarity=name, progress=False)
            hits += float((fitted.recall(test.queries[asked]).indices[:, 0] == test.origins[asked]).sum())
        return hits / 600


def devices(
    offset: Tensor | None = None, gain: list[float] | None = None, noise: list[float] | None = None, number: int = 2
) -> Devices:
    return Devices(
        torch.zeros(number, DIMENSIONS) if offset is None else offset,
        torch.tensor(gain or [1.0] * number),
        torch.tensor(noise or [0.5] * number),
    )


def scalar_shifts(size: float = 1.5) -> Devices:
    return devices(torch.tensor([size, -size]).unsqueeze(-1).expand(2, DIMENSIONS))


def own_shifts() -> Devices:
    shift = 1.5 * normal(DIMENSIONS, seed=5)
    return devices(torch.stack([shift, -shift]))


def gains() -> Devices:
    return devices(gain=[0.8, 1.25], noise=[0.3, 0.3])


DIFFERENT = {"one shift": scalar_shifts(), "shifts of each dimension": own_shifts(), "gains": devices(gain=[0.6, 1.6])}
every_difference = pytest.mark.parametrize("kind", DIFFERENT)


# The alignment by itself.


def test_offsets_of_devices_are_found() -> None:
    found = scalar_shifts().align(80)
    assert_close(found.offset, scalar_shifts().offset.double(), atol=0.25, rtol=0)
    assert found.is_needed


def test_offsets_of_each_dimension_are_found() -> None:
    found = own_shifts().align(200)
    assert_close(found.offset, own_shifts().offset.double(), atol=0.4, rtol=0)


def test_gains_are_found_beside_the_common_one() -> None:
    ratio = gains().align(200).gain
    assert float(ratio[1] / ratio[0]) == pytest.approx(1.25 / 0.8, rel=0.1)
    assert_close(gains().align(200).offset, torch.zeros(2, DIMENSIONS).double(), atol=0.25, rtol=0)


@settings(max_examples=FEW)
@given(seed=seeds, number=st.sampled_from([2, 5, 27]), count=st.sampled_from([30, 54, 200]))
def test_devices_that_are_alike_are_hardly_moved(seed: int, number: int, count: int) -> None:
    found = devices(number=number).align(count, seed=seed)
    assert float(found.offset.abs().mean()) < 0.2
    assert float((found.gain - 1).abs().max()) < 0.2


def test_what_all_devices_share_is_left_alone() -> None:
    common = devices(torch.full((3, DIMENSIONS), 4.0), [1.3] * 3, number=3)
    found = common.align(150)
    assert float(found.offset.abs().max()) < 0.5
    assert_close(found.gain, torch.ones(3).double(), atol=0.1, rtol=0)


@settings(max_examples=FEW)
@given(seed=seeds, gaps=st.sampled_from([0.1, 0.5, 0.9, 1.0]), number=st.integers(1, 30))
def test_gaps_are_not_looked_at_and_all_numbers_are_finite(seed: int, gaps: float, number: int) -> None:
    found = devices(3 * normal(number, DIMENSIONS, seed=7), number=number).align(30, gaps, seed)
    assert bool(found.offset.isfinite().all())
    assert bool((found.gain > 0).all())
    if gaps == 1.0:
        assert not found.is_needed


def test_offsets_are_found_among_gaps() -> None:
    found = scalar_shifts().align(160, gaps=0.5)
    assert_close(found.offset, scalar_shifts().offset.double(), atol=0.35, rtol=0)


def test_what_is_hidden_is_not_looked_at() -> None:
    """Rows of no weight, and values beside gaps, may hold anything."""
    pairs, _ = scalar_shifts().sample(40)
    originals, groups = scalar_shifts().patterns[pairs.origins], torch.arange(40) % 2
    weights = (torch.arange(40) < 30).float()
    wild = torch.where(weights.bool().unsqueeze(-1), pairs.queries, 1e6)
    with_wild = fit_alignment(originals, wild, weights, groups, 2)
    without = fit_alignment(originals[:30], pairs.queries[:30], weights[:30], groups[:30], 2)
    assert_close(with_wild.offset, without.offset)
    assert_close(with_wild.gain, without.gain, atol=0.02, rtol=0)


def test_some_values_that_are_outlier_do_not_move_a_device() -> None:
    pairs, _ = scalar_shifts().sample(160)
    is_outlier = torch.rand(pairs.queries.shape, generator=torch.Generator().manual_seed(3)) < 0.1
    copies = torch.where(is_outlier, 100.0, pairs.queries)
    originals, groups = scalar_shifts().patterns[pairs.origins], torch.arange(160) % 2
    found = fit_alignment(originals, copies, torch.ones(160), groups, 2)
    difference = found.offset[0] - found.offset[1]
    assert_close(difference, torch.full((DIMENSIONS,), 3.0).double(), atol=0.6, rtol=0)


def test_an_aligned_copy_is_on_the_common_scale() -> None:
    alignment = Alignment(torch.tensor([[1.0, 2.0], [0.0, 0.0]]).double(), torch.tensor([2.0, 1.0]).double())
    copies = torch.tensor([[3.0, torch.nan], [5.0, 6.0]])
    expected = torch.tensor([[1.0, torch.nan], [5.0, 6.0]])
    assert_close(alignment(copies, torch.tensor([0, 1])), expected, equal_nan=True)


# Fits to groups.


@every_difference
def test_devices_are_found_as_well_as_by_a_fit_to_each_alone(kind: str) -> None:
    different = DIFFERENT[kind]
    fitted = different.fit()
    assert fitted.model.group_names == ["device 0", "device 1"]
    found = different.found(fitted)
    assert found > different.found_alone() - 0.04
    assert found > different.found(fitted, with_groups=False) + (0.03 if kind == "gains" else 0.1)


@pytest.mark.parametrize("name", ["mixture", "debiased"])
def test_devices_that_differ_in_noise_only_are_not_harmed(name: str) -> None:
    noisy = devices(noise=[0.2, 1.0])
    with_groups, without = (noisy.found(noisy.fit(name=name, with_groups=each), each) for each in (True, False))
    assert with_groups > without - 0.03


@pytest.mark.parametrize("count", [40, 54])
def test_many_devices_with_a_pair_or_two_each_do_no_harm(count: int) -> None:
    many = devices(number=27)
    with_groups, without = (many.found(many.fit(count, with_groups=each), each) for each in (True, False))
    assert with_groups > without - 0.03


def test_whether_devices_are_aligned_is_judged_by_what_is_learned() -> None:
    """A mixture knows shifts up or down anew each time, and needs no names; a distance does."""
    opposite = devices(torch.tensor([1.0, -1.0]).unsqueeze(-1).expand(2, DIMENSIONS), noise=[0.2, 0.2])
    fitted = opposite.fit(40)
    assert fitted.model.group_names == ["device 0", "device 1"]
    assert opposite.found(fitted) > 0.98


@pytest.fixture(scope="module")
def grouped() -> ahop.AssociativeMemory:
    return own_shifts().fit()


def test_a_device_that_is_not_known_is_answered_by_what_all_share(grouped: ahop.AssociativeMemory) -> None:
    pairs, _ = own_shifts().sample(30)
    unknown, common = grouped.recall(pairs.queries, groups=["another"] * 30), grouped.recall(pairs.queries)
    assert_close(unknown.posterior, common.posterior)
    assert torch.equal(unknown.indices, common.indices)


def test_devices_come_back_from_a_file_bit_for_bit(grouped: ahop.AssociativeMemory, tmp_path: Path) -> None:
    grouped.save(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop")
    pairs, names = own_shifts().sample(40, seed=3)
    expected, answer = (memory.recall(pairs.queries, k=3, groups=names) for memory in (grouped, loaded))
    assert loaded.model.group_names == grouped.model.group_names
    assert torch.equal(answer.posterior, expected.posterior)
    assert torch.equal(answer.indices, expected.indices)


def test_devices_find_what_is_stored_later_and_not_what_is_gone(grouped: ahop.AssociativeMemory) -> None:
    grown, kinds = grouped.copy(), own_shifts()
    more = 3 * normal(4, DIMENSIONS, seed=9)
    rows = grown.add(more)
    seen = more + kinds.offset[1]
    assert torch.equal(grown.recall(seen, groups=["device 1"] * 4).indices.squeeze(-1), rows)
    grown.remove(rows)
    pairs, names = kinds.sample(40, seed=3)
    expected, answer = (memory.recall(pairs.queries, groups=names) for memory in (grouped, grown))
    assert torch.equal(answer.posterior, expected.posterior)
    grown.remove([0])
    shifted = grown.recall(pairs.queries, groups=names)
    kept = (expected.indices > 0).squeeze(-1)
    assert torch.equal(shifted.indices[kept], expected.indices[kept] - 1)


def test_a_pool_is_fitted_to_groups_too(tmp_path: Path) -> None:
    """Halves of the dimensions, each behind a function of its own."""

    def left(patterns: Tensor, queries: Tensor) -> Tensor:
        return -torch.cdist(queries[:, :5], patterns[:, :5]).square()

    def right(patterns: Tensor, queries: Tensor) -> Tensor:
        return -torch.cdist(queries[:, 5:], patterns[:, 5:]).square()

    kinds = scalar_shifts()
    pairs, names = kinds.sample(80)
    fitted = ahop.fit(
        kinds.patterns, pairs=pairs, groups=names, similarity=(), candidates=[left, right], progress=False
    )
    assert isinstance(fitted.similarity, ahop.similarities.PooledSimilarity)
    assert fitted.model.group_names == ["device 0", "device 1"]
    assert kinds.found(fitted) > kinds.found(fitted, with_groups=False) + 0.1
