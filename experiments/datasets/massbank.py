"""MassBank, the part of Eawag: which compound has this tandem mass spectrum?"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahop.errors import FileFormatError
from experiments.datasets._delimited import Rows, parse_rows
from experiments.datasets._digests import check_numbers, digest_of_rows
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._npz import parse_npz
from experiments.datasets._sources import MASSBANK_EAWAG
from experiments.datasets.spectra import SpectraLibrary

LARGEST_ARRAY = 1 << 26
COLUMNS = (
    "accession",
    "name",
    "formula",
    "exact_mass",
    "smiles",
    "inchikey",
    "instrument",
    "instrument_type",
    "collision_energy",
    "resolution",
    "precursor_mz",
    "precursor_type",
    "splash",
    "n_peaks",
    "authors",
    "license",
)
NOTES = (
    "Compounds have several spectra, one for each collision energy, instrument and resolution: split by `compound`, or "
    "keep the same compound on both sides on purpose.",
    "18 records of losartan and desaminometribuzin have an `exact_mass` that their `precursor_mz` contradicts.",
)


def load_massbank_eawag(
    folder: Folder | None = None, *, download: bool = False, progress: bool = True
) -> SpectraLibrary:
    """MassBank, records of Eawag: 7530 tandem mass spectra of 737 compounds, [M+H]+, at up to 16 collision energies.

    Args:
        folder: As for every dataset: see `experiments.datasets`. There is no address to fetch it from.
    """
    found = find(MASSBANK_EAWAG, folder, download, progress)
    contents = found.read()
    notes = (*found.edition.notes, *NOTES)
    library = parse_library(
        contents["metadata.csv"],
        contents["spectra.npz"],
        (found.where("metadata.csv"), found.where("spectra.npz")),
        name=MASSBANK_EAWAG.name,
        notes=notes,
    )
    peaks = np.stack([library.mz, library.intensity], axis=1)
    check_numbers(digest_of_rows(peaks, library.indptr), MASSBANK_EAWAG.numbers, found.where("spectra.npz"))
    return library


def parse_library(
    metadata: bytes, spectra: bytes, where: tuple[str, str], name: str = "", notes: tuple[str, ...] = ()
) -> SpectraLibrary:
    """Both files, which must speak of the same spectra."""
    rows = parse_rows(metadata, where[0])
    if tuple(rows.columns) != COLUMNS:
        raise FileFormatError(f"`{where[0]}`, line 1: the columns {', '.join(COLUMNS)} were expected.")
    mz, intensity, indptr = parse_peaks(spectra, where[1])
    counts = rows.numbers("n_peaks")
    if len(indptr) != len(counts) + 1 or (np.diff(indptr) != counts).any():
        raise FileFormatError(
            f"`{where[1]}` holds {len(indptr) - 1} spectra and `{where[0]}` {len(counts)} rows: there must be one row "
            "for each, with the count of its peaks in `n_peaks`. Both files must come from the same copy."
        )
    return SpectraLibrary(
        name=name,
        mz=mz,
        intensity=intensity,
        indptr=indptr,
        accession=np.array(rows.columns["accession"]),
        compound_name=np.array(rows.columns["name"]),
        compound=_compounds(rows),
        inchikey=np.array(rows.columns["inchikey"]),
        smiles=np.array(rows.columns["smiles"]),
        formula=np.array(rows.columns["formula"]),
        exact_mass=rows.numbers("exact_mass"),
        precursor_mz=rows.numbers("precursor_mz"),
        precursor_type=np.array(rows.columns["precursor_type"]),
        collision_energy=np.array(rows.columns["collision_energy"]),
        instrument=np.array(rows.columns["instrument"]),
        instrument_type=np.array(rows.columns["instrument_type"]),
        resolution=rows.numbers("resolution"),
        splash=np.array(rows.columns["splash"]),
        authors=np.array(rows.columns["authors"]),
        license=np.array(rows.columns["license"]),
        notes=notes,
    )


def parse_peaks(content: bytes, where: str) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """The arrays `mz`, `intensity` and `indptr`: spectrum i has the peaks `indptr[i]:indptr[i + 1]`."""
    arrays = parse_npz(content, where, ("mz", "intensity", "indptr"), LARGEST_ARRAY)
    mz, intensity, indptr = (arrays[name].astype(np.float64) for name in ("mz", "intensity", "indptr"))
    if mz.ndim != 1 or intensity.shape != mz.shape or indptr.ndim != 1 or len(indptr) < 2:
        raise FileFormatError(
            f"`{where}` must hold `mz` (peaks,), `intensity` (peaks,) and `indptr` (spectra + 1,); "
            f"got {mz.shape}, {intensity.shape} and {indptr.shape}."
        )
    with np.errstate(invalid="ignore"):  # what does not fit is found just below
        edges = indptr.astype(np.int64)
    if not np.array_equal(edges, indptr) or edges[0] != 0 or edges[-1] != len(mz) or (np.diff(edges) <= 0).any():
        raise FileFormatError(
            f"`{where}`: `indptr` must rise in whole numbers from 0 to the {len(mz)} peaks, by one or more a spectrum."
        )
    rises = np.diff(mz, prepend=0) > 0
    rises[edges[:-1]] = mz[edges[:-1]] > 0
    if not rises.all() or not np.isfinite(mz).all() or not (np.isfinite(intensity) & (intensity > 0)).all():
        raise FileFormatError(f"`{where}`: `mz` must be above 0 and rise in each spectrum, `intensity` be above 0.")
    return mz, intensity, edges


def _compounds(rows: Rows) -> NDArray[Any]:
    for key, line in zip(rows.columns["inchikey"], rows.lines, strict=True):
        if not re.fullmatch(r"[A-Z]{14}-[A-Z]{10}-[A-Z]", key):
            raise FileFormatError(
                f"`{rows.where}`, line {line}: `inchikey` must be 14, 10 and 1 capital letters, joined by `-`; "
                f"got {key!r:.40}."
            )
    return np.array([key[:14] for key in rows.columns["inchikey"]])
