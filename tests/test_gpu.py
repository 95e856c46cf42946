"""The programs for GPUs are the plain form. Where there is no GPU, Triton interprets them.

It must be told so before it is imported, and then does so for all who use it in the process. Hence the checks below run
in a process of their own, which the first test starts.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from ahop._core.kernels import gpu
from ahop._core.kernels.plain import footprint_scores_plain

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
NAN, INF = torch.nan, torch.inf
EUCLIDEAN, DOT, MANHATTAN = range(3)

both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
every_base = pytest.mark.parametrize("base", [EUCLIDEAN, DOT, MANHATTAN], ids=["euclidean", "dot", "manhattan"])


def run(*command: str, **settings: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(not gpu.is_available(), reason="needs Triton")
def test_the_programs_pass_the_checks() -> None:
    settings = {"TRITON_DEFAULT_FP_FUSION": "1"} if ON_GPU else {"TRITON_INTERPRET": "1"}
    checks = ("-p", "no:cacheprovider", "-o", "python_functions=check_*", __file__)
    assert "passed" in run("-m", "pytest", "-q", *checks, **settings)


def test_triton_is_imported_when_a_program_is_wanted_and_not_before() -> None:
    script = "import sys, ahop, ahop.kernels.gpu; print('triton' in sys.modules)"
    assert run("-c", script) == "False"


def test_a_machine_without_triton_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)  # as Python itself notes that there is none
    gpu.is_available.cache_clear()
    assert not gpu.is_available()
    gpu.is_available.cache_clear()


@pytest.fixture
def _quick_sorts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter takes a good second for a sort of a thousand numbers; here numpy does it."""
    if ON_GPU:
        return
    interpreter = import_module("triton.runtime.interpreter")

    def sort(values: Any, descending: bool = False) -> Any:
        rising = np.sort(values.handle.data, axis=-1)
        ordered = np.ascontiguousarray(np.flip(rising, axis=-1)) if descending else rising
        return interpreter.tl.tensor(interpreter.TensorHandle(ordered, values.dtype), values.type)

    monkeypatch.setattr(interpreter.tl, "sort", sort)


quick_sorts = pytest.mark.usefixtures("_quick_sorts")


class Problem:
    """Patterns, queries, weights of the ranks and a gradient of the scores; some dimensions are gaps."""

    def __init__(self, shape: tuple[int, int, int], bases: Sequence[int], dtype: torch.dtype, gaps: float) -> None:
        count, batch, dimensions = shape
        self.bases = bases

        def numbers(*size: int) -> Tensor:
            return torch.randn(size, dtype=torch.float64).to(DEVICE, dtype)

        def where(*size: int) -> Tensor:
            return (torch.rand(size) < gaps).to(DEVICE)

        self.patterns = numbers(count, dimensions).masked_fill(where(count, dimensions), NAN)
        self.queries = numbers(len(bases), batch, dimensions).masked_fill(where(batch, dimensions), NAN)
        self.weights = numbers(len(bases), dimensions)
        self.gradient = numbers(batch, count)

    @property
    def data(self) -> tuple[Tensor, Tensor, Tensor, Sequence[int]]:
        return self.patterns, self.queries, self.weights, self.bases

    def plain(self) -> list[Tensor]:
        """Scores, and the gradients in the weights, the patterns and the queries."""
        patterns, queries, weights = (each.clone().requires_grad_() for each in self.data[:3])
        scores = footprint_scores_plain(patterns, queries, weights, self.bases)
        gradients = torch.autograd.grad(scores, (weights, patterns, queries), self.gradient)
        return [scores.detach(), *gradients]

    def found(self) -> list[Tensor]:
        return [*self.found_without_data(), *gpu.data_gradient(*self.data, self.gradient)]

    def found_without_data(self) -> list[Tensor]:
        """Of the scores and the weights alone: what is known where the gradient in the data is not."""
        return [gpu.scores(*self.data), gpu.weight_gradient(*self.data, self.gradient)]


def agree(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        error = 1e-4 if one.dtype == torch.float32 else 1e-10
        assert_close(one, other, rtol=error, atol=error, equal_nan=True)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 2), (2, 1, 5)], ids=str)
@both_dtypes
def check_small_problems_without_help_for_the_interpreter(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    problem = Problem(shape, [EUCLIDEAN], dtype, gaps=0.2)
    agree(problem.found(), problem.plain())


@pytest.mark.parametrize(
    ("shape", "bases", "gaps"),
    [
        ((1, 1, 1), [EUCLIDEAN], 0.0),
        ((20, 1, 1), [DOT], 0.3),
        ((3, 1, 2), [MANHATTAN, EUCLIDEAN], 0.3),
        ((3, 2, 5), [EUCLIDEAN, DOT, MANHATTAN], 0.3),
        ((3, 1, 8), [DOT, DOT], 0.0),
        ((3, 3, 17), [MANHATTAN, EUCLIDEAN], 0.3),
        ((20, 3, 64), [MANHATTAN], 0.3),
        ((1, 3, 64), [EUCLIDEAN, DOT], 0.0),
        ((2, 1, 1100), [DOT], 0.3),
    ],
    ids=str,
)
@both_dtypes
@quick_sorts
def check_scores_and_gradients_are_those_of_the_plain_form(
    shape: tuple[int, int, int], bases: list[int], gaps: float, dtype: torch.dtype
) -> None:
    problem = Problem(shape, bases, dtype, gaps)
    agree(problem.found(), problem.plain())


@every_base
@both_dtypes
@quick_sorts
def check_a_pair_that_shares_nothing_scores_the_lowest_and_teaches_nothing(base: int, dtype: torch.dtype) -> None:
    problem = Problem((2, 3, 6), [base], dtype, gaps=0.0)
    problem.queries[:, 1] = NAN
    problem.patterns[0, :3] = NAN
    problem.queries[:, 2, 3:] = NAN
    scores, _, to_patterns, to_queries = found = problem.found()
    lowest = torch.finfo(dtype).min
    assert torch.equal(scores == lowest, problem.plain()[0] == lowest)
    assert bool((scores[1] == lowest).all())
    assert float(scores[2, 0]) == lowest
    assert not bool(to_queries[:, 1].any())
    assert not bool(to_patterns[0, :3].any())
    agree(found, problem.plain())


@every_base
@both_dtypes
@quick_sorts
def check_equal_dimensions_share_what_their_ranks_count(base: int, dtype: torch.dtype) -> None:
    """Which of two equals comes first is open, so what is compared is their sum."""
    problem = Problem((3, 2, 7), [base], dtype, gaps=0.3)
    problem.patterns, problem.queries = problem.patterns.repeat(1, 3), problem.queries.repeat(1, 1, 3)
    problem.weights = torch.randn(1, 21, dtype=torch.float64).to(DEVICE, dtype)
    found, expected = problem.found(), problem.plain()
    for results in (found, expected):
        results[2:] = [each.reshape(*each.shape[:-1], 3, 7).sum(-2) for each in results[2:]]
    agree(found, expected)


@every_base
@both_dtypes
@quick_sorts
def check_zero_of_either_sign_is_a_tie(base: int, dtype: torch.dtype) -> None:
    problem = Problem((6, 3, 9), [base], dtype, gaps=0.0)
    problem.patterns, problem.queries = problem.patterns.round(), problem.queries.round()
    agree(problem.found_without_data(), problem.plain()[:2])


@quick_sorts
def check_numbers_that_differ_in_their_last_bits_are_ranked() -> None:
    problem = Problem((4, 1, 50), [DOT], torch.float64, gaps=0.0)
    last_bits = torch.stack([torch.randperm(50) for _ in range(4)]).to(DEVICE, torch.float64)
    signs = torch.tensor([1.0, -1.0]).repeat(25).to(DEVICE, torch.float64)
    problem.patterns, problem.queries = (1 + last_bits * 2**-52) * signs, torch.ones_like(problem.queries)
    agree(problem.found(), problem.plain())


@every_base
@both_dtypes
@quick_sorts
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of what the programs mask
def check_infinite_values_have_infinite_scores(base: int, dtype: torch.dtype) -> None:
    problem = Problem((5, 2, 6), [base], dtype, gaps=0.2)
    problem.patterns[0, 0], problem.patterns[1, 3], problem.patterns[2, :3] = INF, -INF, INF
    problem.queries[:, 0] = problem.queries[:, 0].nan_to_num(0.5).abs()
    problem.queries[:, 1, :2] = NAN  # then a gap is as infinite as the mean
    problem.weights = problem.weights.abs() + 0.1
    expected = footprint_scores_plain(*problem.data)
    assert bool(expected.isinf().any())
    assert bool(expected.isfinite().any())
    agree([gpu.scores(*problem.data)], [expected])


@both_dtypes
@quick_sorts
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def check_values_that_are_not_numbers_are_not_hidden(dtype: torch.dtype) -> None:
    problem = Problem((4, 2, 6), [EUCLIDEAN, DOT], dtype, gaps=0.0)
    problem.patterns[1, 2], problem.queries[:, 0, 2] = INF, INF
    expected = problem.plain()[:2]
    assert bool(expected[0].isnan().any())
    agree(problem.found_without_data(), expected)


@both_dtypes
@quick_sorts
def check_a_base_that_sees_a_gap_of_its_own_takes_it_for_zero(dtype: torch.dtype) -> None:
    problem = Problem((1, 2, 5), [EUCLIDEAN, DOT, MANHATTAN], dtype, gaps=0.0)
    problem.queries[1, 0, 2] = problem.queries[2, 1, 4] = NAN
    agree(problem.found(), problem.plain())


@pytest.mark.parametrize("limits", [(1, 1, 1), (4, 3, 2)], ids=str)
@quick_sorts
def check_small_tiles_and_few_programs_change_nothing(
    limits: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in zip(("TILE", "MOST_SHARES", "MOST_GRID_ROWS"), limits, strict=True):
        monkeypatch.setattr(gpu, name, limit)
    problem = Problem((5, 3, 2), [MANHATTAN], torch.float64, gaps=0.2)
    agree(problem.found(), problem.plain())


@quick_sorts
def check_tensors_need_not_be_contiguous() -> None:
    problem = Problem((4, 3, 5), [EUCLIDEAN, DOT], torch.float64, gaps=0.2)
    problem.patterns = problem.patterns.mT.contiguous().mT
    problem.queries = problem.queries.transpose(0, 1).contiguous().transpose(0, 1)
    problem.weights = problem.weights[:1].expand(2, -1)
    problem.gradient = problem.gradient[:1, :1].expand(3, 4)
    agree(problem.found(), problem.plain())


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (0, 0, 3)], ids=str)
def check_nothing_gives_nothing(shape: tuple[int, int, int]) -> None:
    problem = Problem(shape, [EUCLIDEAN, MANHATTAN], torch.float32, gaps=0.0)
    agree(problem.found(), problem.plain())


@pytest.mark.parametrize("groups", [0, 1, 3])
@quick_sorts
def check_groups_are_a_loop(groups: int) -> None:
    problem = Problem((4, 3, 5), [EUCLIDEAN, DOT], torch.float64, gaps=0.0)
    scales = torch.arange(1, groups + 1, dtype=torch.float64, device=DEVICE)
    problem.patterns = scales.view(-1, 1, 1) * problem.patterns
    problem.queries = scales.view(-1, 1, 1, 1) * problem.queries
    problem.gradient = scales.view(-1, 1, 1) * problem.gradient
    assert gpu.scores(*problem.data).shape == (groups, 3, 4)
    agree(problem.found(), problem.plain())
