"""A collection of Qdrant as a search."""

from dataclasses import dataclass, field
from typing import Any, final


@final
@dataclass(frozen=True)
class QdrantSearch:
    """Ids and scores of the nearest points of a collection.

    Args:
        client: a `qdrant_client.QdrantClient`, of a server or local.
        collection: its name.
        options: further arguments of `query_points`, such as `using`, `query_filter` and `search_params`.
    """

    client: Any
    collection: str
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, queries: Any, k: int) -> tuple[Any, Any]:
        found = [
            self.client.query_points(
                self.collection, query=[float(each) for each in query], limit=k, with_payload=False, **self.options
            ).points
            for query in queries
        ]
        return [[point.id for point in points] for points in found], [
            [point.score for point in points] for points in found
        ]
