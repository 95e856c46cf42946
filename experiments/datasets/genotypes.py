"""Genotypes of people at sites of the genome."""

import io
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from experiments.datasets.files import Folder, read
from experiments.datasets.sources import SOURCES


@final
@dataclass(frozen=True, eq=False, repr=False)
class Genotypes:
    """Copies of the second allele that each person has at each site: 0, 1, 2; NaN where it is not known.

    Attributes:
        counts: (n, d).
    """

    counts: NDArray[np.float32]

    @override
    def __repr__(self) -> str:
        return f"Genotypes({self.counts.shape[0]} people, {self.counts.shape[1]} sites)"


def load_genotypes(folder: Folder | None = None) -> Genotypes:
    """Load the genotypes."""
    (file,) = SOURCES["genotypes"].files
    kept = np.load(io.BytesIO(read(file, folder)))
    return Genotypes(np.where(kept == 0, np.nan, kept - 1.0).astype(np.float32))
