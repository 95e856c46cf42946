"""Bags of instances, of which only the bag has a label: multiple instance learning."""

import io
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from experiments.datasets.files import Folder, read
from experiments.datasets.sources import SOURCES

ANIMALS = ("other", "animal")
CLASSES = {
    "tiger": ANIMALS,
    "fox": ANIMALS,
    "elephant": ANIMALS,
    "ucsb_breast_cancer": ("benign", "malignant"),
}


@final
@dataclass(frozen=True, eq=False, repr=False)
class Bags:
    """Bags of different sizes.

    Attributes:
        bags: For each bag its instances, shape (instances, features).
        labels: The class of each bag, its place in `class_names`.
    """

    name: str
    bags: tuple[NDArray[np.float64], ...]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        instances = sum(map(len, self.bags))
        return f"Bags({self.name}: {len(self.bags)} bags, {instances} instances of {self.bags[0].shape[1]} features)"


def load_bags(name: str, folder: Folder | None = None) -> Bags:
    """Load segments of images, or patches of tissue.

    Args:
        name: tiger, fox, elephant or ucsb_breast_cancer.
    """
    class_names = CLASSES[name]
    (file,) = SOURCES[name].files
    with np.load(io.BytesIO(read(file, folder))) as arrays:
        instances, owner, labels = (arrays[key] for key in ("X", "bag_id", "y"))
    edges = np.flatnonzero(np.diff(owner)) + 1
    bags = tuple(bag.copy() for bag in np.split(instances.astype(np.float64), edges))
    return Bags(name, bags, labels.astype(np.int64), class_names)
