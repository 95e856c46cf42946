"""Does an explanation name what is wrong with a query, do its bars sum to the log-odds, and what does it cost?

Copies are noisy and shifted; then one dimension of each is replaced by an outlier, and the memory is asked why it
answers what it answers.
"""

import time
from collections.abc import Callable
from math import log
from statistics import median

import torch
from torch import Generator, Tensor

import ahop
from experiments.support.data import digits_table, uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn
from experiments.support.settings import COUNT, seed_of_test

PATTERNS: dict[str, Callable[[int], Tensor]] = {
    "synthetic": lambda seed: uniform_patterns(COUNT, 64, seed),
    "digits": lambda seed: digits_table(),
}
# Of the pairs that are learned from: outliers, noise, shift.
MASK, NOISE, BIAS, PAIRS = 0.1, 0.2, 0.3, 512
# How far an outlier is from where its value was to be expected, in standard deviations of the noise.
FAR = {"8 to 16 std off": 8.0, "4 to 8 std off": 4.0}
QUERIES, TIMED = 200, 100
CERTAIN = 1e-9


def cells(seeds: int, quick: bool) -> list[Row]:
    names = list(PATTERNS)[:1] if quick else list(PATTERNS)
    return [{"setting": name, "seed": seed} for seed in range(seeds) for name in names]


def run(cell: Row, quick: bool) -> list[Row]:
    seed, patterns = cell["seed"], PATTERNS[cell["setting"]](cell["seed"])
    pairs = ahop.MixedVariant(MASK, NOISE, BIAS, seed=seed).sample(patterns, PAIRS, seed)
    memory = learn(patterns, pairs, "mixture", seed)
    count = QUERIES // 2 if quick else QUERIES
    copies = ahop.MixedVariant(0.0, NOISE, BIAS, seed=seed).sample(patterns, count, seed_of_test(seed))
    costs = _costs(memory, copies.queries[:TIMED])
    rows = []
    for outlier, stds in FAR.items():
        generator = Generator().manual_seed(20_000 + seed)
        places = torch.randint(patterns.shape[1], (count,), generator=generator)
        sides = 2.0 * torch.randint(0, 2, (count,), generator=generator) - 1
        queries = copies.queries.clone()
        expected = queries[torch.arange(count), places]
        queries[torch.arange(count), places] = (
            expected + sides * stds * (1 + torch.rand(count, generator=generator)) * NOISE
        )
        rows.append({**cell, "outlier": outlier, **_told(memory, queries, places), **costs})
    return rows


def _told(memory: ahop.AssociativeMemory, queries: Tensor, places: Tensor) -> Row:
    """How often the outlier is called so, and is the first thing that speaks against the answer; and the error.

    In double precision, and where unknown is not all but certain: a probability near one has no digits left for odds.
    """
    memory, queries = memory.copy().double(), queries.double()
    named = first = 0
    error = 0.0
    answers = memory.recall(queries, k=2)
    assert answers.unknown is not None
    for query, place, posterior, strange in zip(
        queries, places.tolist(), answers.posterior.tolist(), answers.unknown.tolist(), strict=True
    ):
        name = f"dimension {place}"
        rival, unknown = memory.explain(query), memory.explain(query, against="unknown")
        named += next(bar.word for bar in rival.bars if bar.name == name) == "outlier"
        against = [bar.name for bar in unknown.bars if bar.log_odds < 0 and bar.seen is not None]
        first += against[:1] == [name]
        expected = {rival: log(posterior[0] / posterior[1])}
        if CERTAIN < strange < 1 - CERTAIN:
            expected[unknown] = log(posterior[0] * (1 - strange) / strange)
        for explained, log_odds in expected.items():
            error = max(error, abs(sum(bar.log_odds for bar in explained.bars) - log_odds))
    return {"named": named / len(queries), "first": first / len(queries), "sum_error_micro": 1e6 * error}


def _costs(memory: ahop.AssociativeMemory, queries: Tensor) -> Row:
    """Milliseconds of the processor for one query, side by side: to recall, and what explaining takes beyond that."""
    spent: dict[str, list[float]] = {"recall": [], "explain": [], "unknown": []}
    for query in queries:
        for name, call in (
            ("recall", lambda query=query: memory.recall(query[None], k=2)),
            ("explain", lambda query=query: memory.explain(query)),
            ("unknown", lambda query=query: memory.explain(query, against="unknown")),
        ):
            started = time.process_time()
            call()
            spent[name].append(1000 * (time.process_time() - started))
    pairs = {name: [one - two for one, two in zip(spent[name], spent["recall"], strict=True)] for name in spent}
    return {
        "recall_ms": median(spent["recall"]),
        "beyond_ms": median(pairs["explain"]),
        "unknown_beyond_ms": median(pairs["unknown"]),
    }


EXPERIMENT = Experiment(
    name="explain",
    title="What explanations say about queries with one outlier, and what they cost; 512 pairs",
    seeds=5,
    cells=cells,
    run=run,
    keys=("setting", "outlier"),
    metrics=("named", "first", "sum_error_micro", "recall_ms", "beyond_ms", "unknown_beyond_ms"),
    notes=(
        "200 queries a seed, 1000 in all. *named*: the word of the bar of that dimension is `outlier`. *first*: of all "
        "dimensions it speaks most against the answer, where the rival is `unknown`. *sum_error_micro*: the largest "
        "difference between the sum of the bars and the log-odds that `recall` gives in double precision, against the "
        "second answer and against unknown, in millionths of a nat. *beyond_ms*: processor time of one `explain` less "
        "that of one `recall`, medians of 100 queries asked one by one on one thread; *unknown_beyond_ms* the same "
        "against unknown. The memory is a fitted mixture. The quick form leaves digits out."
    ),
)
