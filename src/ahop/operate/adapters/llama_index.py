"""LlamaIndex: a retriever as a search, and one that drops "none"."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from ahop._core import optional
from ahop.memory.decisions import Policy
from ahop.operate.adapters.texts import found_for
from ahop.operate.attaching.attached import AttachedSearch


@final
@dataclass(frozen=True)
class LlamaIndexSearch:
    """Ids of nodes and scores of an index of LlamaIndex; queries are texts.

    Args:
        index: anything with `as_retriever(similarity_top_k=...)`.
    """

    index: Any

    def __call__(self, queries: Any, k: int) -> tuple[Any, Any]:
        retriever = self.index.as_retriever(similarity_top_k=k)
        found = [retriever.retrieve(query) for query in queries]
        return [[each.node.node_id for each in row] for row in found], [[each.score for each in row] for row in found]


def llama_index_retriever(
    search: AttachedSearch, nodes: Callable[..., Sequence[Any]], k: int = 4, policy: Policy | None = None
) -> Any:
    """A retriever that answers nothing where nothing fits; scores of its nodes are their relevance.

    Args:
        search: of texts.
        nodes: those with these ids, such as `index.docstore.get_nodes`.
        k: at most so many nodes.
        policy: of `ahop.policy`: nothing is retrieved unless it accepts. Default: unless none is likelier than not.
    """
    core = optional.llama_index()

    class AhopRetriever(core.retrievers.BaseRetriever):  # type: ignore[name-defined, misc]
        """Nodes that fit, by `ahop.attach`."""

        def _retrieve(self, query_bundle: Any) -> list[Any]:
            ids, relevance = found_for(search, query_bundle.query_str, k, policy)
            there = {each.node_id: each for each in nodes(ids)} if ids else {}
            scored = core.schema.NodeWithScore
            pairs = zip(ids, relevance, strict=True)
            return [scored(node=there[label], score=each) for label, each in pairs if label in there]

    return AhopRetriever()
