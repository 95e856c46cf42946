"""An index of usearch as a search."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True)
class UsearchSearch:
    """Keys and distances of an index of usearch.

    Args:
        index: a `usearch.index.Index`.
    """

    index: Any

    def __call__(self, queries: Any, k: int) -> tuple[Any, Any]:
        rows = np.ascontiguousarray(queries, dtype=np.float32)
        found = [
            self.index.search(row, k) for row in rows
        ]  # one by one: of a batch, short lists are padded by anything
        return [each.keys.tolist() for each in found], [each.distances.tolist() for each in found]
