r"""
Clouds of queries
=================

A stored pattern is a nucleus, its corrupted copies are the cloud around it. What the cloud looks like is the
corruption, and the similarity to use is the one that knows its shape. Below are the clouds of four corruptions in two
dimensions, drawn from the likelihood :math:`p(x \mid \xi)` that each variant knows in closed form.
"""

# %%
# Four corruptions of one pattern
# -------------------------------
# Noise spreads around the pattern. A mask redraws one of the two coordinates: copies lie on two lines through the
# pattern. A bias moves every copy by the same vector, here with a little noise so that there is something to see. Noise
# and mask together blur the lines.

import matplotlib.pyplot as plt
import torch

import ahop
from ahop.variants import BiasedVariant, ComposedVariant

pattern = torch.tensor([[-0.2, 0.1]])
line = torch.linspace(-1.25, 1.25, 301)
grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1).view(-1, 2)
thin = 0.02  # a density on a line cannot be drawn: it is given this width

clouds = {
    "noisy": ahop.NoisyVariant(0.1),
    "masked": ahop.MixedVariant(0.5, thin, 0.0),
    "biased": ComposedVariant([ahop.NoisyVariant(0.003), BiasedVariant(torch.tensor([0.6, -0.4]))]),
    "noisy and masked": ahop.MixedVariant(0.5, 0.15, 0.0),
}

figure, axes = plt.subplots(1, 4, figsize=(11, 3.1), layout="constrained", sharey=True)
for axis, (name, variant) in zip(axes, clouds.items(), strict=True):
    logs = variant.log_likelihood(pattern, grid)[:, 0].view(301, 301)
    density = (logs - logs.max()).exp().sqrt()  # the root, so that what is rare can be seen too
    axis.imshow(density, extent=(-1.25, 1.25, -1.25, 1.25), origin="lower", cmap="Greys")
    axis.plot(*pattern[0], "o", color="#c2213f", markersize=4)
    axis.set(title=name, xticks=[-1, 0, 1], yticks=[-1, 0, 1])
figure.suptitle(r"$p(x \mid \xi)$ around the stored pattern (red)")
plt.show()

# %%
# What it means for recall
# ------------------------
# A query belongs to the pattern in whose cloud it lies deepest. With two patterns, the plane is divided: by a straight
# line where the clouds are round, by stripes where a coordinate may be garbage. A fixed distance divides it in one way
# only. Where it is white at a corner, neither pattern could have made the query.

patterns = torch.tensor([[-0.5, 0.3], [0.4, -0.4]])
figure, axes = plt.subplots(1, 4, figsize=(11, 3.1), layout="constrained", sharey=True)
for axis, (name, variant) in zip(axes, clouds.items(), strict=True):
    posterior = torch.softmax(variant.log_likelihood(patterns, grid), -1)[:, 0].view(301, 301)
    axis.imshow(posterior, extent=(-1.25, 1.25, -1.25, 1.25), origin="lower", cmap="RdBu", vmin=0, vmax=1)
    axis.plot(*patterns.T, "o", color="black", markersize=4)
    axis.set(title=name, xticks=[-1, 0, 1], yticks=[-1, 0, 1])
figure.suptitle("probability of the left pattern (blue) and of the right one (red)")
plt.show()
