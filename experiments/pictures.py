"""Pictures of results, all in one restrained style."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from experiments.harness import Row

COLOURS = {
    "M-Hop": "#8da0b6",
    "U-Hop": "#b6bcc6",
    "K-Hop": "#c9b79c",
    "K2-Hop": "#a3b899",
    "MLP": "#d3cbd9",
    "A-Hop": "#c2213f",
    "A-Hop, sharper": "#e08a9a",
    "Unified": "#3b6ea5",
    "Bayes": "#222222",
}


def bars(rows: list[Row], path: Path, panel: Sequence[str], title: str) -> None:
    """One panel for each value of `panel`: accuracy by model, the paper's figure as a tick, the ceiling as a line."""
    panels: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        panels.setdefault(tuple(row[key] for key in panel), []).append(row)
    figure, axes = plt.subplots(1, len(panels), figsize=(2.9 * len(panels) + 0.6, 3.4), sharey=True, squeeze=False)
    for axis, (name, group) in zip(axes[0], panels.items(), strict=True):
        models = [row["model"] for row in group]
        heights = [row["accuracy"] for row in group]
        spread = [row.get("accuracy_std") or 0 for row in group]
        axis.bar(models, heights, yerr=spread, color=[COLOURS[model] for model in models], width=0.72, capsize=2)
        for place, row in enumerate(group):
            if row.get("paper") is not None:
                axis.plot([place - 0.36, place + 0.36], [row["paper"]] * 2, color="#222222", linewidth=1.6)
        axis.axhline(group[0]["bayes"], color="#222222", linestyle=(0, (4, 3)), linewidth=1)
        axis.set_title(" ".join(map(str, name)), fontsize=10)
        axis.tick_params(axis="x", rotation=60, labelsize=8)
        axis.set_ylim(0, 1.03)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("accuracy")
    figure.suptitle(f"{title}   (dashed: Bayes ceiling; tick: the paper's figure)", fontsize=10)
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
                row["setting"]: row["bayes" if model == "Bayes" else "accuracy"]
                for row in rows
                if row["model"] == (models[0] if model == "Bayes" else model)
            }
            values = [by_setting[setting] for setting in settings]
            style = (0, (1, 2)) if model == "Bayes" else "-"
            axis.plot([*angles, angles[0]], [*values, values[0]], color=COLOURS[model], label=model, linestyle=style)
            if model == "A-Hop":
                axis.fill(angles, values, color=COLOURS[model], alpha=0.08)
        axis.set_xticks(angles, settings, fontsize=8)
        axis.tick_params(axis="x", pad=10)
        axis.set_ylim(0, 1)
        axis.set_yticks([0.25, 0.5, 0.75, 1], ["", ".5", "", "1"], fontsize=7)
        axis.set_title(name, fontsize=11, pad=18)
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1.08, 1.05), frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.tight_layout()
    # No date and no version in the file: the same figures give the same bytes.
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)
