"""A spectrum of a new instrument: which stored sample is it, after 20 or 5 samples were measured on both?

Every ordered pair of spectrometers that have at least 60 nm in common, raw spectra interpolated to 100 channels.
"""

from torch import Tensor

import ahop
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn, report_of
from experiments.support.measures import hit_rate, mean_of, milliseconds, pooled_error, tallied
from experiments.support.metric_peers import nearest_by_nca
from experiments.support.nir_peers import baselines
from experiments.support.nir_protocol import NirDraw, drawn, ordered_pairs, with_snv

BASELINES, BY_NAME, AUTO = "baselines", "by name", "auto"
NAMED = ("mixture", "nuisance", "additive", "mixture, SNV", "nuisance, SNV")
COUNTS = (20, 5)
MEAN = "mean"
QUICK = [("Micronir1700rep1", query) for query in ("Micronir2200", "Tellspec", "Nirscan_nano")]
TALLIES = ("count", "said", "hits")
METRICS = ("top1", "ece", "ms_per_query")
CLOSE = 0.02


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"library": library, "query": query, "pairs": pairs, "method": method, "seed": seed}
        for method in (BASELINES, AUTO, BY_NAME)
        for pairs in (COUNTS[:1] if quick else COUNTS)
        for seed in range(seeds)
        for library, query in (QUICK[:1] if quick and method == BY_NAME else QUICK if quick else ordered_pairs())
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    draw = drawn(cell["library"], cell["query"], cell["pairs"], cell["seed"])
    if cell["method"] == BASELINES:
        return [
            {**cell, "model": name, "top1": hit_rate(found, draw.test.origins), "chosen": None}
            | {tally: [] for tally in TALLIES}
            for name, found in {**baselines(draw), "SNV, debiased, NCA": _by_nca(with_snv(draw))}.items()
        ]
    names = [AUTO] if cell["method"] == AUTO else NAMED
    return [{**cell, "model": name, **_answered(name, draw, cell["seed"])} for name in names]


def _by_nca(draw: NirDraw) -> Tensor:
    shift = (draw.pairs.queries - draw.patterns[draw.pairs.origins]).mean(0)
    pairs = ahop.Pairs(draw.pairs.origins, draw.pairs.queries - shift)
    return nearest_by_nca(draw.patterns, pairs, draw.test.queries - shift)


def _answered(name: str, draw: NirDraw, seed: int) -> Row:
    draw = with_snv(draw) if name.endswith(", SNV") else draw
    memory = learn(draw.patterns, draw.pairs, name.removesuffix(", SNV"), seed)
    answer = memory.recall(draw.test.queries)
    right = answer.indices[:, 0] == draw.test.origins
    return {
        "top1": float(right.double().mean()),
        **tallied(answer.posterior[:, 0], right),
        "ms_per_query": milliseconds(lambda: memory.recall(draw.test.queries)) / len(draw.test),
        "chosen": report_of(memory).chosen,
    }


def summarize(rows: list[Row]) -> list[Row]:
    """The mean over instruments. Calibration errors are of the queries of all instruments and draws."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["pairs"], row["model"]), []).append(row)
    return [
        {"library": MEAN, "query": MEAN, "pairs": pairs, "method": group[0]["method"], "model": model, "chosen": None}
        | {metric: mean_of(group, metric) for metric in METRICS}
        | {"ece": pooled_error(group)}
        for (pairs, model), group in groups.items()
    ]


def headline(rows: list[Row]) -> Row:
    return {**_compared(rows, 20, ""), **_compared(rows, 5, "_5")}


def _compared(rows: list[Row], pairs: int, ending: str) -> Row:
    """`auto` against the best of the baselines and the best by name, each of them the best after the fact."""
    cases: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if row["pairs"] == pairs:
            cases.setdefault((row["library"], row["query"]), {})[row["model"]] = row
    mean = cases.pop((MEAN, MEAN), {})
    compared = [models for models in cases.values() if AUTO in models]
    ours = [models[AUTO]["top1"] for models in compared]
    simple, named = ([_best(models, method) for models in compared] for method in (BASELINES, BY_NAME))
    found = {
        "pairs_won": sum(own >= other for own, other in zip(ours, simple, strict=True) if other is not None),
        "pairs": sum(other is not None for other in simple),
        "mean_top1": mean.get(AUTO, {}).get("top1"),
        "best_simple_top1": _best(mean, BASELINES),
        "ece": mean.get(AUTO, {}).get("ece"),
        "within_of_best": _count_close(ours, named),
        "best_named_top1": _best(mean, BY_NAME),
        "ms_per_query": mean.get(AUTO, {}).get("ms_per_query"),
    }
    return {f"{name}{ending}": value for name, value in found.items()}


def _count_close(ours: list[float], named: list[float | None]) -> int | None:
    """On how many pairs of instruments it is as good as the best by name; None if none was tried by name."""
    close = [own >= other - CLOSE for own, other in zip(ours, named, strict=True) if other is not None]
    return sum(close) if close else None


def _best(models: dict[str, Row], method: str) -> float | None:
    return max((row["top1"] for row in models.values() if row["method"] == method), default=None)


EXPERIMENT = Experiment(
    name="nir",
    title="Which stored sample is it, seen by another spectrometer? Sugarcane, 60 samples, 20 or 5 pairs",
    seeds=10,
    cells=cells,
    run=run,
    keys=("library", "query", "pairs", "model"),
    metrics=METRICS,
    words=("chosen",),
    tallies=TALLIES,
    summarize=summarize,
    headline=headline,
    notes=(
        "Both instruments interpolated to 100 channels of their common range, every ordered pair of the seven "
        "instruments with at least 60 nm in common; of the three repeats of the MicroNIR 1700 the first. 40 test "
        "queries of samples that are in no pair, the same for 20 and 5 pairs. `debiased`: the mean difference of the "
        "pairs is taken off the queries. `derivative` is the correlation of first differences. PDS: raw or SNV, window "
        "and ridge are chosen by the mean reciprocal rank of left-out pairs. `SNV, debiased, NCA` is scikit-learn's "
        "neighborhood components analysis, whose classes are the origins; metric-learn 0.7.0 does not run beside "
        "scikit-learn 1.8 and later, so LMNN and ITML are not here. `pairs_won` counts where `auto` is not behind the "
        "best baseline of that pair of instruments, `within_of_best` where it is at most .02 behind the best model by "
        "name, each of them the best after the fact; `best_simple_top1` is the mean of the one baseline that is best "
        "on average. `ece`: 15 bins of equal width, the queries of all instruments and draws. `ms_per_query`: all test "
        "queries in one batch, one thread, best of three. Splink was not tried: it compares records by levels of "
        "agreement in a few columns, not curves. The quick form has 20 pairs, one instrument in the library and three "
        "that ask, models by name on the first of them."
    ),
)
