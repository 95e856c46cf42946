"""CIFAR-10 and CIFAR-100: small colored pictures, in the binary version."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ahop.errors import FileFormatError, InvalidValueError
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._sources import CIFAR10, CIFAR100
from experiments.datasets.images import Images

THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = 3 * 32 * 32


def load_cifar10(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Images:
    """CIFAR-10: 50000 and 10000 pictures of 3x32x32; where training batches are missing, `notes` says how many.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    found = find(CIFAR10, folder, download, progress)
    *batches, test = ((found.where(name), content) for name, content in found.read().items())
    pictures, labels = parse_records(batches, (10,))
    test_pictures, test_labels = parse_records([test], (10,))
    return Images("cifar10", pictures, labels[:, 0], test_pictures, test_labels[:, 0], THINGS, found.edition.notes)


def load_cifar100(
    folder: Folder | None = None,
    *,
    labels: Literal["fine", "coarse"] = "fine",
    download: bool = False,
    progress: bool = True,
) -> Images:
    """CIFAR-100: 50000 and 10000 pictures of 3x32x32.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
        labels: The 100 classes, or the 20 kinds that they belong to.
    """
    if labels not in ("fine", "coarse"):
        raise InvalidValueError(f"`labels` must be one of fine, coarse; got {labels!r}.")
    found = find(CIFAR100, folder, download, progress)
    contents = {name: (found.where(name), content) for name, content in found.read().items()}
    train, train_labels = _parse_balanced(contents["train.bin"], each=500)
    test, test_labels = _parse_balanced(contents["test.bin"], each=100)
    class_names = _parse_names(contents[f"{labels}_label_names.txt"], 100 if labels == "fine" else 20)
    kind = 1 if labels == "fine" else 0
    return Images(
        "cifar100", train, train_labels[:, kind], test, test_labels[:, kind], class_names, found.edition.notes
    )


def parse_records(
    files: Sequence[tuple[str, bytes]], classes: Sequence[int]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pictures, and for each of them one label for each kind of label: a record is its labels, then its pixels.

    Args:
        files: Where each is, and what it holds.
        classes: How many classes there are, for each kind of label.
    """
    size = len(classes) + PIXELS
    for where, content in files:
        if not content or len(content) % size:
            raise FileFormatError(f"`{where}` must be records of {size} bytes; its last ends at byte {len(content)}.")
    count = sum(len(content) for _, content in files) // size
    pictures, labels = np.empty((count, 3, 32, 32), np.uint8), np.empty((count, len(classes)), np.int64)
    start = 0
    for where, content in files:
        records = np.frombuffer(content, np.uint8).reshape(-1, size)
        wrong = np.flatnonzero((records[:, : len(classes)] >= np.array(classes)).any(1))
        if len(wrong):
            raise FileFormatError(f"`{where}` has no class for the record at byte {wrong[0] * size}.")
        end = start + len(records)
        labels[start:end] = records[:, : len(classes)]
        pictures[start:end] = records[:, len(classes) :].reshape(-1, 3, 32, 32)
        start = end
    return pictures, labels


def _parse_balanced(file: tuple[str, bytes], each: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A coarse and a fine label for each picture, and as many pictures of each class as there should be."""
    pictures, labels = parse_records([file], (20, 100))
    if (np.bincount(labels[:, 1], minlength=100) != each).any():
        raise FileFormatError(f"`{file[0]}` must hold {each} pictures of each of the 100 classes, and does not.")
    return pictures, labels


def _parse_names(file: tuple[str, bytes], count: int) -> tuple[str, ...]:
    where, content = file
    names = tuple(content.decode("ascii", errors="replace").split())
    if len(names) != count or len(set(names)) != count:
        raise FileFormatError(f"`{where}` must name {count} classes; got {len(set(names))}.")
    return names
