"""How much more is right if whole tables decide together, each stored row having one copy at most?

The ceiling of single queries is computed on the very rows that are linked, with the true corruption, which nobody is
told: nothing is labeled, both tables are all that there is.
"""

import time
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

import ahop
from experiments.support.data import uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.measures import calibration_error, f1, hit_rate, reliability

DIFFICULTY = 0.4
# Of larger tables the exact posterior is computed for so many rows only.
MANY_ROWS, CEILING_QUERIES = 10_000, 300
# Thresholds that are tried on other data.
THRESHOLDS = [step / 100 for step in range(101)]


@dataclass(frozen=True)
class Setting:
    """What is linked.

    Attributes:
        kind: "link" two tables, or "same" queries of one origin together.
        unmatched: share of the rows of each table that have no partner.
        copies: of each origin, for "same".
    """

    n: int
    dimensions: int
    kind: str = "link"
    unmatched: float = 0.0
    copies: int = 1
    only_first_seed: bool = False


FULL = {
    "one to one, 500": Setting(500, 38),
    "one to one, 1000": Setting(1000, 38),
    "20 % unmatched, 500": Setting(500, 38, unmatched=0.2),
    "20 % unmatched, 1000": Setting(1000, 38, unmatched=0.2),
    "three queries of one origin": Setting(1000, 24, kind="same", copies=3),
    "one to one, 100,000": Setting(100_000, 64, only_first_seed=True),
}
QUICK = {
    "one to one, 500": Setting(200, 30),
    "20 % unmatched, 500": Setting(200, 30, unmatched=0.2),
    "three queries of one origin": Setting(200, 16, kind="same", copies=3),
}


@dataclass(frozen=True)
class Tables:
    """Two tables, and for each row of the right one its origin on the left, -1 for none."""

    left: Tensor
    right: Tensor
    origins: Tensor
    variant: ahop.MixedVariant


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"setting": name, "seed": seed}
        for seed in range(seeds)
        for name, setting in (QUICK if quick else FULL).items()
        if seed == 0 or not setting.only_first_seed
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    setting, seed = (QUICK if quick else FULL)[cell["setting"]], cell["seed"]
    found = {"link": _link, "same": _same}[setting.kind](setting, seed)
    return [{**cell, "n": setting.n, **found}]


def _link(setting: Setting, seed: int) -> Row:
    tables = _drawn(setting, seed, 10_000 + seed)
    is_large = setting.n > MANY_ROWS
    started, worked = time.perf_counter(), time.process_time()
    # What `link` does with bare tables; of large ones it learns from a part.
    memory = None if is_large else ahop.fit(tables.left, queries=tables.right, progress=False)
    links = ahop.link(tables.left if memory is None else memory, tables.right, progress=False)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
    linked = _linked(links, tables)
    sure = torch.as_tensor(links.probability)
    is_right = (linked == tables.origins)[torch.as_tensor(links.right)]
    row: Row = {
        "linked": hit_rate(linked, tables.origins),
        "bayes_per_query": _ceiling(tables),
        "ece": calibration_error(*reliability(sure, is_right)),
        "said": float(sure.mean()),
        "precision": float(is_right.double().mean()),
        "f1": f1(linked, tables.origins),
        "unmatched_said": links.unmatched_share,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }
    if memory is None:
        return row
    alone = memory.recall(tables.right)
    row["per_query"] = hit_rate(alone.indices[:, 0], tables.origins)
    if setting.unmatched:
        other = _drawn(setting, seed, 20_000 + seed)
        tuned = _best_threshold(memory.recall(other.right), other.origins)
        row["f1_half"] = f1(_accepted(alone, 0.5), tables.origins)
        row["f1_tuned"] = f1(_accepted(alone, tuned), tables.origins)
        row["bayes_per_query"] = None  # of rows that may have no origin it is no ceiling
    else:
        exact = ahop.AssociativeMemory(tables.left, ahop.likelihood.LikelihoodSimilarity(tables.variant))
        row["linked_exact"] = hit_rate(_linked(ahop.link(exact, tables.right), tables), tables.origins)
    return row


def _linked(links: ahop.linking.Links, tables: Tables) -> Tensor:
    """For each right row the left one, -1 for none."""
    found = torch.full_like(tables.origins, -1)
    found[torch.as_tensor(links.right)] = torch.as_tensor(links.left)
    return found


def _same(setting: Setting, seed: int) -> Row:
    """Several copies of each origin, known to be of one: what they say is added."""
    patterns, variant = uniform_patterns(setting.n, setting.dimensions, seed), _variant(seed)
    memory = ahop.fit(patterns, pairs=variant.sample(patterns, 512, seed), progress=False)
    origins = torch.randperm(setting.n, generator=Generator().manual_seed(10_000 + seed))
    same = torch.arange(setting.n).repeat(setting.copies)
    queries = variant.corrupt(patterns[origins[same]], Generator().manual_seed(10_000 + seed))
    started, worked = time.perf_counter(), time.process_time()
    answer = memory.recall(queries, same=same)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
    is_right = answer.indices[:, 0] == origins
    scores = ahop.likelihood.LikelihoodSimilarity(variant)(patterns, queries).double()
    exact = scores.view(setting.copies, setting.n, setting.n)
    return {
        "per_query": hit_rate(memory.recall(queries).indices[:, 0], origins[same]),
        "linked": float(is_right.double().mean()),
        "bayes_per_query": hit_rate(scores.argmax(-1), origins[same]),
        "linked_exact": hit_rate(exact.sum(0).argmax(-1), origins),
        "ece": calibration_error(*reliability(answer.posterior[:, 0], is_right)),
        "said": float(answer.posterior[:, 0].mean()),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }


def _variant(seed: int) -> ahop.MixedVariant:
    return ahop.MixedVariant(DIFFICULTY, DIFFICULTY, DIFFICULTY, seed=seed)


def _drawn(setting: Setting, seed: int, seed_of_copies: int) -> Tables:
    """Of each table the same share of rows has no partner in the other."""
    variant, alone = _variant(seed), round(setting.unmatched * setting.n)
    patterns = uniform_patterns(setting.n + alone, setting.dimensions, seed)
    generator = Generator().manual_seed(seed_of_copies)
    origins = alone + torch.randperm(setting.n, generator=generator)
    copies = variant.corrupt(patterns[origins], generator)
    return Tables(patterns[: setting.n], copies, origins.where(origins < setting.n, -1), variant)


def _ceiling(tables: Tables) -> float:
    """What the exact posterior of single queries reaches; of some of them, where there are very many."""
    some = slice(None, CEILING_QUERIES if len(tables.left) > MANY_ROWS else None)
    exact = ahop.AssociativeMemory(tables.left, ahop.likelihood.LikelihoodSimilarity(tables.variant))
    return hit_rate(exact.recall(tables.right[some]).indices[:, 0], tables.origins[some])


def _accepted(answer: ahop.Recall[Tensor], threshold: float) -> Tensor:
    return answer.indices[:, 0].where(answer.confidence >= threshold, -1)


def _best_threshold(answer: ahop.Recall[Tensor], origins: Tensor) -> float:
    worth = [f1(_accepted(answer, threshold), origins) for threshold in THRESHOLDS]
    return THRESHOLDS[worth.index(max(worth))]


EXPERIMENT = Experiment(
    name="linking",
    title="Whole tables at once, without labels",
    seeds=5,
    cells=cells,
    run=run,
    keys=("setting", "n"),
    metrics=(
        "linked",
        "per_query",
        "bayes_per_query",
        "linked_exact",
        "ece",
        "said",
        "precision",
        "f1",
        "f1_half",
        "f1_tuned",
        "unmatched_said",
        "seconds",
        "cpu_seconds",
    ),
    notes=(
        "Mask, noise and constant bias of 0.4, as in `bayes_limit`. *linked* is the share of right rows whose link, or "
        "lack of one, is right; *per_query* that of the first answers of the same memory, asked row by row; "
        "*bayes_per_query* what the exact posterior of single rows reaches on the same rows, and *linked_exact* what "
        "linking by the exact posterior reaches. *ece* is the calibration error of the links' probabilities, *said* "
        "their mean. Where rows are unmatched, *f1_half* accepts single answers from a confidence of 0.5 on, and "
        "*f1_tuned* from the threshold on that is best on another pair of tables of the same origin, with labels. "
        "Three queries of one origin are learned from "
        "512 pairs. The memory of tables is learned from the tables alone, and that is part of *seconds*; "
        "*cpu_seconds* are those of all threads, as other programs ran beside. 100,000 rows have one seed, 64 "
        "dimensions, and a ceiling from 300 rows."
    ),
)
