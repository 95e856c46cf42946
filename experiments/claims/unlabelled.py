"""Nobody knows the origins: what do stored patterns and a log of queries teach, and how far is that from labels?"""

from dataclasses import dataclass

import torch

from experiments.support.harness import Experiment, Row
from experiments.support.measures import pooled_error
from experiments.support.settings import Setting, seed_of_test
from experiments.support.unlabelled import METRICS, TALLIES, compared, seed_of_log


@dataclass(frozen=True)
class Case:
    """A setting, how many queries of it are in the log, how many of these come from no stored pattern, and labels."""

    setting: Setting
    queries: int
    labels: int = 0
    strangers: float = 0.0

    @property
    def name(self) -> str:
        signs = "" if self.setting.signs == "constant" else ", signs per query"
        strangers = f", {self.strangers:.0%} from no stored pattern" if self.strangers else ""
        return f"{self.setting.dataset} {self.setting.difficulty}{signs}{strangers}"


EASY, HARD = Setting("synthetic", 0.4), Setting("synthetic", 0.5)
FULL = (
    Case(EASY, 64),
    Case(EASY, 512),
    Case(HARD, 512),
    Case(Setting("mnist", 0.6), 256),
    Case(Setting("mnist", 0.7), 256),
    Case(Setting("synthetic", 0.4, "per_query"), 512),
    Case(Setting("synthetic", 0.5, "per_query"), 512),
    Case(EASY, 512, labels=16),
    Case(EASY, 512, labels=64),
    Case(HARD, 512, labels=16),
    Case(HARD, 512, labels=64),
    Case(EASY, 512, strangers=0.3),
)
QUICK = (FULL[0], FULL[1])
# Chance counts as calibration error, so that more queries are asked than accuracy needs.
TESTED = 2000


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"setting": case.name, "queries": case.queries, "pairs": case.labels, "seed": seed}
        for seed in range(seeds)
        for case in (QUICK if quick else FULL)
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    case, seed = _case(cell), cell["seed"]
    world = case.setting.drawn(seed, quick)
    patterns, variant = world.patterns, case.setting.variant(seed)
    pairs = variant.sample(patterns, case.queries, seed_of_log(seed))
    log = pairs.queries
    if strangers := round(case.strangers * case.queries):
        others = case.setting.patterns(1000 + seed)
        log = torch.cat([log[strangers:], variant.sample(others, strangers, 20_000 + seed).queries])
    labels = variant.sample(patterns, case.labels, 40_000 + seed) if case.labels else None
    test = world.test if quick else variant.sample(patterns, TESTED, seed_of_test(seed))
    return [{**cell, **compared(patterns, pairs, test, seed, log, labels), **world.limit}]


def _case(cell: Row) -> Case:
    return next(case for case in FULL if (case.name, case.queries, case.labels) == tuple(cell[key] for key in KEYS))


def headline(rows: list[Row]) -> Row:
    """What share of the labeled accuracy each line reaches, and its calibration error."""
    names = {f"{row['setting']}, {row['queries']} queries, {row['pairs']} pairs": row for row in rows}
    return {
        "share of labelled": {name: round(row["accuracy"] / row["labelled"], 4) for name, row in names.items()},
        "calibration error": {name: pooled_error([row]) for name, row in names.items()},
    }


KEYS = ("setting", "queries", "pairs")
EXPERIMENT = Experiment(
    name="unlabelled",
    title="Learning from queries that nobody has labeled; N = 2048",
    seeds=5,
    cells=cells,
    run=run,
    keys=KEYS,
    metrics=(*METRICS, "bayes", "bayes_blend"),
    words=("chosen",),
    tallies=TALLIES,
    headline=headline,
    notes=(
        "*accuracy* counts the first answer after learning from so many *queries* without origins, beside so many "
        "*pairs*; *labelled* is what `auto` makes of as many pairs as there are queries, *plain* the Euclidean "
        "metric, *bayes* the ceiling. *blended* counts as the paper does, *bayes_blend* is what the exact posterior "
        "reads out. 2000 test queries a seed, of which both take the first 1000, or 400 of pictures. *seconds* are of"
        " one processor."
    ),
)
