"""Sugarcane near infrared as a retrieval task: which stored sample is this, seen by another spectrometer?

The library is 60 samples on one instrument, the queries are the same samples on another. Both are interpolated to 100
channels of the range that they have in common.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

import ahop
from experiments.datasets import NirSurvey, load_sugarcane_nir

CHANNELS, LEAST_COMMON = 100, 60.0
# The repeats of the MicroNIR 1700 are kept for choosing settings; its first stands for it in results.
REPEATS = ("Micronir1700rep2", "Micronir1700rep3")
MOST_PAIRS, QUERIES = 20, 40


@dataclass(frozen=True)
class NirDraw:
    """Pairs to learn from, queries to be tested on.

    Attributes:
        patterns: all samples on the instrument of the library, (60, 100).
        pairs: samples, and what the other instrument made of them.
        test: the same of other samples, 40 whatever the number of pairs.
        wavelengths: of the channels, in nanometres.
    """

    patterns: Tensor
    pairs: ahop.Pairs
    test: ahop.Pairs
    wavelengths: Tensor


def instruments() -> list[str]:
    return [name for name in _survey().instruments if name not in REPEATS]


def ordered_pairs() -> list[tuple[str, str]]:
    """Library and query instrument, for all that have at least 60 nm in common."""
    names = instruments()
    return [(a, b) for a in names for b in names if a != b and np.diff(common_range(a, b))[0] >= LEAST_COMMON]


def common_range(library: str, query: str) -> tuple[float, float]:
    """In nanometres; the first is above the second if there is none."""
    waves = [_survey().instruments[name].wavelengths for name in (library, query)]
    return max(float(wave[0]) for wave in waves), min(float(wave[-1]) for wave in waves)


def drawn(library: str, query: str, pairs: int, seed: int) -> NirDraw:
    """Which samples are for pairs and which for test depends on the seed alone; five pairs are among the twenty."""
    wavelengths = np.linspace(*common_range(library, query), CHANNELS)
    stored, asked = (_resampled(name, wavelengths) for name in (library, query))
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(stored)))
    learned, tested = order[:pairs], order[MOST_PAIRS : MOST_PAIRS + QUERIES]
    return NirDraw(
        stored, ahop.Pairs(learned, asked[learned]), ahop.Pairs(tested, asked[tested]), torch.from_numpy(wavelengths)
    )


def snv(spectra: Tensor) -> Tensor:
    """Standard normal variate: each spectrum less its mean, over its standard deviation."""
    return (spectra - spectra.mean(-1, keepdim=True)) / spectra.std(-1, keepdim=True).clamp(min=1e-12)


def with_snv(draw: NirDraw) -> NirDraw:
    pairs = ahop.Pairs(draw.pairs.origins, snv(draw.pairs.queries))
    test = ahop.Pairs(draw.test.origins, snv(draw.test.queries))
    return NirDraw(snv(draw.patterns), pairs, test, draw.wavelengths)


def _resampled(name: str, wavelengths: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Tensor:
    measured = _survey().instruments[name]
    rows = [np.interp(wavelengths, measured.wavelengths, row) for row in measured.absorbance]
    return torch.from_numpy(np.stack(rows).astype(np.float32))


@cache
def _survey() -> NirSurvey:
    return load_sugarcane_nir()
