"""The members of a pool: practitioners' metrics, transforms in front of them, and what is made of several."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import braycurtis, correlation, cosine
from scipy.stats import rankdata
from torch import Tensor, nn
from torch.testing import assert_close

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.similarities.base import Similarity
from ahop.transforms.base import Transform
from tests.catalogue import TRANSFORMS, bounded_products, evidence, moved_aligned, shaken
from tests.strategies import problem, with_gaps

NONE = float("nan")
LOWEST = torch.finfo(torch.float64).min
every_transform = pytest.mark.parametrize("name", TRANSFORMS)


# Metrics.


@pytest.mark.parametrize(
    ("similarity", "truth"),
    [
        (ahop.similarities.CosineSimilarity(), lambda a, b: 1 - cosine(a, b)),
        (ahop.similarities.CorrelationSimilarity(), lambda a, b: 1 - correlation(a, b)),
    ],
    ids=["cosine", "correlation"],
)
def test_a_metric_is_that_of_scipy(similarity: Similarity, truth: object) -> None:
    case = problem(count=6, dimensions=9)
    assert callable(truth)
    expected = [[truth(query, pattern) for pattern in case.patterns.numpy()] for query in case.queries.numpy()]
    assert_close(similarity(case.patterns, case.queries), torch.tensor(expected))


def test_sorensen_is_the_distance_of_bray_and_curtis() -> None:
    case = problem(count=6, dimensions=9)
    patterns, queries = case.patterns.abs(), case.queries.abs()
    expected = [[-braycurtis(query, pattern) for pattern in patterns.numpy()] for query in queries.numpy()]
    assert_close(ahop.similarities.SorensenSimilarity()(patterns, queries), torch.tensor(expected))


@pytest.mark.parametrize(
    "similarity",
    [
        ahop.similarities.CosineSimilarity(),
        ahop.similarities.CorrelationSimilarity(),
        ahop.similarities.SorensenSimilarity(),
    ],
    ids=repr,
)
def test_rows_without_content_score_zero(similarity: Similarity) -> None:
    patterns = torch.tensor([[0.0, 0.0, 0.0], [NONE, 0.0, 0.0]])
    queries = torch.tensor([[0.0, 0.0, 0.0]])
    assert torch.equal(similarity(patterns[:1], queries), torch.zeros(1, 1))
    assert torch.equal(similarity(patterns, queries), torch.zeros(1, 2))


@pytest.mark.parametrize("gaps", [False, True])
def test_a_constant_row_correlates_with_nothing(gaps: bool) -> None:
    patterns = torch.full((2, 7), 0.1)
    queries = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))
    if gaps:
        queries[:, 2] = NONE
    assert torch.equal(ahop.similarities.CorrelationSimilarity()(patterns, queries), torch.zeros(3, 2))


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    "similarity", [ahop.similarities.CosineSimilarity(), ahop.similarities.SorensenSimilarity()], ids=repr
)
@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_the_unit_of_measurement_does_not_matter(similarity: Similarity, gaps: bool, factor: float) -> None:
    case = problem(dtype=torch.float32)
    if gaps:
        case = with_gaps(case)
    scaled = similarity(factor * case.patterns, factor * case.queries)
    assert_close(scaled, similarity(case.patterns, case.queries), rtol=1e-4, atol=1e-5)


def test_what_is_added_to_a_row_does_not_change_its_correlation() -> None:
    case = with_gaps(problem(count=8, dimensions=12))
    moved = ahop.similarities.CorrelationSimilarity()(case.patterns, 3 * case.queries + 100)
    assert_close(moved, ahop.similarities.CorrelationSimilarity()(case.patterns, case.queries))


def test_what_only_one_side_has_costs_no_digits() -> None:
    patterns = torch.tensor([[1e6, 1.0, 2.0], [NONE, 1.5, 2.0]])
    queries = torch.tensor([[NONE, 1.0, 3.0]])
    expected = torch.tensor([[-1 / 7, -1.5 / 7.5]])
    assert_close(ahop.similarities.SorensenSimilarity()(patterns, queries), expected)


# Transforms.


@every_transform
@pytest.mark.parametrize("dimensions", [1, 2, 7])
def test_a_transform_says_how_many_dimensions_it_leaves_and_whether_gaps(name: str, dimensions: int) -> None:
    transform = TRANSFORMS[name]
    rows = with_gaps(problem(count=20, dimensions=dimensions)).patterns
    behind = transform(rows)
    assert behind.shape == (20, transform.dimensions_out(dimensions))
    assert bool(behind.isnan().any()) != transform.fills_gaps
    assert bool(behind[rows.isnan().all(-1)].isnan().all()) != transform.fills_gaps
    assert bool(transform(rows[~rows.isnan().any(-1)]).isfinite().all())


@every_transform
def test_each_row_is_transformed_on_its_own_whatever_the_axes(name: str) -> None:
    rows = with_gaps(problem(count=6)).patterns
    alone = torch.cat([TRANSFORMS[name](row.unsqueeze(0)) for row in rows])
    assert_close(TRANSFORMS[name](rows), alone, equal_nan=True)
    assert_close(TRANSFORMS[name](rows.view(2, 3, 4)).flatten(0, 1), alone, equal_nan=True)


@every_transform
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_transform_keeps_the_dtype_and_stays_finite(name: str, dtype: torch.dtype) -> None:
    rows = torch.tensor([[1e30, -1e30, 0.0], [1e-40, 0.0, 1e30], [1e30, 1e30, 1e30]], dtype=dtype)
    behind = TRANSFORMS[name](rows)
    assert behind.dtype == dtype
    assert bool(behind.isfinite().all())


@every_transform
def test_the_slope_of_a_transform_is_finite_and_zero_at_gaps(name: str) -> None:
    rows = with_gaps(problem(count=20)).patterns.requires_grad_()
    behind = TRANSFORMS[name](rows)
    if behind.requires_grad:
        (slope,) = torch.autograd.grad(behind.nan_to_num().square().sum(), rows)
        assert bool(slope.isfinite().all())
        assert not bool(slope[rows.isnan()].any())


def test_the_standard_normal_variate_has_mean_zero_and_deviation_one() -> None:
    rows = problem(count=5, dimensions=8).patterns
    rows[0, 3], rows[1] = NONE, 0.1
    behind = ahop.transforms.SNVTransform()(5 * rows + 3)
    assert_close(behind.nanmean(-1), torch.zeros(5).double())
    assert_close(behind.square().nanmean(-1), torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0]).double())


def test_a_difference_is_missing_where_either_value_is() -> None:
    rows = torch.tensor([[1.0, 3.0, NONE, 4.0, 6.0]])
    assert_close(ahop.transforms.DifferenceTransform()(rows), torch.tensor([[2.0, NONE, NONE, 2.0]]), equal_nan=True)


def test_a_power_begins_at_the_floor_and_takes_silence_for_nothing() -> None:
    rows = torch.tensor([[-105.0, -120.0, 0.0, -52.5, NONE]])
    assert_close(
        ahop.transforms.PowerTransform(-105.0, 0.0, 2.0, missing=0.0)(rows), torch.tensor([[0.0, 0.0, 1.0, 0.25, 0.0]])
    )
    kept = ahop.transforms.PowerTransform(-105.0, 0.0)(rows)
    assert_close(kept, torch.tensor([[0.0, 0.0, 1.0, 0.5, NONE]]), equal_nan=True)


def test_a_logarithm_is_that_of_one_more() -> None:
    rows = torch.tensor([[-1.0, 0.0, 10.0, NONE]])
    assert_close(
        ahop.transforms.LogTransform(0.0, 5.0, missing=0.0)(rows), torch.tensor([[0.0, 0.0, np.log(3.0), 0.0]]).float()
    )


def test_ranks_are_those_of_scipy_among_what_was_observed() -> None:
    rows = torch.randint(0, 4, (30, 9), generator=torch.Generator().manual_seed(0)).double()
    rows = rows.masked_fill(torch.rand(30, 9, generator=torch.Generator().manual_seed(1)) < 0.3, NONE)
    for row, behind in zip(rows, ahop.transforms.RankTransform()(rows), strict=True):
        seen = ~row.isnan()
        ranks = torch.from_numpy(rankdata(row[seen].numpy()))
        assert_close(behind[seen], 2 * (ranks - 1) / (len(ranks) - 1) - 1)
        assert torch.equal(behind.isnan(), ~seen)


def test_columns_are_selected_in_their_order_and_must_be_there() -> None:
    rows = torch.tensor([[1.0, NONE, 3.0]])
    assert_close(ahop.transforms.SelectTransform([2, 1])(rows), torch.tensor([[3.0, NONE]]), equal_nan=True)
    with pytest.raises(ShapeError, match="column 3"):
        ahop.transforms.SelectTransform([3])(rows)
    for places in ([], [0, 0], [-1]):
        with pytest.raises(InvalidValueError):
            ahop.transforms.SelectTransform(places)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ahop.transforms.PowerTransform(1.0, 1.0),
        lambda: ahop.transforms.LogTransform(0.0, NONE),
        lambda: ahop.transforms.PowerTransform(0.0, 1.0, exponent=0.0),
        lambda: ahop.transforms.PowerTransform(0.0, 1.0, missing=NONE),
    ],
)
def test_a_range_that_is_none_is_refused(make: type[Transform]) -> None:
    with pytest.raises(InvalidValueError, match="must be"):
        make()


# Similarities that are made of others.


def test_a_transformed_similarity_is_the_base_of_transformed_rows() -> None:
    case = with_gaps(problem(count=9, dimensions=6))
    for transform in TRANSFORMS.values():
        similarity = ahop.similarities.TransformedSimilarity(ahop.EuclideanSimilarity(), transform)
        expected = ahop.EuclideanSimilarity()(transform(case.patterns), transform(case.queries))
        assert torch.equal(similarity(case.patterns, case.queries), expected)


def test_pairs_that_share_nothing_behind_a_transform_have_the_lowest_score() -> None:
    patterns = torch.tensor([[1.0, 2.0, NONE, NONE], [1.0, 2.0, 4.0, 7.0]])
    queries = torch.tensor([[NONE, 2.0, 3.0, 4.0]])
    similarity = ahop.similarities.TransformedSimilarity(
        ahop.EuclideanSimilarity(), ahop.transforms.DifferenceTransform()
    )
    scores = similarity(patterns, queries)
    assert scores[0, 0] == torch.finfo(torch.float32).min
    assert scores[0, 1] == -1.5 * (1 + 4)


def test_an_aligned_similarity_takes_off_what_a_device_adds_and_multiplies() -> None:
    case = problem(count=9, dimensions=6)
    for base in (ahop.similarities.SorensenSimilarity(), evidence(6), shaken(ahop.AdaptiveSimilarity(6))):
        similarity = moved_aligned(base, 6)
        received = case.queries * similarity.gain + similarity.offset
        assert_close(similarity(case.patterns, received), base(case.patterns, case.queries))
        assert_close(similarity.aligned(received), case.queries)


def test_a_fresh_aligned_similarity_is_its_base() -> None:
    case = with_gaps(problem())
    scores = ahop.similarities.AlignedSimilarity(ahop.similarities.CosineSimilarity(), 4)(case.patterns, case.queries)
    assert torch.equal(scores, ahop.similarities.CosineSimilarity()(case.patterns, case.queries))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda base: ahop.similarities.TransformedSimilarity(base, ahop.transforms.SNVTransform()),
        lambda base: moved_aligned(base, 4),
        lambda base: ahop.similarities.PooledSimilarity([base, ahop.DotSimilarity()]),
    ],
)
def test_rows_and_growth_reach_the_parts(wrap: type[ahop.similarities.AlignedSimilarity]) -> None:
    case = problem()
    similarity = wrap(shaken(ahop.similarities.IsolatedSimilarity(5, 4)))  # type: ignore[call-arg]
    whole = similarity(case.patterns, case.queries)
    rows = torch.tensor([4, 0])
    assert_close(similarity.rows(rows)(case.patterns[rows], case.queries), whole[:, rows])
    more = torch.cat([case.patterns, case.patterns[:2]])
    assert_close(similarity.grown(2)(more, case.queries)[:, :5], whole)


# Pools.


def pooled(weights: list[float], *members: Similarity) -> ahop.similarities.PooledSimilarity:
    similarity = ahop.similarities.PooledSimilarity(members)
    similarity.weights.copy_(torch.tensor(weights))
    return similarity


def test_a_pool_is_the_weighted_sum_of_its_members() -> None:
    case = problem()
    members = ahop.EuclideanSimilarity(), ahop.similarities.CosineSimilarity(), evidence(4)
    similarity = pooled([0.5, 2.0, 0.0], *members)
    first, second, _ = (member(case.patterns, case.queries) for member in members)
    assert_close(similarity(case.patterns, case.queries), 0.5 * first + 2 * second)
    assert similarity.names == ["EuclideanSimilarity", "CosineSimilarity", "EvidenceSimilarity"]


def test_a_pool_in_a_pool_is_one_pool() -> None:
    case = problem()
    nested = pooled(
        [2.0, 1.0], pooled([0.5, 3.0], ahop.DotSimilarity(), ahop.similarities.CosineSimilarity()), evidence(4)
    )
    flat = pooled([1.0, 6.0, 1.0], ahop.DotSimilarity(), ahop.similarities.CosineSimilarity(), evidence(4))
    assert_close(nested(case.patterns, case.queries), flat(case.patterns, case.queries))


def test_what_a_member_does_not_know_is_as_bad_as_the_worst_that_it_knows() -> None:
    patterns = torch.tensor([[1.0, NONE], [2.0, 5.0], [4.0, NONE]]).double()
    queries = torch.tensor([[3.0, NONE], [NONE, 1.0], [NONE, NONE]]).double()
    similarity = pooled(
        [1.0, 0.5], ahop.similarities.ManhattanSimilarity(), ahop.similarities.CallableSimilarity(bounded_products)
    )
    other = 0.5 * bounded_products(patterns, queries)
    known = torch.tensor([[-4.0, -2.0, -2.0], [-8.0, -8.0, -8.0], [0.0, 0.0, 0.0]]).double()
    assert_close(similarity(patterns, queries), known + other)


def test_a_query_that_no_member_knows_has_the_lowest_scores() -> None:
    patterns = torch.tensor([[1.0, NONE], [2.0, 5.0]]).double()
    queries = torch.tensor([[NONE, NONE], [1.0, NONE]]).double()
    members = (
        ahop.similarities.ManhattanSimilarity(),
        ahop.similarities.CosineSimilarity(),
        ahop.similarities.CallableSimilarity(bounded_products),
    )
    scores = pooled([1.0, 0.5, 0.0], *members)(patterns, queries)
    assert torch.equal(scores == LOWEST, torch.tensor([[True, True], [False, False]]))


def test_members_that_contradict_each_other_at_the_edge_of_numbers_give_finite_scores() -> None:
    rows = torch.tensor([[1e300, 1e300], [-1e300, 1e300]]).double()
    scores = pooled(
        [5.0, 3.0, 2.0], ahop.DotSimilarity(), ahop.similarities.ManhattanSimilarity(), ahop.DotSimilarity()
    )(rows, rows)
    assert bool(scores.isfinite().all())


def test_a_memory_shows_a_pool_all_patterns_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    case = with_gaps(problem(count=30, dimensions=5, batch=12), 0.5)
    for similarity in (
        pooled([1.0, 2.0], ahop.similarities.ManhattanSimilarity(), ahop.similarities.CosineSimilarity()),
        moved_aligned(
            pooled([1.0, 2.0], ahop.similarities.ManhattanSimilarity(), ahop.similarities.CosineSimilarity()), 5
        ),
    ):
        memory = ahop.AssociativeMemory(case.patterns, similarity)
        weights = memory.weights(case.queries)
        monkeypatch.setattr("ahop.memory.scoring.BLOCK_BYTES", 200)
        monkeypatch.setattr("ahop.memory.scoring.COLUMNS_A_ROW", 0)
        recalled = memory.recall(case.queries, k=4)
        assert_close(recalled.posterior, weights.topk(4).values)
        assert memory.recall(case.queries[:0], k=4).indices.shape == (0, 4)


@pytest.mark.parametrize(("members", "names"), [([], None), ([ahop.DotSimilarity()], ["one", "two"])])
def test_a_pool_needs_members_and_a_name_for_each(members: list[Similarity], names: list[str] | None) -> None:
    with pytest.raises(InvalidValueError, match=r"at least one|one name for each"):
        ahop.similarities.PooledSimilarity(members, names)


# Functions.


def test_a_function_may_answer_with_an_array_of_whole_numbers() -> None:
    case = problem()
    counting = ahop.similarities.CallableSimilarity(
        lambda patterns, queries: np.ones((len(queries), len(patterns)), dtype=int)
    )
    assert torch.equal(counting(case.patterns, case.queries), torch.ones(3, 5).double())


def test_a_trained_network_is_a_similarity() -> None:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(4, 2)

        def forward(self, patterns: Tensor, queries: Tensor) -> Tensor:
            embedded: Tensor = self.embed(queries) @ self.embed(patterns).mT
            return embedded

    similarity = ahop.similarities.CallableSimilarity(Network())
    case = problem(dtype=torch.float32)
    assert len(list(similarity.parameters())) == 2
    assert ahop.AssociativeMemory(case.patterns, similarity).recall(case.queries).indices.shape == (3, 1)
    assert "\n" not in repr(similarity)


def test_scores_that_cannot_be_are_refused_with_the_mend() -> None:
    case = problem()
    with pytest.raises(
        ShapeError, match=r"'mine' must give scores of shape \(3, 5\).*got \(5, 3\)\. Turn them by `.T`"
    ):
        ahop.similarities.CallableSimilarity(lambda p, q: p @ q.mT, "mine")(case.patterns, case.queries)
    with pytest.raises(ShapeError, match="one row for each query"):
        ahop.similarities.CallableSimilarity(lambda p, q: p)(case.patterns, case.queries)
    with pytest.raises(InvalidValueError, match=r"must give finite scores.*leave them out"):
        ahop.similarities.CallableSimilarity(lambda p, q: q @ p.mT)(case.patterns, with_gaps(case).queries)


def test_what_is_no_function_is_refused(unchecked: None) -> None:
    with pytest.raises(InvalidTypeError, match=r"must be a function.*without calling it"):
        ahop.similarities.CallableSimilarity(3.0)  # type: ignore[arg-type]


def test_a_memory_with_a_function_says_that_it_cannot_be_saved(tmp_path: Path) -> None:
    function = ahop.similarities.CallableSimilarity(bounded_products)
    for similarity in (function, ahop.similarities.PooledSimilarity([ahop.DotSimilarity(), function])):
        memory = ahop.AssociativeMemory(problem().patterns, similarity)
        with pytest.raises(UnsupportedError, match=r"'bounded_products', cannot be saved.*build it anew"):
            memory.save(tmp_path / "memory.ahop")
    assert not list(tmp_path.iterdir())
