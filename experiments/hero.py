"""`python -m experiments.hero`: the picture of README, from the digits of scikit-learn and from the result files."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import ahop
from experiments.publish import ROOT, read

TARGET = ROOT / "docs" / "_static" / "hero.png"
PLAIN, OURS, CEILING = "#8a8f98", "#2a7f62", "#3a4a63"
STORED, PAIRS = 300, 200
# What is drawn of each result file: a name, the file, how to find the row, and what practitioners use there.
REAL: tuple[tuple[str, str, dict[str, object], str], ...] = (
    ("Wi-Fi,\nnew phone", "wifi", {"setting": "all phones"}, "Sørensen, offset"),
    ("near infrared,\n20 pairs", "nir", {"query": "mean", "pairs": 20}, "PDS, tuned"),
    ("mass spectra", "massbank", {}, "spectral entropy"),
    ("digits,\ndamaged", "broken_data", {"dataset": "digits"}, "nan_euclidean"),
    ("breast cancer,\ndamaged", "broken_data", {"dataset": "breast_cancer"}, "nan_euclidean"),
)
DAMAGE = "garbage 30% + bias"


def damaged(pictures: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """Brighter, noisy, a third of the pixels redrawn, a tenth lost."""
    copies = pictures + 4 + random.normal(0, 1.5, pictures.shape)
    copies = np.where(random.random(pictures.shape) < 0.33, random.uniform(0, 20, pictures.shape), copies)
    return np.where(random.random(pictures.shape) < 0.1, np.nan, copies).astype("float32")


def hero() -> Figure:
    random, digits = np.random.default_rng(4), load_digits()
    stored, classes = digits.data[:STORED].astype("float32"), digits.target[:STORED]
    names = [f"row {place // 8 + 1}, column {place % 8 + 1}" for place in range(64)]
    origins = random.integers(STORED, size=PAIRS)
    memory = ahop.fit(
        stored, pairs=(origins, damaged(stored[origins], random)), similarity=["mixture", "euclidean"], progress=False
    )
    memory.columns = tuple(names)
    plain = ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity())
    asked = random.permutation(STORED)
    queries = damaged(stored[asked], random)
    found, near = memory.recall(queries, k=3), plain.recall(queries)
    is_shown = (found.indices[:, 0] == asked) & (near.indices[:, 0] != asked)
    is_shown &= (found.posterior[:, 0] > 0.8) & (found.posterior[:, 0] < 0.97)
    is_shown &= classes[found.indices[:, 0]] != classes[found.indices[:, 1]]
    place = int(np.flatnonzero(is_shown)[0])
    figure = plt.figure(figsize=(12.5, 7.2), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(1, 1.25))
    above, below = halves
    axes = above.subplots(1, 4, width_ratios=(1.15, 1, 1, 1))
    _picture(axes[0], queries[place], "asked: a damaged copy\n(red: not observed)")
    for axis, row, sure in zip(axes[1:], found.indices[place], found.posterior[place], strict=True):
        _picture(axis, stored[row], f"stored row {row}, a {classes[row]}\n{100 * sure:.0f} %")
        axis.barh(8.4, 8 * sure, left=-0.5, height=0.8, color=OURS, clip_on=False)
        axis.barh(8.4, 8 * (1 - sure), left=-0.5 + 8 * sure, height=0.8, color="0.9", clip_on=False)
        axis.set_ylim(9, -0.5)
    left, right = below.subplots(1, 2, width_ratios=(1, 1.5))
    why = memory.explain(queries[place])
    ahop.plots.WaterfallDisplay.from_explanation(why, count=6).plot(left)
    left.set_title("why: pixels for and against", loc="left", fontsize="medium")
    _bars(right)
    return figure


def _picture(axis: Any, values: NDArray[Any], title: str) -> None:
    shown = plt.get_cmap("gray_r").copy()
    shown.set_bad("#d98880")
    axis.imshow(np.ma.masked_invalid(values.reshape(8, 8)), cmap=shown, vmin=0, vmax=20)
    axis.set_title(title, fontsize="medium")
    axis.set_axis_off()


def _bars(axis: Any) -> None:
    for place, (_, file, wanted, customary) in enumerate(REAL):
        rows = [row for row in (read(file) or {"rows": []})["rows"] if _fits(row, wanted)]
        figure = {row["model"]: row for row in rows}
        plain, ours = (figure[name]["top1"] for name in (customary, "auto"))
        ceiling = figure["auto"].get("bayes")
        bars = axis.bar([place - 0.2, place + 0.2], [plain, ours], width=0.38, color=[PLAIN, OURS])
        for bar, value in zip(bars, (plain, ours), strict=True):
            axis.text(bar.get_x() + 0.19, 0.02, f"{value:.2f}", color="white", ha="center", fontsize="small")
        if ceiling is not None:
            axis.plot([place - 0.42, place + 0.42], [ceiling, ceiling], color=CEILING, linewidth=2, linestyle=":")
    axis.set_xticks(range(len(REAL)), [f"{name}\n({customary})" for name, _, _, customary in REAL], fontsize="x-small")
    axis.set(ylim=(0, 1), yticks=[])
    axis.set_title("found first, on real data", loc="left", fontsize="medium")
    handles: list[Any] = [Patch(color=PLAIN), Patch(color=OURS)]
    handles.append(Line2D([], [], color=CEILING, linewidth=2, linestyle=":"))
    labels = ["practitioner's metric (in brackets)", "ahop", "ceiling, where it is known"]
    axis.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=3, frameon=False)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)


def _fits(row: dict[str, Any], wanted: dict[str, object]) -> bool:
    is_damage = row.get("setting") == DAMAGE or "dataset" not in wanted
    return is_damage and all(row.get(key) == value for key, value in wanted.items())


if __name__ == "__main__":
    hero().savefig(TARGET, dpi=110)
