"""The fast paths are the readable truth, faster."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core.kernels.rank_weighting import ranked_scores, ranked_scores_plain
from ahop._core.kernels.sorting import sort_ascending_
from ahop.similarities.base import DecomposableSimilarity
from tests.strategies import seeds

BASES: list[DecomposableSimilarity] = [
    ahop.EuclideanSimilarity(),
    ahop.DotSimilarity(),
    ahop.similarities.ManhattanSimilarity(),
    ahop.similarities.MatchSimilarity(),
]
every_base = pytest.mark.parametrize("base", BASES, ids=repr)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@st.composite
def ranked_problems(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Rank weights, shared or one row for each pattern; patterns; queries. Some are full of ties."""
    generator = torch.Generator().manual_seed(draw(seeds))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    dimensions, count, batch = draw(st.integers(1, 200)), draw(st.integers(1, 300)), draw(st.integers(0, 5))
    shape = (dimensions,) if draw(st.booleans()) else (count, dimensions)

    def numbers(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)

    weights, patterns, queries = numbers(*shape), numbers(count, dimensions), numbers(batch, dimensions)
    if draw(st.booleans()):
        patterns, queries = patterns.round(), queries.round()
    return weights, patterns, queries


def agree(found: Tensor, expected: Tensor) -> None:
    """To what a sum of some hundred numbers can promise."""
    if found.dtype == torch.float32:
        assert_close(found, expected, rtol=1e-4, atol=2e-2)
    else:
        assert_close(found, expected, rtol=1e-9, atol=1e-9)


@every_base
@given(case=ranked_problems())
def test_ranked_scores_are_the_plain_formula(base: DecomposableSimilarity, case: tuple[Tensor, Tensor, Tensor]) -> None:
    weights, patterns, queries = case
    found = ranked_scores(base.per_dimension, weights, patterns, queries)
    assert found.dtype == weights.dtype
    agree(found, ranked_scores_plain(weights, base.per_dimension(patterns, queries)))


@every_base
@given(case=ranked_problems())
def test_the_gradient_in_the_rank_weights_is_that_of_the_plain_formula(
    base: DecomposableSimilarity, case: tuple[Tensor, Tensor, Tensor]
) -> None:
    weights, patterns, queries = case
    slope = torch.randn(len(queries), len(patterns), dtype=weights.dtype)

    def gradient(scores: Callable[[Tensor], Tensor]) -> Tensor:
        leaf = weights.detach().requires_grad_()
        return torch.autograd.grad((scores(leaf) * slope).sum(), leaf)[0]

    values = base.per_dimension(patterns, queries)
    expected = gradient(lambda leaf: ranked_scores_plain(leaf, values))
    found = gradient(lambda leaf: ranked_scores(base.per_dimension, leaf, patterns, queries))
    agree(found, expected)


@every_base
def test_small_blocks_change_nothing(base: DecomposableSimilarity, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, queries = torch.randn(13, 6, dtype=torch.float64), torch.randn(7, 6, dtype=torch.float64)
    for shape in ((6,), (13, 6)):
        weights = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        whole = ranked_scores(base.per_dimension, weights, patterns, queries)
        (gradient,) = torch.autograd.grad(whole.square().sum(), weights)
        for budget in (1, 100, 400):
            monkeypatch.setattr("ahop._core.kernels.rank_weighting.CACHE_BYTES", budget)
            parts = ranked_scores(base.per_dimension, weights, patterns, queries)
            assert_close(parts, whole)
            assert_close(torch.autograd.grad(parts.square().sum(), weights)[0], gradient)
        monkeypatch.undo()


def test_weights_of_zero_score_zero_and_still_learn() -> None:
    patterns, queries, weights = torch.randn(4, 3), torch.randn(2, 3), torch.zeros(3)
    rule = ahop.DotSimilarity().per_dimension
    assert torch.equal(ranked_scores(rule, weights, patterns, queries), torch.zeros(2, 4))
    scores = ranked_scores(rule, weights.requires_grad_(), patterns, queries)
    (gradient,) = torch.autograd.grad(scores.sum(), weights)
    assert bool(gradient.any())


@both_dtypes
@given(seed=seeds, shape=st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(1, 70)))
def test_sorting_is_sorting(dtype: torch.dtype, seed: int, shape: tuple[int, int, int]) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype).round(decimals=1)
    expected = torch.sort(values, dim=-1).values
    assert sort_ascending_(values) is values
    assert torch.equal(values, expected)


@both_dtypes
@pytest.mark.parametrize(
    "view",
    [lambda x: x.transpose(0, 2), lambda x: x[::2, :, ::3], lambda x: x[:, :, 1:], lambda x: x.permute(1, 0, 2)],
)
def test_sorting_in_place_reaches_a_tensor_that_is_not_contiguous(
    dtype: torch.dtype, view: Callable[[Tensor], Tensor]
) -> None:
    storage = torch.randn(5, 4, 7, dtype=dtype)
    values = view(storage)
    assert not values.is_contiguous()
    expected = torch.sort(values, dim=-1).values
    assert torch.equal(sort_ascending_(values), expected)
    assert torch.equal(view(storage), expected)


def test_sorting_on_many_threads_is_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    values = torch.randn(1000, 101)
    expected = torch.sort(values, dim=-1).values
    assert torch.equal(sort_ascending_(values), expected)


FORK = """
import os
import sys
import torch
torch.get_num_threads = lambda: 2
from ahop._core.kernels.sorting import sort_ascending_

values = torch.rand(2048, 64)
sort_ascending_(values.clone())
child = os.fork()
if child == 0:
    ordered = sort_ascending_(values)
    os._exit(0 if bool((ordered[:, 1:] >= ordered[:, :-1]).all()) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    # Torch itself must be kept to one thread here: a fork of its own threads is known to hang.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], env=environment, check=True, timeout=60)
