"""Vectors of descriptions of Debian's packages, short and long, by several models."""

import io
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from experiments.datasets.files import Folder, read
from experiments.datasets.sources import SOURCES

# Models of 20,000 packages, and two of 3,500 others.
SHORT_AND_LONG = ("wl256", "glove100", "minilm384", "minilm_wl256")
LONG_ALONE = ("use512",)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Texts:
    """Unit vectors of the same packages by one model: row i of one kind belongs to row i of the other.

    Attributes:
        short: of one line, (n, d); None where they were not embedded.
        long: of the description, (n, d).
    """

    model: str
    short: NDArray[np.float32] | None
    long: NDArray[np.float32]

    @override
    def __repr__(self) -> str:
        return f"Texts({self.model}: {len(self.long)} packages, {self.long.shape[1]} columns)"


def load_debian_text(model: str, folder: Folder | None = None) -> Texts:
    """Load the vectors of one model."""
    short = _vectors(f"{model}_short", folder) if model in SHORT_AND_LONG else None
    return Texts(model, short, _vectors(f"{model}_long", folder))


def _vectors(name: str, folder: Folder | None) -> NDArray[np.float32]:
    file = next(each for each in SOURCES["debian_text"].files if each.name == f"{name}.npy")
    rows = np.load(io.BytesIO(read(file, folder))).astype(np.float32)
    unit: NDArray[np.float32] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit
