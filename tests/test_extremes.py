"""Values at the ends of their range, masks, and machines that have nothing left: finite answers, or a sentence."""

import subprocess
import sys
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import ahop
from ahop import zoo
from ahop._core.kernels.native import native
from ahop.errors import InvalidTypeError, InvalidValueError, UnsupportedError


def pairs_at(scale: float) -> tuple[torch.Tensor, ahop.Pairs]:
    """Timestamps and the like: large, with differences that are large too."""
    generator = torch.Generator().manual_seed(0)
    patterns = scale + scale * torch.randn(60, 8, generator=generator)
    origins = torch.randint(60, (100,), generator=generator)
    return patterns, ahop.Pairs(origins, patterns[origins] + 0.02 * scale * torch.randn(100, 8, generator=generator))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e8, 1e9, 1e12])
@pytest.mark.parametrize("similarity", [None, "footprint", "auto"])
def test_a_fit_finds_finite_weights_whatever_the_unit(scale: float, similarity: str | None) -> None:
    patterns, pairs = pairs_at(scale)
    if similarity is None:
        fitted = ahop.fit(ahop.AssociativeMemory(patterns), pairs=pairs, progress=False)
    else:
        fitted = ahop.fit(patterns, pairs=pairs, similarity=similarity, progress=False)
    assert all(bool(torch.isfinite(each).all()) for each in fitted.state_dict().values())
    assert float((fitted.recall(pairs.queries).indices[:, 0] == pairs.origins).double().mean()) > 0.95


def test_values_whose_similarities_overflow_are_refused_with_the_mend() -> None:
    patterns, pairs = pairs_at(1e25)
    with pytest.raises(InvalidValueError, match=r"too large for torch\.float32.*float64"):
        ahop.fit(ahop.AssociativeMemory(patterns), pairs=pairs, progress=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e5, 1e10, 1e30])
@pytest.mark.parametrize("network", ["hop", "d_hop", "e_hop"])
def test_readouts_of_unbounded_separations_are_finite(network: str, scale: float, dtype: torch.dtype) -> None:
    patterns = scale * torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=dtype)
    memory = getattr(zoo, network)(patterns)
    assert bool(torch.isfinite(memory.retrieve(patterns)).all())
    gapped = patterns.clone()
    gapped[0, 0] = torch.nan
    assert bool(torch.isfinite(getattr(zoo, network)(gapped).retrieve(patterns)).all())


@pytest.mark.parametrize("query", [0.0, 1.0, -3.4e38])
def test_a_kernel_beyond_single_precision_gives_weights(query: float) -> None:
    modulation = ahop.modulations.KernelModulation(1)
    with torch.no_grad():
        modulation.kernel.mul_(1.2)
    memory = ahop.AssociativeMemory(torch.tensor([[3.4e38]]), ahop.EuclideanSimilarity(), modulation=modulation)
    weights = memory.weights(torch.tensor([[query]]))
    assert_close(weights.sum(), torch.tensor(1.0))


@pytest.mark.parametrize(("largest", "dtype"), [(3.4028234e38, torch.float32), (1e300, torch.float64)])
def test_a_fit_to_values_beyond_all_differences_is_refused_with_the_mend(largest: float, dtype: torch.dtype) -> None:
    patterns = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 0, 0], [0, 1, 1, 0.1, largest], [0, 0, 0, 1, 1]], dtype=dtype)
    origins = torch.tensor([0, 0, 0, 0, 0, 1, 2, 3])
    pairs = ahop.Pairs(origins, patterns[origins].clamp(-10, 10) + 0.1)
    with pytest.raises(InvalidValueError, match="differences overflow"):
        ahop.fit(patterns, pairs=pairs, similarity="euclidean", progress=False)


@pytest.mark.parametrize("far", [1e30, 1e60, 1e140])
def test_a_fit_takes_a_pattern_that_lies_beyond_all_copies(far: float) -> None:
    patterns = torch.zeros(4, 6, dtype=torch.float64)
    patterns[:, 5] = torch.tensor([1, 0.25, 0, far], dtype=torch.float64)
    origins = torch.tensor([0, 0, 0, 1, 1, 1, 2, 3])
    pairs = ahop.Pairs(origins, patterns[origins].clamp(-10, 10) + 0.1)
    fitted = ahop.fit(patterns, pairs=pairs, similarity="euclidean", progress=False)
    assert bool(torch.isfinite(fitted.recall(pairs.queries).posterior).all())


@pytest.mark.parametrize("count", [1, 3, 50])
def test_an_index_with_a_floor_answers_a_query_of_nothing_as_its_memory(count: int) -> None:
    model = ahop.Model(ahop.EuclideanSimilarity(), ahop.Softmax(5.0, floor=0.1))
    memory = ahop.AssociativeMemory(torch.arange(count, dtype=torch.float32).unsqueeze(-1), model=model)
    nothing = torch.full((1, 1), torch.nan)
    assert_close(ahop.index(memory).recall(nothing).posterior, memory.recall(nothing).posterior)


def test_queries_of_one_origin_are_unknown_beside_patterns_that_are_possible() -> None:
    detector = ahop.unknown.UnknownDetector(rate=0.2)
    detector.slopes.copy_(torch.tensor([0.5, 0.8, -0.2, 0.1]))
    model = ahop.Model(ahop.EuclideanSimilarity(), detector=detector)
    prior = torch.tensor([0.0, 0.0, -torch.inf])
    patterns, query = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]]), torch.tensor([[0.9, 0.1]])
    alone = ahop.AssociativeMemory(patterns, model=model, log_prior=prior)
    assert_close(alone.recall(query, same=[0]).unknown, alone.recall(query).unknown)


def test_a_floor_gives_nothing_to_a_pattern_that_is_impossible() -> None:
    model = ahop.Model(ahop.EuclideanSimilarity(), ahop.Softmax(4.0, floor=0.05))
    memory = ahop.AssociativeMemory(torch.eye(3), model=model, log_prior=torch.tensor([0.0, 0.0, -torch.inf]))
    assert memory.recall(torch.eye(3), where=[2]).posterior.tolist() == [[0.0]] * 3


def test_a_filter_that_leaves_nothing_is_answered_by_nothing() -> None:
    memory = ahop.AssociativeMemory(torch.eye(3), ahop.similarities.IsolatedSimilarity(3, 3))
    assert memory.recall(torch.eye(3), where=[]).indices.tolist() == [[-1]] * 3


@pytest.mark.parametrize("beta", [1e30, 1e39, 1e300])
def test_a_softmax_of_any_beta_is_a_distribution(beta: float) -> None:
    scores = torch.tensor([[1.0, 2.0, 2.0], [0.0, 0.0, -1.0]])
    expected = torch.tensor([[0.0, 0.5, 0.5], [0.5, 0.5, 0.0]])
    assert_close(ahop.Softmax(beta)(scores), expected)
    assert bool(torch.isfinite(ahop.Softmax(beta).potential(scores)).all())
    memory = ahop.AssociativeMemory(torch.eye(3), ahop.DotSimilarity(), ahop.Softmax(beta))
    assert memory.recall(torch.eye(3)).posterior.squeeze(-1).tolist() == [1, 1, 1]


def test_an_oracle_that_cannot_read_gaps_says_so() -> None:
    patterns = torch.eye(3)
    patterns[0, 0] = torch.nan
    with pytest.raises(UnsupportedError, match="does not say what it makes of values that were not observed"):
        ahop.variants.log_posterior(ahop.NoisyVariant(0.1), patterns, torch.eye(3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_masked_entries_were_not_observed(dtype: type) -> None:
    mask = np.eye(3, k=1).astype(bool)
    masked: Any = np.ma.masked_array(np.arange(9).reshape(3, 3).astype(dtype), mask=mask)
    memory = ahop.AssociativeMemory(masked)
    assert torch.isnan(memory.patterns).numpy().tolist() == mask.tolist()
    plain = np.where(mask, np.nan, masked.data)
    assert_close(memory.scores(masked), ahop.AssociativeMemory(plain).scores(plain), check_dtype=False)


def test_masked_row_numbers_are_refused() -> None:
    rows = np.ma.masked_array([0, 1], mask=[True, False])
    with pytest.raises(InvalidTypeError, match="must have no masked entries"):
        ahop.AssociativeMemory(np.eye(3)).remove(rows)


@pytest.mark.skipif(native is None or sys.platform != "linux", reason="limits the threads of a process")
def test_kernels_do_their_work_where_no_thread_can_be_started() -> None:
    script = """
        import os, resource
        import torch
        import ahop
        torch.set_num_threads(4)
        patterns, queries = torch.randn(20000, 32), torch.randn(64, 32)
        similarity = ahop.AdaptiveSimilarity(32)
        torch.randn(10) @ torch.randn(10)
        with torch.no_grad():
            expected = similarity(patterns, queries)
            if os.geteuid() == 0:
                os.setuid(65534)  # nobody: root has no limit
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            found = similarity(patterns, queries)
        assert torch.allclose(found, expected)
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process as Linux tells it")
def test_recall_from_a_million_patterns_holds_little_besides_them() -> None:
    """What `auto` has learned, with a floor and a detector of unknown queries."""
    script = """
        import torch
        import ahop

        def high_water() -> int:
            lines = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
            return int(lines["VmHWM"].split()[0]) * 1024

        small = torch.randn(500, 64, generator=torch.Generator().manual_seed(0))
        pairs = ahop.MixedVariant(0.2, 0.1, 0.2).sample(small, 200, seed=1)
        model = ahop.fit(small, pairs=pairs, progress=False).model
        assert model.detector is not None
        patterns = torch.randn(1_000_000, 64, generator=torch.Generator().manual_seed(2))
        memory = ahop.AssociativeMemory(patterns, model=model)
        memory.recall(patterns[:1])
        open("/proc/self/clear_refs", "w").write("5")  # forget the high-water mark
        before = high_water()
        memory.recall(patterns[:256], k=5)
        print(high_water() - before)
    """
    taken = int(subprocess.check_output([sys.executable, "-c", dedent(script)], text=True))
    assert taken < 256 * 2**20
