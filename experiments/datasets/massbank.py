"""MassBank, the part of Eawag: tandem mass spectra, and the compounds that left them."""

import io
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typing_extensions import override

from experiments.datasets.files import Folder, read
from experiments.datasets.sources import SOURCES

# Letters of an InChIKey that name the molecule, whatever its stereo form.
SKELETON = 14


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


def load_massbank_eawag(folder: Folder | None = None) -> SpectraLibrary:
    """Load 7530 tandem mass spectra of 737 compounds, [M+H]+, at up to 16 collision energies."""
    metadata, spectra = SOURCES["massbank_eawag"].files
    rows = pd.read_csv(io.BytesIO(read(metadata, folder)), dtype=str, keep_default_na=False)
    with np.load(io.BytesIO(read(spectra, folder))) as arrays:
        mz, intensity, indptr = (arrays[key] for key in ("mz", "intensity", "indptr"))

    def words(name: str) -> NDArray[Any]:
        return np.array(rows[name].tolist())

    return SpectraLibrary(
        name="massbank_eawag",
        mz=mz.astype(np.float64),
        intensity=intensity.astype(np.float64),
        indptr=indptr.astype(np.int64),
        accession=words("accession"),
        compound_name=words("name"),
        compound=np.array([key[:SKELETON] for key in rows["inchikey"]]),
        inchikey=words("inchikey"),
        smiles=words("smiles"),
        formula=words("formula"),
        exact_mass=rows["exact_mass"].to_numpy(dtype=float),
        precursor_mz=rows["precursor_mz"].to_numpy(dtype=float),
        precursor_type=words("precursor_type"),
        collision_energy=words("collision_energy"),
        instrument=words("instrument"),
        instrument_type=words("instrument_type"),
        resolution=rows["resolution"].to_numpy(dtype=float),
        splash=words("splash"),
        authors=words("authors"),
        license=words("license"),
    )
