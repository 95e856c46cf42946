r"""
Storing images, and getting them back
=====================================

The first thing that people try with an associative memory: store some images, show it a damaged one, ask for the
original. Here it is in one line each, with a number that says how sure the answer is.
"""

# %%
# Images that need no download
# ----------------------------
# The letters and digits of matplotlib's own font, drawn as 16 x 16 images: 36 patterns of 256 dimensions, from -1
# (paper) to 1 (ink).

import string

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.path import Path
from matplotlib.textpath import TextPath

import ahop

BLUE, RED = "#1b5e8c", "#b5372e"
SIDE, FINE = 16, 4


def glyph(character: str) -> np.ndarray:
    outline = TextPath((0, 0), character, size=14)
    box = outline.get_extents()
    ticks = (np.arange(SIDE * FINE) + 0.5) / FINE - SIDE / 2
    columns, rows = np.meshgrid(ticks + (box.x0 + box.x1) / 2, -ticks + (box.y0 + box.y1) / 2)
    points = np.stack([columns.ravel(), rows.ravel()], axis=1)
    # A point is ink if an odd number of outlines go around it: letters have holes.
    inside = np.logical_xor.reduce([Path(polygon).contains_points(points) for polygon in outline.to_polygons()])
    return 2 * inside.reshape(SIDE, FINE, SIDE, FINE).mean((1, 3)).ravel() - 1


characters = string.ascii_uppercase + string.digits
patterns = np.stack([glyph(character) for character in characters]).astype("float32")

# %%
# A bad camera
# ------------
# It adds noise, replaces 60 % of the pixels by garbage, and its lens is brighter in one corner than in the other. The
# memory is not told any of this. It is given 256 pairs: which image it was, and what the camera made of it.

rng = np.random.default_rng(0)
across, down = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))
shading = 1.5 * (across - down).ravel()


def photograph(images: np.ndarray) -> np.ndarray:
    copies = images + 0.3 * rng.standard_normal(images.shape)
    broken = rng.random(images.shape) < 0.6
    copies[broken] = rng.uniform(-2, 2, broken.sum())
    return (copies + shading).astype("float32")


origins = rng.integers(len(patterns), size=256)
copies = photograph(patterns[origins])

# %%
# Store, fit, recall
# ------------------
# M-Hop compares by inner products and learns nothing. A-Hop learns from the pairs.

m_hop = ahop.zoo.m_hop(patterns)
a_hop = ahop.fit(ahop.zoo.a_hop(patterns), pairs=(origins, copies), progress=False)
memories = {"M-Hop": m_hop, "A-Hop": a_hop}

truth = rng.integers(len(patterns), size=1000)
queries = photograph(patterns[truth])
for name, memory in memories.items():
    answer = memory.recall(queries)
    hits = answer.indices[:, 0] == truth
    sure = float(answer.posterior[:, 0].mean())
    print(f"{name}: right in {hits.mean():.0%} of 1000 queries; its posterior says {sure:.0%}")

# %%
# The first ten queries. Below each answer stands its posterior; wrong answers are red.

rows = ["stored", "query", *memories]
figure, axes = plt.subplots(len(rows), 10, figsize=(9.4, 4.3), layout="constrained")
for axis in axes.flat:
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
for axis, name in zip(axes[:, 0], rows, strict=True):
    axis.set_ylabel(name, rotation=0, ha="right", va="center")
for column in range(10):
    axes[0, column].imshow(patterns[truth[column]].reshape(SIDE, SIDE), cmap="Grays", vmin=-1, vmax=1)
    axes[1, column].imshow(queries[column].reshape(SIDE, SIDE), cmap="Grays", vmin=-2.5, vmax=2.5)
for axis_row, memory in zip(axes[2:], memories.values(), strict=True):
    answer = memory.recall(queries[:10])
    for column, axis in enumerate(axis_row):
        right = answer.indices[column, 0] == truth[column]
        picture = answer.patterns[column, 0].reshape(SIDE, SIDE)
        axis.imshow(picture, cmap="Grays" if right else "Reds", vmin=-1, vmax=1 if right else 1.4)
        axis.set_xlabel(f"{answer.posterior[column, 0]:.2f}", color=BLUE if right else RED, fontsize=9)
plt.show()

# %%
# M-Hop is sure of itself, right or wrong. A-Hop is right more often and nearer to the truth about itself, though still
# too sure: its 512 weights were learned from 256 pairs. There is no Bayes ceiling in this example, as nobody wrote down
# the likelihood of this camera.
