"""Recall by the bare formulas, in numpy and double precision, one query after the other: the truth of the others."""

from functools import singledispatch
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.missingness import Missingness
from ahop.memory.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.memory.memory import AssociativeMemory
from ahop.memory.unknown import LARGEST, UnknownDetector
from ahop.separations.softmax import Softmax
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.agreement import AgreementSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.gower import GowerSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.sorensen import SorensenSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.transforms.base import Transform
from ahop.transforms.difference import DifferenceTransform
from ahop.transforms.log import LogTransform
from ahop.transforms.power import PowerTransform
from ahop.transforms.select import SelectTransform
from ahop.transforms.snv import SNVTransform
from ahop.variants.heteroscedastic import HeteroscedasticVariant
from ahop.variants.mixture import MixtureVariant

Array: TypeAlias = NDArray[Any]
# The score of a pattern that shares nothing with the query. A prior may take it further down, to minus infinity.
NOTHING = float(np.finfo(float).min)


class Answer(NamedTuple):
    """Rows of the patterns, best first (b, k); how sure each is; how likely none is the origin, (b,)."""

    indices: Array
    posterior: Array
    unknown: Array | None


def recall(memory: AssociativeMemory, queries: Tensor, k: int = 1, group: object = None) -> Answer:
    """The k patterns that each query most likely came from.

    Raises:
        NotImplementedError: no formula of the similarity is written down here.
    """
    model, patterns = memory.model, array(memory.patterns)
    similarity = model.groups.get(str(group), model.similarity)
    prior = np.zeros(len(patterns)) if memory.log_prior is None else array(memory.log_prior)
    assert isinstance(model.separation, Softmax)
    beta, floor, k = model.separation.beta, model.separation.floor, min(k, len(patterns))
    indices, posterior, unknown = [], [], []
    with np.errstate(all="ignore"):
        for query in array(queries):
            scores = scores_of(similarity, patterns, query)
            if model.detector is not None:
                unknown.append(unknown_of(scores[prior > -np.inf], model.detector))
            weighed = np.where((scores == NOTHING).all(), 0, scores) + prior / float(beta)
            shares = np.exp(float(beta) * (weighed - weighed.max()))
            shares /= shares.sum()
            if floor:
                known = weighed > NOTHING / 2
                shares = np.where(known, (1 - floor) * shares + floor / known.sum(), 0)
            best = np.lexsort((np.arange(len(weighed)), -weighed))[:k]
            indices.append(best)
            posterior.append(shares[best])
    return Answer(np.array(indices), np.array(posterior), np.array(unknown) if unknown else None)


def array(values: Tensor) -> Array:
    """In double precision."""
    return values.detach().cpu().double().numpy()


def unknown_of(scores: Array, detector: UnknownDetector) -> float:
    """Logistic regression on four statistics of the scores."""
    known, best = scores[scores > NOTHING / 2], scores.max()
    others = np.delete(scores, scores.argmax()) if len(scores) > 1 else scores
    lead = best - np.log(np.exp(others - others.max()).mean()) - others.max()
    together = best + np.log(np.exp(scores - best).mean())
    shape = (known.mean(), known.std()) if len(known) else (0.0, 0.0)
    features = np.nan_to_num([together, lead, *shape], nan=LARGEST).clip(-LARGEST, LARGEST)
    center, scale, slopes = (array(each) for each in (detector.center, detector.scale, detector.slopes))
    log_odds = detector.log_prior_odds - float(detector.offset) - (features - center) / scale @ slopes
    return float(1 / (1 + np.exp(-log_odds)))


@singledispatch
def scores_of(similarity: Similarity, patterns: Array, query: Array) -> Array:
    """Scores of all patterns, (n,)."""
    raise NotImplementedError(repr(similarity))


@scores_of.register(DotSimilarity)
@scores_of.register(CosineSimilarity)
@scores_of.register(EuclideanSimilarity)
@scores_of.register(ManhattanSimilarity)
@scores_of.register(SorensenSimilarity)
def _(similarity: Similarity, patterns: Array, query: Array) -> Array:
    both = ~np.isnan(patterns) & ~np.isnan(query)
    x, y, shared = np.where(both, query, 0), np.where(both, patterns, 0), both.sum(-1)
    match similarity:
        case DotSimilarity():
            found = (x * y).sum(-1) * len(query) / shared
        case EuclideanSimilarity():
            found = -((x - y) ** 2).sum(-1) * len(query) / shared
        case ManhattanSimilarity():
            found = -np.abs(x - y).sum(-1) * len(query) / shared
        case CosineSimilarity():
            found = np.nan_to_num((x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1)))
        case _:
            found = -np.nan_to_num(np.abs(x - y).sum(-1) / (np.abs(x) + np.abs(y)).sum(-1))
    return np.where(shared > 0, found, NOTHING)


@scores_of.register
def _(similarity: AgreementSimilarity, patterns: Array, query: Array) -> Array:
    edges, copied, by_chance, population = (
        array(each) for each in (similarity.edges, similarity.copied, similarity.by_chance, similarity.population)
    )
    found = np.zeros(len(patterns))
    for row, pattern in enumerate(patterns):
        for column, (stored, asked) in enumerate(zip(pattern, query, strict=True)):
            if np.isnan(stored - asked):
                continue
            level = int((abs(asked - stored) > edges[column]).sum())
            reach = [-1.0, *edges[column], np.inf]
            values = population[column]
            low, high = stored - reach[level], stored + reach[level]
            nearer = 0 if level == 0 else ((values >= low) & (values <= high)).sum()
            low, high = stored - reach[level + 1], stored + reach[level + 1]
            met = ((values >= low) & (values <= high)).sum() - nearer
            chance = (met + by_chance[column, level]) / (len(values) + 1)
            found[row] += np.log(copied[column, level]) - np.log(chance)
    return found


@scores_of.register
def _(similarity: GowerSimilarity, patterns: Array, query: Array) -> Array:
    both = ~np.isnan(patterns) & ~np.isnan(query)
    apart = np.abs(np.where(both, query - patterns, 0))
    alike = np.maximum(1 - apart / array(similarity.ranges), 0)
    alike[:, similarity.categories] = apart[:, similarity.categories] == 0
    shared = both.sum(-1)
    found = np.where(both, alike, 0).sum(-1) * len(query) / np.maximum(shared, 1)
    return np.where(shared > 0, found, NOTHING)


@scores_of.register
def _(similarity: PooledSimilarity, patterns: Array, query: Array) -> Array:
    """The weighted sum. Where a member knows nothing of a pattern, it counts its worst score of another."""
    total, is_known = np.zeros(len(patterns)), False
    for weight, member in zip(array(similarity.weights), similarity.parts(), strict=True):
        own = scores_of(member, patterns, query)
        knows = own > NOTHING
        total += weight * np.where(knows, own, own[knows].min() if knows.any() else 0)
        is_known = is_known or bool(knows.any() and weight > 0)
    return total if is_known else np.full(len(patterns), NOTHING)


@scores_of.register
def _(similarity: AlignedSimilarity, patterns: Array, query: Array) -> Array:
    return scores_of(similarity.base, patterns, (query - array(similarity.offset)) / array(similarity.gain))


@scores_of.register
def _(similarity: DebiasedSimilarity, patterns: Array, query: Array) -> Array:
    return scores_of(similarity.base, patterns, query - array(similarity.bias))


@scores_of.register
def _(similarity: TransformedSimilarity, patterns: Array, query: Array) -> Array:
    stored = np.array([transformed(similarity.transform, row) for row in patterns])
    return scores_of(similarity.base, stored, transformed(similarity.transform, query))


def transformed(transform: Transform, row: Array) -> Array:
    match transform:
        case SNVTransform():
            seen = row[~np.isnan(row)]
            return (row - seen.mean()) / seen.std() if len(set(seen)) > 1 else 0 * row
        case DifferenceTransform():
            return np.diff(row) if len(row) > 1 else 0 * row
        case SelectTransform():
            return np.array([row[place] for place in transform.places])
        case PowerTransform() | LogTransform():
            share = np.maximum((row - transform.low) / (transform.high - transform.low), 0)
            values = share**transform.exponent if isinstance(transform, PowerTransform) else np.log1p(share)
            return np.where(np.isnan(row), np.nan if transform.missing is None else transform.missing, values)
        case _:
            raise NotImplementedError(repr(transform))


@scores_of.register
def _(similarity: AdditiveSimilarity, patterns: Array, query: Array) -> Array:
    """Tables, linear between the knots of the query and those of the pattern."""
    tables = np.einsum("dr,rqp->dqp", array(similarity.mixing), array(similarity.tables))
    asked, stored = hats(array(similarity.query_places), query), hats(array(similarity.pattern_places), patterns)
    found: Array = np.einsum("dq,dqp,ndp->n", asked, tables, stored)
    return found + float(similarity.gap_weight.detach()) * of_gaps(similarity.missingness, patterns, query)


def hats(places: Array, values: Array) -> Array:
    """How far each knot (d, knots) counts for a value (..., d); flat beyond the last, nothing for a gap."""
    inside = np.clip(values, places[:, 0], places[:, -1])
    left = np.clip((places < inside[..., None]).sum(-1) - 1, 0, places.shape[1] - 2)
    low, high = (places[np.arange(len(places)), left + step] for step in (0, 1))
    share = np.where(high > low, (inside - low) / np.where(high > low, high - low, 1), 0)[..., None]
    knots, left = np.arange(places.shape[1]), left[..., None]
    found = np.where(knots == left, 1 - share, np.where(knots == left + 1, share, 0))
    return np.where(np.isnan(values)[..., None], 0, found)


@scores_of.register(EvidenceSimilarity)
@scores_of.register(LikelihoodSimilarity)
def _(similarity: EvidenceSimilarity | LikelihoodSimilarity, patterns: Array, query: Array) -> Array:
    """Each value was kept, with gain, bias and noise, or is an outlier; less the same of an origin not stored."""
    variant = similarity.variant
    if isinstance(variant, HeteroscedasticVariant):
        return of_errors(variant, patterns, query)
    if not isinstance(variant, MixtureVariant):
        raise NotImplementedError(repr(similarity))
    gain, bias, std, rate = (array(each) for each in (variant.gain, variant.bias, variant.std, variant.outlier_rate))
    signs = np.array([1, -1] if variant.signs else [1])

    def kept(place: Array, std: Array) -> Array:
        deviations = (query - place - signs.reshape(-1, *[1] * place.ndim) * bias) / std
        found: Array = np.log1p(-rate) + log_mean_exp(-0.5 * deviations**2) - np.log(std) - 0.5 * np.log(2 * np.pi)
        return found

    outlier = np.log(rate) + log_density(variant, query)
    places = gain[:, None] * array(variant.population)
    reach = np.pad(places, ((0, 0), (1, 1)), mode="edge")
    wide = np.hypot(std[:, None], (reach[:, 2:] - reach[:, :-2]) / 2)
    nobody = np.logaddexp(log_mean_exp(kept(places.T, wide.T)), outlier)
    found = np.logaddexp(kept(gain * patterns, std), outlier) - nobody
    return np.asarray(np.where(np.isnan(found), 0, found).sum(-1) + of_gaps(variant.missingness, patterns, query))


def of_errors(variant: HeteroscedasticVariant, patterns: Array, query: Array) -> Array:
    """The same with the noise of each entry; one without its standard deviation is not there."""
    base, factor = variant.base, float(variant.factor)
    gain, bias, std, rate = (array(each) for each in (base.gain, base.bias, base.std, base.outlier_rate))

    def split(rows: Array) -> tuple[Array, Array]:
        values, errors = rows[..., variant.values].copy(), np.zeros_like(rows[..., variant.values])
        for place, error in enumerate(variant.errors):
            if error >= 0:
                errors[..., place] = rows[..., error]
        return values, errors

    def normal(deviation: Array, spread: Array) -> Array:
        found: Array = -0.5 * (deviation / spread) ** 2 - np.log(spread) - 0.5 * np.log(2 * np.pi)
        return found

    (stored, of_stored), (asked, of_asked) = split(patterns), split(query)
    known = ~np.isnan(asked + of_asked) & ~np.isnan(stored + of_stored)
    outlier = np.log(rate) + log_density(base, asked)
    places = gain[:, None] * array(base.population)
    reach = np.pad(places, ((0, 0), (1, 1)), mode="edge")
    gaps = (reach[:, 2:] - reach[:, :-2]) / 2
    typical = factor**2 * (of_asked**2 + (gain * array(variant.stored_errors)) ** 2)
    wide = np.sqrt(std[:, None] ** 2 + gaps**2 + typical[:, None])
    nobody = np.logaddexp(np.log1p(-rate) + log_mean_exp(normal((asked - bias)[:, None] - places, wide).T), outlier)
    spread = np.sqrt(std**2 + factor**2 * (of_asked**2 + (gain * of_stored) ** 2))
    kept = np.log1p(-rate) + normal(asked - gain * stored - bias, spread)
    found = np.logaddexp(kept, outlier) - nobody
    return np.asarray(np.where(known, found, 0).sum(-1) + of_gaps(base.missingness, stored, asked))


def log_mean_exp(values: Array) -> Array:
    return np.asarray(np.logaddexp.reduce(values, axis=0) - np.log(len(values)))


def log_density(variant: MixtureVariant, query: Array) -> Array:
    """Of outliers: constant on steps, and beyond the ends a factor of e less with each."""
    (low, high), steps = array(variant.outliers.ends), array(variant.outliers.log_density)
    value, width = (query - array(variant.center)) / array(variant.scale), (high - low) / len(steps)
    step = np.nan_to_num((value - low) / width).clip(0, len(steps) - 1).astype(int)
    beyond = np.maximum(np.maximum(low - value, value - high), 0) / width
    found: Array = steps[step] - beyond - np.log(array(variant.scale))
    return found


def of_gaps(missingness: Missingness, patterns: Array, query: Array) -> Array | float:
    """Log-likelihood ratio of these gaps and values, by the level of each stored value, against the mean rates."""
    if not missingness.is_evidence:
        return 0.0
    level = (patterns[..., None] > array(missingness.edges)).sum(-1)
    level = np.where(np.isnan(patterns), missingness.levels, level)
    base = array(missingness.base)
    moved = base + array(missingness.shifts)[level]
    sign = np.where(np.isnan(query), -1, 1)  # log sigmoid(z) is -log(1 + exp(-z))
    found: Array = (np.logaddexp(0, sign * base) - np.logaddexp(0, sign * moved)).sum(-1)
    return found
