"""Genotypes as few reads show them, and how likely what they show is."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from experiments.datasets import load_genotypes

Rows = NDArray[np.float32]
Scores = NDArray[np.float64]
# Sites are taken from all over, and those that differ between people.
EVERY, CANDIDATES, LEAST_FREQUENCY = 95, 300, 0.2
SITES = 150
# Share of entries that are read wrong; chance that an allele of two is not seen in one read.
ERRORS, UNSEEN = 0.02, 0.5
# Reads of a site follow a geometric distribution; how often a site is read at all, a beta distribution, as in RNA.
ENOUGH_READS, DEPTH = (0.5, 2.2), 0.25
# What becomes of a genotype, over all depths, before errors: four in ten with two alleles show one.
SHOWN = np.array([[1, 0, 0], [0.2, 0.6, 0.2], [0, 0, 1]])


@cache
def people() -> Rows:
    """Genotypes of all people at sites that tell them apart, (1000, 150)."""
    counts = load_genotypes().counts[:, ::EVERY][:, :CANDIDATES]
    frequency = np.nanmean(counts, 0) / 2
    return counts[:, (frequency > LEAST_FREQUENCY) & (frequency < 1 - LEAST_FREQUENCY)][:, :SITES]


@dataclass(frozen=True)
class Reader:
    """A way to read genotypes from few reads.

    Attributes:
        covered: (d,) how often each site is read.
    """

    covered: NDArray[np.float64]

    @classmethod
    def drawn(cls, generator: np.random.Generator) -> "Reader":
        return cls(np.clip(generator.beta(*ENOUGH_READS, SITES), 0.005, 0.95))

    def reads(self, rows: Rows, generator: np.random.Generator) -> Rows:
        """What is read of each row, NaN where nothing is."""
        found, shape = rows.copy(), rows.shape
        is_covered = generator.random(shape) < self.covered * generator.uniform(0.5, 1.2, (len(rows), 1))
        depth = generator.geometric(DEPTH, shape)
        is_dropped = (found == 1) & (generator.random(shape) < 2 * UNSEEN**depth)
        found[is_dropped] = generator.choice([0, 2], is_dropped.sum())
        is_wrong = generator.random(shape) < ERRORS
        found[is_wrong] = generator.integers(0, 3, is_wrong.sum())
        found[~is_covered] = np.nan
        return found


def concordance(stored: Rows, query: Rows) -> Scores:
    """Share of the shared sites that agree."""
    both = _both(stored, query)
    found: Scores = (both & (stored == query)).sum(1) / np.maximum(both.sum(1), 1)
    return found


def identity_by_state(stored: Rows, query: Rows) -> Scores:
    """Alleles that differ at a shared site, on average and below zero."""
    both = _both(stored, query)
    found: Scores = -_apart(stored, query, both).sum(1) / np.maximum(both.sum(1), 1)
    return found


def relatedness(stored: Rows, query: Rows) -> Scores:
    """As somalier has it: shared heterozygotes less twice the opposite homozygotes, by the rarer heterozygotes."""
    both = _both(stored, query)
    shared, opposite = ((query == 1) & (stored == 1)).sum(1), (both & (_apart(stored, query, both) == 2)).sum(1)
    found: Scores = (shared - 2 * opposite) / np.maximum(np.minimum((query == 1).sum(), (stored == 1).sum(1)), 1)
    return found


def log_likelihood_ratios(stored: Rows, queries: Rows) -> Scores:
    """By the true table of errors and the frequencies of the sites, (b, n): the ceiling."""
    table = SHOWN * (1 - ERRORS) + ERRORS / 3
    frequencies = np.stack([np.nanmean(np.where(np.isnan(stored), np.nan, stored == each), 0) for each in range(3)], 1)
    shown, found = frequencies @ table, np.zeros((len(queries), len(stored)))
    for site in range(stored.shape[1]):
        of_pairs = np.zeros((4, 4))
        of_pairs[:3, :3] = np.log(table / shown[site])  # the fourth is not known
        code = [np.nan_to_num(rows[:, site], nan=3).astype(int) for rows in (stored, queries)]
        found += of_pairs[code[0][None, :], code[1][:, None]]
    return found


def _both(stored: Rows, query: Rows) -> NDArray[np.bool_]:
    return ~np.isnan(stored) & ~np.isnan(query)


def _apart(stored: Rows, query: Rows, both: NDArray[np.bool_]) -> NDArray[np.float32]:
    return np.where(both, np.abs(np.nan_to_num(stored) - np.nan_to_num(query)), 0).astype(np.float32)
