"""A table of Lance as a search."""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True)
class LanceSearch:
    """Ids and distances of the nearest rows of a dataset of Lance.

    Args:
        dataset: of `lance.dataset(path)`.
        column: with the vectors.
        id: the column with the ids.
        options: of its nearest-neighbor search, such as `nprobes` and `refine_factor`, or `metric`.
        where: a filter in SQL, which goes before the search.
    """

    dataset: Any
    column: str = "vector"
    id: str = "id"
    options: dict[str, Any] = field(default_factory=dict)
    where: str | None = None

    def __call__(self, queries: Any, k: int) -> tuple[Any, Any]:
        found = [self._nearest(row, k) for row in np.asarray(queries, dtype=np.float32)]
        return [ids for ids, _ in found], [distances for _, distances in found]

    def _nearest(self, query: Any, k: int) -> tuple[list[Any], list[float]]:
        nearest = {"column": self.column, "q": query, "k": k, **self.options}
        table = self.dataset.to_table(
            columns=[self.id, "_distance"], nearest=nearest, filter=self.where, prefilter=self.where is not None
        )
        return table[self.id].to_pylist(), table["_distance"].to_pylist()
