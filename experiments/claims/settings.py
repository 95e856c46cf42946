"""Does a setting of the fits matter? Each is halved and doubled, on real tasks, beside what another draw moves."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache

import torch
from torch import Tensor

import ahop
from ahop.fitting import Settings
from experiments.support.damages import REAL, DamagedVariant
from experiments.support.harness import Experiment, Row
from experiments.support.label_free_tasks import INSTRUMENTS
from experiments.support.measures import calibration_error, reliability
from experiments.support.nir_protocol import drawn
from experiments.support.settings import seed_of_test
from experiments.support.unlabelled import seed_of_log
from experiments.support.wifi_protocol import leave_out_phone, official_split, phones

DEFAULT, HALVED, DOUBLED = "default", "halved", "doubled"
FACTORS = {HALVED: 0.5, DOUBLED: 2.0}
ALL = "all tasks"
QUICK_QUERIES = 60
MEASURES = ("right", "loss", "ece")
MOVES = tuple(f"{measure}_moved" for measure in MEASURES)
METRICS = (*MEASURES, *MOVES, "posterior_moved")
# A task tells a setting from half or twice of it, if one of these moves by more, in the mean of all draws.
TOLD = {"right_moved": 0.005, "loss_moved": 0.01, "ece_moved": 0.005}


@dataclass(frozen=True)
class Task:
    """Attributes:
    fit: settings -> a memory.
    test: queries whose origins are known.
    groups: of these.
    """

    fit: Callable[[Settings], ahop.AssociativeMemory]
    test: ahop.Pairs
    groups: list[int] | None = None


def _wifi(seed: int, has_pairs: bool) -> Task:
    """Another phone for each seed, new to the map."""
    draw = leave_out_phone(phones()[seed % len(phones())], seed)
    if has_pairs:
        return Task(_of_pairs(draw.patterns, draw.pairs, seed), draw.test)
    return Task(_of_log(draw.patterns, draw.pairs.queries, None, seed), draw.test)


def _nir(seed: int, has_pairs: bool) -> Task:
    """Another two instruments for each seed."""
    draw = drawn(*INSTRUMENTS[seed % len(INSTRUMENTS)], 20, seed)
    if has_pairs:
        return Task(_of_pairs(draw.patterns, draw.pairs, seed), draw.test)
    return Task(_of_log(draw.patterns, draw.pairs.queries, None, seed), draw.test)


def _spectra(seed: int, is_log: bool) -> Task:
    """60 labels of spectra on another grid; or 30, and 170 without."""
    name = "spectra, resampled"
    patterns, variant = REAL[name].patterns(seed), DamagedVariant(name, REAL[name].damage)
    log = variant.sample(patterns, 200, seed_of_log(seed))
    test = variant.sample(patterns, 300, seed_of_test(seed))
    labels = ahop.Pairs(*(each[: 30 if is_log else 60] for each in (log.origins, log.queries)))
    if is_log:
        return Task(_of_log(patterns, log.queries[30:], labels, seed), test)
    return Task(_of_pairs(patterns, labels, seed), test)


def _grouped(seed: int) -> Task:
    """Months later, eleven phones; the map of one building."""
    draw = official_split(seed)
    inside = draw.places.building == 0
    place = inside.cumsum(0) - 1
    learned, tested = inside[draw.pairs.origins], draw.truth.building == 0

    def of(pairs: ahop.Pairs, kept: Tensor) -> ahop.Pairs:
        return ahop.Pairs(place[pairs.origins[kept]], pairs.queries[kept])

    names, asked = (
        [each[row] for row in kept.nonzero().flatten()]
        for each, kept in ((draw.pair_phones, learned), (draw.test_phones, tested))
    )
    return Task(_of_pairs(draw.patterns[inside], of(draw.pairs, learned), seed, names), of(draw.test, tested), asked)


def _later(seed: int) -> Task:
    """Fitted to pairs of one instrument, and followed to the queries of another."""
    (library, first), other = INSTRUMENTS[seed % 2], INSTRUMENTS[1 - seed % 2][1]
    draw, later = drawn(library, first, 20, seed), drawn(library, other, 20, seed)

    @cache
    def before() -> ahop.AssociativeMemory:
        return ahop.fit(draw.patterns, pairs=draw.pairs, seed=seed, progress=False)

    log = torch.cat([later.pairs.queries, later.test.queries[:20]])
    return Task(lambda settings: ahop.adapt(before(), log, settings=settings, seed=seed, progress=False), later.test)


def _of_pairs(
    patterns: Tensor, pairs: ahop.Pairs, seed: int, groups: list[int] | None = None
) -> Callable[[Settings], ahop.AssociativeMemory]:
    return lambda settings: ahop.fit(patterns, pairs=pairs, groups=groups, settings=settings, seed=seed, progress=False)


def _of_log(
    patterns: Tensor, log: Tensor, labels: ahop.Pairs | None, seed: int
) -> Callable[[Settings], ahop.AssociativeMemory]:
    return lambda settings: ahop.fit(patterns, pairs=labels, queries=log, settings=settings, seed=seed, progress=False)


TASKS: dict[str, Callable[[int], Task]] = {
    "Wi-Fi, 30 pairs": lambda seed: _wifi(seed, has_pairs=True),
    "near infrared, 20 pairs": lambda seed: _nir(seed, has_pairs=True),
    "resampled spectra, 60 pairs": lambda seed: _spectra(seed, is_log=False),
    "Wi-Fi, pairs of eleven phones": _grouped,
    "Wi-Fi, a log": lambda seed: _wifi(seed, has_pairs=False),
    "near infrared, a log": lambda seed: _nir(seed, has_pairs=False),
    "resampled spectra, a log and 30 labels": lambda seed: _spectra(seed, is_log=True),
    "near infrared, later queries": _later,
}

# Where the settings of a stage are tried.
PAIRS = ("Wi-Fi, 30 pairs", "near infrared, 20 pairs", "resampled spectra, 60 pairs")
LOGS = ("near infrared, a log", "Wi-Fi, a log", "resampled spectra, a log and 30 labels")
PLACES: dict[str, tuple[str, ...]] = {
    "mixture": PAIRS,
    "candidates": PAIRS,
    "selection": PAIRS,
    "pool": PAIRS,
    "posterior": PAIRS,
    "groups": ("Wi-Fi, pairs of eleven phones",),
    "unlabeled": LOGS,
    "adapt": ("near infrared, later queries",),
}
# One cheap task for each stage.
QUICK = {"near infrared, 20 pairs", "near infrared, a log", "near infrared, later queries"}


def settings_of(stage: str) -> list[str]:
    return [each.name for each in fields(getattr(Settings(), stage))]


def changed(stage: str, name: str, change: str) -> Settings:
    """Whole numbers stay whole, shares at most one, and there are two folds at least."""
    settings = Settings()
    of_stage = getattr(settings, stage)
    value = FACTORS[change] * getattr(of_stage, name)
    if isinstance(getattr(of_stage, name), int):
        value = max(2 if name.startswith("folds") else 1, round(value))
    value = min(1.0, value) if name.endswith("_share") else value
    return replace(settings, **{stage: replace(of_stage, **{name: value})})


def cells(seeds: int, quick: bool) -> list[Row]:
    tasks = [task for task in TASKS if task in QUICK or not quick]
    default = [
        {"task": task, "setting": DEFAULT, "change": "", "seed": seed} for task in tasks for seed in range(seeds)
    ]
    return default + [
        {"task": task, "setting": f"{stage}.{name}", "change": change, "seed": seed}
        for seed in range(seeds)
        for task in tasks
        for stage, places in PLACES.items()
        if task in places
        for name in settings_of(stage)
        for change in FACTORS
    ]


@cache
def _task(name: str, seed: int) -> Task:
    return TASKS[name](seed)


@cache
def _by_default(name: str, seed: int) -> tuple[Row, Tensor]:
    return _measured(_task(name, seed), Settings())


def _measured(task: Task, settings: Settings) -> tuple[Row, Tensor]:
    """Shares of right first answers, log-loss of the origin, calibration error; and the posterior of each origin."""
    weights = _weights(task.fit(settings), task).double()
    said, first = weights.max(-1)
    of_origin = weights.gather(-1, task.test.origins.unsqueeze(-1)).squeeze(-1)
    right = first == task.test.origins
    measures = (
        float(right.double().mean()),
        float(-of_origin.clamp_min(1e-12).log().mean()),
        calibration_error(*reliability(said, right)),
    )
    return dict(zip(MEASURES, measures, strict=True)), of_origin


def _weights(memory: ahop.AssociativeMemory, task: Task) -> Tensor:
    if task.groups is None:
        return memory.weights(task.test.queries)
    groups, weights = torch.tensor(task.groups), torch.empty(len(task.test), len(memory))
    for group in sorted(set(task.groups)):
        own = groups == group
        model = memory.model.for_group(group)
        weights[own] = ahop.AssociativeMemory(memory.patterns, model=model).weights(task.test.queries[own])
    return weights


def run(cell: Row, quick: bool) -> list[Row]:
    before, of_origin = _by_default(cell["task"], cell["seed"])
    if cell["setting"] == DEFAULT:
        return [{**cell, **before, **dict.fromkeys((*MOVES, "posterior_moved"))}]
    stage, name = cell["setting"].split(".")
    now, moved = _measured(_task(cell["task"], cell["seed"]), changed(stage, name, cell["change"]))
    apart = {f"{measure}_moved": now[measure] - before[measure] for measure in MEASURES}
    return [{**cell, **now, **apart, "posterior_moved": float((moved - of_origin).abs().mean())}]


def summarize(rows: list[Row]) -> list[Row]:
    """For each setting the most that half or twice of it moves on any task, and how many tasks tell."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["setting"] != DEFAULT:
            found.setdefault(row["setting"], []).append(row)
    return [
        {"task": ALL, "setting": setting, "change": "either", **dict.fromkeys(MEASURES)}
        | {move: max((row[move] for row in group), key=abs) for move in (*MOVES, "posterior_moved")}
        | {"told_by": len({row["task"] for row in group if _tells(row)}), "tasks": len({row["task"] for row in group})}
        for setting, group in found.items()
    ]


def _tells(row: Row) -> bool:
    return any(abs(row[move]) > least for move, least in TOLD.items())


def headline(rows: list[Row]) -> Row:
    """Settings that some task tells from half or twice of them, and those that none does."""
    told = [row for row in rows if row["task"] == ALL]
    return {
        "settings": len(told),
        "settings_told": sum(row["told_by"] > 0 for row in told),
        "not_told": [row["setting"] for row in told if not row["told_by"]],
    }


EXPERIMENT = Experiment(
    name="settings",
    title="Which settings of the fits matter: each halved and doubled, on real tasks",
    seeds=3,
    cells=cells,
    run=run,
    keys=("task", "setting", "change"),
    metrics=METRICS,
    summarize=summarize,
    headline=headline,
    notes=(
        "*right*: the share of first answers that are right; *loss*: mean of -log posterior of the origin; *ece*: 15 "
        "bins of equal width. *moved*: the same less that of the default on the same draw; *posterior_moved* is the "
        "mean absolute change of the posterior of the origin. The rows of the default have the spread over draws; "
        "each draw has another phone, two other instruments or another sample. A task tells a setting if half or "
        "twice of it moves *right* by more than .005, *loss* by more than .01 or *ece* by more than .005, in the mean "
        "of the draws; *told_by* counts the tasks. Wi-Fi: the protocol of `wifi`, 150 queries; eleven phones: the "
        "official split in one building, groups. Near infrared: 20 spectra, 40 queries. Spectra on another grid: 2048 "
        "stored, 300 queries. Later queries: fitted to 20 pairs of one instrument and adapted to 40 spectra of "
        "another. The quick form has three tasks, and none for groups."
    ),
)
