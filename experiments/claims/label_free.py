"""Do probabilities hold without labels? Said beside right, and what `watch` and a precision of 0.9 come to."""

from experiments.support.harness import Experiment, Row
from experiments.support.label_free_tasks import FAMILIES, NONE, TWENTY, drawn_task
from experiments.support.measures import mean_of
from experiments.support.promises import VERDICTS, judged

MEAN = "mean"
METRICS = (
    *("right", "said", "confidence", "ece", "ece_chance", "sure_share", "sure_right"),
    *("watch_low", "watch_high", "watch_covers", "accepted", "accepted_right", "at_word_accepted"),
    *("at_word_accepted_right", "metres", "metres_customary", "link_f1", "link_f1_nearest"),
)
SHARES = {
    "sure_right": "sure_tally",
    "accepted_right": "accepted_tally",
    "at_word_accepted_right": "at_word_accepted_tally",
}
TALLIES = (*SHARES.values(), "promise_tally", "at_word_promise_tally", "watch_tally")


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"family": name, "task": task, "variant": variant, "seed": seed}
        for seed in range(seeds)
        for name, family in FAMILIES.items()
        if family.is_quick or not quick
        for task in family.tasks(quick)
        for variant in family.variants
        if variant in (NONE, TWENTY) or not quick
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    seed, variant = cell["seed"], cell["variant"]
    task = drawn_task(cell["family"], cell["task"], seed)
    memory, labels = task.taught(variant, seed)
    return [{**cell, **judged(memory, task.test, labels, seed), **task.beside(memory)}]


def summarize(rows: list[Row]) -> list[Row]:
    """The mean of each family; shares of what was said or accepted are of all its answers together."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["family"], row["variant"]), []).append(row)
    return [
        {"family": family, "task": MEAN, "variant": variant, "runs": sum(row["runs"] for row in group)}
        | {metric: mean_of(group, metric) for metric in METRICS}
        | {tally: _added(group, tally) for tally in TALLIES}
        | {share: _share(*_added(group, tally)) for share, tally in SHARES.items()}
        for (family, variant), group in groups.items()
    ]


def headline(rows: list[Row]) -> Row:
    """Promises given, broken and refused; how often `watch` holds the truth; with and without labels."""
    single = [row for row in rows if row["task"] != MEAN]
    without = [row for row in single if row["variant"] == NONE]
    return {**_counted(single), **{f"{name}_without_labels": count for name, count in _counted(without).items()}}


def _counted(rows: list[Row]) -> Row:
    kept, broken, none, refused = _added(rows, "promise_tally") or [0] * len(VERDICTS)
    _, words_broken, _, words_refused = _added(rows, "at_word_promise_tally") or [0] * len(VERDICTS)
    covered, given, unwatched = _added(rows, "watch_tally") or [0, 0, 0]
    return {
        "promises": kept + broken + none,
        "promises_broken": broken,
        "refusals": refused,
        "at_word_broken": words_broken,
        "at_word_refusals": words_refused,
        "watch_covers": _share(covered, given),
        "watch_refusals": unwatched,
    }


def _added(rows: list[Row], tally: str) -> list[int]:
    return [sum(places) for places in zip(*(row[tally] for row in rows), strict=True)]


def _share(hits: int, count: int) -> float | None:
    return round(hits / count, 5) if count else None


EXPERIMENT = Experiment(
    name="label_free",
    title="What probabilities are worth that were learned without labels, beside those of a few labels",
    seeds=5,
    cells=cells,
    run=run,
    keys=("family", "task", "variant"),
    metrics=METRICS,
    words=("promise", "at_word_promise", "checked"),
    tallies=TALLIES,
    summarize=summarize,
    headline=headline,
    notes=(
        "*right* is the share of first answers that are right, *said* their mean posterior, *confidence* the same "
        "times how likely the origin is stored, as it always is here. *ece*: 15 bins of equal width; *ece_chance* is "
        "that of an answerer who says the same and is right as often as he says. *sure_share* of the answers are said "
        "with more than 0.9, and *sure_right* of these are right. *watch_low* to *watch_high* is the interval of "
        "`watch` on the test queries, *watch_covers* whether it holds *right*. *accepted*: the share of queries that "
        "whoever wants a precision of 0.9 accepts, by `policy` of the very labels, or without labels as the command "
        "line does without held-out pairs, at the word of the probabilities; *at_word_accepted* does so with labels "
        "too. A promise is broken if a precision of 0.9 lies above the interval of Clopper and Pearson, 95 %. Labels "
        "are of the first rows of the log, or *of ask*, those that `ahop.ask` names to a memory that has learned from "
        "the log alone; the rest of it is learned from as well where it says *and the log*. Wi-Fi: the "
        "protocol of `wifi`, 30 scans of the phone left out, 150 tested; *metres_customary* are those of Sørensen "
        "less the median offset of all 30 scans, whose places that needs, whatever the variant; *raw scans of others*: "
        "those that the map is made of are fitted with their places as labels and their phones as groups, and the 30 "
        "scans are followed by `adapt`. Text: short "
        "descriptions of Debian packages ask for long ones, 6,000 stored (MiniLM 3,500), 600 in the log, 400 tested. "
        "Near infrared: 20 spectra in the log, 40 tested. Damages: those of `never_worse`, 512 in the log, 1000 "
        "tested, as of the generator, 512 patterns of 64 dimensions. Tables: 200 rows and 170 copies, noise of 0.1 "
        "standard deviations, 5 % outliers, 15 % gaps; twelve columns have units of their own, and gaps on both sides. "
        "*link_f1* is of `link`, *link_f1_nearest* of the better of two nearest neighbors whose largest distance was "
        "tuned with labels on other such tables. The quick form has a task of four families, two variants each."
    ),
)
