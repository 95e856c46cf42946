"""Pictures of results, all in one restrained style."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from experiments.support.harness import Row

# Panels beside each other.
WIDEST = 4
COLORS = {
    "M-Hop": "#8da0b6",
    "U-Hop": "#b6bcc6",
    "K-Hop": "#c9b79c",
    "K2-Hop": "#a3b899",
    "MLP": "#d3cbd9",
    "A-Hop": "#c2213f",
    "A-Hop, sharper": "#e08a9a",
    "A-Hop, Adam": "#8f1830",
    "M-Hop, fitted beta": "#5f7690",
    "Euclid, fitted beta": "#7d6aa8",
    "Unified": "#3b6ea5",
    "Bayes": "#222222",
    "shared weights": "#8da0b6",
    "own weights": "#c9b79c",
    "own weights, shrunk": "#c2213f",
    "auto": "#c2213f",
    "mixture": "#3b6ea5",
    "additive": "#6a9a5b",
    "footprint": "#e08a9a",
    "debiased": "#c9a24b",
    "nuisance": "#7d6aa8",
    "euclidean": "#8da0b6",
    "manhattan": "#a3b899",
    "dot": "#c9b79c",
    "cosine": "#d3cbd9",
    "correlation": "#c9a24b",
    "nan_euclidean": "#8da0b6",
    "debias + nan_euclidean": "#c9b79c",
    "KNNImputer": "#b6bcc6",
    "softmax of euclidean": "#8da0b6",
    "exact posterior": "#222222",
    "one copy": "#8da0b6",
    "two copies": "#c9b79c",
    "two, asked again when slow": "#3b6ea5",
    "three, asked again when slow": "#c2213f",
    "the same, one machine lost": "#e08a9a",
}


def bars(rows: list[Row], path: Path, panel: Sequence[str], title: str) -> None:
    """One panel for each value of `panel`: accuracy by model, the paper's figure as a tick, the ceiling as a line."""
    panels: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        panels.setdefault(tuple(row[key] for key in panel), []).append(row)
    lines = -(-len(panels) // WIDEST)
    wide = -(-len(panels) // lines)
    figure, axes = plt.subplots(lines, wide, figsize=(2.9 * wide + 0.6, 3.6 * lines), sharey=True, squeeze=False)
    for axis, (name, group) in zip(axes.flat, panels.items(), strict=False):
        models = [row["model"] for row in group]
        heights = [row["accuracy"] for row in group]
        spread = [row.get("accuracy_std") or 0 for row in group]
        axis.bar(models, heights, yerr=spread, color=[COLORS[model] for model in models], width=0.72, capsize=2)
        for place, row in enumerate(group):
            if row.get("paper") is not None:
                axis.plot([place - 0.36, place + 0.36], [row["paper"]] * 2, color="#222222", linewidth=1.6)
        limit = "bayes_blend" if group[0].get("bayes_blend") is not None else "bayes"
        axis.axhline(group[0][limit], color="#222222", linestyle=(0, (4, 3)), linewidth=1)
        axis.set_title(" ".join(map(str, name)), fontsize=10)
        axis.tick_params(axis="x", rotation=60, labelsize=8)
        for word in axis.get_xticklabels():
            word.set_horizontalalignment("right")
            word.set_rotation_mode("anchor")
        axis.set_ylim(0, 1.03)
        axis.spines[["top", "right"]].set_visible(False)
    for place in range(lines):
        axes[place][0].set_ylabel("accuracy")
    figure.suptitle(f"{title}   (dashed: Bayes ceiling; tick: the paper's figure)", fontsize=10)
    _save(figure, path)


def differences(rows: list[Row], path: Path, line: str, columns: Sequence[str], title: str) -> None:
    """Ours minus the printed figure: a line for each candidate, a column for each figure, accuracies, then errors."""
    lines = list(dict.fromkeys(row[line] for row in rows))
    wide = list(dict.fromkeys(tuple(row[key] for key in columns) for row in rows))
    figure, axes = plt.subplots(1, 2, figsize=(0.95 * len(wide) + 4, 0.36 * len(lines) + 2), sharey=True)
    for axis, metric, largest in zip(axes, ("off", "off_error"), (0.3, 0.15), strict=True):
        grid = [[float("nan")] * len(wide) for _ in lines]
        for row in rows:
            grid[lines.index(row[line])][wide.index(tuple(row[key] for key in columns))] = row[metric]
        axis.imshow(grid, cmap="RdBu", vmin=-largest, vmax=largest, aspect="auto")
        for place, values in enumerate(grid):
            for other, value in enumerate(values):
                if value == value:
                    color = "white" if abs(value) > 0.7 * largest else "#222222"
                    axis.text(other, place, f"{value:+.2f}", ha="center", va="center", fontsize=7, color=color)
        names = [" ".join(map(str, each)) for each in wide]
        axis.set_xticks(range(len(wide)), names, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
        axis.set_yticks(range(len(lines)), lines, fontsize=8)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title("accuracy" if metric == "off" else "error", fontsize=9)
    figure.suptitle(title, fontsize=10)
    _save(figure, path)


def radars(panels: dict[str, list[Row]], settings: list[str], path: Path, title: str) -> None:
    """One radar for each panel, an axis for each setting, a line for each model, the ceiling dotted."""
    angles = [2 * 3.141592653589793 * place / len(settings) for place in range(len(settings))]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.6 * len(panels), 5.6), subplot_kw={"projection": "polar"}, squeeze=False
    )
    for axis, (name, rows) in zip(axes[0], panels.items(), strict=True):
        models = list(dict.fromkeys(row["model"] for row in rows))
        for model in [*models, "Bayes"]:
            by_setting = {
                row["setting"]: row["bayes_blend" if model == "Bayes" else "accuracy"]
                for row in rows
                if row["model"] == (models[0] if model == "Bayes" else model)
            }
            values = [by_setting[setting] for setting in settings]
            style = (0, (1, 2)) if model == "Bayes" else "-"
            axis.plot([*angles, angles[0]], [*values, values[0]], color=COLORS[model], label=model, linestyle=style)
            if model == "A-Hop":
                axis.fill(angles, values, color=COLORS[model], alpha=0.08)
        axis.set_xticks(angles, settings, fontsize=8)
        axis.tick_params(axis="x", pad=10)
        axis.set_ylim(0, 1)
        axis.set_yticks([0.25, 0.5, 0.75, 1], ["", ".5", "", "1"], fontsize=7)
        axis.set_title(name, fontsize=11, pad=18)
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1.08, 1.05), frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    _save(figure, path)


def dots(rows: list[Row], path: Path, line: str, title: str) -> None:
    """A line for each value of `line`, a dot for each model at its top1, a bar at the ceiling; ours on top."""
    lines = list(dict.fromkeys(row[line] for row in rows))
    models = sorted(dict.fromkeys(row["model"] for row in rows), key=lambda model: model == "auto")
    figure, axis = plt.subplots(figsize=(8.2, 0.42 * len(lines) + 1.5))
    for model in models:
        group = [row for row in rows if row["model"] == model]
        places = [-lines.index(row[line]) for row in group]
        size = 70 if model == "auto" else 36
        axis.scatter([row["top1"] for row in group], places, s=size, color=COLORS[model], label=model, zorder=3)
    ceilings = {row[line]: row["bayes"] for row in rows if row.get("bayes") is not None}
    for name, height in ceilings.items():
        place = -lines.index(name)
        axis.plot([height] * 2, [place - 0.32, place + 0.32], color=COLORS["Bayes"], linewidth=1.6, zorder=2)
    axis.set_yticks([-place for place in range(len(lines))], lines, fontsize=9)
    axis.grid(axis="y", color="#e6e6e6", zorder=0)
    axis.set_xlim(0, 1.02)
    axis.set_xlabel("right first answers" + ("   (bar: Bayes ceiling)" if ceilings else ""))
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    axis.set_title(title, fontsize=10)
    _save(figure, path)


def curves(rows: list[Row], path: Path, over: str, title: str) -> None:
    """Right first answers over a number on a logarithmic axis, a curve for each model, the ceiling dashed."""
    figure, axis = plt.subplots(figsize=(6.4, 4.0))
    for model in dict.fromkeys(row["model"] for row in rows):
        group = [row for row in rows if row["model"] == model]
        places, heights = [row[over] for row in group], [row["top1"] for row in group]
        spread = [row.get("top1_std") or 0 for row in group]
        width = 2.4 if model == "auto" else 1.2
        axis.errorbar(places, heights, spread, color=COLORS[model], label=model, linewidth=width, marker="o", ms=3)
    ceiling = sum(row["bayes"] for row in rows) / len(rows)
    axis.axhline(ceiling, color=COLORS["Bayes"], linestyle=(0, (4, 3)), linewidth=1, label="Bayes ceiling")
    axis.set_xscale("log")
    ticks = sorted({row[over] for row in rows})
    axis.set_xticks(ticks, [str(tick) for tick in ticks], fontsize=8)
    axis.minorticks_off()
    axis.set_xlabel(over)
    axis.set_ylabel("right first answers")
    axis.set_ylim(0, 1.03)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)
    axis.set_title(title, fontsize=10)
    _save(figure, path)


def waits(rows: list[Row], path: Path, title: str) -> None:
    """Milliseconds over the number of patterns, both logarithmic: what one query in a hundred waits, and one in two."""
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.0), sharey=True)
    for axis, (key, name) in zip(
        axes, (("p50_ms", "one query in two"), ("p99_ms", "one query in a hundred")), strict=True
    ):
        for setting in dict.fromkeys(row["setting"] for row in rows):
            group = [row for row in rows if row["setting"] == setting]
            places, heights = [row["patterns"] for row in group], [row[key] for row in group]
            axis.plot(places, heights, color=COLORS[setting], label=setting, linewidth=1.6, marker="o", ms=3)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
        axis.minorticks_off()
        axis.set_xlabel("patterns")
        axis.set_title(f"{name} waits longer than", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("milliseconds")
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    _save(figure, path)


def diagonals(rows: list[Row], path: Path, panel: str, title: str) -> None:
    """A reliability diagram for each value of `panel`: on the diagonal, what is said comes true that often."""
    panels: dict[str, list[Row]] = {}
    for row in rows:
        panels.setdefault(row[panel], []).append(row)
    figure, axes = plt.subplots(1, len(panels), figsize=(2.9 * len(panels), 3.4), sharey=True, squeeze=False)
    for axis, (name, group) in zip(axes[0], panels.items(), strict=True):
        axis.plot([0, 1], [0, 1], color="#cccccc", linewidth=1)
        for row in group:
            bins = [each for each in zip(row["count"], row["said"], row["hits"], strict=True) if each[0]]
            said, came = [said / count for count, said, _ in bins], [hits / count for count, _, hits in bins]
            sizes = [6 + 160 * count / sum(row["count"]) for count, _, _ in bins]
            axis.plot(said, came, color=COLORS[row["model"]], linewidth=1)
            axis.scatter(said, came, s=sizes, color=COLORS[row["model"]], label=f"{row['model']}, {row['ece']:.3f}")
        axis.set_title(name.replace(", ", "\n", 1), fontsize=9)
        axis.set_xlabel("said", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=7)
    axes[0][0].set_ylabel("came true")
    figure.suptitle(f"{title}   (size: share of the queries; number: expected calibration error)", fontsize=10)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.tight_layout()
    # No date and no version in the file: the same figures give the same bytes.
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)
