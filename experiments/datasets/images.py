"""Pictures to learn from and pictures to be tested on: MNIST, CIFAR-10, Tiny ImageNet."""

import io
import re
import tarfile
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from typing_extensions import override

from experiments.datasets.files import Folder, read
from experiments.datasets.sources import SOURCES

DIGITS = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# Bytes of a header in the idx format of MNIST: four, and four for each axis.
PICTURES_HEADER, LABELS_HEADER = 16, 8


@final
@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Bytes of pictures and their classes.

    Attributes:
        train: Shape (n, height, width) if gray and (n, 3, height, width) if colored, as torch has them.
        train_labels: The class of each picture, its place in `class_names`.
        test: As `train`.
        test_labels: As `train_labels`.
    """

    name: str
    train: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        shape = "x".join(map(str, self.test.shape[1:]))
        return f"Images({self.name}: {len(self.train)} + {len(self.test)} of {shape}, {len(self.class_names)} classes)"


def load_mnist(folder: Folder | None = None, *, download: bool = False) -> Images:
    """Load 60000 and 10000 gray pictures of digits, 28x28."""
    train, train_labels, test, test_labels = (
        np.frombuffer(read(file, folder, download), np.uint8) for file in SOURCES["mnist"].files
    )
    return Images(
        "mnist",
        train[PICTURES_HEADER:].reshape(-1, 28, 28).copy(),
        train_labels[LABELS_HEADER:].astype(np.int64),
        test[PICTURES_HEADER:].reshape(-1, 28, 28).copy(),
        test_labels[LABELS_HEADER:].astype(np.int64),
        DIGITS,
    )


def load_cifar10(folder: Folder | None = None, *, download: bool = False) -> Images:
    """Load 50000 and 10000 colored pictures of things, 3x32x32."""
    batches = [
        np.frombuffer(read(file, folder, download), np.uint8).reshape(-1, 1 + 3 * 32 * 32)
        for file in SOURCES["cifar10"].files
    ]
    train, test = np.concatenate(batches[:-1]), batches[-1]
    return Images(
        "cifar10",
        train[:, 1:].reshape(-1, 3, 32, 32).copy(),
        train[:, 0].astype(np.int64),
        test[:, 1:].reshape(-1, 3, 32, 32).copy(),
        test[:, 0].astype(np.int64),
        THINGS,
    )


def load_tiny_imagenet(folder: Folder | None = None) -> Images:
    """Load 5000 and 1000 photographs of 200 kinds of things, 3x64x64, a subset of Tiny ImageNet."""
    (file,) = SOURCES["tiny_imagenet"].files
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(read(file, folder))) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            if stream is not None:
                found[member.name.partition("/")[2]] = stream.read()
    classes = found["wnids.txt"].decode().split()
    words = dict(line.split("\t", 1) for line in found["words.txt"].decode().splitlines())
    label = {wnid: at for at, wnid in enumerate(classes)}
    named = (re.fullmatch(r"train/(n\d+)/images/\1_(\d+)\.JPEG", name) for name in found)
    train = sorted((label[match[1]], int(match[2]), match.string) for match in named if match)
    listed = [line.split("\t") for line in found["val/val_annotations.txt"].decode().splitlines()]
    return Images(
        "tiny_imagenet",
        np.stack([_decoded(found[name]) for *_, name in train]),
        np.array([at for at, *_ in train], dtype=np.int64),
        np.stack([_decoded(found[f"val/images/{name}"]) for name, *_ in listed]),
        np.array([label[wnid] for _, wnid, *_ in listed], dtype=np.int64),
        tuple(words.get(wnid, wnid).strip() for wnid in classes),
    )


def _decoded(picture: bytes) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(picture), formats=("JPEG",)) as opened:
        return np.asarray(opened.convert("RGB")).transpose(2, 0, 1).copy()
