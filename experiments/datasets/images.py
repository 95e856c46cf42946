"""Pictures to learn from and pictures to be tested on."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override


@final
@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Bytes of pictures and their classes.

    Attributes:
        train: Shape (n, height, width) if gray and (n, 3, height, width) if colored, as torch has them.
        train_labels: The class of each picture, its place in `class_names`.
        test: As `train`.
        test_labels: As `train_labels`.
        notes: What differs from the official data, and what a careful user should know.
    """

    name: str
    train: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    notes: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        shape = "x".join(map(str, self.test.shape[1:]))
        return f"Images({self.name}: {len(self.train)} + {len(self.test)} of {shape}, {len(self.class_names)} classes)"
