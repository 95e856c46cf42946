r"""
Two tables without a key
========================

The same patients in two systems: most numbers were copied to the digit, some were measured again, some cells are empty,
and not every row has a partner. Which rows belong together, how sure is that, and why?
"""

# %%
# Two tables
# ----------
# Real patients, from scikit-learn; what happened to their copies is made up. One in three of their rows is of somebody
# whom our table has not got.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import ahop

BLUE, ORANGE, GRAY = "#1b5e8c", "#c8702a", "#7d838c"
rng = np.random.default_rng(0)
patients = load_diabetes(as_frame=True, scaled=False).data[["age", "sex", "bmi", "bp", "s1", "s6"]]
patients["sex"] = patients["sex"].map({1.0: "f", 2.0: "m"})
ours, order = patients[:300], rng.permutation(np.r_[0:200, 300:400])
theirs = patients.iloc[order].reset_index(drop=True)
for name in theirs.columns.drop("sex"):
    again = rng.random(300) < 0.4
    theirs.loc[again, name] = (theirs.loc[again, name] * rng.normal(1, 0.05, again.sum())).round(1)
    wrong = rng.random(300) < 0.1
    theirs.loc[wrong, name] = rng.permutation(patients[name])[: wrong.sum()]
theirs = theirs.mask(rng.random(theirs.shape) < 0.1)

# %%
# Nothing is labeled. How closely numbers agree in copies, and how closely they do by chance, is learned from the two
# tables.

memory = ahop.fit(ours, queries=theirs, progress=False)
links = ahop.link(memory, theirs, progress=False)
origins = np.where(order < 300, order, -1)
linked = links.linked[links.right]
is_right = linked == origins[links.right]
print(links)
print(memory.report)

# %%
# Left, how sure the links are: wrong ones say so. Right, what spoke for one of them: equal digits where few rows have
# them say much, the sex says little.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained", width_ratios=(1, 1.25))
edges = np.linspace(0, 1, 21)
sure = links.probability
left.hist([sure[is_right], sure[~is_right]], edges, stacked=True, color=[BLUE, ORANGE], label=["right", "wrong"])
left.set(xlabel="probability of the link", ylabel="rows", title=f"{is_right.mean():.0%} of {len(sure)} links are right")
left.legend(frameon=False, loc="upper left")
row = int(links.right[is_right][np.argmin(np.abs(sure[is_right] - 0.9))])
ahop.plots.WaterfallDisplay.from_explanation(memory.explain(theirs.iloc[[row]])).plot(ax=right)
plt.show()
