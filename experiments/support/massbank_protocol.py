"""MassBank as a retrieval task: which compound has this tandem mass spectrum, taken at another collision energy?

The library has one spectrum of each compound, all at the energy that most compounds have; queries are spectra at the
others. Energies are compared by their number, whether it is a percentage or not.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import ahop
from experiments.datasets import SpectraLibrary, load_massbank_eawag

TOLERANCE = 0.005  # Da; two peaks that are closer than twice of it are one
NOISE, MOST_PEAKS = 0.01, 100
PAIRS, QUERIES = 200, 600


@dataclass(frozen=True)
class MassDraw:
    """Pairs to learn from, queries to be tested on.

    Attributes:
        patterns: the library, (n, 200): the mass-to-charge ratios of up to 100 peaks, then their shares of the
            intensity; NaN behind the last peak.
        pairs: compounds, and spectra of theirs at other energies.
        test: the same of other compounds.
        energies: of the test queries.
        compounds: the first 14 letters of the InChIKey for each row of the library.
        removed: rows of the library, the compounds of half of the test queries: without them these are unknown.
    """

    patterns: Tensor
    pairs: ahop.Pairs
    test: ahop.Pairs
    energies: Tensor
    compounds: list[str]
    removed: Tensor

    @property
    def unknown(self) -> Tensor:
        """(b,): does the test query come from a compound that is to be removed?"""
        return torch.isin(self.test.origins, self.removed)


def drawn(seed: int, pairs: int = PAIRS, queries: int = QUERIES) -> MassDraw:
    """A third of the compounds is for pairs, the others for test queries."""
    task, generator = _task(), np.random.default_rng(seed)
    order = generator.permutation(len(task.compounds))
    third = len(order) // 3
    learned, tested = (
        generator.permutation(np.flatnonzero(np.isin(task.origins, part)))[:count]
        for part, count in ((order[:third], pairs), (order[third:], queries))
    )
    rows = generator.permutation(np.unique(task.origins[tested]))
    counts = np.cumsum([np.sum(task.origins[tested] == row) for row in rows])
    return MassDraw(
        task.library,
        _pairs(task, learned),
        _pairs(task, tested),
        torch.from_numpy(task.energies[tested]),
        task.compounds,
        torch.from_numpy(rows[counts <= len(tested) // 2]),
    )


def binned(spectra: Tensor) -> Tensor:
    """(n, 1000): roots of the intensity in each Dalton."""
    mz, share = spectra.chunk(2, dim=-1)
    bins = torch.zeros(len(spectra), 1000)
    return bins.scatter_add_(1, mz.nan_to_num(0).long().clamp(max=999), share.nan_to_num(0)).sqrt()


def cleaned(mz: NDArray[np.float64], intensity: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Peaks of at least 1 % of the largest, merged around the larger where two are too close; shares of the sum."""
    mz, intensity = mz.copy(), intensity.copy()
    for at in np.argsort(-intensity, kind="stable"):
        if intensity[at] > 0:
            close = (np.abs(mz - mz[at]) <= 2 * TOLERANCE) & (intensity > 0)
            total = intensity[close].sum()
            mz[at] = (mz[close] * intensity[close]).sum() / total
            intensity[close] = 0
            intensity[at] = total
    largest = np.argsort(-intensity, kind="stable")[:MOST_PEAKS]
    kept = np.sort(largest[intensity[largest] >= NOISE * intensity.max()])
    return mz[kept], intensity[kept] / intensity[kept].sum()


@dataclass(frozen=True)
class _Task:
    library: Tensor
    compounds: list[str]
    queries: Tensor
    origins: NDArray[np.int64]
    energies: NDArray[np.float64]


def _pairs(task: _Task, rows: NDArray[np.int64]) -> ahop.Pairs:
    return ahop.Pairs(torch.from_numpy(task.origins[rows]), task.queries[torch.from_numpy(rows)])


@cache
def _task() -> _Task:
    spectra = load_massbank_eawag()
    energies = np.array([_number(label) for label in spectra.collision_energy])
    having = defaultdict(set)
    for energy, compound in zip(energies.tolist(), spectra.compound.tolist(), strict=True):
        having[energy].add(compound)
    energy = max(having, key=lambda each: (len(having[each]), each))  # 15 and 45 have as many; 45 breaks more bonds
    compounds = sorted(having[energy])
    # Of several spectra at this energy, that of the best resolution; then the first.
    stored = [
        min(
            np.flatnonzero((spectra.compound == compound) & (energies == energy)),
            key=lambda at: (-spectra.resolution[at], spectra.accession[at]),
        )
        for compound in compounds
    ]
    asked = np.flatnonzero((energies != energy) & np.isin(spectra.compound, compounds))
    return _Task(
        _encoded(spectra, np.array(stored)),
        compounds,
        _encoded(spectra, asked),
        np.searchsorted(compounds, spectra.compound[asked]),
        energies[asked],
    )


def _number(label: str) -> float:
    found = re.search(r"\d+(\.\d+)?", label)
    return float(found[0]) if found else -1.0


def _encoded(spectra: SpectraLibrary, rows: NDArray[np.int64]) -> Tensor:
    table = np.full((len(rows), 2 * MOST_PEAKS), np.nan)
    for line, at in zip(table, rows.tolist(), strict=True):
        mz, share = cleaned(*spectra.peaks(at))
        line[: len(mz)], line[MOST_PEAKS : MOST_PEAKS + len(mz)] = mz, share
    return torch.from_numpy(table.astype(np.float32))
