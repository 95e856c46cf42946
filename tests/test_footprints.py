"""The compiled footprints are the plain formula, faster: scores, gradients, gaps, ties, and every instruction set."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core import prepared
from ahop._core.kernels import native as finding
from ahop._core.kernels.footprints import footprint_scores
from ahop._core.kernels.native import native
from ahop._core.kernels.packing import Packed, packed
from ahop._core.kernels.plain import BASES, NUMBERS, footprint_scores_plain
from tests.strategies import seeds

needs_kernels = pytest.mark.skipif(native is None, reason="built without a compiler")
INSTRUCTION_SETS = native.instruction_sets() if native is not None else []
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@pytest.fixture(params=INSTRUCTION_SETS)
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    assert native is not None
    native.use(request.param)
    yield request.param
    native.use(INSTRUCTION_SETS[0])


@dataclass
class Case:
    bases: list[str]
    weights: Tensor
    patterns: Tensor
    queries: Tensor

    def scores(self) -> Tensor:
        return footprint_scores(self.bases, self.weights, self.patterns, self.queries)

    def plain(self) -> Tensor:
        return footprint_scores_plain(self.patterns, self.queries, self.weights, [NUMBERS[name] for name in self.bases])

    def gradients(self, scores: Tensor, seed: int) -> list[Tensor]:
        flow = torch.randn(scores.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return list(torch.autograd.grad(scores, [self.weights, self.patterns, self.queries], flow.to(scores)))

    def with_gradients(self) -> "Case":
        leaves = [each.detach().clone().requires_grad_() for each in (self.weights, self.patterns, self.queries)]
        return Case(self.bases, *leaves)


@st.composite
def cases(draw: st.DrawFn, most_dimensions: int = 1025, most_patterns: int = 5000, ties: bool = True) -> Case:
    generator = torch.Generator().manual_seed(draw(seeds))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    # Around the sizes of tiles and blocks, and anything between.
    dimensions = draw(st.sampled_from([1, 2, 7, 8, 9, 16, 31, 48, 63, 64, 65, 128]) | st.integers(1, most_dimensions))
    dimensions = min(dimensions, most_dimensions)
    most = max(1, min(most_patterns, 400_000 // dimensions))
    count = draw(st.sampled_from([1, 8, 15, 16, 17]) | st.integers(1, most))
    batch = draw(st.integers(0, 3))
    bases = draw(st.lists(st.sampled_from(list(BASES)), min_size=1, max_size=3))

    def numbers(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)

    patterns, queries = numbers(count, dimensions), numbers(len(bases), batch, dimensions)
    if ties and draw(st.booleans()):
        patterns, queries = patterns.round(), queries.round()
    gaps = draw(st.sampled_from([0.0, 0.0, 0.1, 0.9]))
    patterns[torch.rand(patterns.shape, generator=generator) < gaps] = torch.nan
    queries[:, torch.rand(queries.shape[1:], generator=generator) < gaps / 2] = torch.nan
    weights = numbers(len(bases), dimensions) / dimensions**0.5
    return Case(bases, weights.to(dtype), patterns.to(dtype), queries.to(dtype))


def agree(found: Tensor, expected: Tensor, scale: Tensor | None = None) -> None:
    """To 1e-5 of what is added up in float32, to 1e-12 in float64."""
    known = expected > 0.5 * torch.finfo(expected.dtype).min
    assert torch.equal(found[~known], expected[~known])
    size = (expected.abs().where(known, 0).amax() if scale is None else scale) if expected.numel() else 1.0
    tolerance = 1e-5 if found.dtype == torch.float32 else 1e-12
    assert_close(found[known], expected[known], rtol=tolerance, atol=tolerance * max(1.0, float(size)))


@needs_kernels
@given(case=cases())
def test_scores_are_the_plain_formula(case: Case) -> None:
    agree(case.scores(), case.plain())


@given(case=cases(most_dimensions=130, most_patterns=70))
def test_every_instruction_set_gives_the_same(instruction_set: str, case: Case) -> None:
    agree(case.scores(), case.plain())


@given(case=cases(most_dimensions=200, most_patterns=100, ties=False), seed=seeds)
def test_gradients_are_those_of_the_plain_formula(instruction_set: str, case: Case, seed: int) -> None:
    """In double precision, where no two values are alike by chance and ranks are certain."""
    case = Case(case.bases, case.weights.double(), case.patterns.double(), case.queries.double()).with_gradients()
    # A pair with one observed dimension has all its values alike: any order of them is right.
    shared = (~case.patterns.isnan()).double() @ (~case.queries[0].isnan()).double().T
    if bool((shared == 1).any()):
        return
    for found, expected in zip(case.gradients(case.scores(), seed), case.gradients(case.plain(), seed), strict=True):
        assert_close(found, expected, rtol=1e-9, atol=1e-9)


@needs_kernels
def test_gradcheck() -> None:
    generator = torch.Generator().manual_seed(0)
    weights, patterns, queries = (
        torch.randn(size, generator=generator, dtype=torch.float64, requires_grad=True)
        for size in ((2, 9), (5, 9), (2, 3, 9))
    )

    def scores(weights: Tensor, patterns: Tensor, queries: Tensor) -> Tensor:
        return footprint_scores(["euclidean", "dot"], weights, patterns, queries)

    assert torch.autograd.gradcheck(scores, (weights, patterns, queries))
    assert torch.autograd.gradgradcheck(scores, (weights, patterns, queries))


@needs_kernels
@pytest.mark.parametrize("gradient_in", ["weights", "patterns", "queries"])
def test_only_what_is_asked_for_gets_a_gradient(gradient_in: str) -> None:
    case = Case(["dot"], torch.rand(1, 4), torch.rand(3, 4), torch.rand(1, 2, 4))
    getattr(case, gradient_in).requires_grad_()
    torch.autograd.backward(case.scores().sum())
    assert getattr(case, gradient_in).grad is not None


@needs_kernels
@both_dtypes
def test_infinite_values_are_sorted_like_others(dtype: torch.dtype) -> None:
    patterns = torch.tensor([[1.0, torch.inf, 3.0], [-torch.inf, 0.5, 0.25], [1.0, 2.0, 3.0]], dtype=dtype)
    case = Case(["dot"], torch.tensor([[1.0, 2.0, 3.0]], dtype=dtype), patterns, torch.ones(1, 1, 3, dtype=dtype))
    assert torch.equal(case.scores(), case.plain())
    assert bool(case.scores()[0, :2].isinf().all())
    # Zero times infinity is no number, and no sorting makes it one.
    case = Case(["dot"], case.weights, patterns, torch.zeros(1, 1, 3, dtype=dtype))
    assert case.scores()[0].isnan().tolist() == [True, True, False]


@needs_kernels
def test_shapes_that_do_not_fit_are_refused() -> None:
    assert native is not None
    good = Case(["dot"], torch.rand(1, 4), torch.rand(3, 4), torch.rand(1, 2, 4))
    for bad in (
        Case(["dot"], torch.rand(1, 5), good.patterns, good.queries),
        Case(["dot"], good.weights, good.patterns, torch.rand(1, 2, 3)),
        Case(["dot", "dot"], good.weights, good.patterns, good.queries),
    ):
        with pytest.raises(ValueError, match="differ"):
            bad.scores()
    with pytest.raises(ValueError, match="no instruction set"):
        native.use("abacus")


@needs_kernels
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_the_work(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from ahop._core.kernels import footprints

    monkeypatch.setattr(footprints, "threads_for", lambda work: threads)
    generator = torch.Generator().manual_seed(0)
    patterns, queries = (torch.randn(size, generator=generator) for size in ((1000, 20), (2, 5, 20)))
    case = Case(["euclidean", "manhattan"], torch.randn(2, 20, generator=generator), patterns, queries)
    agree(case.scores(), case.plain())
    case = Case(case.bases, *(each.double() for each in (case.weights, patterns, queries))).with_gradients()
    for found, expected in zip(case.gradients(case.scores(), 0), case.gradients(case.plain(), 0), strict=True):
        assert_close(found, expected)


# --- similarities stand on them


@needs_kernels
@both_dtypes
def test_similarities_use_them_and_agree_with_what_they_do_without(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    patterns, queries = (torch.randn(size, 12, generator=generator, dtype=dtype) for size in (40, 6))
    patterns[torch.rand(patterns.shape, generator=generator) < 0.2] = torch.nan
    patterns[3] = torch.nan
    debiased = ahop.similarities.DebiasedSimilarity(ahop.EuclideanSimilarity(), 12)
    debiased.bias.copy_(torch.randn(12, generator=generator))
    similarity = ahop.AdaptiveSimilarity(
        12, [debiased, ahop.similarities.ManhattanSimilarity(), ahop.DotSimilarity()]
    ).to(dtype)
    similarity.set_coefficients(torch.randn(36, generator=generator, dtype=dtype))
    with_kernels = similarity(patterns, queries)
    monkeypatch.setattr(finding, "native", None)
    agree(with_kernels.detach(), similarity(patterns, queries).detach())


@needs_kernels
def test_compiled_and_exported_code_has_the_operator_in_it() -> None:
    similarity = ahop.AdaptiveSimilarity(8)
    patterns, queries = torch.randn(30, 8), torch.randn(4, 8)
    expected = similarity(patterns, queries)
    program = torch.export.export(similarity, (patterns, queries))
    assert any("footprint_scores" in str(node.target) for node in program.graph.nodes)
    assert_close(program.module()(patterns, queries), expected)


COMPILING = """
import torch, ahop
similarity = ahop.AdaptiveSimilarity(8)
compiled = torch.compile(similarity, backend="aot_eager", fullgraph=True)
inputs = [torch.randn(size, 8, requires_grad=True) for size in (30, 4)]
results = []
for function in (similarity, compiled):
    scores = function(*inputs)
    results.append([scores, *torch.autograd.grad(scores.square().sum(), [*inputs, *similarity.parameters()])])
for found, expected in zip(*results, strict=True):
    torch.testing.assert_close(found, expected)
"""


@pytest.mark.parametrize("first", ["", 'import sys; sys.modules["ahop._core.kernels._native"] = None'])
def test_torch_compile_gives_the_same_scores_and_gradients(first: str) -> None:
    """In a process of its own: the types that these tests check as they run are not for compilers."""
    subprocess.run([sys.executable, "-c", f"{first}\n{COMPILING}"], check=True)


@needs_kernels
def test_operators_keep_torchs_own_rules() -> None:
    weights, patterns, queries = torch.randn(1, 6), torch.randn(5, 6), torch.randn(1, 3, 6)
    leaves = [each.requires_grad_() for each in (patterns, queries, weights)]
    torch.library.opcheck(torch.ops.ahop.footprint_scores.default, (*leaves, [0]))


# --- a memory keeps the blocks of its patterns


def kept(patterns: Tensor) -> Packed:
    known = packed(patterns)
    assert isinstance(known, Packed)
    return known


@needs_kernels
def test_a_memory_packs_its_patterns_once_and_anew_when_they_change() -> None:
    patterns, queries = torch.randn(50, 7), torch.randn(3, 7)
    memory = ahop.AssociativeMemory(patterns)
    first = memory.scores(queries)
    blocks = kept(memory.patterns).blocks
    assert_close(memory.scores(queries), first)
    assert kept(memory.patterns).blocks is blocks
    patterns[7] += 1  # the tensor is shared
    assert not torch.equal(memory.scores(queries)[:, 7], first[:, 7])
    assert_close(ahop.AssociativeMemory(patterns.clone()).scores(queries), memory.scores(queries))


@needs_kernels
def test_other_tensors_are_read_in_place() -> None:
    patterns, similarity = torch.randn(50, 7), ahop.AdaptiveSimilarity(7)
    for _ in range(3):
        similarity(patterns, torch.randn(3, 7))
    assert packed(patterns) is None


def test_a_memory_does_not_hear_of_changes_to_the_array_that_it_came_from() -> None:
    patterns, queries = np.eye(4, 3), np.ones((2, 3))
    memory = ahop.AssociativeMemory(patterns)
    first = memory.scores(queries)
    patterns[0] = 9
    assert_close(memory.scores(queries), first)
    assert bool((memory.patterns[0] < 2).all())


@needs_kernels
def test_a_memory_that_grows_and_shrinks_scores_as_a_new_one_does() -> None:
    memory, queries = ahop.AssociativeMemory(torch.randn(1000, 6)), torch.randn(4, 6)
    for change in (lambda: memory.add(torch.randn(30, 6)), lambda: memory.remove(torch.arange(0, 100, 3))):
        memory.scores(queries)
        change()
        assert_close(memory.scores(queries), ahop.AssociativeMemory(memory.patterns.clone()).scores(queries))


@needs_kernels
def test_two_memories_that_share_patterns_grow_apart() -> None:
    one = ahop.AssociativeMemory(torch.randn(20, 4))
    for _ in range(2):
        one.scores(torch.randn(1, 4))
    other = one.copy()
    one.add(torch.randn(3, 4))
    other.add(torch.randn(3, 4))
    other.remove(torch.tensor([0]))
    queries = torch.randn(2, 4)
    for memory in (one, other):
        assert_close(memory.scores(queries), ahop.AssociativeMemory(memory.patterns.clone()).scores(queries))


@needs_kernels
def test_blocks_made_in_inference_mode_serve_outside_and_the_other_way_round() -> None:
    memory, queries = ahop.AssociativeMemory(torch.randn(40, 6)), torch.randn(3, 6)

    def check() -> None:
        with torch.no_grad():
            found = memory.scores(queries.clone())
            assert_close(found, ahop.AssociativeMemory(memory.patterns.clone()).scores(queries.clone()))

    with torch.inference_mode():
        memory.scores(queries)
        memory.scores(queries)
    memory.add(torch.randn(5, 6))
    memory.remove(torch.tensor([0, 3]))
    check()
    with torch.inference_mode():
        memory.add(torch.randn(5, 6))
        memory.remove(torch.tensor([1]))
        check()
        check()
    check()


def test_large_memories_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "MOST_BYTES", 10)
    memory = ahop.AssociativeMemory(torch.randn(50, 7))
    memory.scores(torch.randn(2, 7))
    assert packed(memory.patterns) is None


# --- where nothing was compiled


def test_without_kernels_it_says_so_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(finding, "native", None)
    finding._say_so.cache_clear()
    with caplog.at_level(logging.WARNING, logger="ahop"):
        assert finding.compiled() is None
        assert finding.compiled() is None
    finding._say_so.cache_clear()
    assert len(caplog.records) == 1
    assert "C++17" in caplog.text


def test_without_kernels_the_answers_are_the_same() -> None:
    code = """
import sys
sys.modules["ahop._core.kernels._native"] = None
import torch, ahop
from ahop._core.kernels.native import native
assert native is None
patterns = torch.arange(40.0).view(10, 4).sin()
memory = ahop.AssociativeMemory(patterns)
print(memory.recall(patterns[3:4] + 0.01, k=2).indices.tolist())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    patterns = torch.arange(40.0).view(10, 4).sin()
    assert run.stdout.strip() == str(
        ahop.AssociativeMemory(patterns).recall(patterns[3:4] + 0.01, k=2).indices.tolist()
    )
    assert run.stderr.count("without its compiled kernels") == 1


@given(case=cases(most_dimensions=70, most_patterns=40, ties=False), groups=st.integers(0, 4), seed=seeds)
def test_groups_are_a_loop(instruction_set: str, case: Case, groups: int, seed: int) -> None:
    """Scores and gradients; as many groups as a batch of a layer has samples and heads."""
    generator = torch.Generator().manual_seed(seed)

    def repeated(values: Tensor) -> Tensor:
        scales = 1 + torch.rand(groups, *[1] * values.ndim, generator=generator, dtype=torch.float64)
        return scales * values.double()

    weights = case.weights.double()
    together = Case(case.bases, weights, repeated(case.patterns), repeated(case.queries)).with_gradients()
    scores = together.scores()
    assert scores.shape == (groups, case.queries.shape[1], len(case.patterns))
    looped = [
        Case(case.bases, weights, *data).with_gradients()
        for data in zip(together.patterns.detach(), together.queries.detach(), strict=True)
    ]
    found = together.gradients(scores, seed)
    flows = torch.randn(scores.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    total = torch.zeros_like(weights)
    for number, one in enumerate(looped):
        expected = one.scores()
        assert_close(scores[number], expected)
        leaves = [one.weights, one.patterns, one.queries]
        slopes = torch.autograd.grad(expected, leaves, flows[number])
        assert torch.equal(found[1][number], slopes[1])
        assert torch.equal(found[2][number], slopes[2])
        total += slopes[0]
    assert_close(found[0], total, rtol=1e-9, atol=1e-9)


@needs_kernels
def test_groups_shared_out_over_threads_give_the_same() -> None:
    case = Case(
        ["euclidean", "dot"], torch.rand(2, 33), torch.rand(40, 60, 33), torch.rand(40, 2, 9, 33)
    ).with_gradients()
    before = torch.get_num_threads()
    alone = [case.scores(), *case.gradients(case.scores(), 0)]
    torch.set_num_threads(3)
    shared = [case.scores(), *case.gradients(case.scores(), 0)]
    torch.set_num_threads(before)
    assert finding.LEAST_SHARED_WORK < 40 * 60 * 2 * 9 * 33
    for found, expected in zip(shared, alone, strict=True):
        assert_close(found, expected)
