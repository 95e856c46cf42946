r"""
Descending the energy
=====================

A Hopfield network answers by moving downhill. In two dimensions the hills can be drawn: six stored patterns, damaged
copies of them, and where each copy comes to rest.
"""

# %%
# Two memories
# ------------
# Every query is a stored pattern plus the same shift :math:`d`, plus a little noise. M-Hop, the modern Hopfield
# network, knows nothing of that. The second memory has the similarity that the paper proves optimal for shifted
# queries. Its states live among the queries and rest near :math:`\xi + d`; the answer takes the shift off again.

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

import ahop

BLUE, RED, STAR = "#16324f", "#b5372e", "#e0a030"
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11})

angles = torch.arange(6) * torch.pi / 3 + 0.3
patterns = 3 * torch.stack([angles.cos(), angles.sin()], dim=1)
shift = torch.tensor([1.7, 0.9])
variant = ahop.variants.ComposedVariant([ahop.variants.BiasedVariant(shift), ahop.NoisyVariant(0.15)])
pairs = variant.sample(patterns, 24, seed=1)

m_hop = ahop.zoo.m_hop(patterns)
debiased = ahop.AssociativeMemory(patterns, ahop.similarities.optimal_for_biased(shift))
rules = {"M-Hop": (m_hop, ahop.dynamics.Readout()), "De-biased": (debiased, ahop.dynamics.DebiasedReadout.of(debiased))}
paths = {name: ahop.iterate(memory, pairs.queries, rule) for name, (memory, rule) in rules.items()}

# %%
# Landscapes and paths
# --------------------
# Blue paths end at the pattern that the query came from, red ones at another. Yellow arrows are the last step of the
# de-biased rule: from the resting state to the answer.

ticks = torch.linspace(-5, 6.4, 171)
grid = torch.cartesian_prod(ticks, ticks)
heights = [0, 0.15, 0.4, 0.8, 1.4, 2.2, 3.2, 4.5, 6, 8, 10.5, 13.5, 17]


def draw(axis: Axes, memory: ahop.AssociativeMemory, path: ahop.dynamics.Trajectory) -> torch.Tensor:
    with torch.no_grad():
        energies = memory.energy(grid).reshape(len(ticks), len(ticks)).T
    levels = [float(energies.min()) + height for height in heights]
    axis.contourf(ticks, ticks, energies, levels=levels, cmap="Blues_r", extend="max", alpha=0.4)
    axis.contour(ticks, ticks, energies, levels=levels, colors="white", linewidths=0.7, linestyles="solid")
    right = torch.cdist(path.answers, patterns).argmin(-1) == pairs.origins
    for states, good in zip(path.states.unbind(1), right.tolist(), strict=True):
        axis.plot(*states.T, color=BLUE if good else RED, lw=1.2, zorder=3)
        axis.scatter(*states[0], s=24, facecolor="white", edgecolor=BLUE if good else RED, lw=1.2, zorder=4)
    axis.scatter(*patterns.T, s=110, marker="*", color=STAR, edgecolor="black", lw=0.6, zorder=5)
    axis.set(aspect="equal", xlim=(-4.4, 6.2), ylim=(-4.4, 5.4), xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    return right


figure, axes = plt.subplots(1, 2, figsize=(9.4, 5), layout="constrained")
for axis, (name, (memory, _)) in zip(axes, rules.items(), strict=True):
    right = draw(axis, memory, paths[name])
    axis.set_title(f"{name}: {int(right.sum())} of {len(right)} answers right")
for rest, answer in zip(paths["De-biased"].states[-1], paths["De-biased"].answers, strict=True):
    axes[1].annotate("", answer, rest, arrowprops={"arrowstyle": "->", "color": STAR, "lw": 1.6}, zorder=4)
figure.supxlabel("stars: stored patterns      circles: queries      dark: low energy", fontsize=10)
plt.show()

print(
    f"Bayes ceiling, the best that any method can do on average: {ahop.criteria.bayes_accuracy(patterns, variant):.3f}"
)

# %%
# The energy along the way
# ------------------------
# For both pairs of memory and rule it is proven that no step raises the energy, and ``descends`` says so. One line for
# each query.

figure, axes = plt.subplots(1, 2, figsize=(9.4, 2.9), layout="constrained")
for axis, (name, path) in zip(axes, paths.items(), strict=True):
    memory, rule = rules[name]
    axis.plot(path.energies[:6] - path.energies[-1], color=BLUE, lw=1, alpha=0.6)
    axis.set(title=f"{name}, proven to descend: {rule.descends(memory)}", xlabel="step", xlim=(0, 5))
axes[0].set_ylabel("energy above rest")
plt.show()
