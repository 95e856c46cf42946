"""What torch recalls is what the bare formulas say, in numpy."""

import numpy as np
import pytest
import torch
from torch import Tensor

import ahop
from tests import reference
from tests.catalogue import SIMILARITIES

COUNT, DIMENSIONS = 40, 12
# Words of similarities whose formulas are held by laws of their own.
ELSEWHERE = (
    *("match", "unified", "footprint", "adaptive", "isolated", "correlation", "ranks", "callable", "forward"),
    *("likelihood of noise", "likelihood of a mask", "likelihood of a mixture", "learned nuisance"),
)
WRITTEN = [name for name in SIMILARITIES if not any(word in name for word in ELSEWHERE)]


def rows(count: int, seed: int, gaps: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(count, DIMENSIONS, generator=generator, dtype=torch.float64)
    return values.masked_fill(torch.rand(values.shape, generator=generator) < gaps, torch.nan)


def memory_with(name: str, gaps: float) -> ahop.AssociativeMemory:
    detector = ahop.unknown.UnknownDetector(rate=0.3)
    detector.center.copy_(torch.tensor([1.0, 2.0, -3.0, 2.0]))
    detector.slopes.copy_(torch.tensor([0.3, 0.2, 0.1, -0.1]))
    similarity = SIMILARITIES[name](DIMENSIONS, COUNT)
    model = ahop.Model(similarity, ahop.Softmax(0.7, floor=0.03), detector=detector)
    prior = torch.log_softmax(torch.linspace(0, 1, COUNT, dtype=torch.float64), 0)
    prior[3] = -torch.inf
    return ahop.AssociativeMemory(rows(COUNT, 0, gaps), model=model, log_prior=prior).double()


@pytest.mark.parametrize("gaps", [0.0, 0.25, 0.9])
@pytest.mark.parametrize("name", WRITTEN)
def test_torch_recalls_as_the_formulas_say(name: str, gaps: float) -> None:
    memory = memory_with(name, gaps)
    queries = rows(30, 1, gaps)
    queries[0] = torch.nan
    queries[1] = 100.0
    queries[2] = 0.0
    found, expected = memory.recall(queries, k=5), reference.recall(memory, queries, k=5)
    told = expected.posterior > 0  # those that share nothing with a query have no order
    np.testing.assert_array_equal(found.indices.numpy()[told], expected.indices[told])
    np.testing.assert_allclose(found.posterior, expected.posterior, atol=1e-7)
    assert found.unknown is not None
    np.testing.assert_allclose(found.unknown, expected.unknown, atol=1e-7)  # type: ignore[arg-type]


@pytest.mark.parametrize("similarity", ["auto", "mixture", "additive", "powed_sorensen"])
def test_a_fitted_memory_of_single_precision_keeps_its_answers(similarity: str) -> None:
    rng = np.random.default_rng(0)
    stored = rng.uniform(-1, 1, size=(60, DIMENSIONS)).astype("float32")
    origins = rng.integers(60, size=200)
    copies = stored[origins] + 0.3 + rng.normal(0, 0.2, (200, DIMENSIONS))
    copies[rng.random(copies.shape) < 0.2] = np.nan
    candidates = ["mixture", "additive", "debiased"] if similarity == "auto" else similarity
    groups = ["this" if row % 2 else "that" for row in range(200)]
    memory = ahop.fit(stored, pairs=(origins, copies), similarity=candidates, groups=groups, progress=False)
    for group in ("this", "that", "another"):
        found = memory.recall(copies, k=3, groups=[group] * len(copies))
        expected = reference.recall(memory, torch.from_numpy(copies), k=3, group=group)
        np.testing.assert_allclose(found.posterior, expected.posterior, atol=1e-5)
        np.testing.assert_allclose(found.unknown, expected.unknown, atol=1e-5)  # type: ignore[arg-type]
