"""What every lifting keeps: inner products that are the scores, up to a number for each query and a stated error."""

import pytest
import torch
from hypothesis import example, given, settings
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core.free_memory import check_free_memory
from ahop.errors import InsufficientMemoryError, UnsupportedError
from ahop.scale.liftings import lift as lifting_module
from ahop.scale.liftings.base import Lifting
from ahop.scale.liftings.factored import MOST_STEPS, Places
from ahop.scale.liftings.lift import lift
from ahop.similarities.base import DecomposableSimilarity
from tests.catalogue import SIMILARITIES
from tests.strategies import FEW, Problem, gapped_problems, problem, problems, with_gaps

VARIANTS = (
    *("likelihood of noise", "likelihood of a learned mixture", "likelihood of a learned nuisance"),
    "forward",
)
MEMBERS = (
    *("cosine", "correlation", "aligned cosine", "aligned evidence"),
    *("snv, then euclidean", "differences, then correlation", "differences, then evidence", "power, then cosine"),
    *("logarithm, then manhattan", "logarithm with gaps at zero, then dot", "ranks, then euclidean"),
    *("selected, then evidence", "pool of fixed metrics", "pool of learned ones", "pool of selected ones"),
)
# With gaps in a query they are close, and say by how much they miss.
DIRECTIONS = {
    *("cosine", "correlation", "aligned cosine", "power, then cosine", "differences, then correlation"),
    "pool of fixed metrics",
}
# Behind these, patterns with gaps have gaps, and the base refuses them.
LEAVE_GAPS = {*DIRECTIONS, "snv, then euclidean", "logarithm, then manhattan", "ranks, then euclidean"}
LIFTED = [
    name
    for name, make in SIMILARITIES.items()
    if name in (*VARIANTS, *MEMBERS) or (isinstance(make(2, 3), DecomposableSimilarity) and name != "match")
]
EXACT = (
    *("dot", "euclidean", "unified", "likelihood of noise", "forward", "debiased euclidean", "debiased dot"),
    *("cosine", "correlation", "aligned cosine", "snv, then euclidean", "differences, then correlation"),
    *("power, then cosine", "logarithm with gaps at zero, then dot", "ranks, then euclidean"),
)
TOLERANCE = 0.01
FEWER = max(1, FEW // 2)


def differences(lifting: Lifting, case: Problem, exact: Tensor) -> Tensor:
    """By how much lifted scores miss the exact ones, once the mean of each query is off."""
    error = lifting.lift_queries(case.queries) @ lifting.lift_patterns(case.patterns).mT - exact.detach()
    return error - error.mean(-1, keepdim=True)


def assert_lifted(name: str, case: Problem) -> None:
    similarity = SIMILARITIES[name](*case.sizes)
    lifting = lift(similarity, case.patterns, case.queries, tolerance=TOLERANCE)
    exact = similarity(case.patterns, case.queries).detach()
    exact = exact.masked_fill(exact == torch.finfo(exact.dtype).min, 0)  # a query of which nothing is known
    error = differences(lifting, case, exact)
    # Nothing observed, no evidence: such queries have no spread, and the error is measured on the others alone.
    silent = case.queries.isnan().all(-1) & (not similarity.missing_is_evidence)
    telling = exact[~silent]
    if telling.numel():  # else on queries that are drawn, and they have a spread of their own
        spread = float((telling - telling.mean(-1, keepdim=True)).square().mean().sqrt())
        assert lifting.rms_error <= TOLERANCE * spread + 1e-5
    assert_close(error[silent], torch.zeros_like(error[silent]), atol=1e-9, rtol=0)
    if error.numel():
        assert float(error.abs().max()) <= lifting.largest_error * (1 + 1e-6) + 1e-6 * (1 + float(exact.abs().max()))


def some_silent(case: Problem, silent: int) -> Problem:
    """The same with nothing observed of the first queries."""
    blank = (torch.arange(len(case.queries)) < silent).unsqueeze(-1)
    return Problem(case.patterns, case.queries.masked_fill(blank, torch.nan))


@pytest.mark.parametrize("name", LIFTED)
@settings(max_examples=FEWER)
@given(case=problems)
def test_lifted_scores_are_the_exact_ones_within_the_stated_error(name: str, case: Problem) -> None:
    assert_lifted(name, case)


@pytest.mark.parametrize(
    "name", [name for name in LIFTED if SIMILARITIES[name](2, 3).missing_is_evidence and name not in LEAVE_GAPS]
)
@settings(max_examples=FEWER)
@given(case=gapped_problems)
def test_gaps_on_both_sides_are_lifted_where_they_say_something(name: str, case: Problem) -> None:
    if "nuisance" not in name and name != "forward":  # these refuse gaps of queries
        assert_lifted(name, case)


@pytest.mark.parametrize(
    "name",
    [
        *(n for n in LIFTED if not SIMILARITIES[n](2, 3).missing_is_evidence and n not in (*VARIANTS, *DIRECTIONS)),
        *("logarithm, then manhattan", "snv, then euclidean"),
    ],
)
@settings(max_examples=FEWER)
@example(case=with_gaps(problem(count=3, dimensions=8, batch=1, seed=0), share=0.3))  # nothing is observed at all
@example(case=some_silent(problem(count=12, dimensions=8, batch=5, seed=0), silent=4))
@given(case=gapped_problems)
def test_gaps_of_queries_are_lifted_everywhere(name: str, case: Problem) -> None:
    complete = Problem(torch.nan_to_num(case.patterns, 0.3), case.queries)
    assert_lifted(name, complete)


@pytest.mark.parametrize("name", EXACT)
def test_what_is_an_inner_product_is_lifted_exactly(name: str) -> None:
    case = problem(count=40, dimensions=7, batch=9)
    similarity = SIMILARITIES[name](*case.sizes)
    lifting = lift(similarity, case.patterns)
    exact = similarity(case.patterns, case.queries).detach()
    assert_close(differences(lifting, case, exact), torch.zeros_like(exact), atol=1e-9, rtol=0)
    assert lifting.size <= case.sizes[0] + 1


@pytest.mark.parametrize("name", [name for name in SIMILARITIES if name not in LIFTED and name != "match"])
def test_what_is_no_inner_product_says_so_and_what_to_do(name: str) -> None:
    case = problem()
    with pytest.raises(UnsupportedError, match="rerank them with this one"):
        lift(SIMILARITIES[name](*case.sizes), case.patterns, case.queries)


def test_directions_of_queries_with_gaps_are_close() -> None:
    case = problem(count=200, dimensions=40, batch=30)
    asked = Problem(case.patterns, case.patterns[:30] + 0.5 * case.queries)
    gappy = Problem(asked.patterns, with_gaps(asked, 0.3).queries)
    gappy = Problem(gappy.patterns, gappy.queries[~gappy.queries.isnan().all(-1)])
    for name in ("cosine", "correlation"):
        similarity = SIMILARITIES[name](*case.sizes)
        lifting = lift(similarity, gappy.patterns, gappy.queries)
        exact = similarity(gappy.patterns, gappy.queries)
        error = differences(lifting, gappy, exact).square().mean().sqrt()
        assert float(error) < 0.15 * float((exact - exact.mean(-1, keepdim=True)).square().mean().sqrt())
        assert lifting.rms_error > 0


def test_the_parts_of_a_sum_stand_side_by_side() -> None:
    case = problem(count=30, dimensions=6)
    pool = ahop.similarities.PooledSimilarity(
        [ahop.DotSimilarity(), ahop.similarities.CosineSimilarity(), ahop.similarities.SorensenSimilarity()]
    )
    pool.weights.copy_(torch.tensor([0.5, 3.0, 0.0]))
    lifting = lift(pool, case.patterns, case.queries)
    assert lifting.size == 12
    exact = pool(case.patterns, case.queries)
    assert_close(lifting.lift_queries(case.queries) @ lifting.lift_patterns(case.patterns).mT, exact)


def test_agreement_of_categories_is_lifted_and_of_numbers_is_not() -> None:
    categories = torch.randint(0, 5, (300, 6)).float()
    case = Problem(categories, categories[torch.randperm(300)[:40]].where(torch.rand(40, 6) < 0.7, 2.0))
    lifting = lift(ahop.similarities.MatchSimilarity(), case.patterns, case.queries, tolerance=1e-4)
    error = differences(lifting, case, ahop.similarities.MatchSimilarity()(case.patterns, case.queries))
    assert float(error.abs().max()) < 1e-3
    numbers = problem(count=5000, batch=64)
    exact_copies = numbers.patterns[:64]
    with pytest.raises(UnsupportedError, match="cannot be lifted within"):
        lift(ahop.similarities.MatchSimilarity(), numbers.patterns, exact_copies, tolerance=1e-3)


@pytest.mark.parametrize(
    "name", ["dot", "euclidean", "manhattan", "likelihood of a learned nuisance", "cosine", "snv, then euclidean"]
)
def test_patterns_with_gaps_are_refused_with_the_mend(name: str) -> None:
    case = with_gaps(problem(count=12))
    with pytest.raises(UnsupportedError, match="'mixture'"):
        lift(SIMILARITIES[name](*case.sizes), case.patterns, case.queries)


def test_a_distance_lifted_for_complete_queries_refuses_gaps() -> None:
    case = problem()
    lifting = lift(ahop.EuclideanSimilarity(), case.patterns, case.queries)
    with pytest.raises(UnsupportedError, match="gaps=True"):
        lifting.lift_queries(with_gaps(case, 0.8).queries)


@pytest.mark.parametrize("name", ["euclidean", "debiased euclidean", "likelihood of noise"])
def test_the_nearest_place_of_a_lifted_distance_is_the_best_answer(name: str) -> None:
    case = problem(count=30, batch=20)
    similarity = SIMILARITIES[name](*case.sizes)
    lifting = lift(similarity, case.patterns)
    assert lifting.is_distance
    patterns, queries = lifting.lift_patterns(case.patterns), lifting.lift_queries(case.queries)
    assert_close(patterns[:, -1], -0.5 * patterns[:, :-1].square().sum(-1))
    assert_close(queries[:, -1], torch.ones(20).double())
    nearest = torch.cdist(queries[:, :-1], patterns[:, :-1]).argmin(-1)
    assert torch.equal(nearest, similarity(case.patterns, case.queries).argmax(-1))


@pytest.mark.parametrize("name", LIFTED)
def test_more_error_is_fewer_dimensions(name: str) -> None:
    case = problem(count=300, dimensions=5, batch=60)
    similarity = SIMILARITIES[name](*case.sizes)
    sizes = [lift(similarity, case.patterns, case.queries, tolerance=each).size for each in (0.3, 0.1, 0.03)]
    assert sizes == sorted(sizes)


def test_a_pattern_is_lifted_alike_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(count=200, dimensions=3, batch=20, dtype=torch.float32)
    lifting = lift(SIMILARITIES["evidence"](3, 200), case.patterns, case.queries)
    whole = lifting.lift_patterns(case.patterns)
    for rows in (slice(0, 1), slice(3, 50), slice(199, 200), slice(7, 7)):
        assert torch.equal(lifting.lift_patterns(case.patterns[rows]), whole[rows])
    monkeypatch.setattr("ahop.scale.liftings.factored.CACHE_BYTES", 1024)
    assert torch.equal(lifting.lift_patterns(case.patterns), whole)


@given(case=gapped_problems)
def test_walking_cells_finds_the_place_that_a_search_finds(case: Problem) -> None:
    grid = torch.nan_to_num(case.patterns, 0.1).float().mT.sort(-1).values
    grid = torch.cat([grid, grid[:, -1:] + 1, grid[:, -1:] + 2], dim=-1)
    values = torch.cat([case.queries.float().mT, grid, torch.nextafter(grid, torch.tensor(9.0))], dim=-1)
    places = Places(grid)
    placed, known = places.find(values), ~values.isnan()
    assert torch.equal(placed.lower[known], places._search(values)[known])
    assert torch.equal(places._walk(values.nan_to_num(0))[known], places._search(values.nan_to_num(0))[known])
    assert bool((placed.lower[~known] == grid.shape[1]).all())
    assert bool(((placed.share >= 0) & (placed.share <= 1)).all())


def test_crowded_cells_are_searched_by_halves() -> None:
    grid = torch.cat([torch.linspace(0, 1e-6, 50), torch.tensor([1e6])]).unsqueeze(0)
    assert Places(grid)._steps > MOST_STEPS
    assert Places(grid).find(torch.tensor([[5e5]])).lower.item() == 49


def test_what_does_not_fit_is_refused_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem()
    lifting = lift(ahop.DotSimilarity(), case.patterns)
    monkeypatch.setattr("ahop._core.free_memory.free_bytes", lambda: 100)
    with pytest.raises(InsufficientMemoryError, match="GiB are free"):
        lifting.lift_patterns(case.patterns)
    monkeypatch.setattr("ahop._core.free_memory.free_bytes", lambda: None)
    check_free_memory(2**60, "anything")


@pytest.mark.parametrize("name", LIFTED)
def test_liftings_need_no_queries(name: str) -> None:
    case = problem(count=50, batch=9)
    similarity = SIMILARITIES[name](*case.sizes)
    lifting = lift(similarity, case.patterns)
    assert lifting.lift_queries(case.queries[:0]).shape == (0, lifting.size)
    assert lifting_module.lift(similarity, case.patterns, case.queries[:0]).size > 0
