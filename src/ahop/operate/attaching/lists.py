"""Lists that a search answers: ids and scores, best first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.arrays import is_tensor, to_numpy
from ahop._core.labels import Label, as_label
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError

# Queries and how many answers each shall have -> ids and scores, one row for each query, best first.
Search: TypeAlias = Callable[[Any, int], tuple[Any, Any]]
# Queries of one call.
CALLED_AT_ONCE = 1024


@dataclass(frozen=True)
class Lists:
    """Answers of a search to queries.

    Attributes:
        ids: (b, k) best first; None where there are no more.
        scores: (b, k) larger is closer, minus infinity where there are no more; in float64.
    """

    ids: NDArray[np.object_]
    scores: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, k: int) -> "Lists":
        return Lists(self.ids[:, :k], self.scores[:, :k])

    def rows(self, which: Tensor) -> "Lists":
        return Lists(self.ids[which.numpy()], self.scores[which])

    def at(self, places: Tensor) -> "Lists":
        """Answers at these places (b, j) of each list."""
        return Lists(np.take_along_axis(self.ids, places.numpy(), 1), self.scores.gather(1, places))


def ask(search: Search, queries: Any, k: int, sign: int | None = None) -> tuple[Lists, int]:
    """The k best of each query, and the sign that makes larger scores closer; it is found out if None.

    A search lists the best first, whatever its scores are. So the lists say whether they fall or rise.
    """
    parts = [
        _answers(search(queries[start : start + CALLED_AT_ONCE], k), len(queries[start : start + CALLED_AT_ONCE]), k)
        for start in range(0, len(queries), CALLED_AT_ONCE)
    ]
    ids = np.concatenate([each for each, _ in parts]) if parts else np.empty((0, k), dtype=object)
    scores = torch.from_numpy(np.concatenate([each for _, each in parts]) if parts else np.empty((0, k)))
    there = torch.from_numpy(ids != np.array(None))
    if sign is None:
        last = (there.sum(-1, keepdim=True) - 1).clamp_min(0)
        falls = (scores[:, :1] - scores.gather(1, last))[there.any(-1)] if k else scores[:, :0]
        sign = -1 if float(falls.nan_to_num(0).sign().sum()) < 0 else 1
    scores = (sign * scores).masked_fill(~there, -torch.inf)
    order = scores.argsort(dim=-1, descending=True, stable=True)
    return Lists(ids, scores).at(order), sign


def _answers(found: Any, count: int, k: int) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    """Ids and scores of one call, (b, k) each; each id once in a list."""
    if not isinstance(found, tuple) or len(found) != 2:
        raise InvalidTypeError(
            f"`search` must answer a tuple of ids and scores; got {type(found).__name__}. Write `return ids, scores`."
        )
    named, valued = (_as_lists(name, each, count) for name, each in zip(("ids", "scores"), found, strict=True))
    ids, scores = np.full((count, k), None, dtype=object), np.full((count, k), np.nan)
    for row, (names, values) in enumerate(zip(named, valued, strict=True)):
        if len(names) != len(values):
            raise ShapeError(f"`search` must answer a score for each id; got {len(names)} ids, {len(values)} scores.")
        there: dict[Label, float] = {}
        for name, value in zip(names, values, strict=True):
            if name is not None and (label := as_label(name)) != -1:  # what FAISS answers where there are no more
                there.setdefault(label, float(value))
        for place, (label, score) in enumerate(list(there.items())[:k]):
            ids[row, place], scores[row, place] = label, score
        if not np.isfinite(scores[row, : min(k, len(there))]).all():
            raise InvalidValueError("`search` must answer finite scores; got NaN or infinity for an id that is there.")
    return ids, scores


def _as_lists(name: str, value: Any, count: int) -> list[Any]:
    given: Any = to_numpy(value) if is_tensor(value) else value
    rows: list[Any] = given.tolist() if isinstance(given, np.ndarray) else list(given)
    if len(rows) != count or any(isinstance(each, str | bytes) or not hasattr(each, "__len__") for each in rows):
        raise ShapeError(
            f"`search` must answer {name} with a row for each of {count} queries; got {len(rows)} entries. For one "
            f"query answer `[[...]]`."
        )
    return rows
