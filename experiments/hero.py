"""`python -m experiments.hero`: the picture of README, from the Wi-Fi sample that ships and from the result files."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import ahop
from experiments.publish import ROOT, read

TARGET = ROOT / "docs" / "_static" / "hero.png"
PLAIN, OURS = "#8a8f98", "#2a7f62"
LEARNED = 260  # scans of the log; the others are asked
# What is drawn of each result file: a name, the file, how to find the row, and what practitioners use there.
REAL: tuple[tuple[str, str, dict[str, object], str], ...] = (
    ("Wi-Fi,\nnew phone,\n30 labels", "wifi", {"setting": "all phones"}, "Sørensen, offset"),
    ("near infrared,\nnew instrument,\n20 labels", "nir", {"query": "mean", "pairs": 20}, "PDS, tuned"),
    ("mass spectra,\nother energy,\n200 labels", "massbank", {}, "spectral entropy"),
)


def hero() -> Figure:
    sample = ahop.datasets.load_wifi_sample()
    log, asked, places = sample.scans[:LEARNED], sample.scans[LEARNED:], sample.scan_places[LEARNED:]
    memories = {
        "nearest": ahop.AssociativeMemory(sample.values, ahop.EuclideanSimilarity()),
        "Sørensen": ahop.fit(sample.frame(), queries=log, similarity="powed_sorensen", progress=False),
        "ahop,\nwithout labels": ahop.fit(sample.frame(), queries=log, progress=False),
    }
    answers = {name: memory.recall(asked) for name, memory in memories.items()}
    found = {name: np.asarray(answer.indices)[:, 0] for name, answer in answers.items()}
    figure = plt.figure(figsize=(14, 5.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.7, 1.5))
    shares = [float((rows == places).mean()) for rows in found.values()]
    errors = [np.linalg.norm(sample.coordinates[rows] - sample.coordinates[places], axis=1) for rows in found.values()]
    bars = left.bar(list(found), shares, color=[PLAIN, PLAIN, OURS])
    left.bar_label(bars, [f"{100 * share:.0f} %" for share in shares], padding=3)
    left.bar_label(bars, [f"{error.mean():.0f} m off" for error in errors], label_type="center", color="white")
    left.set_title(f"{len(asked)} scans of a phone that\nthe survey never saw: place found", loc="left")
    others, ours = list(found.values())[:-1], list(answers)[-1]
    tells = np.logical_and.reduce([found[ours] == places, *(each != places for each in others)])
    sure = np.asarray(answers[ours].posterior)[:, 0]
    shown = int(np.where(tells & (sure < 0.95), sure, 0).argmax())  # near certain ones have bars of no length
    why = memories[ours].explain(asked[shown])
    ahop.plots.WaterfallDisplay.from_explanation(why, count=6).plot(middle)
    middle.set_title("one of them: right, where the other two are wrong", loc="left")
    _bars(right)
    for axis in (left, right):
        axis.set(ylim=(0, 1), yticks=[])
        for side in ("top", "right", "left"):
            axis.spines[side].set_visible(False)
    figure.suptitle(
        f"{len(sample.names)} places of a real building: learned from a log of {LEARNED} scans, without a label",
        x=0.01,
        ha="left",
    )
    return figure


def _bars(axis: Any) -> None:
    for place, (_, file, wanted, customary) in enumerate(REAL):
        rows = [row for row in (read(file) or {"rows": []})["rows"] if _fits(row, wanted)]
        figure = {row["model"]: row["top1"] for row in rows}
        values = [figure[name] for name in (customary, "auto")]
        bars = axis.bar([place - 0.2, place + 0.2], values, width=0.38, color=[PLAIN, OURS])
        axis.bar_label(bars, [f"{100 * value:.0f} %" for value in values], padding=3)
    axis.set_xticks(range(len(REAL)), [name for name, *_ in REAL])
    axis.set_title("with a few labels: found first,\nmeans of five draws", loc="left")
    axis.legend(
        [Patch(color=PLAIN), Patch(color=OURS)], ["practitioners' metric", "ahop"], loc="upper left", frameon=False
    )


def _fits(row: dict[str, Any], wanted: dict[str, object]) -> bool:
    return all(row.get(key) == value for key, value in wanted.items())


if __name__ == "__main__":
    hero().savefig(TARGET, dpi=100)
