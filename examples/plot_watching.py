r"""
Watching a memory in service
============================

A memory that was fitted once is right as long as queries get damaged as they did then. Nobody labels queries in
service; :func:`ahop.watch` says what they show all the same, and :func:`ahop.adapt` follows them.
"""

# %%
# A day when all is well
# ----------------------
# Rooms are told by 24 radio beacons. The memory learns from 300 labeled scans. Then 1200 scans come in that nobody
# labels; from the seventh hundred on, two beacons lose power, one after the other, and a third one hangs.

import numpy as np
import pandas as pd

import ahop

rng = np.random.default_rng(0)
beacons = [f"beacon {number}" for number in range(24)]
rooms = pd.DataFrame(rng.normal(-70, 8, (200, 24)), [f"room {number}" for number in range(200)], beacons)


def scans(origins: np.ndarray) -> pd.DataFrame:
    """What a phone hears there: 5 dB less, noise, and a tenth of the beacons not at all."""
    heard = rooms.iloc[origins] - 5 + rng.normal(0, 6, (len(origins), 24))
    return heard.mask(rng.random(heard.shape) < 0.1)


places = rng.integers(200, size=300)
memory = ahop.fit(rooms, pairs=(rooms.index[places], scans(places)), similarity="mixture", progress=False)

truth = rng.integers(200, size=1200)
log = scans(truth).reset_index(drop=True)
log.loc[600:, "beacon 3"] -= 12
log.loc[800:, "beacon 7"] -= 12
log.loc[1000:, "beacon 11"] = log.loc[1000:, "beacon 11"] * 0 - 60

# %%
# What the log shows
# ------------------
# Six windows of 200 scans each. The estimated accuracy falls a little; what matters is the alarm, and which beacons it
# names. The true accuracy of each window, which nobody would know, is drawn beside.

report = ahop.watch(memory, log, windows=6)
print(report)

figure = ahop.plots.WatchDisplay.from_report(report).plot()
right = memory.recall(log).indices[:, 0] == truth
figure.axes[0].plot(range(1, 7), right.reshape(6, 200).mean(1), "_", color="black", markersize=18, label="true")
_ = figure.axes[0].legend(loc="lower left", frameon=False)

# %%
# Following it
# ------------
# The last 400 scans are enough to learn what is usual now. Whether that is kept is decided by held-out scans.

adapted = ahop.adapt(memory, log[800:].reset_index(drop=True), progress=False)
print(adapted.report.adapted)

fresh_places = rng.integers(200, size=500)
fresh = scans(fresh_places).reset_index(drop=True)
fresh["beacon 3"] -= 12
fresh["beacon 7"] -= 12
fresh["beacon 11"] = fresh["beacon 11"] * 0 - 60
for name, each in (("before", memory), ("adapted", adapted)):
    print(name, f"{(each.recall(fresh).indices[:, 0] == fresh_places).mean():.3f}")
