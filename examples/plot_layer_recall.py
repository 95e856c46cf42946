r"""
A Hopfield layer that stores a photograph
=========================================

Store images in a layer, show it damaged ones, get the images back: without training, in a line or two. A layer of
`ahop.nn` starts out as a memory, so this works before anything is learned.
"""

# %%
# A photograph in tiles
# ---------------------
# Two photographs that come with scikit-learn, cut into tiles of 20 x 20 colored pixels: 320 patterns of 1200
# dimensions. Many of them are sky or blurred leaves and hard to tell apart.

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_sample_image

from ahop.nn import Association, Hopfield, HopfieldLayer

SIDE, ROWS, COLUMNS = 20, 10, 16


def tiles(photograph: np.ndarray) -> torch.Tensor:
    small = torch.from_numpy(photograph[: 2 * SIDE * ROWS : 2, : 2 * SIDE * COLUMNS : 2] / 255).float()
    return small.unflatten(0, (ROWS, SIDE)).unflatten(2, (COLUMNS, SIDE)).transpose(1, 2).flatten(0, 1).flatten(1)


def whole(patterns: torch.Tensor) -> torch.Tensor:
    squares = patterns.view(ROWS, COLUMNS, SIDE, SIDE, 3).transpose(1, 2)
    return squares.reshape(ROWS * SIDE, COLUMNS * SIDE, 3).nan_to_num(0.5).clamp(0, 1)


temple = tiles(load_sample_image("china.jpg"))
images = torch.cat([temple, tiles(load_sample_image("flower.jpg"))])
print(f"{len(images)} patterns of {images.shape[1]} dimensions")

# %%
# Store, ask
# ----------
# `retrieve` takes the queries and what is stored. As it comes, the layer is made for a place inside a network: it
# normalizes what it compares, and its scores are scaled for attention, which mixes.

torch.manual_seed(0)
noisy = temple + 0.4 * torch.randn_like(temple)


def report(name: str, answers: torch.Tensor) -> None:
    errors = (answers - temple).square().mean(dim=1).sqrt()
    print(f"{name}: {(errors < 0.05).sum()} of {len(temple)} tiles are back to within 5 %")


with torch.no_grad():
    as_it_comes = Hopfield(images.shape[1]).retrieve(noisy, images)
report("as it comes", as_it_comes)

# %%
# A norm takes away how bright a tile is and how much it varies, which is all that a tile of sky has. So do without it,
# and compare by distance: then the tiles come back.

layer = Hopfield(images.shape[1], similarity="euclidean", normalize=False, scaling=1.0)
with torch.no_grad():
    by_distance = layer.retrieve(noisy, images)
report("by distance", by_distance)

# %%
# The same as a module of a network, a layer that owns its patterns:

memory = HopfieldLayer.of(images, similarity="euclidean", normalize=False, scaling=1.0)
with torch.no_grad():
    assert torch.allclose(memory.retrieve(noisy), by_distance, atol=0.01)

# %%
# Only a part is there
# --------------------
# `Association` has no projections and no norm at all, and reads NaN as "not observed". Here three quarters of the
# pixels were lost.

lost = torch.rand(len(temple), SIDE * SIDE, 1).expand(-1, -1, 3).flatten(1) < 0.75
gapped = noisy.masked_fill(lost, torch.nan)
filled = Association().retrieve(gapped, images)
report("from a quarter of the pixels", filled)

# %%
# What the layers were shown and what they answered, tile by tile:

shown = {
    "shown: noise": noisy,
    "Hopfield as it comes": as_it_comes,
    "Hopfield by distance": by_distance,
    "stored": temple,
    "shown: noise, and 75 % lost": gapped,
    "Association": filled,
}
figure, axes = plt.subplots(2, 3, figsize=(9.4, 4.4), layout="constrained")
for axis, (name, patterns) in zip(axes.flat, shown.items(), strict=True):
    axis.imshow(whole(patterns))
    axis.set(xticks=[], yticks=[], title=name)
plt.show()
