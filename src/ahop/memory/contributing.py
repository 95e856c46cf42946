"""Contributions of dimensions to the scores of one query, of the parts that plans know. Torch is not needed.

Formulas as the similarities have them, in double precision; values that are stored behind a transform are rounded, as a
plan stores them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, pi
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahop._core.arrays import to_numpy
from ahop._core.blocks import TEMPORARY_BYTES, blocks
from ahop.memory.planning import kind_of

Values: TypeAlias = NDArray[np.float64]
# What a pair scores that shares nothing.
LOWEST: Final = float(np.finfo(np.float32).min)
# Standard deviations within which an entry may have been kept.
KEPT_WITHIN = 6.0
LEAST_WIDTH = 1e-30


@dataclass(frozen=True)
class Said:
    """Contributions to the scores of n rows: their sum is the score itself.

    Attributes:
        dimensions: (n, d) what each dimension adds.
        known: (n,) whether a row shares anything with the query.
        wholes: (n,) what only the whole vector says, by name.
        is_kept: (n, d) whether each entry of the query was rather kept than an outlier; None if nothing tells.
    """

    dimensions: Values
    known: NDArray[np.bool_]
    wholes: dict[str, Values]
    is_kept: NDArray[np.bool_] | None = None

    @classmethod
    def of_whole(cls, name: str, scores: Values, dimensions: int) -> "Said":
        """Contribution of what is no sum over dimensions."""
        return cls(np.zeros((len(scores), dimensions)), scores > LOWEST, {name: scores})

    @property
    def total(self) -> Values:
        found: Values = sum(self.wholes.values(), self.dimensions.sum(-1))
        return found

    @property
    def scores(self) -> Values:
        return np.where(self.known, self.total, LOWEST)


def contributions(similarity: Any, stored: NDArray[Any], query: NDArray[Any], every: NDArray[Any]) -> Said:
    """Contributions of a model that a plan knows.

    Args:
        stored: (n, d) some of the rows.
        query: (d,).
        every: all that is stored: of a pool, a member that knows nothing of a row counts as its worst.
    """
    rows, asked = stored.astype(np.float64), query.astype(np.float64)
    if kind_of(similarity) != "PooledSimilarity":
        return _said(similarity, rows, asked)
    total = Said(np.zeros(rows.shape), np.ones(len(rows), bool), {})
    for name, weight, member in zip(
        similarity.names, to_numpy(similarity.weights).tolist(), similarity.members, strict=True
    ):
        own = _said(member, rows, asked)
        if own.known.all():
            wholes = {name: sum(own.wholes.values(), np.zeros(len(rows)))} if own.wholes else {}
        else:
            filled = np.where(own.known, own.scores, _worst(member, every, asked))
            own, wholes = Said.of_whole(name, filled, rows.shape[1]), {name: filled}
        for key, each in wholes.items():
            total.wholes[key] = total.wholes.get(key, 0.0) + weight * each
        is_kept = own.is_kept if total.is_kept is None else total.is_kept
        total = replace(total, dimensions=total.dimensions + weight * own.dimensions, is_kept=is_kept)
    return total


def _worst(member: Any, every: NDArray[Any], query: Values) -> float:
    """The worst score that the member knows; zero if it knows none."""
    worst = np.inf
    for rows in blocks(len(every), 64 * every.shape[1], TEMPORARY_BYTES):
        said = _said(member, every[rows].astype(np.float64), query)
        worst = min(worst, float(np.min(said.total, initial=np.inf, where=said.known)))
    return worst if worst < np.inf else 0.0


def _said(similarity: Any, stored: Values, query: Values) -> Said:
    with np.errstate(over="ignore", under="ignore"):
        return SAID[kind_of(similarity)](similarity, stored, query)


def _addends(formula: Callable[[Values, Values], Values]) -> Callable[[Any, Values, Values], Said]:
    """A sum over dimensions: each gap holds the mean of what was observed of its pair, zero if nothing was."""

    def said(similarity: Any, stored: Values, query: Values) -> Said:
        shared = ~np.isnan(stored) & ~np.isnan(query)
        values = np.where(shared, formula(stored, query), 0)
        count = shared.sum(-1, keepdims=True)
        mean = values.sum(-1, keepdims=True) / np.maximum(count, 1)
        return Said(np.where(shared, values, mean), count[:, 0] > 0, {})

    return said


def _whole(formula: Callable[[Values, Values], Values]) -> Callable[[Any, Values, Values], Said]:
    """A formula for the whole of what both sides have, with zeros elsewhere."""

    def said(similarity: Any, stored: Values, query: Values) -> Said:
        shared = ~np.isnan(stored) & ~np.isnan(query)
        scores = formula(np.where(shared, stored, 0), np.where(shared, query, 0))
        return Said.of_whole(kind_of(similarity), np.where(shared.any(-1), scores, LOWEST), stored.shape[1])

    return said


def _cosine(stored: Values, query: Values) -> Values:
    lengths = np.sqrt(np.square(stored).sum(-1)) * np.sqrt(np.square(query).sum(-1))
    products = (stored * query).sum(-1)
    found: Values = np.clip(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0), -1, 1)
    return found


def _sorensen(stored: Values, query: Values) -> Values:
    totals = (np.abs(stored) + np.abs(query)).sum(-1)
    found: Values = -np.clip(np.abs(stored - query).sum(-1) / np.where(totals > 0, totals, 1), 0, 1)
    return found


def _aligned(similarity: Any, stored: Values, query: Values) -> Said:
    return _said(similarity.base, stored, (query - to_numpy(similarity.offset)) / to_numpy(similarity.gain))


def _debiased(similarity: Any, stored: Values, query: Values) -> Said:
    return replace(_said(similarity.base, stored, query - to_numpy(similarity.bias)), is_kept=None)


def _transformed(similarity: Any, stored: Values, query: Values) -> Said:
    """By dimension where the transform keeps these apart, as their number tells."""
    if kind_of(similarity.transform) == "SelectTransform":
        places = list(similarity.transform.places)
        return _among(_said(similarity.base, stored[:, places], query[places]), places, stored.shape[1])
    rows = _behind(similarity.transform, stored).astype(np.float32).astype(np.float64)
    said = _said(similarity.base, rows, _behind(similarity.transform, query[None])[0])
    return said if rows.shape == stored.shape else Said.of_whole(kind_of(similarity), said.scores, stored.shape[1])


def _among(said: Said, places: list[int], dimensions: int) -> Said:
    """Contributions of some dimensions among all; the others add zero."""
    spread, kept = np.zeros((len(said.dimensions), dimensions)), np.ones((len(said.dimensions), dimensions), bool)
    spread[:, places] = said.dimensions
    if said.is_kept is None:
        return replace(said, dimensions=spread)
    kept[:, places] = said.is_kept
    return replace(said, dimensions=spread, is_kept=kept)


def _behind(transform: Any, rows: Values) -> Values:
    kind = kind_of(transform)
    if kind == "DifferenceTransform":
        return np.diff(rows) if rows.shape[1] > 1 else np.where(np.isnan(rows), np.nan, 0.0)
    if kind == "SNVTransform":
        return _variate(rows)
    share = np.maximum(0, (rows - transform.low) / (transform.high - transform.low))
    found = np.log1p(share) if kind == "LogTransform" else np.where(share > 0, share**transform.exponent, 0 * share)
    return np.where(np.isnan(rows), np.nan if transform.missing is None else transform.missing, found)


def _variate(rows: Values) -> Values:
    seen = ~np.isnan(rows)
    values, count = np.where(seen, rows, 0), np.maximum(seen.sum(-1, keepdims=True), 1)
    apart = np.where(seen, rows - values.sum(-1, keepdims=True) / count, 0)
    least = np.min(rows, -1, keepdims=True, initial=np.inf, where=seen)
    varies = least < np.max(rows, -1, keepdims=True, initial=-np.inf, where=seen)
    squares = np.square(apart).sum(-1, keepdims=True)
    scale = np.where(varies, np.sqrt(count / np.where(varies, squares, 1)), 0)
    return np.where(seen, apart * scale, np.nan)


def _additive(similarity: Any, stored: Values, query: Values) -> Said:
    asked = _hats(to_numpy(similarity.query_places), query[None])[0]
    held = _hats(to_numpy(similarity.pattern_places), stored)
    mixing, tables = (to_numpy(each).astype(np.float64) for each in (similarity.mixing, similarity.tables))
    profiles = np.einsum("dq,dr,rqp->dp", asked, mixing, tables, optimize=True)
    of_values = np.einsum("ndp,dp->nd", held, profiles)
    silence = float(to_numpy(similarity.gap_weight)) * _silence(similarity.missingness, stored, query)
    return Said(of_values + silence, np.ones(len(stored), bool), {})


def _hats(places: NDArray[Any], values: Values) -> Values:
    """Hat functions (n, d, knots) on the knots of each dimension; flat beyond them, nothing at NaN."""
    found = np.zeros((*values.shape, places.shape[1]))
    for column, knots in enumerate(places.astype(np.float64)):
        known = ~np.isnan(values[:, column])
        inside = np.clip(values[known, column], knots[0], knots[-1])
        upper = np.clip(np.searchsorted(knots, inside), 1, len(knots) - 1)
        low, wide = knots[upper - 1], knots[upper] - knots[upper - 1]
        share = np.where(wide > 0, (inside - low) / np.where(wide > 0, wide, 1), 0)
        rows = known.nonzero()[0]
        found[rows, column, upper - 1] = 1 - share
        found[rows, column, upper] = share
    return found


def _evidence(similarity: Any, stored: Values, query: Values) -> Said:
    variant = similarity.variant
    gain, bias, std, rate = (
        to_numpy(each).astype(np.float64) for each in (variant.gain, variant.bias, variant.std, variant.outlier_rate)
    )
    shared = ~np.isnan(query) & ~np.isnan(stored)
    asked, held = (np.where(np.isnan(each), 0, each) for each in (query, stored))
    outlier = _outliers(variant, asked) + np.log(rate)
    kept = np.log1p(-rate) - 0.5 * log(2 * pi)
    quantiles = gain[:, None] * to_numpy(variant.population).astype(np.float64)
    reach = np.pad(quantiles, ((0, 0), (1, 1)), mode="edge")
    wide = np.hypot(std[:, None], (reach[:, 2:] - reach[:, :-2]) / 2)
    bumps = _bump((asked[:, None] - quantiles) / wide, bias[:, None] / wide, variant.signs) - np.log(wide)
    marginal = np.logaddexp(kept + np.logaddexp.reduce(bumps, -1) - log(quantiles.shape[1]), outlier)
    bump = _bump((asked - gain * held) / std, bias / std, variant.signs)
    exponent = bump + kept - np.log(std) - outlier
    values = np.where(shared, np.logaddexp(0, exponent) + outlier - marginal, 0)
    is_kept = shared & (exponent > 0) & (bump > -0.5 * KEPT_WITHIN**2 - log(2))
    return Said(values + _silence(variant.missingness, stored, query), np.ones(len(stored), bool), {}, is_kept)


def _outliers(variant: Any, values: Values) -> Values:
    """Logarithm of their density. In single precision as elsewhere: a step may begin at this very value."""
    low, high = to_numpy(variant.outliers.ends).astype(np.float32)
    heights = to_numpy(variant.outliers.log_density).astype(np.float64)
    width = max(np.float32(high - low) / np.float32(len(heights)), np.float32(LEAST_WIDTH))
    scale = to_numpy(variant.scale).astype(np.float32)
    place = (values.astype(np.float32) - to_numpy(variant.center).astype(np.float32)) / scale
    step = np.clip((place - low) / width, 0, len(heights) - 1).astype(np.int64)
    beyond = np.maximum(np.maximum(low - place, place - high), 0) / width
    found: Values = heights[step] - beyond - np.log(scale.astype(np.float64))
    return found


def _bump(deviation: Values, shift: Values, signs: bool) -> Values:
    r"""$-(z - s)^2 / 2$; with signs, the logarithm of the mean of that to either side."""
    low: Values = -0.5 * np.square(deviation - shift)
    return np.logaddexp(low, -0.5 * np.square(deviation + shift)) - log(2) if signs else low


def _silence(missingness: Any, stored: Values, query: Values) -> Values:
    """Log-likelihood ratio of each dimension by being there or not."""
    shifts = to_numpy(missingness.shifts).astype(np.float64)
    if not shifts.any():
        return np.zeros(stored.shape)
    edges = to_numpy(missingness.edges).astype(np.float32)
    level = (stored.astype(np.float32)[..., None] > edges).sum(-1)
    level = np.where(np.isnan(stored), edges.shape[-1] + 1, level)
    base = to_numpy(missingness.base).astype(np.float64)
    moved = base + shifts[level]
    gap: Values = np.logaddexp(0, -base) - np.logaddexp(0, -moved)
    value: Values = np.logaddexp(0, base) - np.logaddexp(0, moved)
    return np.where(np.isnan(query), gap, value)


def _likelihood(similarity: Any, stored: Values, query: Values) -> Said:
    said = _evidence(similarity, stored, query)
    return Said.of_whole(kind_of(similarity), said.total, stored.shape[1])


SAID: Final[dict[str, Callable[[Any, Values, Values], Said]]] = {
    "DotSimilarity": _addends(lambda stored, query: stored * query),
    "EuclideanSimilarity": _addends(lambda stored, query: -np.square(stored - query)),
    "ManhattanSimilarity": _addends(lambda stored, query: -np.abs(stored - query)),
    "CosineSimilarity": _whole(_cosine),
    "SorensenSimilarity": _whole(_sorensen),
    "AlignedSimilarity": _aligned,
    "DebiasedSimilarity": _debiased,
    "TransformedSimilarity": _transformed,
    "AdditiveSimilarity": _additive,
    "EvidenceSimilarity": _evidence,
    "LikelihoodSimilarity": _likelihood,
}
