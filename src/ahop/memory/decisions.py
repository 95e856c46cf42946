"""Decisions on answers: accept, ask a person, or say that the origin is not stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Halvings of the interval that a bound lies in.
HALVINGS = 60
# No rate is taken to be smaller.
LEAST_RATE = 1e-12


@dataclass(frozen=True)
class Share:
    """A share of cases, and between which values it lies, with the confidence that was asked for."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True)
class Policy:
    """From where on an answer is accepted; `print` it for what it promises.

    Attributes:
        accept_from: the confidence from which an answer is accepted: its posterior, times how likely the origin of the
            query is stored at all.
        unknown_from: how likely a query must come from no stored pattern to be called unknown.
        set_from: the posterior from which an answer belongs to the set; None if no coverage was asked for.
        promise: what was asked for, in words.
        accepted: how many queries it will accept.
        rule: what was asked for: "precision", "false_accept", "costs" or "coverage"; empty if a threshold was given.
        promised: its value; of costs, what a wrong answer and what asking costs.
    """

    accept_from: float
    unknown_from: float = 0.5
    set_from: float | None = None
    promise: str = ""
    accepted: Share | None = None
    rule: str = ""
    promised: tuple[float, ...] = ()

    def __str__(self) -> str:
        if self.set_from is not None:
            return f"{self.promise}: an answer belongs to the set from a posterior of {self.set_from:.4g} on."
        rate = "" if self.accepted is None else f" It will accept {self.accepted} of the queries."
        return f"{self.promise}: answers are accepted from a confidence of {self.accept_from:.4f} on.{rate}"


@dataclass(frozen=True)
class Decisions:
    """Decision on each answer of a batch.

    Attributes:
        actions: (b,) "accept", "ask" a person, or "unknown": the query comes from no stored pattern.
        confidence: (b,) that the first answer is right.
        sets: the answers that may be right, for each query; None if no coverage was asked for.
    """

    actions: NDArray[Any]
    confidence: NDArray[Any]
    sets: tuple[tuple[object, ...], ...] | None = None


def decide(
    policy: Policy, posterior: NDArray[Any], unknown: NDArray[Any] | None, names: Sequence[Sequence[object]]
) -> Decisions:
    """Args:
    posterior: (b, k) of the answers.
    unknown: (b,) how likely each query comes from none of them.
    names: of the answers, their labels or rows, (b, k).
    """
    confidence = confidence_of(posterior, unknown)
    actions = np.where(confidence >= policy.accept_from, "accept", "ask")
    if unknown is not None:
        actions = np.where(unknown.astype(np.float64) >= policy.unknown_from, "unknown", actions)
    sets = None
    if policy.set_from is not None:
        kept = posterior.astype(np.float64) >= policy.set_from
        rows = zip(names, kept.tolist(), strict=True)
        sets = tuple(tuple(name for name, is_in in zip(*row, strict=True) if is_in) for row in rows)
    return Decisions(actions, confidence, sets)


def confidence_of(posterior: NDArray[Any], unknown: NDArray[Any] | None) -> NDArray[np.float64]:
    """Probability that the first answer is right, (b,): it must be the right one of those stored, and one must be."""
    first = posterior[:, 0].astype(np.float64) if posterior.shape[1] else np.zeros(len(posterior))
    return first if unknown is None else first * (1 - unknown.astype(np.float64))


def q_values(confidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Expected share of wrong answers if each one and all that are as sure are accepted, (b,)."""
    order = np.argsort(-confidence, kind="stable")
    expected = np.cumsum(1 - confidence[order]) / np.arange(1, len(order) + 1)
    found = np.empty_like(expected)
    found[order] = np.minimum.accumulate(expected[::-1])[::-1]
    return found


def upper_bound(errors: int, count: int, confidence: float) -> float:
    """The largest rate of errors under which so few of so many are no surprise (Clopper and Pearson, one side)."""
    if errors >= count:
        return 1.0
    low, high = errors / count, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _at_most(errors, count, middle) > 1 - confidence else (low, middle)
    return high


def is_bounded(errors: int, count: int, rate: float, confidence: float) -> bool:
    """True if the upper bound is at most this rate."""
    return errors < count and _at_most(errors, count, rate) <= 1 - confidence


def bounds_of(hits: int, count: int, confidence: float) -> Share:
    """With a bound on each side, each with this confidence by itself: a promise rests on one of them alone."""
    if not count:
        return Share(0.0, 0.0, 1.0)
    low, high = 1 - upper_bound(count - hits, count, confidence), upper_bound(hits, count, confidence)
    return Share(hits / count, low, high)


def share_of(hits: int, count: int, confidence: float) -> Share:
    """With bounds on both sides, each with half of the doubt."""
    return bounds_of(hits, count, 1 - (1 - confidence) / 2)


def _at_most(errors: int, count: int, rate: float) -> float:
    """The probability of at most so many errors of so many at this rate."""
    if rate <= 0 or rate >= 1:
        return float(rate <= 0 or errors >= count)
    each = np.arange(errors + 1)
    log_choices = np.concatenate([[0.0], np.cumsum(np.log(count - each[:-1]) - np.log(each[1:]))])
    return float(np.exp(np.logaddexp.reduce(log_choices + each * log(rate) + (count - each) * log1p(-rate))))


def log_odds_of(rate: float) -> float:
    """Log odds of what happens at this rate; finite at 0 and 1."""
    held = min(max(rate, LEAST_RATE), 1 - LEAST_RATE)
    return log(held / (1 - held))
