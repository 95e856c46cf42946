r"""
Finding out what happens to copies
==================================

Bring pairs: rows of stored patterns, and the damaged copies that came of them. What the damage is, `ahop.fit` finds
out, and says so.
"""

# %%
# Pairs
# -----
# Five hundred vectors of 48 sensors are stored. Copies come from another instrument: every sensor is off by a number
# of its own, there is noise, a quarter of the readings is nonsense, and weak readings are often not there at all (NaN).

import matplotlib.pyplot as plt
import numpy as np

import ahop

BLUE, ORANGE, GRAY = "#1b5e8c", "#c8702a", "#7d838c"
rng = np.random.default_rng(0)
stored = rng.uniform(0, 1, size=(500, 48)).astype("float32")
offsets = rng.normal(0, 0.25, size=48)


def other_instrument(originals: np.ndarray) -> np.ndarray:
    readings = originals + offsets + rng.normal(0, 0.3, originals.shape)
    nonsense = rng.random(originals.shape) < 0.25
    readings = np.where(nonsense, rng.uniform(-0.5, 1.5, originals.shape), readings)
    readings[rng.random(originals.shape) < 0.8 * (1 - originals)] = np.nan
    return readings.astype("float32")


origins = rng.integers(500, size=200)
memory = ahop.fit(stored, pairs=(origins, other_instrument(stored[origins])), progress=False)
print(memory.report)

# %%
# All models were fitted to a part of the pairs and judged on pairs whose origins they had not seen:

for trial in memory.report.trials:
    print(f"{trial.name:22s} log-loss {trial.log_loss:5.2f}   right {trial.accuracy:4.0%}")

# %%
# The picture shows one sensor: how much a reading speaks for each stored value; and on the right what each sensor is
# off by.

ahop.plots.CorruptionDisplay.from_memory(memory).plot()
plt.show()

# %%
# Does a probability mean what it says?
# -------------------------------------
# Ask for the origins of 2000 fresh copies. Where the memory says 90 %, it should be right in 90 % of the cases.

truth = rng.integers(500, size=2000)
answer = memory.recall(other_instrument(stored[truth]))
sure, right = answer.posterior[:, 0], answer.indices[:, 0] == truth
print(f"right in {right.mean():.1%}, says {sure.mean():.1%}")

edges = np.linspace(0, 1, 11)
bins = np.clip(np.digitize(sure, edges) - 1, 0, 9)
filled = [number for number in range(10) if (bins == number).sum() >= 10]
figure, axis = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
axis.plot([0, 1], [0, 1], color=GRAY, lw=0.8, ls=":")
axis.plot([sure[bins == n].mean() for n in filled], [right[bins == n].mean() for n in filled], "o-", color=BLUE)
axis.set(xlabel="what it says", ylabel="how often it is right", title="Queries of stored patterns")
plt.show()

# %%
# And what if a query comes from no stored pattern? `answer.unknown` tells.

figure, axis = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
strangers = other_instrument(rng.uniform(0, 1, size=(2000, 48)).astype("float32"))
unknown = memory.recall(strangers).unknown
axis.hist(answer.unknown, edges, color=BLUE, alpha=0.7, label="stored")
axis.hist(unknown, edges, color=ORANGE, alpha=0.7, label="not stored")
axis.set(xlabel="probability of unknown", ylabel="queries", title="Known or not")
axis.legend(frameon=False)
plt.show()
