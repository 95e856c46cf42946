"""LangChain: a vector store as a search, and a retriever that drops "none"."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from ahop._core import optional
from ahop.memory.decisions import Policy
from ahop.operate.adapters.texts import found_for
from ahop.operate.attaching.attached import AttachedSearch


@final
@dataclass(frozen=True)
class LangChainSearch:
    """Ids of documents and scores of a vector store of LangChain; queries are texts.

    Args:
        store: its documents must have ids.
    """

    store: Any

    def __call__(self, queries: Any, k: int) -> tuple[Any, Any]:
        found = [self.store.similarity_search_with_score(query, k) for query in queries]
        return [[document.id for document, _ in each] for each in found], [
            [score for _, score in each] for each in found
        ]


def langchain_retriever(
    search: AttachedSearch,
    documents: Callable[..., Sequence[Any]],
    k: int = 4,
    policy: Policy | None = None,
) -> Any:
    """A retriever that answers nothing where nothing fits; `relevance` is in the metadata of the documents.

    Args:
        search: of texts.
        documents: those with these ids, in their order, such as `store.get_by_ids`.
        k: at most so many documents.
        policy: of `ahop.policy`: nothing is retrieved unless it accepts. Default: unless none is likelier than not.
    """
    core = optional.langchain()

    class AhopRetriever(core.retrievers.BaseRetriever):  # type: ignore[name-defined, misc]
        """Documents that fit, by `ahop.attach`."""

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            ids, relevance = found_for(search, query, k, policy)
            there = {each.id: each for each in documents(ids)} if ids else {}
            return [
                there[label].model_copy(update={"metadata": {**there[label].metadata, "relevance": each}})
                for label, each in zip(ids, relevance, strict=True)
                if label in there
            ]

    return AhopRetriever()
