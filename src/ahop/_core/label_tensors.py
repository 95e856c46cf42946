"""Labels as tensors: rows by label, numbers of entries, text in files."""

import json

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.labels import as_label, entries, in_lines, rows_by_label
from ahop._core.typing import Entries
from ahop.errors import InvalidValueError, ShapeError


def rows_named(labels: NDArray[np.object_], wanted: Entries, name: str = "origins") -> Tensor:
    """The rows of the stored patterns that have these labels."""
    return torch.tensor(rows_by_label(labels, wanted, name), dtype=torch.long)


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
