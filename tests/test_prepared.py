"""What is kept with stored patterns is what would be made anew, whatever changes meanwhile."""

import copy
import gc
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from weakref import ref

import pytest
import torch
from torch import Tensor

import ahop
from ahop._core.missingness import Missingness
from ahop._core.prepared import derived, held, prepared
from ahop.scale.indexes.build import by_products, candidate_lifting
from ahop.similarities import CosineSimilarity, Similarity, TransformedSimilarity
from ahop.transforms import PowerTransform


def rows(count: int = 30, gaps: float = 0.3) -> Tensor:
    made = torch.rand(count, 6, generator=torch.Generator().manual_seed(count)) - 0.9
    return made.masked_fill(torch.rand(count, 6, generator=torch.Generator().manual_seed(1)) < gaps, torch.nan)


def transformed() -> Similarity:
    return TransformedSimilarity(CosineSimilarity(), PowerTransform(low=-1.0, high=0.1, exponent=2.0, missing=0.0))


def moved(patterns: Tensor) -> None:
    patterns.add_(0.05)


def one_row(patterns: Tensor) -> None:
    patterns[3] = 0.01


@pytest.mark.parametrize("change", [moved, one_row])
def test_patterns_that_change_are_looked_at_again(change: Callable[[Tensor], None]) -> None:
    similarity, patterns, queries = transformed(), rows(), rows(4)
    owner = prepared(patterns)
    assert owner is not None
    similarity(patterns, queries)
    change(patterns)
    assert torch.equal(similarity(patterns, queries), similarity(patterns.clone(), queries))


def test_parts_that_change_are_asked_again() -> None:
    missingness, patterns, queries = Missingness(6, 3), rows(), rows(4)
    owner = prepared(patterns)
    assert owner is not None
    for shifts in ([0.0, 1.0, 2.0, 3.0], [3.0, 1.0, 0.0, -1.0]):
        missingness.shifts.copy_(torch.tensor(shifts))
        assert torch.equal(missingness.evidence(patterns, queries), missingness.evidence(patterns.clone(), queries))
    for _ in range(3):  # another tensor, which may lie where the last one was
        missingness.shifts = torch.rand(4)
        assert torch.equal(missingness.evidence(patterns, queries), missingness.evidence(patterns.clone(), queries))


def test_it_is_made_once_and_ends_with_owner_and_parts() -> None:
    module, patterns, made = torch.nn.Linear(2, 2).requires_grad_(False), rows(), list[Tensor]()

    def make(given: Tensor) -> Tensor:
        made.append(given + 1)
        return made[-1]

    assert derived(patterns, make, module) is not derived(patterns, make, module), "nobody holds it"
    owner = prepared(patterns)
    assert owner is not None
    assert prepared(patterns) is owner
    assert derived(patterns, make, module) is derived(patterns, make, module)
    assert len(made) == 3
    watched = ref(made.pop())
    made.clear()
    assert watched() is not None
    del module
    gc.collect()
    assert watched() is None
    del owner
    assert held(patterns) is None


def test_functions_and_parts_each_have_their_own_result() -> None:
    patterns, one, two = rows(gaps=0), PowerTransform(-1.0, 0.1), PowerTransform(-1.0, 0.2)
    owner = prepared(patterns)
    assert owner is not None
    for _ in range(2):
        assert torch.equal(derived(patterns, one, one), one(patterns))
        assert torch.equal(derived(patterns, two, two), two(patterns))
        assert derived(patterns, torch.numel) == patterns.numel()
    one.exponent = 3.0
    assert torch.equal(derived(patterns, one, one), one(patterns))


def test_threads_that_ask_at_once_get_equal_results() -> None:
    patterns, queries = rows(500), rows(16)
    memory = ahop.AssociativeMemory(patterns, transformed())
    expected = ahop.AssociativeMemory(patterns.clone(), transformed()).recall(queries, 3)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: memory.recall(queries, 3), range(24)))
    assert all(torch.equal(each.posterior, expected.posterior) for each in found)


def test_a_memory_drops_it_with_its_patterns_and_leaves_nothing_on_them() -> None:
    patterns = rows()
    memory = ahop.AssociativeMemory(patterns, transformed())
    memory.recall(rows(4))
    assert held(patterns) is not None
    assert not vars(patterns)
    memory.add(rows(5))
    memory.recall(rows(4))
    assert held(patterns) is None
    index = ahop.AssociativeMemory(patterns)
    index.recall(rows(4))
    index.separation = ahop.separations.Softmax(2.0)
    index.recall(rows(4))
    assert held(patterns) is not None
    del index
    assert held(patterns) is None


def test_an_index_holds_it_for_its_patterns() -> None:
    memory = ahop.AssociativeMemory(rows(40, gaps=0), ahop.similarities.EuclideanSimilarity())
    index = by_products(memory, candidate_lifting(memory, None))
    reranking = index._reranking
    assert reranking is not None
    index.recall(rows(4, gaps=0), k=2)
    before = held(reranking._stored)
    assert before is not None
    index.add(rows(3, gaps=0))
    index.recall(rows(4, gaps=0), k=2)
    assert held(reranking._stored) not in (None, before)
    assert len(reranking._stored) == 43


def test_gradients_reach_patterns_and_parts() -> None:
    similarity, patterns = CosineSimilarity(), rows(gaps=0).requires_grad_()
    assert prepared(patterns) is None
    similarity(patterns, rows(4, 0)).sum().backward()  # type: ignore[no-untyped-call]
    assert patterns.grad is not None
    linear, stored = torch.nn.Linear(6, 6), rows(gaps=0)
    owner = prepared(stored)
    assert owner is not None
    for _ in range(2):
        linear.zero_grad()
        derived(stored, linear, linear).sum().backward()
        assert linear.weight.grad is not None


def test_what_is_kept_in_inference_mode_serves_outside_of_it() -> None:
    similarity, patterns = transformed(), rows()
    owner = prepared(patterns)
    assert owner is not None
    with torch.inference_mode():
        similarity(patterns, rows(4))
    queries = rows(4).nan_to_num().requires_grad_()
    similarity(patterns, queries).sum().backward()  # type: ignore[no-untyped-call]
    assert queries.grad is not None


def by_bytes(memory: ahop.AssociativeMemory) -> ahop.AssociativeMemory:
    """As another process gets it."""
    made: ahop.AssociativeMemory = pickle.loads(pickle.dumps(memory))
    return made


@pytest.mark.parametrize("copied", [copy.deepcopy, by_bytes])
def test_copies_of_a_memory_share_nothing(
    copied: Callable[[ahop.AssociativeMemory], ahop.AssociativeMemory],
) -> None:
    memory = ahop.AssociativeMemory(rows(), transformed())
    queries = rows(4)
    memory.recall(queries)
    other = copied(memory)
    other.patterns.add_(0.1)
    fresh = ahop.AssociativeMemory(other.patterns.clone(), transformed())
    assert torch.equal(other.recall(queries, 3).posterior, fresh.recall(queries, 3).posterior)
