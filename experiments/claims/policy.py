"""Do policies keep what they promise? Thresholds are found on held-out pairs and judged on fresh queries.

One in five queries comes from no stored pattern. Each policy is found many times, on other pairs each time: a promise
that is given with a confidence of 95 % may be broken in one of twenty.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy.stats import binomtest
from torch import Generator, Tensor

import ahop
from ahop.variants import Variant
from experiments.support.corruptions import BrokenVariant
from experiments.support.data import digits_table, mnist_patterns, uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn
from experiments.support.settings import COUNT, Setting, seed_of_test


@dataclass(frozen=True)
class Case:
    """What is stored, what is not, and what happens to copies of both; for a given seed."""

    stored: Callable[[int], Tensor]
    others: Callable[[int], Tensor]
    variant: Callable[[int], Variant]
    queries: int = 6000


def _digits(seed: int) -> Tensor:
    return digits_table()[torch.randperm(1797, generator=Generator().manual_seed(seed))]


SYNTHETIC, MNIST = Setting("synthetic", 0.5), Setting("mnist", 0.7)
STORED_DIGITS, PAIRS = 1300, 512
CASES = {
    "synthetic 0.5": Case(
        SYNTHETIC.patterns, lambda seed: uniform_patterns(COUNT, 64, 30_000 + seed), SYNTHETIC.variant
    ),
    "mnist 0.7": Case(
        MNIST.patterns, lambda seed: mnist_patterns(2 * COUNT, seed)[COUNT:], MNIST.variant, queries=3000
    ),
    "digits, garbage 30% + bias": Case(
        lambda seed: _digits(seed)[:STORED_DIGITS],
        lambda seed: _digits(seed)[STORED_DIGITS:],
        lambda seed: BrokenVariant(digits_table(), missing=0.0, garbage=0.3, bias=0.4, seed=seed),
    ),
}
RULES: list[Row] = [
    {"precision": 0.9},
    {"precision": 0.95},
    {"precision": 0.99},
    {"false_accept": 0.1},
    {"false_accept": 0.05},
    {"false_accept": 0.01},
    {"coverage": 0.95},
]
# Pairs that a policy is found on, of which there are so many sets; and what comes on top from no stored pattern.
HELD_OUT, DRAWS, STRANGE = (100, 300, 1000), 20, 0.25
ANSWERS = 64


@dataclass(frozen=True)
class Answered:
    """Answers that were given before, for those who ask by number: a policy is found on whatever recalls."""

    answers: ahop.Recall[Tensor]

    def recall(
        self, queries: Any, k: int = 1, *, where: Any = None, groups: Sequence[object] | None = None, same: Any = None
    ) -> ahop.Recall[Tensor]:
        rows, found = torch.as_tensor(queries).long().flatten(), self.answers
        assert found.unknown is not None
        return ahop.Recall(
            found.indices[rows, :k], found.posterior[rows, :k], found.patterns[rows, :k], found.unknown[rows]
        )


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"setting": name, "seed": seed} for seed in range(seeds) for name in (list(CASES)[:1] if quick else CASES)]


def run(cell: Row, quick: bool) -> list[Row]:
    case, seed = CASES[cell["setting"]], cell["seed"]
    patterns, variant = case.stored(seed), case.variant(seed)
    memory = learn(patterns, variant.sample(patterns, PAIRS, seed), "mixture", seed)
    count = 3000 if quick else case.queries
    pairs = variant.sample(patterns, count, seed_of_test(seed))
    strangers = variant.sample(case.others(seed), int(STRANGE * count), 20_000 + seed).queries
    asked = torch.cat([pairs.queries, strangers])
    answers = Answered(_compact(memory.recall(asked, k=ANSWERS)))
    origins = torch.cat([pairs.origins, torch.full((len(strangers),), -1)])
    return [
        {**cell, "pairs": held_out, "rule": _name(rule), **_kept(answers, origins, rule, held_out, seed, quick)}
        for held_out in HELD_OUT
        for rule in RULES
    ]


def _compact(answers: ahop.Recall[Tensor]) -> ahop.Recall[Tensor]:
    """Without the patterns, which nobody looks at."""
    return ahop.Recall(answers.indices, answers.posterior, answers.patterns[..., :0], answers.unknown)


def _name(rule: Row) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in rule.items())


def _kept(answers: Answered, origins: Tensor, rule: Row, held_out: int, seed: int, quick: bool) -> Row:
    """Policies found on halves of the queries, and what the other halves say about them."""
    generator = Generator().manual_seed(40_000 + seed)
    known, strange = (origins >= 0).nonzero().squeeze(-1), (origins < 0).nonzero().squeeze(-1)
    draws = DRAWS // 2 if quick else DRAWS
    found: list[Row] = []
    for _ in range(draws):
        known, strange = (each[torch.randperm(len(each), generator=generator)] for each in (known, strange))
        few = known[:held_out]
        try:
            policy = ahop.policy(
                answers, (origins[few], few[:, None]), strangers=strange[: int(STRANGE * held_out), None], **rule
            )
        except ValueError:
            continue
        # As many of no stored pattern for each pair as they come; none that the policy was found on.
        judged = torch.cat([known[held_out:], strange[int(STRANGE * held_out) :]])
        found.append(_judged(answers, judged, origins[judged], policy, next(iter(rule))))
    names = ("realized", "lower", "upper", "accepted", "set_size")
    row: Row = {name: _mean([each[name] for each in found]) for name in names}
    promised = next(iter(rule.values()))
    side = -1 if "false_accept" in rule else 1
    kept = [float(side * each["realized"] >= side * promised) for each in found]
    row["kept"] = None if "coverage" in rule else _mean(kept)
    return {"promised": promised, **row, "refused": 1 - len(found) / draws}


def _judged(answered: Answered, queries: Tensor, origins: Tensor, policy: Any, rule: str) -> Row:
    answers = answered.recall(queries, ANSWERS if rule == "coverage" else 1)
    decisions = answers.decide(policy)
    accepted = torch.from_numpy(decisions.actions == "accept")
    is_stored, size = origins >= 0, None
    if rule == "coverage":
        assert decisions.sets is not None
        held = [origin in names for origin, names in zip(origins.tolist(), decisions.sets, strict=True)]
        hits = torch.tensor(held)[is_stored]
        size = sum(len(names) for names in decisions.sets) / len(decisions.sets)
    elif rule == "false_accept":
        hits = accepted[~is_stored]
    else:
        hits = (answers.indices[:, 0] == origins)[accepted]
    lower, upper = binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, "exact") if len(hits) else (0.0, 1.0)
    rate = None if rule == "coverage" else float(accepted.double().mean())
    realized = float(hits.double().mean()) if len(hits) else 0.0
    return {"realized": realized, "lower": lower, "upper": upper, "accepted": rate, "set_size": size}


def _mean(values: list[Any]) -> float | None:
    return None if not values or None in values else sum(values) / len(values)


EXPERIMENT = Experiment(
    name="policy",
    title="What policies promise and what they keep, on queries one fifth of which come from no stored pattern",
    seeds=5,
    cells=cells,
    run=run,
    keys=("setting", "pairs", "rule", "promised"),
    metrics=("realized", "lower", "upper", "kept", "accepted", "set_size", "refused"),
    notes=(
        "The memory is a mixture fitted to 512 pairs; policies are found on *pairs* others and a quarter as many "
        "queries of no stored pattern, 20 times for each seed, and judged on what is left of 6000 pairs (MNIST: 3000). "
        "*realized*: the precision of the accepted answers, the share of queries of no stored pattern that were "
        "accepted, or the share of sets that hold the origin; *lower* to *upper* is its interval of Clopper and "
        "Pearson for one such judgement, 95 %. *kept*: how many of the policies that were given kept it on the "
        "fresh queries. *refused*: how many were not given, as so few pairs cannot promise that. The quick form takes "
        "the first setting alone."
    ),
)
