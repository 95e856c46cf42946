"""The paper's criteria of a right retrieval, and the accuracy of Bayes' rule, which none can pass."""

from dataclasses import dataclass
from math import sqrt
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ahop._core.blocks import blocks
from ahop._core.checks import check_not_negative
from ahop._core.inputs import as_patterns
from ahop._core.missing import filled, observed
from ahop._core.typing import Array, Flags, Origins, Patterns, PerPattern, Queries, Weights
from ahop.errors import InvalidValueError
from ahop.separations.exponential import Exponential
from ahop.separations.power import Power
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.variants.base import Pairs, Variant
from ahop.variants.posterior import log_posterior

DEFAULT_QUERIES = 1000


@runtime_checkable
class Retriever(Protocol):
    """Anything that holds patterns and answers queries with vectors: a memory."""

    @property
    def patterns(self) -> Tensor: ...

    def retrieve(self, queries: Tensor) -> Tensor: ...


@runtime_checkable
class Weighing(Retriever, Protocol):
    """A retriever that says how much each pattern weighs in its answer, which it reads from the weights."""

    def weights(self, queries: Tensor) -> Tensor: ...

    def read(self, weights: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Evaluation:
    """Accuracies of a memory on pairs.

    Attributes:
        accuracy: share of the queries whose answer, a blend of patterns, is nearest to their origin, as the paper
            counts.
        error: mean squared difference between answer and origin, per dimension that both know.
        queries: how many there were.
        top1: share of the queries whose origin weighs most; None if the retriever does not say.
    """

    accuracy: float
    error: float
    queries: int
    top1: float | None = None

    @property
    def standard_error(self) -> float:
        """Standard error of the accuracy, from the number of queries alone."""
        return sqrt(self.accuracy * (1 - self.accuracy) / self.queries)


def nearest(patterns: Patterns, retrieved: Queries) -> Origins:
    r"""$\arg\min_n \lVert y - \xi_n \rVert_2$, in blocks."""
    closeness = EuclideanSimilarity()
    found = [
        closeness(patterns, retrieved[rows]).argmax(-1)
        for rows in blocks(len(retrieved), len(patterns) * patterns.element_size())
    ]
    return torch.cat(found) if found else torch.empty(0, dtype=torch.long, device=patterns.device)


def epsilon_retrieved(retrieved: Queries, patterns: Patterns, epsilon: float) -> Flags:
    r"""Is some stored pattern within $\epsilon$ of the answer? It says nothing about which one.

    Paper:
        [def:eps-ret].
    """
    check_not_negative("epsilon", epsilon)
    closest = patterns[nearest(patterns, retrieved)]
    difference = retrieved - closest
    distances: Tensor = torch.linalg.vector_norm(filled(difference), dim=-1)
    return distances / observed(difference).mean(-1).sqrt() <= epsilon  # nothing shared is 0 / 0, and not within


def correctly_retrieved(
    retrieved: Queries, queries: Queries, patterns: Patterns, variant: Variant, log_prior: PerPattern | None = None
) -> Flags:
    """Is the answer nearest to the pattern of the highest posterior?

    Paper:
        [def:correct-ret], [eqn:correct_ret]; its share of all queries is the retrieval accuracy [def:ret-acc], and
        where that is one the dynamics is optimal [def:opt-correct-ret].
    """
    return nearest(patterns, retrieved) == log_posterior(variant, patterns, queries, log_prior).argmax(-1)


def evaluate(memory: Retriever, pairs: Pairs) -> Evaluation:
    """Accuracy, error and share of right first answers on given pairs.

    Networks of signs (Hop, D-Hop, E-Hop) sum patterns up: their answers are divided by the sum of the sizes of their
    weights. It is one readout; `ahop.capacity` follows states until they rest.

    Paper:
        The metrics of [apd:experiments], the squared error per dimension as its figures need.
    """
    if not len(pairs):
        raise InvalidValueError("`pairs` must hold at least one pair; got none.")
    with torch.no_grad():
        retrieved, first = _answers(memory, pairs.queries)
        error = (retrieved - memory.patterns[pairs.origins]).square().nanmean()
        hits = (nearest(memory.patterns, retrieved) == pairs.origins).double().mean()
        top1 = None if first is None else float((first == pairs.origins).double().mean())
    return Evaluation(float(hits), float(error), len(pairs), top1)


def _answers(memory: Retriever, queries: Queries) -> tuple[Queries, Origins | None]:
    """Blended answer, and the pattern that weighs most."""
    if not isinstance(memory, Weighing):
        return memory.retrieve(queries), None
    read, first = [], []
    is_sum = isinstance(getattr(memory, "separation", None), Power | Exponential)
    for rows in blocks(len(queries), len(memory.patterns) * memory.patterns.element_size()):
        weights = memory.weights(queries[rows])
        read.append(memory.read(_shares(weights) if is_sum else weights))
        first.append(weights.argmax(-1))
    return torch.cat(read), torch.cat(first)


def _shares(weights: Weights) -> Weights:
    """Divided by the sum of their sizes, as those of signs sum to anything: a mean is as long as patterns are."""
    sizes = weights / weights.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
    return sizes / sizes.abs().sum(-1, keepdim=True).clamp_min(1)


def retrieval_accuracy(memory: Retriever, variant: Variant, queries: int = DEFAULT_QUERIES, seed: int = 1) -> float:
    """The share of fresh queries whose answer is nearest to their origin.

    Paper:
        [def:emp-ret-acc].
    """
    return evaluate(memory, variant.sample(memory.patterns, queries, seed)).accuracy


def bayes_accuracy(patterns: Array, variant: Variant, queries: int = DEFAULT_QUERIES, seed: int = 1) -> float:
    """The accuracy of the posterior's own argmax: no retrieval whatever can do better on average."""
    stored = as_patterns(patterns)
    pairs = variant.sample(stored, queries, seed)
    hits = 0
    for rows in blocks(len(pairs), 4 * len(stored) * stored.element_size()):
        best = log_posterior(variant, stored, pairs.queries[rows]).argmax(-1)
        hits += int((best == pairs.origins[rows]).sum())
    return hits / len(pairs)
