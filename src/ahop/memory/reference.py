"""Some of the queries that a memory was fitted to, which later ones are compared with."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import as_group_names, check_count
from ahop._core.component import Component
from ahop._core.typing import Queries

# Queries that are kept, and their entries: more would tell little more, and a file has to carry them.
MOST_QUERIES, MOST_ENTRIES, LEAST_QUERIES = 512, 1 << 20, 64


@final
class Reference(Component):
    """Queries (m, d) of the time of the fit, as they came.

    They are kept and not what the memory made of them: so they can be asked again, whatever became of the memory.

    Args:
        groups: where each of them came from; None if nobody said.
    """

    queries: Tensor

    def __init__(self, count: int, dimensions: int, groups: Sequence[str] | None = None) -> None:
        super().__init__()
        self.count, self.dimensions = check_count("count", count), check_count("dimensions", dimensions)
        self.groups = None if groups is None else as_group_names(groups, count)
        self.register_buffer("queries", torch.zeros(count, dimensions))

    @classmethod
    def of(cls, queries: Queries, groups: Sequence[object] | None = None) -> "Reference | None":
        """Some of these, evenly taken; None if there are none."""
        if not len(queries):
            return None
        most = min(MOST_QUERIES, max(LEAST_QUERIES, MOST_ENTRIES // queries.shape[1]))
        rows = torch.arange(len(queries))[:: -(-len(queries) // most)]
        names = None if groups is None else as_group_names(groups, len(queries))
        kept = cls(len(rows), queries.shape[1], None if names is None else [names[row] for row in rows.tolist()])
        kept.queries = queries[rows.to(queries.device)].detach().clone()
        return kept

    @override
    def configuration(self) -> dict[str, object]:
        return {"count": self.count, "dimensions": self.dimensions, "groups": self.groups}

    @override
    def extra_repr(self) -> str:
        groups = None if self.groups is None else sorted(set(self.groups))  # each once: there are hundreds of rows
        return f"count={self.count}, dimensions={self.dimensions}, groups={groups!r}"
