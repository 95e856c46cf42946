"""Searches of others, as `ahop.attach` takes them, and retrievers that drop "none"."""

from ahop.operate.adapters.chroma import ChromaSearch
from ahop.operate.adapters.faiss import FaissSearch
from ahop.operate.adapters.lance import LanceSearch
from ahop.operate.adapters.langchain import LangChainSearch, langchain_retriever
from ahop.operate.adapters.llama_index import LlamaIndexSearch, llama_index_retriever
from ahop.operate.adapters.pgvector import PgVectorSearch
from ahop.operate.adapters.qdrant import QdrantSearch
from ahop.operate.adapters.usearch import UsearchSearch

__all__ = [
    "ChromaSearch",
    "FaissSearch",
    "LanceSearch",
    "LangChainSearch",
    "LlamaIndexSearch",
    "PgVectorSearch",
    "QdrantSearch",
    "UsearchSearch",
    "langchain_retriever",
    "llama_index_retriever",
]
