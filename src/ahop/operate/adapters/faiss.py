"""An index of FAISS as a search."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True)
class FaissSearch:
    """Ids and scores of any index of FAISS, inner products and distances alike.

    Args:
        index: trained and filled, such as `faiss.IndexFlatIP`.
    """

    index: Any

    def __call__(self, queries: Any, k: int) -> tuple[Any, Any]:
        scores, ids = self.index.search(np.ascontiguousarray(queries, dtype=np.float32), k)
        return ids, scores
