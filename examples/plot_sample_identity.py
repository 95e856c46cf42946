r"""
Samples under a wrong name
==========================

Two samples of each person lie in a freezer, and some tubes carry the name of somebody else. Genotypes tell which, also
where few reads show them, and where nobody knows how often a read is wrong.
"""

# %%
# Genotypes and samples
# ---------------------
# A genotype counts the copies of the second allele at a site: 0, 1 or 2. A sample of RNA shows a part of the sites, for
# a gene that is not expressed is not read. A person with both alleles often shows one of them only.

import matplotlib.pyplot as plt
import numpy as np

import ahop

BLUE, ORANGE, GRAY = "#1b5e8c", "#c8702a", "#7d838c"
rng = np.random.default_rng(0)
people, sites, share_read = 200, 60, rng.uniform(0.05, 0.95, 200)
genotypes = rng.binomial(2, rng.uniform(0.1, 0.9, sites), (people, sites)).astype("float32")


def read(genotypes: np.ndarray) -> np.ndarray:
    found = genotypes.copy()
    is_both = found == 1
    lost = is_both & (rng.random(found.shape) < 0.4)
    found[lost] = 2 * rng.integers(0, 2, lost.sum())
    is_wrong = rng.random(found.shape) < 0.02
    found[is_wrong] = rng.integers(0, 3, is_wrong.sum())
    found[rng.random(found.shape) > share_read[: len(found), None]] = np.nan
    return found


samples = read(genotypes)
names = np.array([f"P{number:03d}" for number in range(people)])
called = names.copy()
called[[17, 60, 133]] = called[[60, 133, 17]]  # three tubes went round

# %%
# How often a genotype is read as another is learned from the two tables alone. ``link`` then says which names are
# wrong: not those whose best answer is another person, but those whose own name does not fit.

memory = ahop.fit(genotypes, queries=samples, categorical=True, labels=names, progress=False)
links = ahop.link(memory, samples, labels=called, progress=False)
print(links)

# %%
# Each point is a sample: how many sites were read, and by how much the person of its name fits better than the best of
# all others. Below zero somebody else fits better: with few sites by chance, far below by a swap.

scores = memory.scores(samples).detach().numpy()
own = np.searchsorted(names, called)
rows = np.arange(people)
others = scores.copy()
others[rows, own] = -np.inf
margin = scores[rows, own] - others.max(1)
is_told = np.isin(called, links.misnamed.rows)
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
axes.axhline(0, color=GRAY, lw=0.8, ls=":")
read_sites = (~np.isnan(samples)).sum(1)
axes.scatter(read_sites[~is_told], margin[~is_told], 14, color=BLUE, alpha=0.7, label="fits its name")
axes.scatter(read_sites[is_told], margin[is_told], 40, color=ORANGE, marker="D", label="wrong name")
for row in is_told.nonzero()[0]:
    place = links.misnamed.rows.tolist().index(called[row])
    text = f"{called[row]}, rather {links.misnamed.linked[place]}"
    axes.annotate(text, (read_sites[row], margin[row]), (8, 0), textcoords="offset points", va="center", color=ORANGE)
axes.set(xlabel="sites that were read", ylabel="own name against the best other, nats")
axes.legend(frameon=False, loc="upper left")
plt.show()
