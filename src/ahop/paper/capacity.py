"""Capacity of a network: how many patterns it holds, and how much damage to each."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ahop._core.checks import check_count, check_kind, check_not_negative, check_positive, check_rate
from ahop._core.missing import observed
from ahop.energies.free import FreeEnergy
from ahop.memory.memory import AssociativeMemory
from ahop.modulations.unmodulated import Unmodulated
from ahop.paper.criteria import DEFAULT_QUERIES, Retriever, evaluate, nearest
from ahop.paper.dynamics.base import Dynamics
from ahop.paper.dynamics.flips import FlipDynamics
from ahop.paper.dynamics.trajectory import iterate
from ahop.separations.exponential import Exponential
from ahop.separations.power import Power
from ahop.similarities.dot import DotSimilarity
from ahop.variants.base import Pairs, Variant

# The share of its signs in which a state that rests may differ from a pattern that it stands for. Those that Hop
# remembers differ in .016 at most, up to .138 d patterns; beyond that they rest a third away (Amit et al., 1987).
WRONG_SIGNS = 0.05


@dataclass(frozen=True)
class Limit:
    """Largest load under which a network is right often enough.

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
    dynamics: Dynamics | None = None,
) -> Limit:
    """Number of these patterns that a network can store so that `target` of its answers are right.

    The number is doubled until accuracy falls below the target, then found by bisection to a part in sixteen.

    Networks of signs (Hop, D-Hop, E-Hop) answer with the state at which a query comes to rest, and are right if at most
    one in twenty of its signs is not that of the origin. All others read once, and are right if the origin is nearest
    to what they read. Of random signs Hop holds .138 d in the limit of many neurons; .143 d, .130 d and .127 d with
    d = 100, 200 and 400 at the default target, .167 d, .150 d and .143 d at .9. E-Hop holds exponentially many.

    Args:
        network: patterns -> a network that stores them, such as `ahop.zoo.m_hop`.
        patterns: (n, d), as many as should be tried at most, in random order.
        variant: how queries are corrupted; `NoisyVariant(1e-6)` asks for the patterns nearly as they are.
        dynamics: that leads any network to rest; default `FlipDynamics` for networks of signs, none for others.
    """
    check_rate("target", target)
    found: dict[float, float] = {}

    def holds(count: int) -> bool:
        stored = network(patterns[:count])
        pairs = variant.sample(stored.patterns, check_count("queries", queries), seed)
        found[float(count)] = _share_right(stored, pairs, dynamics)
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
    dynamics: Dynamics | None = None,
) -> Limit:
    """The basin of attraction: how strong a corruption may be so that `target` of the answers are right.

    What an answer is, and whether it is right, is as `capacity` has it.

    Args:
        variant: strength -> corruption, such as `ahop.variants.MaskedVariant`, or
            `lambda s: ahop.MixedVariant(s, s, s)`.
        largest: strength to try.
        tolerance: of the strength that is found, as a share of the largest.
        dynamics: as for `capacity`.
    """
    check_rate("target", target)
    check_not_negative("tolerance", tolerance)
    found: dict[float, float] = {}

    def holds(strength: float) -> bool:
        pairs = variant(strength).sample(memory.patterns, check_count("queries", queries), seed)
        found[strength] = _share_right(memory, pairs, dynamics)
        return found[strength] >= target

    good, bad = 0.0, check_positive("largest", largest)
    if holds(bad):
        return Limit(bad, True, found)
    if holds(good):
        while bad - good > max(tolerance, 1e-6) * largest:
            middle = (good + bad) / 2
            good, bad = (middle, bad) if holds(middle) else (good, middle)
    return Limit(good, False, dict(sorted(found.items())))


def _share_right(memory: Retriever, pairs: Pairs, dynamics: Dynamics | None) -> float:
    is_of_signs = _is_of_signs(memory)
    if dynamics is None and not is_of_signs:
        return evaluate(memory, pairs).accuracy
    check_kind("network", memory, AssociativeMemory)
    assert isinstance(memory, AssociativeMemory)
    answers = iterate(memory, pairs.queries, dynamics or FlipDynamics()).answers
    if not is_of_signs:
        return float((nearest(memory.patterns, answers) == pairs.origins).double().mean())
    stored = memory.patterns[pairs.origins]
    known = observed(stored)
    wrong = (((answers < 0) != (stored < 0)) * known).sum(-1)
    return float((wrong <= WRONG_SIGNS * known.sum(-1)).double().mean())


def _is_of_signs(memory: Retriever) -> bool:
    return (
        isinstance(memory, AssociativeMemory)
        and isinstance(memory.similarity, DotSimilarity)
        and isinstance(memory.separation, Power | Exponential)
        and isinstance(memory.modulation, Unmodulated)
        and isinstance(memory.energy_function, FreeEnergy)
    )
