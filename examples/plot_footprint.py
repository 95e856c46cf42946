r"""
What a similarity footprint is
==============================

Two vectors can be alike as a whole, or alike in a part. The footprint says both at once: its entry :math:`k` is the
similarity of the two vectors in the :math:`k` dimensions where they agree best.
"""

# %%
# Two patterns and a damaged copy
# -------------------------------
# Two patterns of 25 dimensions are stored, drawn here as 5 x 5 pictures. The query is a copy of pattern A in which ten
# dimensions were replaced by garbage. Pattern B is chosen to be a trap.

import matplotlib.pyplot as plt
import torch

import ahop

A_COLOR, B_COLOR, GRAY = "#1b5e8c", "#c8702a", "#8a8f98"
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11})

generator = torch.Generator().manual_seed(8)
pattern_a = 2 * torch.rand(25, generator=generator) - 1
damaged = torch.randperm(25, generator=generator)[:10]
query = pattern_a.clone()
query[damaged] = 2 * torch.rand(10, generator=generator) - 1
pattern_b = (query + 0.6 * torch.randn(25, generator=generator)).clamp(-1, 1)
patterns = torch.stack([pattern_a, pattern_b])

figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.8), layout="constrained")
for axis, values, title in zip(axes, [pattern_a, query, pattern_b], ["pattern A", "query", "pattern B"], strict=True):
    axis.imshow(values.reshape(5, 5), cmap="RdBu_r", vmin=-1.2, vmax=1.2)
    axis.set_title(title)
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
for index in damaged.tolist():
    row, column = divmod(index, 5)
    axes[1].add_patch(plt.Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, fill=False, edgecolor="black", lw=1.2))
axes[1].set_xlabel("framed: garbage")
plt.show()

# %%
# The whole says B, the part says A
# ---------------------------------
# The distance over all dimensions finds B closer: B is a little wrong in most places, and A very wrong in a few.
# Sorted, the picture changes: fifteen dimensions agree with A exactly.

euclidean = ahop.EuclideanSimilarity()
total_a, total_b = euclidean(patterns, query[None])[0].tolist()
print(f"similarity to A: {total_a:.2f}, to B: {total_b:.2f} (larger is closer)")

per_dimension = euclidean.per_dimension(patterns, query[None])[0].sort(-1, descending=True).values
footprints = ahop.similarities.footprint(euclidean, patterns, query[None])[0]
sizes = torch.arange(1, 26)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for values, name, color, shift in zip(per_dimension, "AB", [A_COLOR, B_COLOR], [-0.2, 0.2], strict=True):
    left.bar(sizes + shift, values, width=0.4, color=color, label=f"query and {name}")
left.set(title="Per dimension, best first", xlabel="rank", ylabel=r"$-(x_i - \xi_i)^2$")
left.legend(frameon=False, loc="lower left")
for values, name, color in zip(footprints, "AB", [A_COLOR, B_COLOR], strict=True):
    right.plot(sizes, values, color=color, marker="o", markersize=3.5, label=f"query and {name}")
right.axvspan(0.5, 15.5, color=A_COLOR, alpha=0.08, lw=0)
right.annotate("A agrees exactly\nin 15 dimensions", (8, 0.5 * total_b), ha="center", color=A_COLOR)
right.annotate("over all 25,\nB is closer", (19.2, total_a), ha="center", color=B_COLOR)
right.set(title="Running sum: the footprint", xlabel="size $k$ of the subspace", ylabel="entry $k$ of the footprint")
plt.show()

# %%
# How a mask changes the footprint
# --------------------------------
# Now 64 dimensions, many patterns and many queries. The median footprint between a query and its origin stays flat for
# as long as there are untouched dimensions, and then falls; between a query and any other pattern it falls early. Where
# the two are best told apart depends on how much is masked. That place is what an adaptive similarity learns: weights
# over :math:`k`, from examples of (origin, copy).

stored = 2 * torch.rand(256, 64, generator=generator) - 1
sizes = torch.arange(1, 65)
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained", sharey=True)
for axis, rate in zip(axes, [0.2, 0.4, 0.6], strict=True):
    pairs = ahop.variants.MaskedVariant(rate).sample(stored, 100, seed=0)
    every = ahop.similarities.footprint(euclidean, stored, pairs.queries)
    is_origin = torch.nn.functional.one_hot(pairs.origins, len(stored)).bool()
    for values, color, name in [(every[is_origin], A_COLOR, "its origin"), (every[~is_origin], GRAY, "the others")]:
        low, middle, high = values.quantile(torch.tensor([0.05, 0.5, 0.95]), dim=0)
        axis.fill_between(sizes, low, high, color=color, alpha=0.2, lw=0)
        axis.plot(sizes, middle, color=color, label=f"query and {name}")
    axis.axvline(64 * (1 - rate), color="black", lw=0.8, ls=":")
    axis.set(title=f"{rate:.0%} masked", xlabel="size $k$ of the subspace", ylim=(-40, 1))
axes[0].set_ylabel("footprint")
axes[0].legend(frameon=False, loc="lower left")
plt.show()

# %%
# Lines are medians and bands hold 90 % of the pairs. The dotted line is the number of untouched dimensions.
