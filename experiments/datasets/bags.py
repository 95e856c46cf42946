"""Bags of instances, of which only the bag has a label: multiple instance learning."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override


@final
@dataclass(frozen=True, eq=False, repr=False)
class Bags:
    """Bags of different sizes.

    Attributes:
        bags: For each bag its instances, shape (instances, features).
        labels: The class of each bag, its place in `class_names`.
        notes: What differs from the official data, and what a careful user should know.
    """

    name: str
    bags: tuple[NDArray[np.float64], ...]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    notes: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        instances = sum(map(len, self.bags))
        return f"Bags({self.name}: {len(self.bags)} bags, {instances} instances of {self.bags[0].shape[1]} features)"
