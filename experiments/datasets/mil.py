"""The usual sets of multiple instance learning: three of images, one of tissue, two of molecules."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahop.errors import FileFormatError
from experiments.datasets._delimited import parse_rows
from experiments.datasets._digests import check_numbers, digest_of_bags
from experiments.datasets._facts import Source
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._npz import parse_npz
from experiments.datasets._sources import ELEPHANT, FOX, MUSK1, MUSK2, TIGER, UCSB_BREAST
from experiments.datasets.bags import Bags

LARGEST_ARRAY = 1 << 26
ANIMALS = ("other", "animal")
TISSUE = ("benign", "malignant")
SMELL = ("non-musk", "musk")
SHAPES = tuple(f"f{number}" for number in range(1, 167))
RAW = "The features are as measured, neither centered nor scaled: scale them before use."


def load_tiger(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Bags:
    """Tiger: 200 images, their segments described by 230 features.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    return _load(TIGER, ANIMALS, (), folder, download, progress)


def load_fox(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Bags:
    """Fox: 200 images, their segments described by 230 features.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    return _load(FOX, ANIMALS, (), folder, download, progress)


def load_elephant(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Bags:
    """Elephant: 200 images, their segments described by 230 features.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    return _load(ELEPHANT, ANIMALS, (), folder, download, progress)


def load_ucsb_breast(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Bags:
    """UCSB breast cancer: 58 images of tissue, their patches described by 708 features.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    return _load(UCSB_BREAST, TISSUE, (RAW, "27 columns are constant."), folder, download, progress)


def load_musk1(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Bags:
    """Musk, version 1: 92 molecules, the shapes each can take described by 166 features.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    return _load(MUSK1, SMELL, (RAW,), folder, download, progress)


def load_musk2(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Bags:
    """Musk, version 2: 102 molecules, the shapes each can take described by 166 features.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    return _load(MUSK2, SMELL, (RAW,), folder, download, progress)


def _load(
    source: Source,
    class_names: tuple[str, ...],
    notes: tuple[str, ...],
    folder: Folder | None,
    download: bool,
    progress: bool,
) -> Bags:
    found = find(source, folder, download, progress)
    ((name, content),) = found.read().items()
    parse = parse_arrays if name.endswith(".npz") else parse_molecules
    bags, labels = parse(content, found.where(name))
    check_numbers(digest_of_bags(bags, labels), source.numbers, found.where(name))
    return Bags(source.name, bags, labels, class_names, (*found.edition.notes, *notes))


def parse_arrays(content: bytes, where: str) -> tuple[tuple[NDArray[np.float64], ...], NDArray[np.int64]]:
    """Bags from the arrays `X` of instances, `bag_id` of each instance (0, 1, ... in order), and `y` of each bag."""
    arrays = parse_npz(content, where, ("X", "bag_id", "y"), LARGEST_ARRAY)
    instances, owner, labels = arrays["X"], arrays["bag_id"], arrays["y"]
    if instances.ndim != 2 or owner.shape != instances.shape[:1] or labels.ndim != 1 or not instances.size:
        raise FileFormatError(
            f"`{where}` must hold `X` (instances, features), `bag_id` (instances,) and `y` (bags,); "
            f"got {instances.shape}, {owner.shape} and {labels.shape}."
        )
    if not np.isfinite(instances).all() or not np.isin(labels, (0, 1)).all():
        raise FileFormatError(f"`{where}` must hold finite numbers in `X`, and 0 or 1 in `y`.")
    if not np.array_equal(np.unique(owner), np.arange(len(labels))) or (np.diff(owner.astype(float)) < 0).any():
        raise FileFormatError(f"`{where}`: `bag_id` must count the bags from 0 to {len(labels) - 1}, in order.")
    return _split(instances, owner, labels)


def parse_molecules(content: bytes, where: str) -> tuple[tuple[NDArray[np.float64], ...], NDArray[np.int64]]:
    """Bags from UCI's file: a row for each shape of a molecule, with the molecule's name and a label."""
    rows = parse_rows(content, where, names=("molecule", "conformation", *SHAPES, "class"))
    instances = np.stack([rows.numbers(name) for name in SHAPES], axis=1)
    place: dict[str, int] = {}
    owner = np.array([place.setdefault(name, len(place)) for name in rows.columns["molecule"]])
    musk = rows.numbers("class")
    labels = np.array([musk[owner == bag].max() for bag in range(len(place))])
    if not np.array_equal(labels[owner], musk) or not np.isin(labels, (0, 1)).all():
        raise FileFormatError(f"`{where}`: the shapes of a molecule must all be labeled 0., or all 1.")
    order = np.argsort(owner, kind="stable")
    return _split(instances[order], owner[order], labels)


def _split(
    instances: NDArray[Any], owner: NDArray[Any], labels: NDArray[Any]
) -> tuple[tuple[NDArray[np.float64], ...], NDArray[np.int64]]:
    edges = np.flatnonzero(np.diff(owner)) + 1
    return tuple(bag.copy() for bag in np.split(instances.astype(np.float64), edges)), labels.astype(np.int64)
