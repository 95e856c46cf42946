"""Pools over gaps, priors, labels and decisions: whoever recalls answers as the memory does, or says that it cannot."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import ahop
from ahop.errors import AhopError
from ahop.memory.decisions import Policy
from ahop.separations import Entmax, Separation, Softmax, Sparsemax
from ahop.similarities import (
    AlignedSimilarity,
    CosineSimilarity,
    EuclideanSimilarity,
    ManhattanSimilarity,
    PooledSimilarity,
)
from tests.recallers import DIMENSIONS, RECALLERS, Case, copies, fitted, rows_of

# The share of queries for which those that see candidates only have the right ones.
LEAST_RIGHT = 0.9
POLICY = Policy(accept_from=0.6, unknown_from=0.5, set_from=0.9)
FAST = [name for name, case in RECALLERS.items() if case.needs is None and name != "retriever"]


def gaps_in(rows: Tensor, share: float, seed: int) -> Tensor:
    """A copy with gaps; something of each row is left."""
    generator = torch.Generator().manual_seed(seed)
    gone = torch.rand(rows.shape, generator=generator) < share
    gone[torch.arange(len(rows)), torch.randint(DIMENSIONS, (len(rows),), generator=generator)] = False
    return rows.masked_fill(gone, torch.nan)


@cache
def pooled() -> ahop.AssociativeMemory:
    """Two thirds of the numbers are missing: most queries share nothing with some patterns. One group is shifted."""
    base = fitted()
    pool = PooledSimilarity([base.similarity, CosineSimilarity(), PooledSimilarity([ManhattanSimilarity()])])
    pool.weights.copy_(torch.tensor([0.5, 2.0, 0.2]))
    shifted = AlignedSimilarity(pool, DIMENSIONS)
    shifted.offset = torch.ones(DIMENSIONS)
    model = base.model.replaced(similarity=pool, separation=Softmax(0.7, 0.01), groups={"up": shifted})
    return ahop.AssociativeMemory(gaps_in(base.patterns, 0.65, 5), model=model)


@cache
def with_prior() -> ahop.AssociativeMemory:
    """Some patterns are a thousand times as frequent as others, and some never are the origin."""
    base = fitted()
    prior = 2.5 * torch.randn(len(base), generator=torch.Generator().manual_seed(6))
    prior[::7] = -torch.inf
    return ahop.AssociativeMemory(base.patterns, model=base.model, log_prior=prior)


@cache
def labelled() -> ahop.AssociativeMemory:
    base = fitted()
    return ahop.AssociativeMemory(base.patterns, model=base.model, labels=[f"room {row}" for row in range(len(base))])


@cache
def tied() -> ahop.AssociativeMemory:
    """Every pattern is there twice, and a few numbers are all that there is: many scores are equal."""
    rows = torch.randint(0, 2, (200, DIMENSIONS), generator=torch.Generator().manual_seed(7)).float()
    return ahop.AssociativeMemory(rows.repeat(2, 1), model=fitted().model.replaced(similarity=EuclideanSimilarity()))


MEMORIES = {"pool over gaps": pooled, "prior": with_prior, "labels": labelled, "ties": tied}


@pytest.fixture(scope="module", params=[(kind, name) for kind in MEMORIES for name in FAST], ids=" of ".join)
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, ahop.AssociativeMemory, Case]]:
    kind, name = request.param
    memory, case = MEMORIES[kind](), RECALLERS[name]
    folder: Path = tmp_path_factory.mktemp("same")
    made = case.make(memory, folder)
    try:
        recaller = made.__enter__()
    except AhopError as error:
        assert name != "memory"
        pytest.skip(f"says that it cannot: {error}")
    yield recaller, memory, case
    made.__exit__(None, None, None)


def asked(memory: ahop.AssociativeMemory, gaps: float) -> tuple[Tensor, list[str]]:
    """Copies of stored patterns, strangers, and one query of which nothing is known."""
    whole = memory.patterns.nan_to_num(0)
    pairs, groups = copies(whole, 50, seed=8)
    strangers = 3 * torch.randn(10, DIMENSIONS, generator=torch.Generator().manual_seed(9))
    rows = gaps_in(torch.cat([pairs.queries, strangers]), gaps, 10)
    nothing = torch.full((1, DIMENSIONS), torch.nan)
    return torch.cat([rows, nothing]), [*groups, *["elsewhere"] * 11]


def agree(found: Any, expected: Any, case: Case, whole: Any) -> None:
    """In rows up to equals, in posteriors, unknown, labels and decisions up to what the recaller promises.

    Args:
        whole: what the memory says of all rows.
    """
    posterior, rows = torch.as_tensor(found.posterior), torch.as_tensor(found.indices)
    of_rows = torch.zeros(len(rows), len(whole.patterns[0])).scatter_add_(
        1, whole.indices.clamp_min(0), whole.posterior
    )
    apart = (posterior - expected.posterior).abs()
    apart = apart.maximum((of_rows.gather(1, rows.clamp_min(0)) - posterior).abs().where(rows >= 0, 0)).amax(-1)
    is_right = apart <= case.error
    assert float(is_right.double().mean()) >= (1.0 if case.error <= 1e-5 else LEAST_RIGHT)
    off = (torch.as_tensor(found.unknown) - expected.unknown).abs()
    assert float(off[is_right].max()) <= case.unknown_error
    if found.labels is not None:
        assert [[f"room {row}" for row in some] for some in rows.tolist()] == found.labels.tolist()
    ours, theirs = found.decide(POLICY), expected.decide(POLICY)
    sure = (torch.as_tensor(theirs.confidence) - POLICY.accept_from).abs() > case.error + case.unknown_error
    sure &= is_right & ((expected.unknown - 0.5).abs() > case.unknown_error)
    assert (ours.actions == theirs.actions)[sure.numpy()].all()


@pytest.mark.parametrize("gaps", [0.0, 0.6])
def test_answers_are_those_of_the_memory(made: Any, gaps: float) -> None:
    recaller, memory, case = made
    queries, groups = asked(memory, gaps)
    for named in (None, groups):
        expected, whole = memory.recall(queries, 5, groups=named), memory.recall(queries, len(memory), groups=named)
        agree(recaller.recall(queries, 5, groups=named), expected, case, whole)


@pytest.mark.parametrize("gaps", [0.0, 0.6])
def test_answers_among_some_rows_are_those_of_the_memory(made: Any, gaps: float) -> None:
    recaller, memory, case = made
    queries, groups = asked(memory, gaps)
    red = rows_of("red", len(memory))
    where: Any = {"color": "red"} if case.has_columns else red
    expected, whole = (memory.recall(queries, k, where=red, groups=groups) for k in (5, len(memory)))
    agree(recaller.recall(queries, 5, where=where, groups=groups), expected, case, whole)


def test_one_query_is_answered_as_among_many(made: Any) -> None:
    recaller, memory, _ = made
    queries, _ = asked(memory, 0.6)
    together = recaller.recall(queries, 3)
    for place in range(0, len(queries), 7):
        alone = recaller.recall(queries[place : place + 1], 3)
        apart = torch.as_tensor(alone.posterior)[0] - torch.as_tensor(together.posterior)[place]
        assert float(apart.abs().max()) <= 1e-5


def test_reasons_add_up_to_the_odds_of_the_answers(made: Any) -> None:
    recaller, memory, case = made
    if not hasattr(recaller, "explain"):
        pytest.skip("has no reasons")
    queries, _ = asked(memory, 0.6)
    for query in queries[:50:10]:
        found, whole = recaller.explain(query), memory.recall(query[None], 2)
        first, second = whole.posterior[0].double().tolist()
        if min(first, second) > 1e-3 and first - second > 2 * case.error:
            assert found.log_odds == pytest.approx(torch.tensor(first / second).log().item(), abs=100 * case.error)


@pytest.mark.parametrize("separation", [Sparsemax(), Entmax()], ids=repr)
def test_few_rows_share_the_posterior_of_a_query_of_which_nothing_is_known(separation: Separation) -> None:
    memory = ahop.AssociativeMemory(torch.randn(3, 2), EuclideanSimilarity(), separation)
    nothing = torch.full((1, 2), torch.nan)
    row = torch.tensor([1])
    found, expected = ahop.index(memory).recall(nothing, 3, where=row), memory.recall(nothing, 3, where=row)
    assert found.posterior.tolist() == expected.posterior.tolist()
