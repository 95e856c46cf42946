"""`python -m experiments.publish [--check]`: write every table of README and docs from the result files.

With `--check` nothing is written; a table that differs from its result file is an error.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments.support.harness import RESULTS, Row, table, table_of_differences
from experiments.support.real_tasks import TASKS, real_table

ROOT = RESULTS.parent.parent
WITH_RESULTS = (
    *("cookbook/sample-identity", "estimators", "fitting", "layers", "linking", "paper/errata", "reliability", "scale"),
    *("watching", "zoo"),
)
PAGES = (ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs" / f"{name}.md" for name in WITH_RESULTS))
# Where prose may say a number that a result file holds.
FOLDERS = ("", "tutorial", "cookbook", "migration")
# Code, results, formulas, and where links lead; and a number with a point in it.
NOT_PROSE = re.compile(r"```.*?```|<!-- results:.*?<!-- /results -->|`[^`]*`|\$[^$]*\$|\]\([^)]*\)", re.DOTALL)
DECIMAL = re.compile(r"(?<![\w.,])(\d*\.\d+)(?![\w.]*\d)")
# Accuracy: two runs of one experiment differ by about half of it.
CLOSE = 0.03
REAL = "real"  # the block that is made of several result files
MODELS = ["M-Hop", "M-Hop, fitted beta", "Euclid, fitted beta", "U-Hop", "K-Hop", "K2-Hop", "A-Hop"]
COLUMNS: dict[str, list[str]] = {
    "tab_retrieval": [
        *("reading", "dataset", "difficulty", "model", "accuracy", "bayes_blend", "paper", "top1", "bayes"),
        *("error", "paper_error"),
    ],
    "tab_perceptron": ["reading", "dataset", "difficulty", "accuracy", "bayes_blend", "top1", "bayes", "error"],
    "generator": ["candidate", "difficulty", "model", "accuracy", "paper", "error", "paper_error", "misfit", "bayes"],
    "tab_constant_bias": ["difficulty", "model", "accuracy", "bayes_blend", "top1", "bayes", "error"],
    "fig_mixed_variants": ["reading", "count", "setting", "model", "accuracy", "bayes_blend", "top1", "bayes"],
    "tab_ablations": [
        *("reading", "ablation", "solver", "difficulty", "accuracy", "bayes_blend", "paper", "top1", "bayes"),
        *("error", "paper_error"),
    ],
    "tab_multimodal": ["concepts", "model", "accuracy", "bayes_blend", "paper", "top1", "bayes"],
    "bayes_limit": ["setting", "model", "top1", "bayes", "ratio", "accuracy", "bayes_blend", "paper", "chosen"],
    "few_pairs": ["pairs", "model", "top1", "bayes", "accuracy", "bayes_blend", "chosen"],
    "isolated": ["pairs", "model", "top1", "bayes", "accuracy", "bayes_blend"],
    "wrong_pairs": ["share", "model", "top1", "bayes", "accuracy", "bayes_blend", "suspected", "chosen"],
    "unseen_corruption": ["corruption", "family", "model", "top1", "accuracy", "chosen"],
    "broken_data": ["dataset", "setting", "model", "top1", "bayes", "accuracy", "bayes_blend", "chosen"],
    "unknown_queries": ["setting", "model", "auroc", "chosen"],
    "explain": [
        *("setting", "outlier", "named", "first", "sum_error_micro", "recall_ms", "beyond_ms", "unknown_beyond_ms"),
    ],
    "policy": [
        *("setting", "pairs", "rule", "promised", "realized", "lower", "upper", "kept", "accepted", "set_size"),
        "refused",
    ],
    "attach": [
        *(
            "model",
            "clicks",
            "way",
            "top1",
            "auroc",
            "ece",
            "ece_chance",
            "ece_pooled",
            "precision",
            "coverage",
            "kept",
        ),
        "refused",
    ],
    "two_spaces": [
        *("task", "pairs", "way", "top1", "top10", "log_loss", "ece", "ece_pooled", "same_by_index"),
        *("verdict", "verdict_right"),
    ],
    "calibration": ["setting", "model", "ece", "top1", "confidence", "chosen"],
    "unlabelled": [
        *("setting", "queries", "pairs", "accuracy", "labelled", "plain", "bayes", "blended", "bayes_blend"),
        *("seconds", "chosen"),
    ],
    "unlabelled_scale": ["count", "accuracy", "plain", "seconds"],
    "never_worse": ["setting", "queries", "accuracy", "labelled", "plain", "blended", "seconds", "chosen"],
    "wifi_unlabelled": ["phone", "model", "top1", "error_m", "chosen"],
    "watching": [
        *("task", "setting", "drift", "error", "accuracy", "estimated", "covered", "unknown"),
        *("alarm", "named", "before", "after", "adapted", "won_back", "way", "chosen"),
    ],
    "label_free": [
        *("family", "variant", "right", "said", "ece", "ece_chance", "sure_share", "sure_right", "watch_covers"),
        *("accepted", "accepted_right", "at_word_accepted", "at_word_accepted_right", "metres", "metres_customary"),
        *("link_f1", "link_f1_nearest"),
    ],
    "linking": [
        *("setting", "n", "linked", "per_query", "bayes_per_query", "linked_exact", "ece", "said", "precision", "f1"),
        *("f1_half", "f1_tuned", "unmatched_said", "seconds", "cpu_seconds"),
    ],
    "error_bars": ["task", "model", "errors", "log_loss", "top1", "ece", "chosen"],
    "sample_identity": [
        *("task", "method", "sites", "top1", "of_ceiling", "said", "ece", "auroc", "swaps", "swaps_found"),
        *("swaps_false", "fit_cpu_seconds"),
    ],
    "mixed_linkage": [
        *("task", "method", "left", "right", "f1", "f1_best", "precision", "recall", "said", "ece", "seconds"),
        "cpu_seconds",
    ],
    "imputing": ["dataset", "model", "error", "error_ratio", "error_ratio_tuned", "seconds", "time_ratio", "chosen"],
    "tab_tabular": ["dataset", "model", "accuracy", "auc", "paper", "seconds"],
    "tab_tabular_network": ["dataset", "model", "accuracy", "auc", "seconds"],
    "tab_tabular_parts": ["dataset", "model", "accuracy", "auc", "seconds"],
    "tab_images": [
        *("protocol", "dataset", "pictures", "epochs", "patterns", "model", "accuracy", "swayed", "scaling"),
        *("rank_rate", "paper"),
    ],
    "broken_patches": ["model", "accuracy", "top1", "error", "chosen"],
    "tab_mil": ["dataset", "model", "auc", "paper", "inner_auc", "runs"],
    "wifi": ["setting", "model", "top1", "metres", "floor", "ece", "region_ece", "ms_per_query"],
    "nir": ["pairs", "model", "top1", "ece", "ms_per_query"],
    "massbank": ["model", "top1", "top1_up_to_75", "unknown_auroc", "ms_per_query", "chosen"],
    "bit_flips": ["what", "flips", "refused", "same", "different", "lost", "strange_error", "abort"],
    "billions": [
        *("patterns", "setting", "shards", "machines", "index_gb", "patterns_gb", "p50_ms", "p99_ms", "p999_ms"),
        *("queries_a_second", "told_to_retry", "update_us", "rebuild_core_hours"),
    ],
    "tab_timing": [
        *("dimensions", "count", "sorted", "form", "gradient_ms", "steps_ms", "inference_ms"),
        *("gradient_ratio", "inference_ratio", "paper_training_ms", "paper_inference_ms"),
    ],
}

# Of tables too long for a page, the lines that it shows; the result file has all.
SHOWN: dict[str, Callable[[Row], bool]] = {
    "wifi": lambda row: row["setting"] in ("official", "all phones"),
    "nir": lambda row: row["query"] == "mean",
    "label_free": lambda row: row["task"] == "mean",
    "bit_flips": lambda row: row["what"] in ("memory, all", "store, all"),
    "generator": lambda row: not row["candidate"].startswith("grid"),
}


def page() -> str:
    """The results page of the docs."""
    parts = [
        "# Results",
        "Every table here is written from a result file in this folder by `python -m experiments.publish`; the command "
        "beside it makes the file anew. ± is the standard deviation over seeds. *top1* is the share of queries whose "
        "first answer is right, and *bayes* what the exact posterior reaches there, which no retrieval can beat on "
        "average. *accuracy* counts as the paper does, the pattern nearest to the blended answer, and *bayes_blend* is "
        "the exact posterior read out that way; *paper* is the figure the paper prints.",
    ]
    for name, columns in COLUMNS.items():
        result = read(name)
        if result is None:
            continue
        parts.append(f"## {name}\n\n{result['title']}. `{result['command']}`, {_seeds(result)}. {result['notes']}")
        if (RESULTS / f"{name}.png").exists():
            parts.append(f"![{result['title']}]({name}.png)")
        shown = [row for row in result["rows"] if SHOWN.get(name, bool)(row)]
        parts.append(table(shown, [name for name in columns if any(row.get(name) is not None for row in shown)]))
        if apart := table_of_differences(result):
            parts.append(apart)
    for path in sorted(RESULTS.glob("benchmark_*.json")):
        result = json.loads(path.read_text())
        parts.append(f"## {path.stem}\n\n{result['title']} `{result['command']}`")
        parts.append(table(list(_figures(result["figures"])), ["figure", "value"]))
    return "\n\n".join(parts) + "\n"


def _figures(figures: Row, above: str = "") -> Iterator[Row]:
    """One row for each figure; those that stand under a name have it before theirs."""
    for key, value in figures.items():
        if isinstance(value, dict):
            yield from _figures(value, f"{above}{key} ")
        else:
            yield {"figure": f"{above}{key}", "value": value}


def with_results(page: Path) -> str:
    """The page with its blocks of results."""
    text = page.read_text()
    for name in (*SUMMARIES, REAL):
        if f"<!-- results:{name} -->" in text:
            head, rest = text.split(f"<!-- results:{name} -->\n")
            tail = rest[rest.index("<!-- /results -->") :]
            body = block(name) or "The full run is still to come."
            text = f"{head}<!-- results:{name} -->\n{body}\n{tail}"
    return text


def block(name: str) -> str | None:
    """What stands in a block of results; None without a result file."""
    if name == REAL:
        results = {task: read(task) for task in TASKS}
        return real_table(results) if any(results.values()) else None
    result = read(name)
    if result is None:
        return None
    found = [SUMMARIES[name](result["rows"]), table_of_differences(result)]
    return "\n\n".join(part for part in found if part)


def read(name: str) -> Row | None:
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    result: Row = json.loads(path.read_text())
    return result


def main(arguments: list[str] | None = None) -> int:
    wanted = {RESULTS / "index.md": page(), **{path: with_results(path) for path in PAGES}}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if "--check" in (sys.argv[1:] if arguments is None else arguments):
        faults = [
            f"{path.relative_to(ROOT)} differs from the result files: run `python -m experiments.publish`."
            for path in stale
        ]
        faults += [*_too_few_runs(), *_unheld_numbers()]
        print("\n".join(faults), end="\n" if faults else "")
        return 1 if faults else 0
    for path in stale:
        Path(path).write_text(wanted[path])
    return 0


def _seeds(result: Row) -> str:
    return "one seed" if result["seeds"] == 1 else f"{result['seeds']} seeds"


def _too_few_runs() -> Iterator[str]:
    """Results that say more seeds than were run, or lack cells: not every task of an experiment has as many seeds."""
    for name in COLUMNS:
        result = read(name)
        if result is not None:
            runs, mend = result["runs"], f"run `{result['command']} --resume`."
            seeds = len({run["cell"]["seed"] for run in runs})
            if seeds < result["seeds"]:
                yield f"{name} says {result['seeds']} seeds and has {seeds}: {mend}"
            elif len(runs) < result.get("cells", 0):
                yield f"{name} has {len(runs)} of its {result['cells']} cells: {mend}"


def _unheld_numbers() -> Iterator[str]:
    """Decimals in the prose of README and docs that no result file holds, as a number or as a percentage."""
    values = {value for path in RESULTS.glob("*.json") for value in _numbers(json.loads(path.read_text()))}
    pages = [path for folder in FOLDERS for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
    for path in (ROOT / "README.md", ROOT / "SECURITY.md", *pages):
        prose = NOT_PROSE.sub("", path.read_text())
        for found in DECIMAL.findall(prose):
            places = len(found.split(".")[1])
            if not any(
                f"{scale * value:.{places}f}" == f"{float(found):.{places}f}" for value in values for scale in (1, 100)
            ):
                yield f"{path.relative_to(ROOT)} says {found}, which no result file holds."


def _numbers(part: object) -> Iterator[float]:
    if isinstance(part, dict):
        for name, value in part.items():
            if name != "runs":
                yield from _numbers(value)
    elif isinstance(part, list):
        for value in part:
            yield from _numbers(value)
    elif isinstance(part, int | float) and not isinstance(part, bool):
        yield float(part)


def _limits(rows: list[Row]) -> str:
    """What was learned from pairs beside the exact posterior, a family that lacks the generator, and a fixed metric."""
    lines = [
        "| corruption | learned (`auto`) | Bayes ceiling | ratio | `additive` | euclidean "
        "| `auto`, as the paper counts | Bayes, blended | A-Hop in the paper |",
        "|---" * 9 + "|",
    ]
    found = {(row["setting"], row["model"]): row for row in rows}
    for row in rows:
        if row["model"] == "auto":
            others = [f"{found[row['setting'], name]['top1']:.3f}" for name in ("additive", "euclidean")]
            numbers = [
                f"{row['top1']:.3f} ± {row['top1_std']:.3f}",
                f"{row['bayes']:.3f}",
                f"{row['ratio']:.3f}",
                *others,
            ]
            numbers += [_number(row, key) for key in ("accuracy", "bayes_blend", "paper")]
            lines.append("| " + " | ".join([row["setting"], *numbers]) + " |")
    return "\n".join(lines)


def _models(rows: list[Row]) -> str:
    """One line for each cell of the table, a column for each model; in brackets what the paper prints."""
    groups: dict[tuple[str, str, float], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault((row["reading"], row["dataset"], row["difficulty"]), {})[row["model"]] = row
    models = [name for name in MODELS if any(name in group for group in groups.values())]
    lines = ["| N = 2048 | " + " | ".join(models) + " | Bayes, blended | A-Hop, top1 | Bayes |"]
    lines.append("|---" * (len(models) + 4) + "|")
    for (reading, dataset, difficulty), group in groups.items():
        numbers = [_beside_the_paper(group[name]) if name in group else "" for name in models]
        ours = group["A-Hop"]
        numbers += [_number(ours, key) for key in ("bayes_blend", "top1", "bayes")]
        lines.append("| " + " | ".join([f"{reading}, {dataset} {difficulty}", *numbers]) + " |")
    return "\n".join(lines)


def _misses(rows: list[Row]) -> str:
    """Table of the ablations under the fitted generator: ours, the paper's, and the difference where it exceeds .03."""
    lines = ["| ablation | solver | difficulty | ours | paper | off by more than .03 |", "|---" * 6 + "|"]
    for row in rows:
        if row["reading"] == "as fitted" and row["paper"] is not None:
            off = row["accuracy"] - row["paper"]
            numbers = [_number(row, "accuracy"), _number(row, "paper"), f"{off:+.3f}" if abs(off) > CLOSE else ""]
            lines.append("| " + " | ".join([row["ablation"], row["solver"], str(row["difficulty"]), *numbers]) + " |")
    return "\n".join(lines)


def _number(row: Row, key: str) -> str:
    return "" if row.get(key) is None else f"{row[key]:.3f}"


def _beside_the_paper(row: Row) -> str:
    return f"{row['accuracy']:.3f}" + ("" if row["paper"] is None else f" ({row['paper']:.3f})")


def _across(metric: str, *names: str) -> Callable[[list[Row]], str]:
    """A line for each model, a column for each data set, or whatever else is named."""

    def summary(rows: list[Row]) -> str:
        places = [", ".join(str(row[name]) for name in names) for row in rows]
        columns = list(dict.fromkeys(places))
        lines = [f"| {metric} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for model in dict.fromkeys(row["model"] for row in rows):
            found = {place: row for place, row in zip(places, rows, strict=True) if row["model"] == model}
            cells = [f"{found[name][metric]:.4f}" if name in found else "" for name in columns]
            lines.append("| " + " | ".join([model, *cells]) + " |")
        return "\n".join(lines)

    return summary


def _billions(rows: list[Row]) -> str:
    """One line for each number of patterns, with two copies of each shard."""
    lines = ["| patterns | shards | machines | codes, GB | p50, ms | p99, ms | rebuild, core hours |", "|---" * 7 + "|"]
    for row in rows:
        if row["setting"] == "two, asked again when slow":
            wholes = [f"{row[name]:,}" for name in ("patterns", "shards", "machines", "index_gb")]
            waits = [f"{row[name]:.1f}" for name in ("p50_ms", "p99_ms")]
            lines.append("| " + " | ".join([*wholes, *waits, f"{row['rebuild_core_hours']:,}"]) + " |")
    return "\n".join(lines)


def _watching(rows: list[Row]) -> str:
    """For each setting, how far estimates are off, how often drift is named, and how much of it is mended."""
    settings = [row["setting"] for row in rows if row["task"] == "estimate" and not row["setting"].startswith("mean")]
    lines = [
        "| setting | accuracy | estimate is off by | with 20 % unknown queries | false alarms | drifting one named "
        "| after the drift of a quarter | adapted | won back |",
        "|---" * 9 + "|",
    ]
    for setting in settings:
        own = [row for row in rows if row["setting"] == setting]
        by_task = {row["task"]: row for row in own}
        looks = [row for row in own if row["task"] == "drift of one"]
        named = [row["named"] for row in looks if row["named"] is not None]
        quiet = next((row for row in looks if row["drift"] == "none"), {})
        estimate, mixed, mended = (by_task.get(task, {}) for task in ("estimate", "estimate, 20 % unknown", "adapt"))
        cells = [_number(estimate, "accuracy"), _number(estimate, "error"), _number(mixed, "error")]
        cells += [_number(quiet, "alarm"), f"{sum(named) / len(named):.3f}" if named else ""]
        cells += [_number(mended, key) for key in ("after", "adapted", "won_back")]
        lines.append("| " + " | ".join([setting, *cells]) + " |")
    return "\n".join(lines)


def _columns(*names: str) -> Callable[[list[Row]], str]:
    """Some columns of all rows."""
    return lambda rows: table(rows, list(names))


def _label_free(rows: list[Row]) -> str:
    """Said beside right in each family, by the labels that a fit had."""
    shown = [row for row in rows if row["task"] == "mean"]
    return _columns("family", "variant", "right", "said", "ece", "ece_chance", "sure_right", "watch_covers")(shown)


SUMMARIES: dict[str, Callable[[list[Row]], str]] = {
    "tab_retrieval": _models,
    "bayes_limit": _limits,
    "tab_ablations": _misses,
    "unlabelled": _columns("setting", "queries", "pairs", "accuracy", "labelled", "plain", "bayes", "chosen"),
    "label_free": _label_free,
    "linking": _columns("setting", "n", "linked", "per_query", "bayes_per_query", "ece", "f1", "f1_tuned", "seconds"),
    "error_bars": _columns("task", "model", "errors", "log_loss", "top1", "ece"),
    "sample_identity": _columns("task", "method", "top1", "of_ceiling", "ece", "auroc", "swaps_found", "swaps_false"),
    "mixed_linkage": _columns("task", "method", "f1", "f1_best", "precision", "recall", "ece", "cpu_seconds"),
    "watching": _watching,
    "reliability": _columns("id", "goal", "trials", "wanted", "bad"),
    "billions": _billions,
    "tab_tabular": _across("accuracy", "dataset"),
    "tab_tabular_network": _across("accuracy", "dataset"),
    "tab_tabular_parts": _across("accuracy", "dataset"),
    "tab_mil": _across("auc", "dataset"),
    "tab_images": _across("accuracy", "dataset", "protocol"),
    "broken_patches": _columns("model", "accuracy", "top1"),
}

if __name__ == "__main__":
    sys.exit(main())
