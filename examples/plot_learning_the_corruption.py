r"""
Learning the corruption
=======================

A fixed similarity assumes how queries get damaged. An adaptive one learns it from examples. Here: what it learns, how
many examples it wants, and how far it is from the best that any method could do.
"""

# %%
# What is learned: how much each rank counts
# ------------------------------------------
# 256 random patterns of 64 dimensions are stored. A query is a copy with Gaussian noise, in which a share of the
# dimensions was then replaced by garbage. A footprint similarity sorts the dimensions of a pair, best agreement first,
# and learns a weight for each rank; a plain distance gives all ranks the same. What a rank adds to the score is its
# weight times how much its values vary. That is drawn here, as a share of the whole.

import matplotlib.pyplot as plt
import torch

import ahop

BLUE, ORANGE, GRAY, PALE = "#1b5e8c", "#c8702a", "#7d838c", "#c3c8cf"
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11})

patterns = 2 * torch.rand(256, 64, generator=torch.Generator().manual_seed(0)) - 1
distance = ahop.AssociativeMemory(patterns, ahop.similarities.FootprintSimilarity(ahop.EuclideanSimilarity(), 64))
ranks = torch.arange(1, 65)


def influence(memory: ahop.AssociativeMemory, queries: torch.Tensor) -> torch.Tensor:
    spread = memory.similarity.features(patterns, queries).std((0, 1))
    parts = memory.similarity.coefficients.detach() * spread
    return parts / parts.sum()


figure, axes = plt.subplots(1, 3, figsize=(9.4, 3.2), layout="constrained", sharey=True)
for axis, mask in zip(axes, [0.2, 0.4, 0.6], strict=True):
    masked = ahop.MixedVariant(mask=mask, noise=0.3, bias=0.0)
    solver = ahop.fitting.ConvexSolver(smoothness=5.0)
    learned = ahop.fit(distance, variant=masked, solver=solver, samples=512, progress=False)
    queries = masked.sample(patterns, 200, seed=1).queries
    axis.fill_between(ranks, influence(distance, queries), color=PALE, lw=0, label="distance")
    axis.plot(ranks, influence(learned, queries), color=BLUE, lw=2, label="learned")
    axis.axvline(64 * (1 - mask), color="black", lw=0.8, ls=":")
    axis.set(title=f"{mask:.0%} garbage", xlabel="rank, best agreement first")
axes[0].set_ylabel("share of the score")
axes[0].legend(frameon=False, loc="upper left")
plt.show()

# %%
# The dotted line is the number of untouched dimensions. With little garbage the distance is already right, and nothing
# needs to be learned. With more, the distance is ruled by the last ranks, where the garbage is; the learned weights
# move to the ranks around the line. What is left at the very end is evidence too: some differences are too large even
# for garbage. (``smoothness`` is set high here to have lines that are easy to read. The default lets the data decide
# more.)
#
# Noise, garbage and a shift
# --------------------------
# Now the mixed variant of the paper: noise, 40 % garbage, and every dimension shifted by a constant that all queries
# share. Two models are fitted to the same pairs. **A-Hop** is the paper's: footprints of the distance and of the inner
# product. They cannot represent a shift. The unified similarity can, so the second model, the **de-biased footprint**,
# fits that one first and then learns a footprint of it. All these fits are convex: there is nothing to tune, and every
# start ends in the same place.

variant = ahop.MixedVariant(mask=0.4, noise=0.45, bias=0.45)


def fit_debiased(pairs: tuple[torch.Tensor, torch.Tensor]) -> ahop.AssociativeMemory:
    shifted = ahop.AssociativeMemory(patterns, ahop.similarities.UnifiedSimilarity(64))
    shift = ahop.fit(shifted, pairs=pairs, progress=False).similarity
    footprint = ahop.AdaptiveSimilarity(64, bases=[shift])
    return ahop.fit(ahop.AssociativeMemory(patterns, footprint), pairs=pairs, progress=False)


counts = [8, 32, 128, 512]
sample = variant.sample(patterns, counts[-1], seed=7)
a_hop, debiased = [], []
for count in counts:
    few = (sample.origins[:count], sample.queries[:count])
    a_hop.append(ahop.fit(ahop.zoo.a_hop(patterns), pairs=few, progress=False))
    debiased.append(fit_debiased(few))
print(a_hop[-1].report)
print(debiased[-1].report)

# %%
# How often is the origin found?
# ------------------------------
# The share of 1000 fresh queries that are traced back to their origin. The Bayes ceiling is what the true posterior
# reaches; no method can pass it on average.


def accuracy(memory: ahop.AssociativeMemory) -> float:
    return ahop.criteria.retrieval_accuracy(memory, variant, queries=1000)


ceiling = ahop.criteria.bayes_accuracy(patterns, variant, queries=1000)
bars = {
    "U-Hop": accuracy(ahop.zoo.u_hop(patterns)),
    "M-Hop": accuracy(ahop.zoo.m_hop(patterns)),
    "A-Hop": accuracy(a_hop[-1]),
    "de-biased\nfootprint": accuracy(debiased[-1]),
}

figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.8), layout="constrained", sharey=True)
drawn = left.bar(bars.keys(), bars.values(), width=0.62, color=[PALE, PALE, BLUE, ORANGE])
for bar, value, color in zip(drawn, bars.values(), ["black", "black", "white", "white"], strict=True):
    left.annotate(f"{value:.2f}", (bar.get_x() + 0.31, value - 0.03), ha="center", va="top", color=color)
left.set(title="Retrieval accuracy, 512 pairs seen", ylim=(0, 1.05), yticks=[0, 0.25, 0.5, 0.75, 1])

right.plot(counts, [accuracy(memory) for memory in debiased], color=ORANGE, marker="o", label="de-biased footprint")
right.plot(counts, [accuracy(memory) for memory in a_hop], color=BLUE, marker="o", label="A-Hop")
right.axhline(bars["M-Hop"], color=PALE, lw=1.5, zorder=0, label="M-Hop, which learns nothing")
right.set_xscale("log", base=2)
right.set_xticks(counts, labels=map(str, counts))
right.set(title="Accuracy and the number of pairs", xlabel="pairs (origin, copy)")
right.legend(frameon=False, loc="lower right")
for axis in (left, right):
    axis.axhline(ceiling, color="black", lw=1, ls=":")
left.annotate(f"Bayes ceiling {ceiling:.2f}", (-0.31, ceiling), (0, -13), textcoords="offset points")
plt.show()

# %%
# In doubt the solver stays near the similarity it started from, so a handful of pairs does little harm and a few dozen
# already help.
