"""MNIST and Fashion-MNIST: gray pictures of digits and of clothes, in files of the same form."""

import numpy as np

from ahop.errors import FileFormatError
from experiments.datasets._facts import Source
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._idx import parse_idx
from experiments.datasets._sources import FASHION_MNIST, MNIST
from experiments.datasets.images import Images

DIGITS = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def load_mnist(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Images:
    """MNIST: 60000 and 10000 pictures of 28x28.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    return _load(MNIST, DIGITS, folder, download, progress)


def load_fashion_mnist(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Images:
    """Fashion-MNIST: 60000 and 10000 pictures of 28x28; where the first are missing, `train` is empty.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    return _load(FASHION_MNIST, CLOTHES, folder, download, progress)


def _load(
    source: Source, class_names: tuple[str, ...], folder: Folder | None, download: bool, progress: bool
) -> Images:
    found = find(source, folder, download, progress)
    contents = found.read()
    splits = {}
    for split in ("train", "t10k"):
        images, labels = f"{split}-images-idx3-ubyte", f"{split}-labels-idx1-ubyte"
        if images not in contents:  # then the edition's notes say so
            splits[split] = np.empty((0, 28, 28), np.uint8), np.empty(0, np.int64)
            continue
        pictures = parse_idx(contents[images], found.where(images), axes=3)
        classes = parse_idx(contents[labels], found.where(labels), axes=1).astype(np.int64)
        if len(pictures) != len(classes) or classes.max(initial=0) >= len(class_names):
            raise FileFormatError(f"`{found.where(labels)}` must hold a class from 0 to 9 for each picture.")
        splits[split] = pictures, classes
    return Images(source.name, *splits["train"], *splits["t10k"], class_names, found.edition.notes)
