"""Two tables of few columns: rows of one are damaged copies of rows of the other, and nearest neighbors link them."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.support.measures import f1

LEFT, RIGHT = 200, 170
# Noise in standard deviations of a column; shares of cells that are outliers, so many deviations wide, and gaps.
NOISE, OUTLIERS, WIDE, GAPS = 0.1, 0.05, 4.0, 0.15
MIXED_COLUMNS = 12

Table = NDArray[np.float64]


class Tables(NamedTuple):
    """What is stored, copies of some of its rows, and which these are."""

    left: Tensor
    right: Tensor
    origins: Tensor


def tables(columns: int, seed: int) -> Tables:
    """Normal columns, in double precision as frames have them; twelve are those of a catalogue.

    The columns of a catalogue have units of their own, and it has gaps itself.
    """
    generator = np.random.default_rng([seed, columns])
    is_mixed = columns == MIXED_COLUMNS
    left = _products(generator) if is_mixed else generator.standard_normal((LEFT, columns))
    origins = generator.permutation(LEFT)[:RIGHT]
    right, spread, shape = left[origins], left.std(0), (RIGHT, columns)
    noisy = right + NOISE * spread * generator.standard_normal(shape)
    is_counted = [len(set(column)) < LEFT // 4 for column in left.T]  # counts and kinds have no noise
    right = np.where(is_counted, right, noisy)
    outliers = left.mean(0) + WIDE * spread * generator.standard_normal(shape)
    right = np.where(generator.random(shape) < OUTLIERS, outliers, right)
    right = np.where(generator.random(shape) < GAPS, np.nan, right)
    left = np.where(generator.random(left.shape) < GAPS, np.nan, left) if is_mixed else left
    return Tables(torch.from_numpy(left), torch.from_numpy(right), torch.from_numpy(origins))


def _products(generator: np.random.Generator) -> Table:
    """Price, weight in grams, three lengths in millimetres, a share, parts, stars, a year, volts, a flag, degrees."""
    sizes = generator.lognormal(4.5, 0.6, LEFT)
    lengths = [sizes * generator.lognormal(0, 0.3, LEFT) for _ in range(3)]
    return np.column_stack(
        [
            generator.lognormal(3.5, 1.0, LEFT),
            sizes**1.5 * generator.lognormal(0, 0.5, LEFT),
            *lengths,
            generator.beta(2, 5, LEFT),
            generator.poisson(6, LEFT),
            generator.integers(2, 11, LEFT) / 2,
            generator.integers(2005, 2026, LEFT),
            generator.choice([5.0, 12.0, 24.0, 230.0], LEFT),
            generator.random(LEFT) < 0.3,
            generator.normal(40, 12, LEFT),
        ]
    )


def f1_of_nearest(columns: int, seed: int, tuned_on: int) -> float:
    """Links to the nearest left row up to a distance that is best on other tables, whose origins are known.

    The better of two metrics after the fact, of columns in standard deviations, by what both rows have.
    """
    known, asked = tables(columns, tuned_on), tables(columns, seed)
    found = []
    for power in (1, 2):
        nearest, apart = _nearest(known, power)
        limit = max(apart.tolist(), key=lambda limit: f1(nearest.where(apart <= limit, -1), known.origins))
        nearest, apart = _nearest(asked, power)
        found.append(f1(nearest.where(apart <= limit, -1), asked.origins))
    return max(found)


def _nearest(asked: Tables, power: int) -> tuple[Tensor, Tensor]:
    """For each right row the nearest left one, and how far it is; infinitely, where no column is in common."""
    spread = (asked.left - asked.left.nanmean(0)).square().nanmean(0).sqrt()
    left, right = asked.left / spread, asked.right / spread
    apart = (right[:, None] - left).abs().pow(power).nanmean(-1).nan_to_num(torch.inf)
    nearest = apart.min(1)
    return nearest.indices, nearest.values
