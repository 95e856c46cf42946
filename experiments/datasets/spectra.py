"""Tandem mass spectra: the peaks that a molecule leaves when it is broken, and what it was."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override


@final
@dataclass(frozen=True, eq=False, repr=False)
class SpectraLibrary:
    """Spectra of different lengths. All but the peaks has one entry for each spectrum.

    Attributes:
        mz: The mass-to-charge ratios of the peaks of all spectra, one spectrum after the other, ascending in each.
        intensity: Of each peak, relative to the highest of its spectrum.
        indptr: Spectrum i has the peaks `indptr[i]:indptr[i + 1]`; `peaks(i)` takes them out.
        compound: The first 14 letters of the InChIKey: one molecule, whatever its stereo form.
        collision_energy: As the record says it, with its unit: `30 % (nominal)`.
        resolution: The resolving power that the instrument was set to.
        license: As the record says it; `authors` are those to name.
        notes: What differs from the official data, and what a careful user should know.
    """

    name: str
    mz: NDArray[np.float64]
    intensity: NDArray[np.float64]
    indptr: NDArray[np.int64]
    accession: NDArray[Any]
    compound_name: NDArray[Any]
    compound: NDArray[Any]
    inchikey: NDArray[Any]
    smiles: NDArray[Any]
    formula: NDArray[Any]
    exact_mass: NDArray[np.float64]
    precursor_mz: NDArray[np.float64]
    precursor_type: NDArray[Any]
    collision_energy: NDArray[Any]
    instrument: NDArray[Any]
    instrument_type: NDArray[Any]
    resolution: NDArray[np.float64]
    splash: NDArray[Any]
    authors: NDArray[Any]
    license: NDArray[Any]
    notes: tuple[str, ...]

    def peaks(self, at: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The mass-to-charge ratios and the intensities of one spectrum."""
        start, stop = self.indptr[:-1][at], self.indptr[1:][at]
        return self.mz[start:stop], self.intensity[start:stop]

    def __len__(self) -> int:
        return len(self.accession)

    @override
    def __repr__(self) -> str:
        compounds = len(np.unique(self.compound))
        return f"SpectraLibrary({self.name}: {len(self)} spectra of {compounds} compounds, {len(self.mz)} peaks)"
