"""What a compiled plan recalls is what torch recalls, and what the bare formulas say."""

import copy
import pickle
import threading
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Generator, Tensor

import ahop
from ahop._core.kernels import native
from ahop._core.missingness import Missingness
from ahop.memory import planning, plans
from ahop.memory.likelihood import EvidenceSimilarity
from ahop.memory.memory import AssociativeMemory
from ahop.memory.recall import Recall
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.similarities.match import MatchSimilarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.sorensen import SorensenSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.transforms.base import Transform
from ahop.transforms.difference import DifferenceTransform
from ahop.transforms.log import LogTransform
from ahop.transforms.power import PowerTransform
from ahop.transforms.select import SelectTransform
from ahop.transforms.snv import SNVTransform
from ahop.variants.mixture import MixtureVariant
from tests import reference

pytestmark = pytest.mark.skipif(native.native is None, reason="plans are compiled")

METRICS = (DotSimilarity, CosineSimilarity, EuclideanSimilarity, ManhattanSimilarity, SorensenSimilarity)
TOGETHER = 12
MODELS = TOGETHER * settings().max_examples


class Draw:
    """Models at random, and data for them."""

    def __init__(self, seed: int) -> None:
        self.generator = Generator().manual_seed(seed)
        self.dimensions = self.whole(2, 40)
        self.gaps = [0.0, 0.0, 0.2, 0.6, 0.9][self.whole(0, 5)]

    def whole(self, low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=self.generator))

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator)

    def rows(self, count: int) -> Tensor:
        return self.normal(count, self.dimensions).masked_fill(
            self.uniform(count, self.dimensions) < self.gaps, torch.nan
        )

    def model(self) -> ahop.Model:
        detector = None
        if self.whole(0, 2):
            detector = ahop.unknown.UnknownDetector(rate=0.3)
            detector.center.copy_(self.normal(4))
            detector.slopes.copy_(0.2 * self.normal(4))
        pooled, members = self.whole(0, 2), self.whole(1, 4)
        similarity = self.member()
        if pooled:
            similarity = PooledSimilarity([similarity, *(self.member() for _ in range(members))])
            similarity.weights.copy_(self.uniform(members + 1))
        return ahop.Model(
            similarity, ahop.Softmax(0.2 + float(self.uniform()), 0.03 * self.whole(0, 2)), detector=detector
        )

    def member(self) -> Similarity:
        d, kind = self.dimensions, self.whole(0, 4)
        if kind == 1:
            return self.additive()
        if kind == 2:
            return EvidenceSimilarity(self.mixture())
        if kind == 3 and self.whole(0, 3) == 1:
            return self.selected()
        base: Similarity = METRICS[self.whole(0, len(METRICS))]()
        if kind == 3:
            return TransformedSimilarity(base, self.transform())
        moved = self.whole(0, 3)
        if moved == 1 and isinstance(base, EuclideanSimilarity | ManhattanSimilarity | DotSimilarity):
            found = DebiasedSimilarity(base, d)
            found.bias.copy_(0.3 * self.normal(d))
            return found
        if moved == 2:
            aligned = AlignedSimilarity(TransformedSimilarity(base, self.transform()), d)
            aligned.offset.copy_(0.3 * self.normal(d))
            aligned.gain.copy_(0.5 + self.uniform(d))
            return aligned
        return base

    def selected(self) -> Similarity:
        """Some of the columns, in another order."""
        every, count = self.dimensions, self.whole(1, self.dimensions + 1)
        places = torch.randperm(every, generator=self.generator)[:count].tolist()
        self.dimensions = count
        base = (METRICS[self.whole(0, len(METRICS))], self.additive, lambda: EvidenceSimilarity(self.mixture()))
        found = base[self.whole(0, 3)]()
        self.dimensions = every
        return TransformedSimilarity(found, SelectTransform(places))

    def transform(self) -> Transform:
        missing = [None, 0.0, 0.3][self.whole(0, 3)]
        return (
            PowerTransform(-2.0, 2.0, 1.7, missing),
            LogTransform(-2.0, 2.0, missing),
            SNVTransform(),
            DifferenceTransform(),
        )[self.whole(0, 4)]

    def additive(self) -> AdditiveSimilarity:
        rank = self.whole(1, 4)
        found = AdditiveSimilarity(self.dimensions, 8, self.whole(3, 17), rank)
        with torch.no_grad():
            found.tables.copy_(0.5 * self.normal(*found.tables.shape))
            found.gap_weight.copy_(self.uniform())
        found.mixing.copy_(self.uniform(self.dimensions, rank))
        self.hide(found.missingness)
        return found

    def mixture(self) -> MixtureVariant:
        d = self.dimensions
        found = MixtureVariant(d, signs=bool(self.whole(0, 2)))
        found.gain.copy_(0.5 + self.uniform(d))
        found.bias.copy_(0.5 * self.normal(d))
        found.std.copy_(0.1 + self.uniform(d))
        found.outlier_rate.copy_(0.02 + 0.5 * self.uniform(d))
        found.center.copy_(0.1 * self.normal(d))
        found.scale.copy_(0.5 + self.uniform(d))
        found.population.copy_(self.normal(*found.population.shape).sort(-1).values)
        found.outliers.ends.copy_(torch.tensor([-3.1, 3.2]))
        found.outliers.log_density.copy_(-2 + self.normal(len(found.outliers.log_density)))
        self.hide(found.missingness)
        return found

    def hide(self, missingness: Missingness) -> None:
        if self.whole(0, 2):
            missingness.base.copy_(self.normal(self.dimensions))
            missingness.edges.copy_(self.normal(*missingness.edges.shape).sort(-1).values)
            missingness.shifts.copy_(self.normal(len(missingness.shifts)))

    def memory(self) -> AssociativeMemory:
        patterns = self.rows(self.whole(1, 400))
        prior = None
        if self.whole(0, 3) == 1:
            prior = self.normal(len(patterns))
            prior[self.uniform(len(patterns)) < 0.1] = -torch.inf
            prior[0] = 0.0
        return AssociativeMemory(patterns, model=self.model(), log_prior=prior)

    def queries(self) -> Tensor:
        queries = self.rows(7)
        queries[0], queries[1] = torch.nan, 0.0
        return queries


def by_torch(memory: AssociativeMemory, queries: Tensor, k: int, where: Tensor | None = None) -> Recall[Tensor]:
    with patch.object(plans.Plans, "of", lambda *_: None):
        return memory.recall(queries, k=k, where=where)


def assert_same(found: Recall[Tensor], expected: Recall[Tensor]) -> None:
    torch.testing.assert_close(found.posterior, expected.posterior, rtol=1e-4, atol=1e-5)
    if expected.unknown is None:
        assert found.unknown is None
    else:
        torch.testing.assert_close(found.unknown, expected.unknown, rtol=0, atol=1e-5)
    apart = found.indices != expected.indices  # none but equals may change places
    assert float((found.posterior - expected.posterior)[apart].abs().sum()) <= 1e-4
    assert apart.float().mean() < 0.2


def is_planned(memory: AssociativeMemory) -> bool:
    return plan_of(memory) is not None


def plan_of(memory: AssociativeMemory) -> planning.Plan | None:
    return None if memory._last is None else memory._last.plans.plan


@pytest.fixture(params=[] if native.native is None else native.native.instruction_sets())
def instructions(request: pytest.FixtureRequest) -> Iterator[str]:
    assert native.native is not None
    native.native.use(request.param)
    yield request.param
    native.native.use(native.native.instruction_sets()[0])


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("first", range(0, MODELS, TOGETHER))
def test_a_plan_recalls_as_torch_does(first: int) -> None:
    planned = 0
    for seed in range(first, first + TOGETHER):
        draw = Draw(seed)
        memory, queries = draw.memory(), draw.queries()
        k = draw.whole(1, 9)
        found = memory.recall(queries, k=k)
        planned += is_planned(memory)
        assert_same(found, by_torch(memory, queries, k))
    assert planned >= TOGETHER - 3


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("gaps", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("signs", [False, True])
def test_values_beyond_all_that_was_seen_are_answered_by_the_plan(gaps: float, signs: bool) -> None:
    """A sensor that has moved far: a match is worth more there than an exponential in single precision can say."""
    draw = Draw(0)
    variant = draw.mixture()
    variant.signs = signs
    stored = draw.rows(300).masked_fill(draw.uniform(300, draw.dimensions) < gaps, torch.nan)
    stored[:40, 0] = 9.0
    memory = AssociativeMemory(stored, EvidenceSimilarity(variant), log_prior=draw.normal(300))
    queries = stored[:8] + 0.1
    queries[:, 0] = torch.tensor([9.0, 8.5, 20.0, -9.0, 9.5, 60.0, torch.nan, 9.0])
    found = memory.recall(queries, k=5)
    plan = plan_of(memory)
    assert plan is not None
    assert plan.rank(queries.numpy(), 5, 1) is not None
    assert_same(found, by_torch(memory, queries, 5))


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("first", range(0, MODELS, TOGETHER))
def test_a_plan_recalls_among_some_rows_as_torch_does(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        draw = Draw(seed)
        memory, queries = draw.memory(), draw.queries()
        k, where = draw.whole(1, 9), draw.uniform(len(memory)) < [0.02, 0.3, 0.9][draw.whole(0, 3)]
        found, expected = memory.recall(queries, k=k, where=where), by_torch(memory, queries, k, where)
        assert_same(found, expected)
        assert torch.equal(found.indices < 0, expected.indices < 0)
        assert torch.equal(found.patterns.isnan().all(-1), expected.patterns.isnan().all(-1))


def test_a_plan_recalls_as_the_formulas_say() -> None:
    for seed in range(0, MODELS, 2):
        draw = Draw(seed)
        memory, queries = draw.memory(), draw.queries()
        k = draw.whole(1, 9)
        found, alone = memory.recall(queries, k=k), reference.recall(memory, queries, k=k)
        np.testing.assert_allclose(found.posterior, alone.posterior, rtol=1e-4, atol=2e-5)
        if found.unknown is not None:
            assert alone.unknown is not None
            np.testing.assert_allclose(found.unknown, alone.unknown, rtol=0, atol=2e-5)


def small() -> AssociativeMemory:
    return AssociativeMemory(torch.randn(50, 6, generator=Generator().manual_seed(0)), EuclideanSimilarity())


def test_a_plan_is_made_anew_where_something_changed() -> None:
    memory, queries = small(), torch.randn(5, 6, generator=Generator().manual_seed(1))
    memory.recall(queries)
    kept = plan_of(memory)
    memory.recall(queries)
    assert plan_of(memory) is kept
    with torch.no_grad():
        memory.patterns[0] += 1
    assert_same(memory.recall(queries, k=3), by_torch(memory, queries, 3))
    assert plan_of(memory) is not kept
    memory.add(queries)
    assert memory.recall(queries).indices[:, 0].tolist() == list(range(50, 55))
    memory.similarity = DebiasedSimilarity(EuclideanSimilarity(), 6)
    assert_same(memory.recall(queries, k=3), by_torch(memory, queries, 3))
    memory.similarity.bias += 1
    assert_same(memory.recall(queries, k=3), by_torch(memory, queries, 3))
    memory.separation.beta = 3.0
    assert_same(memory.recall(queries, k=3), by_torch(memory, queries, 3))
    memory.remove([3])
    assert_same(memory.recall(queries, k=3), by_torch(memory, queries, 3))


def test_what_no_plan_knows_goes_by_torch() -> None:
    memory = AssociativeMemory(torch.randn(20, 6), MatchSimilarity())
    assert_same(memory.recall(memory.patterns), by_torch(memory, memory.patterns, 1))
    assert not is_planned(memory)


def test_numbers_beyond_single_precision_go_by_torch() -> None:
    memory = small()
    queries = torch.full((1, 6), 1e30)
    assert_same(memory.recall(queries, k=2), by_torch(memory, queries, 2))
    assert is_planned(memory)


def test_copies_of_a_memory_make_plans_of_their_own() -> None:
    memory, queries = small(), torch.randn(5, 6)
    found = memory.recall(queries, k=3)
    for other in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory)), memory.copy()):
        assert not is_planned(other)
        assert_same(other.recall(queries, k=3), found)


def test_threads_share_a_plan() -> None:
    memory = AssociativeMemory(torch.randn(3000, 8), CosineSimilarity())
    queries = torch.randn(40, 8)
    expected = memory.recall(queries, k=4)
    found: list[Recall[Tensor]] = []
    workers = [threading.Thread(target=lambda: found.append(memory.recall(queries, k=4))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    for each in found:
        assert torch.equal(each.indices, expected.indices)
        assert torch.equal(each.posterior, expected.posterior)


def test_every_measure_is_one_that_plans_know() -> None:
    for metric in METRICS:
        assert metric.__name__ in planning.MEASURES
