"""A collection of Chroma as a search."""

from dataclasses import dataclass, field
from typing import Any, final


@final
@dataclass(frozen=True)
class ChromaSearch:
    """Ids and distances of the nearest entries of a collection; queries are vectors, or texts that it embeds itself.

    Args:
        collection: of a `chromadb` client.
        options: further arguments of `collection.query`, such as `where`.
    """

    collection: Any
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, queries: Any, k: int) -> tuple[Any, Any]:
        are_texts = len(queries) > 0 and isinstance(queries[0], str)
        asked = {"query_texts": list(queries)} if are_texts else {"query_embeddings": queries}
        most = min(k, self.collection.count())  # it refuses to answer more than there are
        found = self.collection.query(n_results=most, include=["distances"], **asked, **self.options)
        return found["ids"], found["distances"]
