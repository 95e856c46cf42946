"""A new phone in a mapped building: 30 scans at known places, and where is it after that?

Each phone is left out of the radio map in turn, learns from 30 pairs and is tested at other places. Then the official
split: months later, eleven phones, 15 pairs of each.
"""

from torch import Tensor

import ahop
from experiments.support.harness import Experiment, Row
from experiments.support.learning import report_of
from experiments.support.measures import hit_rate, mean_of, milliseconds, pooled_error, tallied
from experiments.support.metric_peers import nearest_by_nca
from experiments.support.wifi_peers import METRICS, offsets_off, powed
from experiments.support.wifi_protocol import WifiDraw, leave_out_phone, metres, official_split, phones

OFFICIAL, ALL_PHONES = "official", "all phones"
BASELINES, AUTO, GROUPS = "baselines", "auto", "auto, groups"
PRACTITIONER = "Sørensen, offset"
REGION = 10.0  # metres
TALLIES = tuple(f"{what}{part}" for what in ("", "region_") for part in ("count", "said", "hits"))
METRICS_SHOWN = ("top1", "metres", "floor", "ece", "region_ece", "ms_per_query")


def cells(seeds: int, quick: bool) -> list[Row]:
    left_out = phones()[:2] if quick else phones()
    settings = [f"phone {phone}" for phone in left_out]
    return [
        {"setting": setting, "method": method, "seed": seed}
        for seed in range(seeds)
        for method in (BASELINES, AUTO, GROUPS)
        for setting in (settings if method != GROUPS else []) + ([] if quick and method != BASELINES else [OFFICIAL])
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    draw = _drawn(cell["setting"], cell["seed"], quick)
    if cell["method"] == BASELINES:
        return [{**cell, **row} for row in _baselines(draw)]
    groups = cell["method"] == GROUPS
    memory = ahop.fit(
        draw.patterns,
        pairs=draw.pairs,
        groups=draw.pair_phones if groups else None,
        seed=cell["seed"],
        progress=False,
    )
    return [{**cell, "model": cell["method"], **_answered(memory, draw, draw.test_phones if groups else None)}]


def _drawn(setting: str, seed: int, quick: bool) -> WifiDraw:
    if setting == OFFICIAL:
        return official_split(seed)
    return leave_out_phone(int(setting.removeprefix("phone ")), seed, queries=60 if quick else 150)


def _baselines(draw: WifiDraw) -> list[Row]:
    pairs, queries = offsets_off(draw)
    found = {}
    for name, metric in METRICS.items():
        found[name] = metric(draw.patterns, draw.test.queries).argmax(1)
        found[f"{name}, offset"] = metric(draw.patterns, queries).argmax(1)
    learned = ahop.Pairs(pairs.origins, powed(pairs.queries))
    found["NCA, offset"] = nearest_by_nca(powed(draw.patterns), learned, powed(queries))
    return [
        {"model": model, **_placed(rows, draw), "chosen": None} | {tally: [] for tally in TALLIES}
        for model, rows in found.items()
    ]


def _answered(memory: ahop.AssociativeMemory, draw: WifiDraw, groups: list[int] | None) -> Row:
    answer = memory.recall(draw.test.queries, k=len(memory), groups=groups)
    first, said = answer.indices[:, 0], answer.posterior[:, 0]
    apart = metres(draw.places[answer.indices], draw.places[first[:, None]])
    mass = (answer.posterior * (apart <= REGION)).sum(1).clamp(max=1)
    near = metres(draw.places[first], draw.truth) <= REGION
    return {
        **_placed(first, draw),
        **tallied(said, first == draw.test.origins),
        **tallied(mass, near, "region_"),
        "ms_per_query": milliseconds(lambda: memory.recall(draw.test.queries, groups=groups)) / len(draw.test),
        "chosen": report_of(memory).chosen,
    }


def _placed(found: Tensor, draw: WifiDraw) -> Row:
    places = draw.places[found]
    on_floor = (places.floor == draw.truth.floor) & (places.building == draw.truth.building)
    return {
        "top1": hit_rate(found, draw.test.origins),
        "metres": float(metres(places, draw.truth).mean()),
        "floor": float(on_floor.double().mean()),
    }


def summarize(rows: list[Row]) -> list[Row]:
    """The mean over phones for each model. Calibration errors are of the queries of all phones and draws."""
    models: dict[str, list[Row]] = {}
    for row in rows:
        if row["setting"] != OFFICIAL:
            models.setdefault(row["model"], []).append(row)
    return [
        {"setting": ALL_PHONES, "method": group[0]["method"], "model": model, "chosen": None}
        | {metric: mean_of(group, metric) for metric in METRICS_SHOWN}
        | {f"{what}ece": pooled_error(group, what) for what in ("", "region_")}
        for model, group in models.items()
    ]


def headline(rows: list[Row]) -> Row:
    found = {(row["setting"], row["model"]): row for row in rows}
    ours, official = found.get((ALL_PHONES, AUTO), {}), found.get((OFFICIAL, AUTO), {})
    grouped = found.get((OFFICIAL, GROUPS), {})
    tested = [setting for setting, model in found if model == AUTO and setting not in (OFFICIAL, ALL_PHONES)]
    not_below = [
        found[setting, AUTO]["metres"] <= found[setting, PRACTITIONER]["metres"]
        for setting in tested
        if (setting, PRACTITIONER) in found
    ]
    return {
        "phone_top1": ours.get("top1"),
        "phone_error_m": ours.get("metres"),
        "phones_not_below_best": sum(not_below),
        "phones": len(not_below),
        "official_error_m": official.get("metres"),
        "official_floor": official.get("floor"),
        "official_groups_error_m": grouped.get("metres"),
        "official_groups_floor": grouped.get("floor"),
        "ece": ours.get("ece"),
        "region_ece": ours.get("region_ece"),
        "ms_per_query": ours.get("ms_per_query"),
    }


EXPERIMENT = Experiment(
    name="wifi",
    title="Where is a phone that the radio map was made without? UJIIndoorLoc, 30 pairs",
    seeds=5,
    cells=cells,
    run=run,
    keys=("setting", "model"),
    metrics=METRICS_SHOWN,
    words=("chosen",),
    tallies=TALLIES,
    summarize=summarize,
    headline=headline,
    notes=(
        "Patterns: a point of the map is building, floor and coordinates rounded to 0.1 m; the mean of its visits, NaN "
        "where fewer than 30 % heard the access point. `phone N`: the map is made by the others; half of the points "
        "are for 30 pairs, the others for 150 test queries. `official`: map of the training campaign, queries of the "
        "validation campaign, of which 15 for each phone are pairs with the nearest point of the same floor. "
        "`top1` is the point itself, `metres` from the first answer to the truth on the map, `floor` how often floor "
        "and building are right. `offset`: the median of copy less pattern over the pairs of a phone is taken off its "
        "queries. Sørensen, cosine and NCA are of powed features. NCA is scikit-learn's neighborhood components "
        "analysis, whose classes are the points; metric-learn 0.7.0 does not run beside scikit-learn 1.8 and later. "
        "nan_euclidean is the metric of scikit-learn's `NearestNeighbors`: what only one side heard does not count, so "
        "that a point with one station in common can be nearest. `ece`: 15 bins of equal width, the queries of all "
        "phones and draws; `region_ece` the same for the posterior within 10 m of the first answer against how often "
        "the truth is within 10 m of it. `ms_per_query`: all test queries in one batch, one thread, best of three. The "
        "quick form has two phones, 60 queries, and the official split for the baselines alone."
    ),
)
