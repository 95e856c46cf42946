"""Near-infrared spectra of the same samples of sugarcane on several spectrometers."""

import io
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typing_extensions import override

from experiments.datasets.files import Folder, read
from experiments.datasets.sources import SOURCES

REFERENCE_NAMES = ("TS", "CP", "ADF", "IVOMD")


@final
@dataclass(frozen=True, eq=False, repr=False)
class NirSpectra:
    """Spectra of one spectrometer.

    Attributes:
        wavelengths: In nanometres, ascending, shape (c,); each spectrometer has its own.
        absorbance: Shape (samples, c).
    """

    wavelengths: NDArray[np.float64]
    absorbance: NDArray[np.float64]

    @override
    def __repr__(self) -> str:
        low, high = self.wavelengths[[0, -1]]
        return (
            f"NirSpectra({len(self.absorbance)} samples, {len(self.wavelengths)} wavelengths, {low:g} to {high:g} nm)"
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class NirSurvey:
    """The same samples on every spectrometer: row i of each is sample i.

    Attributes:
        instruments: Spectra by the name of the spectrometer.
        samples: The number that each sample bears.
        references: Contents of each sample as the laboratory found them, (samples, references); NaN where it did not.
        reference_names: The names of the columns of `references`.
    """

    name: str
    instruments: dict[str, NirSpectra]
    samples: NDArray[np.int64]
    references: NDArray[np.float64]
    reference_names: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        return f"NirSurvey({self.name}: {len(self.samples)} samples on {len(self.instruments)} instruments)"


def load_sugarcane_nir(folder: Folder | None = None) -> NirSurvey:
    """Load 60 samples on seven spectrometers, one of them three times."""
    tables = {file.name.removesuffix(".csv"): _numbers(read(file, folder)) for file in SOURCES["sugarcane_nir"].files}
    references = tables.pop("References")
    instruments = {
        name: NirSpectra(table.columns[1:].to_numpy(dtype=float), np.array(table.iloc[:, 1:], order="C"))
        for name, table in tables.items()
    }
    return NirSurvey(
        "sugarcane_nir",
        instruments,
        references["Sample"].to_numpy(dtype=np.int64),
        np.array(references[list(REFERENCE_NAMES)], order="C"),
        REFERENCE_NAMES,
    )


def _numbers(content: bytes) -> Any:
    """Read a frame of numbers from cells that may end in spaces, NaN where a cell is `NA`."""
    cells = pd.read_csv(io.BytesIO(content), sep=";", dtype=str, keep_default_na=False)
    return cells.apply(lambda column: column.str.strip().replace("NA", "nan").astype(float))
