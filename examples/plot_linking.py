r"""
Linking two tables
==================

Two laboratories have measured the same samples, and nobody has written down which is which. One by one, many rows
cannot be told; all together more can, because no row belongs to two others.
"""

# %%
# Two tables
# ----------
# The second instrument shifts every channel by a number of its own and adds noise; a part of its readings is nonsense
# or missing.

import matplotlib.pyplot as plt
import numpy as np

import ahop

BLUE, ORANGE, GRAY = "#1b5e8c", "#c8702a", "#7d838c"
rng = np.random.default_rng(0)
offsets = rng.normal(0, 0.3, size=16)


def tables(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first = rng.uniform(0, 1, size=(count, 16)).astype("float32")
    order = rng.permutation(count)
    second = first[order] + offsets + rng.normal(0, 0.2, first.shape)
    second = np.where(rng.random(second.shape) < 0.15, rng.uniform(0, 1, second.shape), second)
    second[rng.random(second.shape) < 0.05] = np.nan
    return first, second.astype("float32"), order


# %%
# No pair is labeled: what the second instrument does is learned from the tables alone.

first, second, order = tables(300)
memory = ahop.fit(first, queries=second, progress=False)
alone = memory.recall(second)
links = ahop.link(memory, second)
is_right = order[links.right] == links.left
print(f"one by one {np.mean(alone.indices[:, 0] == order):.0%} right, together {is_right.sum() / len(order):.0%}")
print(links)

# %%
# Left, how sure each answer is, one by one and together: rows that doubted are settled by others that are sure. Right,
# whether the probabilities of the links mean what they say.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
edges = np.linspace(0, 1, 11)
left.hist(alone.posterior[:, 0], edges, color=GRAY, alpha=0.7, label="one by one")
left.hist(links.probability, edges, histtype="step", lw=2, color=BLUE, label="together")
left.set(xlabel="probability of the answer", ylabel="rows", title="How sure")
left.legend(frameon=False, loc="upper left")
groups = np.array_split(np.argsort(links.probability), 6)
right.plot([0, 1], [0, 1], color=GRAY, lw=0.8, ls=":")
right.plot([links.probability[g].mean() for g in groups], [is_right[g].mean() for g in groups], "o-", color=ORANGE)
right.set(xlabel="what it says, sixths of the links", ylabel="how often it is right", title="Links")
plt.show()
