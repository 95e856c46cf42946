"""How much a network holds: how many patterns, and how much damage to each."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ahop._checks import check_count, check_not_negative, check_positive, check_rate
from ahop.criteria import DEFAULT_QUERIES, Retriever, retrieval_accuracy
from ahop.variants.base import Variant


@dataclass(frozen=True)
class Limit:
    """Where a network stops being right often enough.

    Attributes:
        value: the largest number of patterns, or strength of the damage, at which it still was; zero if it never was.
        reached_end: it still was at the largest that was asked for.
        accuracies: what was measured on the way, by number of patterns or strength, in rising order.
    """

    value: float
    reached_end: bool
    accuracies: dict[float, float]


def capacity(
    network: Callable[[Tensor], Retriever],
    patterns: Tensor,
    variant: Variant,
    *,
    target: float = 0.99,
    queries: int = DEFAULT_QUERIES,
    seed: int = 1,
) -> Limit:
    """How many of these patterns a network can store so that `target` of its answers are right.

    The number is doubled until accuracy falls below the target, then found by bisection to a part in sixteen.

    Args:
        network: patterns -> a network that stores them, such as `ahop.zoo.m_hop`.
        patterns: (n, d), as many as should be tried at most, in random order.
        variant: how queries are corrupted; `NoisyVariant(1e-6)` asks for the patterns nearly as they are.
    """
    check_rate("target", target)
    found: dict[float, float] = {}

    def holds(count: int) -> bool:
        stored = network(patterns[:count])
        found[float(count)] = retrieval_accuracy(stored, variant, check_count("queries", queries), seed)
        return found[float(count)] >= target

    good, bad = 0, None
    while bad is None and good < len(patterns):
        count = min(max(2 * good, 1), len(patterns))
        good, bad = (count, None) if holds(count) else (good, count)
    while bad is not None and bad - good > max(1, good // 16):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return Limit(float(good), bad is None, dict(sorted(found.items())))


def basin(
    memory: Retriever,
    variant: Callable[[float], Variant],
    *,
    largest: float = 1.0,
    target: float = 0.99,
    tolerance: float = 0.01,
    queries: int = DEFAULT_QUERIES,
    seed: int = 1,
) -> Limit:
    """The basin of attraction: how strong a corruption may be so that `target` of the answers are right.

    Args:
        variant: strength -> corruption, such as `ahop.variants.MaskedVariant`, or
            `lambda s: ahop.MixedVariant(s, s, s)`.
        largest: strength to try.
        tolerance: of the strength that is found, as a share of the largest.
    """
    check_rate("target", target)
    check_not_negative("tolerance", tolerance)
    found: dict[float, float] = {}

    def holds(strength: float) -> bool:
        found[strength] = retrieval_accuracy(memory, variant(strength), check_count("queries", queries), seed)
        return found[strength] >= target

    good, bad = 0.0, check_positive("largest", largest)
    if holds(bad):
        return Limit(bad, True, found)
    if holds(good):
        while bad - good > max(tolerance, 1e-6) * largest:
            middle = (good + bad) / 2
            good, bad = (middle, bad) if holds(middle) else (good, middle)
    return Limit(good, False, dict(sorted(found.items())))
