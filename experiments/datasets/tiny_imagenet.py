"""Tiny ImageNet: photographs of 200 kinds of things."""

import re
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tqdm import tqdm

from ahop.errors import FileFormatError
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._sources import TINY_IMAGENET
from experiments.datasets._unpacking import members
from experiments.datasets.images import Images

SIDE = 64
LARGEST_FILE = 4_000_000  # `words.txt` has a line for each word of WordNet
LARGEST_TOTAL = 600_000_000
CLASSES, LISTED, WORDS = "wnids.txt", "val/val_annotations.txt", "words.txt"
NOTES = ("`test` is the official validation split: the labels of the official test were never published.",)


def load_tiny_imagenet(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Images:
    """Tiny ImageNet: 100000 and 10000 photographs of 3x64x64, or fewer as `notes` then says. Needs pillow.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    found = find(TINY_IMAGENET, folder, download, progress)
    path = found.verified_path()
    files = _read(path)
    classes = [line.strip() for line in _lines(files, CLASSES, path)]
    words = dict(line.split("\t", 1) for line in _lines(files, WORDS, path) if "\t" in line)
    label = {wnid: at for at, wnid in enumerate(classes)}
    train = sorted((label[wnid], int(number), name) for name, wnid, number in _in_training(files) if wnid in label)
    listed = [line.split("\t") for line in _lines(files, LISTED, path)]
    wrong = [at for at, cells in enumerate(listed, start=1) if len(cells) < 2 or cells[1] not in label]
    if wrong:
        raise FileFormatError(f"`{path}: {LISTED}`, line {wrong[0]}: a picture and its class were expected.")
    test = [(label[wnid], f"val/images/{name}") for name, wnid, *_ in listed]
    if not train or not test:
        raise FileFormatError(f"`{path}` holds no pictures where Tiny ImageNet has them.")
    return Images(
        "tiny_imagenet",
        _decode([name for *_, name in train], files, path, progress),
        np.array([wnid for wnid, *_ in train], dtype=np.int64),
        _decode([name for _, name in test], files, path, progress),
        np.array([wnid for wnid, _ in test], dtype=np.int64),
        tuple(words.get(wnid, wnid).strip() for wnid in classes),
        (*found.edition.notes, *NOTES),
    )


def _read(path: Path) -> dict[str, bytes]:
    """Still packed as JPEG all pictures are small; those of the official test are left."""
    files: dict[str, bytes] = {}
    total = 0
    with path.open("rb") as stream:
        for member in members(stream, path.name, LARGEST_TOTAL, str(path)):
            name = member.name.partition("/")[2]
            if name.startswith("test/"):
                continue
            total += member.size
            if member.size > LARGEST_FILE or total > LARGEST_TOTAL:
                raise FileFormatError(f"`{path}: {member.name}` is larger than anything in Tiny ImageNet.")
            files[name] = member.read()
    return files


def _lines(files: dict[str, bytes], name: str, path: Path) -> list[str]:
    if name not in files:
        raise FileFormatError(f"`{path}` holds no `{name}`.")
    return files[name].decode("utf-8", errors="replace").splitlines()


def _in_training(files: dict[str, bytes]) -> list[tuple[str, str, str]]:
    found = (re.fullmatch(r"train/(n\d+)/images/\1_(\d+)\.JPEG", name) for name in files)
    return [(match.string, match[1], match[2]) for match in found if match]


def _decode(names: list[str], files: dict[str, bytes], path: Path, progress: bool) -> NDArray[np.uint8]:
    pictures = np.empty((len(names), 3, SIDE, SIDE), np.uint8)
    for at, name in enumerate(tqdm(names, desc="decoding", unit="picture", leave=False, disable=not progress)):
        where = f"{path}: {name}"
        if name not in files:
            raise FileFormatError(f"`{where}` is listed and is not there.")
        try:
            with Image.open(BytesIO(files[name]), formats=("JPEG",)) as picture:
                if picture.size != (SIDE, SIDE):  # before any of it is decoded
                    raise FileFormatError(f"`{where}` must be {SIDE}x{SIDE}; got {picture.size}.")
                pictures[at] = np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
        except FileFormatError:
            raise
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            raise FileFormatError(f"`{where}` is no picture that can be read: {error}.") from error
    return pictures
