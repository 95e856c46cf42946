"""Near-infrared spectra of the same samples on several spectrometers."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override


@final
@dataclass(frozen=True, eq=False, repr=False)
class NirSpectra:
    """What one spectrometer measured.

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
        instruments: What each spectrometer measured, by its name.
        samples: The number that each sample bears.
        references: What the laboratory found in each sample, shape (samples, references); NaN where it found nothing.
        reference_names: The names of the columns of `references`.
        notes: What differs from the official data, and what a careful user should know.
    """

    name: str
    instruments: dict[str, NirSpectra]
    samples: NDArray[np.int64]
    references: NDArray[np.float64]
    reference_names: tuple[str, ...]
    notes: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        return f"NirSurvey({self.name}: {len(self.samples)} samples on {len(self.instruments)} instruments)"
