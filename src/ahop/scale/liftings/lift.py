"""Lift similarities to inner products, so that any inner-product engine can search them."""

from dataclasses import dataclass, replace
from functools import singledispatch

import torch
from torch import Generator, Tensor

from ahop._core.checks import check_count, check_kind, check_positive
from ahop._core.inputs import as_patterns, as_queries
from ahop._core.missing import holds_nan, midpoints, quantiles
from ahop._core.missingness import Missingness
from ahop._core.tensors import all_finite, lowest
from ahop._core.typing import AnyQueries, Array, Patterns
from ahop.errors import UnsupportedError
from ahop.memory.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.scale.liftings.base import Lifting, refuse_gaps
from ahop.scale.liftings.factored import factor
from ahop.scale.liftings.forward import ForwardLifting
from ahop.scale.liftings.gaussian import NuisanceLifting
from ahop.scale.liftings.products import CosineLifting, DotLifting, QuadraticLifting
from ahop.scale.liftings.wrapping import MovedLifting, SumLifting, TransformedLifting
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import DecomposableSimilarity, Similarity
from ahop.similarities.correlation import CorrelationSimilarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.forward import ForwardSimilarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.similarities.unified import UnifiedSimilarity
from ahop.variants.mixture import MixtureVariant
from ahop.variants.noisy import NoisyVariant
from ahop.variants.nuisance import NuisanceVariant

# Patterns and queries that ranks are chosen and errors are measured on.
WEIGHED, MEASURED, ASKED = 4096, 512, 256
# Places of a stored value, coarse to fine: the first that keeps the tolerance is taken.
GRIDS = (33, 65, 129, 257, 513)
# By how much more terms are taken if those that should have been enough were not.
GROWTH = 1.25
# Shares of the tolerance that the members of a pool may use up, tried one after the other: their errors add up.
MEMBERS_SHARES = (1.0, 0.5, 0.2)
# Their parts may know nothing of a query that is not empty.
MADE_OF_OTHERS = (AlignedSimilarity, PooledSimilarity, TransformedSimilarity)


@torch.no_grad()
def lift(
    similarity: Similarity,
    patterns: Array,
    queries: Array | None = None,
    *,
    tolerance: float = 0.05,
    gaps: bool | None = None,
    most_dimensions: int = 4096,
    seed: int = 0,
) -> Lifting:
    r"""The similarity as $a(x)^\top c(\xi)$, up to a number for each query, which no ranking and no softmax sees.

    Inner products and distances are lifted exactly, and directions (cosine, correlation) for complete queries. Sums
    over dimensions (mixtures, tables, Manhattan) keep as many terms of each dimension as the tolerance asks for, a
    nuisance with a gain as many directions. What is transformed, aligned or pooled is lifted as its parts are.

    Args:
        patterns: the stored ones, which the places, terms and errors are measured on.
        queries: what will be asked, such as the copies of the pairs. If None, they are drawn from the similarity
            where it knows how, else from the patterns.
        tolerance: the largest root mean square of the error, as a share of the spread of a query's exact scores.
        gaps: distances only: queries may have gaps. If None, as the queries that are given.
        most_dimensions: what a lifted vector may have.

    Raises:
        UnsupportedError: it cannot be lifted at all, or not within the tolerance.

    Example:
        >>> lifting = lift(EuclideanSimilarity(), torch.eye(3))
        >>> (lifting.lift_queries(torch.eye(3)) @ lifting.lift_patterns(torch.eye(3)).mT).argmax(-1)
        tensor([0, 1, 2])
    """
    check_kind("similarity", similarity, Similarity)
    tolerance, generator = check_positive("tolerance", tolerance), Generator().manual_seed(seed)
    most = check_count("most_dimensions", most_dimensions)
    stored = _some(as_patterns(patterns), WEIGHED, generator)
    asked = (
        None
        if queries is None
        else _some(as_queries(queries, stored, query_dimensions=similarity.query_dimensions), ASKED, generator)
    )
    if gaps is None:
        gaps = asked is not None and holds_nan(asked)
    if asked is not None and not similarity.missing_is_evidence:
        asked = asked[~asked.isnan().all(-1)]  # no pattern is closer to these than any other
    if asked is None or not len(asked):
        asked = typical_queries(similarity, stored, generator)
    if isinstance(similarity, MADE_OF_OTHERS):
        known = similarity(stored[:MEASURED], asked) > lowest(stored.dtype)
        asked = asked[known.all(-1)]  # the others have nothing that an error could be measured on
    try:
        lifting = lifting_of(similarity, LiftRequest(stored, asked, tolerance, gaps, most))
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise UnsupportedError(
            f"{similarity!r} cannot be lifted over these patterns, whose numbers are too large or too far apart: "
            f"{error} Scale them, or recall without an index."
        ) from error
    _measure(lifting, similarity, stored[:MEASURED], asked)
    return lifting


@dataclass(frozen=True)
class LiftRequest:
    """Request for a lifting.

    Attributes:
        patterns: some of the stored ones.
        queries: some of what will be asked.
        tolerance: as in `lift`.
        gaps: queries may have gaps.
        most: how many dimensions a lifted vector may have.
    """

    patterns: Patterns
    queries: AnyQueries
    tolerance: float
    gaps: bool
    most: int


@singledispatch
def lifting_of(similarity: Similarity, request: LiftRequest) -> Lifting:
    """The lifting of a kind of similarity. `lifting_of.register(MySimilarity)` adds one of your own."""
    raise UnsupportedError(
        f"{similarity!r} is no inner product in any space of useful size: it weighs dimensions by their rank or by "
        "one another, or is known by its scores alone. Fit an additive similarity on the same pairs "
        "(`ahop.fit(patterns, pairs=..., similarity='mixture')`), let it bring the candidates, and rerank them with "
        "this one."
    )


@lifting_of.register(DotSimilarity)
def _(similarity: DotSimilarity, request: LiftRequest) -> Lifting:
    return DotLifting(request.patterns.shape[1])


@lifting_of.register(EuclideanSimilarity)
def _(similarity: EuclideanSimilarity, request: LiftRequest) -> Lifting:
    ones = torch.ones(request.patterns.shape[1], dtype=torch.float64)
    return QuadraticLifting.of(ones, torch.zeros_like(ones), request.patterns, request.gaps)


@lifting_of.register(UnifiedSimilarity)
def _(similarity: UnifiedSimilarity, request: LiftRequest) -> Lifting:
    precision, slope = similarity.precision.double(), similarity.slope.double()
    return QuadraticLifting.of(precision, slope, request.patterns, request.gaps)


@lifting_of.register(CosineSimilarity)
@lifting_of.register(CorrelationSimilarity)
def _(similarity: Similarity, request: LiftRequest) -> Lifting:
    refuse_gaps(request.patterns)
    return CosineLifting(request.patterns.shape[1], centered=isinstance(similarity, CorrelationSimilarity))


@lifting_of.register(ForwardSimilarity)
def _(similarity: ForwardSimilarity, request: LiftRequest) -> Lifting:
    return ForwardLifting(similarity)


@lifting_of.register(DebiasedSimilarity)
def _(similarity: DebiasedSimilarity, request: LiftRequest) -> Lifting:
    moved = replace(request, queries=request.queries - similarity.bias.to(request.queries))
    return MovedLifting.of(lifting_of(similarity.base, moved), similarity.bias, torch.ones_like(similarity.bias))


@lifting_of.register(AlignedSimilarity)
def _(similarity: AlignedSimilarity, request: LiftRequest) -> Lifting:
    base = lifting_of(similarity.base, replace(request, queries=similarity.aligned(request.queries)))
    return MovedLifting.of(base, similarity.offset, similarity.gain)


@lifting_of.register(TransformedSimilarity)
def _(similarity: TransformedSimilarity, request: LiftRequest) -> Lifting:
    transform = similarity.transform
    behind = replace(
        request,
        patterns=transform(request.patterns),
        queries=transform(request.queries),
        gaps=request.gaps and not transform.fills_gaps,
    )
    return TransformedLifting(lifting_of(similarity.base, behind), transform)


@lifting_of.register(LikelihoodSimilarity)
def _(similarity: LikelihoodSimilarity, request: LiftRequest) -> Lifting:
    variant, patterns = similarity.variant, request.patterns
    if isinstance(variant, NoisyVariant):
        precision = 0.5 / variant.variance.double().expand(patterns.shape[1])
        return QuadraticLifting.of(precision, torch.zeros_like(precision), patterns, gaps=False)
    if isinstance(variant, NuisanceVariant):
        return _lift_nuisance(similarity, variant, patterns, request.queries, request.tolerance, request.most)
    if isinstance(variant, MixtureVariant):
        return lifting_of(EvidenceSimilarity(variant), request)
    return lifting_of.dispatch(Similarity)(similarity, request)  # which says that there is none


@lifting_of.register(DecomposableSimilarity)
def _(similarity: DecomposableSimilarity, request: LiftRequest) -> Lifting:
    return _lift_sum(similarity, request.patterns, request.queries, request.tolerance, request.most)


def _lift_sum(
    similarity: DecomposableSimilarity, patterns: Patterns, queries: AnyQueries, tolerance: float, most: int
) -> Lifting:
    """The fewest terms on the coarsest grid whose measured error is within the tolerance."""
    exact = similarity(patterns[:MEASURED], queries)
    allowed = tolerance * _spread(exact)
    asked = queries
    if similarity.missing_is_evidence:  # what a gap says is worth a term, however rare it is in the sample
        asked = torch.cat([queries, torch.full_like(patterns[:1], torch.nan)])
    reached = torch.inf
    for size in GRIDS:
        factors = factor(similarity, _grid(similarity, patterns, size), patterns, asked)
        if not all_finite(factors.tables) or not all_finite(factors.maps):
            break
        available = int((factors.energies > 0).sum())
        count = min(max(1, factors.needed(allowed)), max(1, available))
        while count <= most:
            lifting = factors.leading(count)
            error, _ = _errors(lifting, patterns[:MEASURED], queries, exact)
            if error <= allowed:
                return lifting
            reached = min(reached, error)
            if count >= available:
                break
            count = min(available, int(count * GROWTH) + 1)
    raise UnsupportedError(
        f"{similarity!r} cannot be lifted within `tolerance`={tolerance:g} of the spread of its scores: with at most "
        f"{most} dimensions the error is {reached:.3g}, and {allowed:.3g} is allowed. Raise the tolerance, or let a "
        "similarity with smooth addends, such as a fitted mixture, bring the candidates and rerank them with this one."
    )


@lifting_of.register(PooledSimilarity)
def _(pool: PooledSimilarity, request: LiftRequest) -> Lifting:
    """All members that have weight, each within a share of the tolerance: the largest that keeps it for their sum."""
    patterns, queries, tolerance = request.patterns, request.queries, request.tolerance
    members = [(weight, part) for weight, part in zip(pool.weights.tolist(), pool.parts(), strict=True) if weight]
    exact = pool(patterns[:MEASURED], queries)
    allowed, reached, size = tolerance * _spread(exact), torch.inf, 0
    for share in MEMBERS_SHARES:
        parts = [lifting_of(part, replace(request, tolerance=share * tolerance)) for _, part in members]
        lifting = SumLifting(parts)
        lifting.weights.copy_(torch.tensor([weight for weight, _ in members], dtype=torch.float64))
        error, _ = _errors(lifting, patterns[:MEASURED], queries, exact)
        if error <= allowed and lifting.size <= request.most:
            return lifting
        reached, size = min(reached, error), lifting.size
    raise UnsupportedError(
        f"{pool!r} cannot be lifted within `tolerance`={tolerance:g} of the spread of its scores: with {size} "
        f"dimensions, where {request.most} may be, the error is {reached:.3g}, and {allowed:.3g} is allowed. Raise the "
        "tolerance, or let one of its members bring the candidates and rerank them with this one."
    )


def _lift_nuisance(
    similarity: Similarity,
    variant: NuisanceVariant,
    patterns: Patterns,
    queries: AnyQueries,
    tolerance: float,
    most: int,
) -> Lifting:
    """The fewest products of main directions whose measured error is within the tolerance."""
    terms, dimensions = 0, variant.dimensions
    exact = similarity(patterns[:MEASURED].double(), queries.double())
    allowed, error = tolerance * _spread(exact), torch.inf
    while terms <= dimensions and dimensions + 1 + terms * (terms + 1) // 2 <= most:
        lifting = NuisanceLifting.of(variant, patterns, terms)
        error, _ = _errors(lifting, patterns[:MEASURED].double(), queries.double(), exact)
        if error <= allowed or lifting.is_distance:
            return lifting
        if terms == dimensions:
            break
        terms = min(dimensions, max(1, 2 * terms))
    raise UnsupportedError(
        f"{similarity!r} has a gain that {most} lifted dimensions do not hold: the error is {error:.3g}, and "
        f"{allowed:.3g} is allowed. Raise `tolerance` or `most_dimensions`, or rerank the candidates of a de-biased "
        "distance with it."
    )


def _grid(similarity: DecomposableSimilarity, patterns: Patterns, size: int) -> Tensor:
    """Places (d, g) of a stored value, rising: where the addend bends or jumps, and else where the values are."""
    missingness, places = _missingness(similarity), []
    if isinstance(similarity, AdditiveSimilarity):
        knots = similarity.pattern_places.float()
        is_split = bool((knots.diff(dim=-1) <= 0).any())  # two knots at one place are a jump
        places += [knots, _just_above(knots)] if is_split else [knots]
    else:
        half = (size + 1) // 2
        values = torch.where(patterns.isnan(), _middles(patterns), patterns).double()
        low, high = values.amin(0), values.amax(0)
        steps = torch.linspace(0, 1, size - half + 2, dtype=torch.float64)[1:-1]
        even = low.unsqueeze(-1) + (high - low).unsqueeze(-1) * steps
        if len(values) <= half:
            of_values = values.mT
        else:
            shares = torch.linspace(0, 1, half, dtype=torch.float64)
            of_values = values.sort(0).values[(shares * (len(values) - 1)).round().long()].mT
        distinct = _few_values(values, size)
        places += [distinct] if distinct is not None else [of_values.float(), even.float()]
    if missingness is not None and missingness.is_evidence and missingness.levels > 1:
        edges = missingness.edges.float()
        places += [edges, _just_above(edges)]
    return torch.cat(places, dim=-1).sort(-1).values.double()


def _few_values(values: Tensor, size: int) -> Tensor | None:
    """The values themselves if no dimension has more than so many, filled up with its largest."""
    found = [column.float().unique() for column in values.mT]
    most = max(map(len, found))
    if most > size:
        return None
    return torch.stack([torch.cat([each, each[-1:].expand(most - len(each))]) for each in found])


def _middles(patterns: Patterns) -> Tensor:
    return quantiles(patterns.double(), midpoints(1)).squeeze(-1).to(patterns)


def _just_above(values: Tensor) -> Tensor:
    return torch.nextafter(values, torch.full_like(values, torch.inf))


def _missingness(similarity: DecomposableSimilarity) -> Missingness | None:
    if isinstance(similarity, AdditiveSimilarity):
        return similarity.missingness
    if isinstance(similarity, EvidenceSimilarity) and isinstance(similarity.variant, MixtureVariant):
        return similarity.variant.missingness
    return None


def typical_queries(similarity: Similarity, patterns: Patterns, generator: Generator) -> AnyQueries:
    """Queries as the similarity expects them, where it knows; else patterns with as much noise as they differ by."""
    originals = patterns[torch.randint(len(patterns), (ASKED,), generator=generator)]
    if isinstance(similarity, DebiasedSimilarity):
        return typical_queries(similarity.base, patterns, generator) + similarity.bias.to(patterns)
    if isinstance(similarity, ForwardSimilarity):
        return similarity.drawn(originals, generator)
    if isinstance(similarity, AlignedSimilarity):
        gain, offset = similarity.gain.to(patterns), similarity.offset.to(patterns)
        return typical_queries(similarity.base, patterns, generator) * gain + offset
    if isinstance(similarity, PooledSimilarity):
        return typical_queries(similarity.parts()[int(similarity.weights.argmax())], patterns, generator)
    if isinstance(similarity, AdditiveSimilarity):
        low, high = similarity.query_places[:, :1], similarity.query_places[:, -1:]
        drawn = torch.rand(similarity.dimensions, ASKED, generator=generator).to(low)
        return (low + (high - low) * drawn).mT.to(patterns)
    if isinstance(similarity, EvidenceSimilarity | LikelihoodSimilarity):
        return similarity.variant.corrupt(originals, generator).to(patterns)
    spread = (patterns - patterns.nanmean(0)).square().nanmean(0).sqrt().nan_to_num(1)
    noise = torch.randn(originals.shape, generator=generator, dtype=originals.dtype)
    return torch.where(originals.isnan(), _middles(patterns), originals) + 0.5 * spread * noise


def _some(rows: Tensor, count: int, generator: Generator) -> Tensor:
    if len(rows) <= count:
        return rows.detach()
    return rows.detach()[torch.randint(len(rows), (count,), generator=generator).to(rows.device)]


def _spread(scores: Tensor) -> float:
    return float((scores - scores.mean(-1, keepdim=True)).double().square().mean().sqrt()) if scores.numel() else 0.0


def _errors(lifting: Lifting, patterns: Patterns, queries: AnyQueries, exact: Tensor) -> tuple[float, float]:
    """Root mean square and largest error, once the mean of each query is off. Rounding of float32 is forgiven."""
    lifted = lifting.lift_queries(queries.double()) @ lifting.lift_patterns(patterns.double()).mT
    error = lifted - exact.double()
    error = error - error.mean(-1, keepdim=True)
    if not error.numel():
        return 0.0, 0.0
    rounding = 1e-6 * float((exact - exact.mean(-1, keepdim=True)).abs().max()) + 1e-9 * float(1 + exact.abs().max())
    return max(0.0, float(error.square().mean().sqrt()) - rounding), float(error.abs().max())


def _measure(lifting: Lifting, similarity: Similarity, patterns: Patterns, queries: AnyQueries) -> None:
    exact = similarity(patterns.double(), queries.double())
    lifting.measured.copy_(torch.tensor(_errors(lifting, patterns, queries, exact), dtype=torch.float64))
