r"""
Which answers can be accepted?
==============================

An answer comes with a probability. From which one on may a program act on its own? Ask for what you need, and
`ahop.policy` finds the threshold on pairs that were held out, or says that they cannot promise it.
"""

# %%
# Copies that are hard to tell
# ----------------------------
# A thousand vectors are stored. Copies are shifted and noisy, and 40 % of their entries are outliers. Some queries come
# from no stored vector at all.

import matplotlib.pyplot as plt
import torch

import ahop

stored, others = (torch.rand(1000, 48, generator=torch.Generator().manual_seed(seed)) * 2 - 1 for seed in (0, 1))
damage = ahop.MixedVariant(0.4, 0.4, 0.4)
memory = ahop.fit(stored, pairs=damage.sample(stored, 500, seed=0), similarity="mixture", progress=False)
held_out, strangers = damage.sample(stored, 1500, seed=1), damage.sample(others, 500, seed=2).queries

# %%
# A precision
# -----------
# Of the answers that are accepted, 95 % shall be right.

policy = ahop.policy(memory, held_out, precision=0.95, strangers=strangers)
print(policy)

# %%
# On the left is how many of the accepted answers were right, for every threshold; the band is what so many pairs leave
# open. The threshold is the lowest one from which on the whole band keeps the promise. On the right is what it costs:
# the higher the threshold, the less is accepted.

ahop.plots.ThresholdDisplay.from_pairs(memory, held_out, policy, strangers=strangers).plot()
plt.show()

# %%
# Does it hold? On fresh queries, a quarter of them from no stored vector:

fresh, more = damage.sample(stored, 3000, seed=3), damage.sample(others, 1000, seed=4).queries
answer = memory.recall(torch.cat([fresh.queries, more]))
right = torch.cat([answer.indices[:3000, 0] == fresh.origins, torch.zeros(1000, dtype=torch.bool)]).numpy()
actions = answer.decide(policy).actions
for action in ("accept", "ask", "unknown"):
    chosen = actions == action
    print(
        f"{action:8s} {chosen.mean():5.1%} of the queries, first answer right in {right[chosen].mean():5.1%} of these"
    )

# %%
# Strangers that are let in
# -------------------------
# Where a wrong answer does no harm unless it is given to a stranger, bound that.

policy = ahop.policy(memory, held_out, false_accept=0.02, strangers=strangers)
print(policy)
ahop.plots.ThresholdDisplay.from_pairs(memory, held_out, policy, strangers=strangers).plot()
plt.show()

# %%
# Costs
# -----
# Where a wrong answer costs twenty times as much as asking a person, no pairs are needed: the probabilities are taken
# at their word. The picture shows whether that was right: the threshold should stand where the curve is lowest.

policy = ahop.policy(memory, held_out, costs={"wrong": 20, "ask": 1})
print(policy)
ahop.plots.ThresholdDisplay.from_pairs(memory, held_out, policy, strangers=strangers).plot()
plt.show()

# %%
# What cannot be promised
# -----------------------
# A hundred pairs without a single error would leave room for 3 % of them. So this is refused:

try:
    ahop.policy(memory, damage.sample(stored, 100, seed=5), precision=0.99)
except ValueError as error:
    print(error)
