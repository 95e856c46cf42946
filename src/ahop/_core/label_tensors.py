"""Labels as tensors: rows by label, numbers of entries, text in files."""

import json

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.labels import Label, as_label, entries, in_lines
from ahop._core.typing import Entries
from ahop._core.words import did_you_mean
from ahop.errors import InvalidValueError, ShapeError


def rows_named(labels: NDArray[np.object_], wanted: Entries, name: str = "origins") -> Tensor:
    """The rows of the stored patterns that have these labels."""
    row_of: dict[Label, int] = {}
    for row, label in enumerate(labels.tolist()):
        if row_of.setdefault(label, row) != row:
            raise InvalidValueError(
                f"`{name}` cannot be looked up: the label {label!r} is that of row {row_of[label]} and of row {row}. "
                f"Make labels unique (`ahop.transforms.pool_visits` makes one pattern of several rows), or give "
                f"row numbers: `pairs=ahop.Pairs(rows, copies)`."
            )
    sought = [as_label(each) for each in entries(name, wanted)]
    for label in sought:
        if label not in row_of:
            near = did_you_mean(str(label), map(str, row_of))
            of_pairs = "For row numbers pass `pairs=ahop.Pairs(rows, copies)`, for no labels a frame with "
            hint = f" {of_pairs}`reset_index(drop=True)`." if name == "origins" else ""
            raise InvalidValueError(
                f"`{name}` must be labels of the stored patterns, such as {labels[0]!r}; {label!r} is none of them."
                f"{near}{hint}"
            )
    return torch.tensor([row_of[label] for label in sought], dtype=torch.long)


def numbers_of_entries(name: str, values: Entries, count: int) -> Tensor:
    """Entries as numbers from 0 on in the order of their first appearance, (b,), one for each of `count` queries."""
    found = [as_label(each) for each in entries(name, values)]
    if len(found) != count:
        raise ShapeError(f"`{name}` must be {count} entries, one for each query; got {len(found)}.")
    number = {label: place for place, label in enumerate(dict.fromkeys(found))}
    return torch.tensor([number[label] for label in found], dtype=torch.long)


def as_text(labels: NDArray[np.object_]) -> Tensor:
    """The bytes of a text with one label in each line, as JSON writes it."""
    text = "\n".join(json.dumps(label) for label in labels.tolist())
    return torch.frombuffer(bytearray(text.encode("ascii")), dtype=torch.uint8)


def from_text(text: Tensor, count: int) -> NDArray[np.object_]:
    """The labels that `as_text` wrote. The lines are counted before anything is made of them."""
    if text.dtype != torch.uint8 or text.ndim != 1:
        raise InvalidValueError(f"labels must be a text; got {text.dtype} of shape {tuple(text.shape)}.")
    return in_lines(text.numpy().tobytes(), count)
