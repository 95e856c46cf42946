r"""
Why this answer?
================

A memory can say which readings spoke for its answer, and which against it: in words, as rows, and as a picture whose
bars sum to the log-odds.
"""

# %%
# A room and its broken sensor
# ----------------------------
# Two hundred rooms are stored with what twelve sensors read in them. A phone reads them with an offset of its own, with
# noise, and now and then one reading is nonsense or missing. From pairs of rooms and readings `ahop.fit` learns all of
# that.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import ahop

rng = np.random.default_rng(3)
sensors = [f"sensor {letter}" for letter in "ABCDEFGHIJKL"]
rooms = pd.DataFrame(rng.uniform(-90, -30, size=(200, 12)), [f"room {number}" for number in range(200)], sensors)
offsets = rng.normal(0, 6, size=12)


def phone(originals: np.ndarray) -> np.ndarray:
    readings = originals + offsets + rng.normal(0, 6, originals.shape)
    nonsense = rng.random(originals.shape) < 0.1
    readings = np.where(nonsense, rng.uniform(-100, -20, originals.shape), readings)
    return np.where(rng.random(originals.shape) < 0.05, np.nan, readings)


origins = rng.integers(200, size=300)
pairs = rooms.index[origins], phone(rooms.to_numpy()[origins])
memory = ahop.fit(rooms, pairs=pairs, similarity="mixture", progress=False)
print(memory.report)

# %%
# Someone stands in room 42. Sensor C is broken and reads something else, and sensor H is not heard at all.

query = rooms.loc["room 42"].to_numpy() + offsets + rng.normal(0, 6, 12)
query[2], query[7] = -120 - query[2], np.nan
why = memory.explain(query)
print(why)

# %%
# Each bar is by how much a reading favors the answer over its rival. They start at even odds and end at those of the
# answer: nothing is left out, and nothing is an estimate.

ahop.plots.WaterfallDisplay.from_explanation(why).plot()
plt.show()

# %%
# Is it any stored room?
# ----------------------
# A reading that fits neither of two rooms says nothing about which of them it is. Whether the phone is in a stored room
# at all is another question, and there each reading speaks for itself: what does not fit speaks against all that is
# stored. *other patterns* is how well these fit on the whole: an answer must stand out from them.

why = memory.explain(query, against="unknown")
print(why)
ahop.plots.WaterfallDisplay.from_explanation(why, count=12).plot()
plt.show()

# %%
# For a machine there are rows:

print(pd.DataFrame(why.rows()).round(2).head(5).to_string(index=False))
