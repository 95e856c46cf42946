"""Sugarcane near infrared: is this the sample that another spectrometer saw?"""

import numpy as np
from numpy.typing import NDArray

from ahop.errors import FileFormatError
from experiments.datasets._delimited import Rows, parse_rows
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._sources import SUGARCANE_NIR
from experiments.datasets.nir import NirSpectra, NirSurvey

REFERENCES = "References"
REFERENCE_NAMES = ("TS", "CP", "ADF", "IVOMD")
NOT_FOUND = ("NA", "NA ")  # as the file writes it
NOTES = (
    "`Micronir1700rep1` to `Micronir1700rep3` are three repeats on one spectrometer.",
    "`references` are sugar (TS), protein (CP), fibre (ADF) and digestibility (IVOMD).",
)


def load_sugarcane_nir(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> NirSurvey:
    """Sugarcane near infrared: 60 samples on seven spectrometers, one of them three times.

    Args:
        folder: As for every dataset: see `experiments.datasets`. There is no address to fetch it from.
    """
    found = find(SUGARCANE_NIR, folder, download, progress)
    contents = {name.removesuffix(".csv"): (content, found.where(name)) for name, content in found.read().items()}
    samples, references = parse_references(*contents.pop(REFERENCES))
    instruments = {}
    for name, (content, where) in contents.items():
        numbers, instruments[name] = parse_instrument(content, where)
        check_samples(numbers, samples, where)
    notes = (*found.edition.notes, *NOTES)
    return NirSurvey(SUGARCANE_NIR.name, instruments, samples, references, REFERENCE_NAMES, notes)


def parse_instrument(content: bytes, where: str) -> tuple[NDArray[np.int64], NirSpectra]:
    """The wavelengths behind an empty cell, then for each sample its number and its absorbances."""
    rows = parse_rows(content, where, separator=";")
    first, *names = rows.columns
    wavelengths = np.array([_wavelength(name) for name in names])
    if first.strip() or not names or not np.isfinite(wavelengths).all() or (np.diff(wavelengths, prepend=0) <= 0).any():
        raise FileFormatError(
            f"`{where}`, line 1: an empty cell was expected, and behind it rising wavelengths above 0 in nanometres."
        )
    rows.columns["sample"] = rows.columns.pop(first)
    absorbance = np.stack([rows.numbers(name) for name in names], axis=1)
    return _samples(rows, "sample"), NirSpectra(wavelengths, absorbance)


def parse_references(content: bytes, where: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The number of each sample, and what the laboratory found in it."""
    rows = parse_rows(content, where, separator=";")
    if tuple(rows.columns) != ("Sample", *REFERENCE_NAMES):
        raise FileFormatError(f"`{where}`, line 1: Sample;{';'.join(REFERENCE_NAMES)} was expected.")
    return _samples(rows, "Sample"), np.stack([rows.numbers(name, NOT_FOUND) for name in REFERENCE_NAMES], axis=1)


def check_samples(numbers: NDArray[np.int64], expected: NDArray[np.int64], where: str) -> None:
    """Rows pair up across instruments only if all files have the same samples in the same order."""
    if not np.array_equal(numbers, expected):
        raise FileFormatError(
            f"`{where}` must have the {len(expected)} samples of `{REFERENCES}.csv` in the same order. "
            "All files must come from the same copy."
        )


def _samples(rows: Rows, name: str) -> NDArray[np.int64]:
    numbers = rows.numbers(name)
    with np.errstate(invalid="ignore"):  # what does not fit is found just below
        found = numbers.astype(np.int64)
    if (found != numbers).any() or len(np.unique(found)) != len(found):
        raise FileFormatError(
            f"`{rows.where}`: the first cell of a row must be the whole number of a sample, each once."
        )
    return found


def _wavelength(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan
