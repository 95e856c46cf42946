"""Learning without labels may gain nothing, but it must not lose: every damage we have, and none."""

from statistics import mean

from torch import Tensor

import ahop
from ahop.variants import Variant
from experiments.claims.broken_data import SETTINGS, TABLES
from experiments.support.corruptions import UNSEEN, BrokenVariant, UnseenVariant
from experiments.support.damages import REAL, DamagedVariant
from experiments.support.data import uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.measures import pooled_error
from experiments.support.settings import seed_of_test
from experiments.support.unlabelled import METRICS, TALLIES, compared, seed_of_log

TESTED = 1000
CLEAN = "clean"
# What clean copies differ by: the last digits of a sensor.
NOISE = 0.05
QUICK = ("digits: garbage 40%", "digits: clean", "spectra, resampled")
BROKEN = {
    f"{table}: {setting}": (table, shares)
    for table in TABLES
    for setting, shares in {**SETTINGS, CLEAN: (0.0, 0.0, 0.0)}.items()
}
RANDOM = {f"random: {name}": name for name in UNSEEN}
NAMES = (*BROKEN, *RANDOM, f"random: {CLEAN}", *REAL)


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"setting": name, "queries": 200 if name in BROKEN else 512, "seed": seed}
        for seed in range(seeds)
        for name in (QUICK if quick else NAMES)
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    seed = cell["seed"]
    patterns, variant = world(cell["setting"], seed)
    pairs = variant.sample(patterns, cell["queries"], seed_of_log(seed))
    test = variant.sample(patterns, 300 if quick else TESTED, seed_of_test(seed))
    return [{**cell, **compared(patterns, pairs, test, seed, pairs.queries)}]


def world(name: str, seed: int) -> tuple[Tensor, Variant]:
    """What is stored, and what happens to its copies."""
    if name in BROKEN:
        table, (missing, garbage, bias) = BROKEN[name]
        stored = TABLES[table]()
        noise = {"noise": NOISE} if name.endswith(CLEAN) else {}
        return stored, BrokenVariant(stored, missing, garbage, bias, seed, **noise)
    if name in REAL:
        return REAL[name].patterns(seed), DamagedVariant(name, REAL[name].damage)
    stored = uniform_patterns(2048, 64, seed)
    return stored, UnseenVariant(RANDOM[name], seed) if name in RANDOM else ahop.NoisyVariant(NOISE)


def summarize(rows: list[Row]) -> list[Row]:
    """The mean over all that is damaged."""
    damaged = [row for row in rows if not row["setting"].endswith(CLEAN)]
    means = {metric: round(mean(row[metric] for row in damaged), 5) for metric in METRICS}
    return [{"setting": "mean over what is damaged", "queries": None, **means, "chosen": None}]


def headline(rows: list[Row]) -> Row:
    """The largest loss to the plain metric, the mean gain where something is damaged, and calibration errors."""
    known = [row for row in rows if row.get("count")]
    lost = {row["setting"]: round(row["plain"] - row["accuracy"], 4) for row in known}
    worst = max(lost, key=lambda name: lost[name])
    damaged = [-loss for name, loss in lost.items() if not name.endswith(CLEAN)]
    return {
        "worst": worst,
        "worst loss": lost[worst],
        "mean gain where damaged": round(mean(damaged), 4),
        "calibration error": {row["setting"]: pooled_error([row]) for row in known},
    }


EXPERIMENT = Experiment(
    name="never_worse",
    title="Learning from queries without labels, on every damage we have",
    seeds=5,
    cells=cells,
    run=run,
    keys=("setting", "queries"),
    metrics=METRICS,
    words=("chosen",),
    tallies=TALLIES,
    summarize=summarize,
    headline=headline,
    notes=(
        "The settings of `broken_data`, with as many queries as its tables have room for, and of `unseen_corruption`; "
        "clean copies have noise of 0.05. *accuracy* counts the first answer, *labelled* what `auto` makes of as many "
        "pairs, *plain* the Euclidean metric of what was observed, *blended* counts as the paper does. 1000 test "
        "queries a seed. *seconds* are of one processor."
    ),
)
