"""The libraries themselves behind `ahop.attach`: each answers as the exact search does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ahop
from ahop.operate.adapters import (
    ChromaSearch,
    FaissSearch,
    LanceSearch,
    LangChainSearch,
    LlamaIndexSearch,
    PgVectorSearch,
    QdrantSearch,
    UsearchSearch,
    langchain_retriever,
    llama_index_retriever,
)
from ahop.operate.attaching import Search
from tests import postgres

STORED, STRANGE, WIDTH, NOISE = 200, 60, 10, 0.5


def unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return found


def rows() -> NDArray[np.float32]:
    return unit(np.random.default_rng(0).normal(size=(STORED + STRANGE, WIDTH)))


def stored() -> NDArray[np.float32]:
    return rows()[:STORED]


def asked(count: int, seed: int) -> tuple[list[int | None], NDArray[np.float32]]:
    generator = np.random.default_rng(seed)
    origins = generator.integers(STORED + STRANGE, size=count)
    queries = unit(rows()[origins] + NOISE / WIDTH**0.5 * generator.normal(size=(count, WIDTH)))
    return [int(each) if each < STORED else None for each in origins], queries


def exact(queries: Any, k: int) -> tuple[Any, Any]:
    scores = queries @ stored().T
    ids = np.argsort(-scores, axis=-1)[:, :k]
    return ids, np.take_along_axis(scores, ids, -1)


def assert_answers_as_the_exact_search(search: Search, names: Any = int, places: Any = int) -> None:
    """Same first answers, and probabilities that are about those of the exact search."""
    origins, queries = asked(200, 1)
    fresh = asked(40, 2)[1]
    wanted = [None if each is None else names(each) for each in origins]
    ours = ahop.attach(search, pairs=(wanted, queries), candidates=20).recall(fresh, 3)
    plain = ahop.attach(exact, pairs=(origins, queries), candidates=20).recall(fresh, 3)
    named = ours.indices if ours.labels is None else ours.labels
    found = np.array([places(each) for each in named[:, 0]])
    assert (found == plain.indices[:, 0]).mean() >= 0.95
    assert np.abs(np.asarray(ours.confidence) - np.asarray(plain.confidence)).mean() <= 0.05
    assert np.asarray(ours.unknown).std() > 0.05


@pytest.mark.parametrize("kind", ["IndexFlatIP", "IndexFlatL2", "IndexHNSWFlat"])
def test_faiss(kind: str) -> None:
    faiss = pytest.importorskip("faiss")
    index = getattr(faiss, kind)(WIDTH, *([16] if "HNSW" in kind else []))
    index.add(stored())
    assert_answers_as_the_exact_search(FaissSearch(index))


def test_usearch() -> None:
    module = pytest.importorskip("usearch.index")
    index = module.Index(ndim=WIDTH, metric="cos", dtype="f32")
    index.add(np.arange(STORED) + 1000, stored())
    assert_answers_as_the_exact_search(UsearchSearch(index), lambda each: each + 1000, lambda each: each - 1000)


def test_lance(tmp_path: Path) -> None:
    lance, arrow = pytest.importorskip("lance"), pytest.importorskip("pyarrow")
    vectors = arrow.FixedSizeListArray.from_arrays(arrow.array(stored().reshape(-1)), WIDTH)
    table = arrow.table({"id": [f"row {each}" for each in range(STORED)], "vector": vectors})
    dataset = lance.write_dataset(table, str(tmp_path / "table.lance"))
    assert_answers_as_the_exact_search(
        LanceSearch(dataset), lambda each: f"row {each}", lambda each: int(each.split()[1])
    )
    few = LanceSearch(dataset, where="id IN ('row 1', 'row 2')")(stored()[:2], 5)[0]
    assert [set(each) for each in few] == [{"row 1", "row 2"}] * 2


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    psycopg = pytest.importorskip("psycopg")
    if postgres.binaries() is None:
        pytest.skip("no server of PostgreSQL is installed")
    with postgres.server() as address, psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute(f"CREATE SCHEMA shop; CREATE TABLE shop.items (sku text PRIMARY KEY, v vector({WIDTH}))")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO shop.items VALUES (%s, %s::vector)",
                [(f"sku-{each}", str(row.tolist())) for each, row in enumerate(stored())],
            )
        connection.execute("CREATE INDEX ON shop.items USING hnsw (v vector_cosine_ops)")
        yield connection


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "inner product"])
def test_pgvector_on_a_table_that_others_made(database: Any, distance: Any) -> None:
    search = PgVectorSearch(database, "shop.items", "v", "sku", distance)
    assert_answers_as_the_exact_search(search, lambda each: f"sku-{each}", lambda each: int(each.split("-")[1]))


def test_qdrant() -> None:
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(":memory:")
    models = qdrant.models
    client.create_collection("items", models.VectorParams(size=WIDTH, distance=models.Distance.COSINE))
    points = [models.PointStruct(id=each, vector=row.tolist()) for each, row in enumerate(stored())]
    client.upsert("items", points)
    assert_answers_as_the_exact_search(QdrantSearch(client, "items"))
    client.close()


@pytest.mark.filterwarnings("ignore")
def test_chroma() -> None:
    chroma = pytest.importorskip("chromadb")
    settings = chroma.config.Settings(anonymized_telemetry=False)
    collection = chroma.EphemeralClient(settings).create_collection("items", embedding_function=None)
    collection.add(ids=[str(each) for each in range(STORED)], embeddings=stored())
    assert_answers_as_the_exact_search(ChromaSearch(collection), str)


def by_number(text: str) -> list[float]:
    """An embedding of texts such as "17 3": the query of that number with noise of that seed."""
    number, seed = map(int, text.split())
    noise = 0.0 if seed == 0 else NOISE / WIDTH**0.5 * np.random.default_rng([number, seed]).normal(size=WIDTH)
    found: list[float] = unit(rows()[number] + noise).tolist()
    return found


def texts(seed: int) -> tuple[list[int | None], list[str]]:
    numbers = range(STORED + STRANGE)
    return [each if each < STORED else None for each in numbers], [f"{each} {seed}" for each in numbers]


@pytest.mark.filterwarnings("ignore")
def test_a_retriever_of_langchain_drops_none() -> None:
    core = pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Embedded(Embeddings):  # type: ignore[misc, unused-ignore]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [by_number(each) for each in texts]

        def embed_query(self, text: str) -> list[float]:
            return by_number(text)

    assert core
    store = InMemoryVectorStore(Embedded())
    store.add_documents([Document(f"{each} 0", id=str(each)) for each in range(STORED)])
    origins, asked_for = texts(1)
    search = ahop.attach(
        LangChainSearch(store),
        pairs=([None if each is None else str(each) for each in origins], asked_for),
        candidates=20,
    )
    retriever = langchain_retriever(search, store.get_by_ids, k=2)
    found = [retriever.invoke(text) for text in texts(2)[1]]
    right = [bool(each) and each[0].id == str(number) for number, each in enumerate(found[:STORED])]
    assert np.mean(right) > 0.7
    assert np.mean([not each for each in found[STORED:]]) > 0.6
    assert all(0 <= document.metadata["relevance"] <= 1 for each in found for document in each)
    assert not store.get_by_ids(["1"])[0].metadata  # documents of the store stay as they are


@pytest.mark.filterwarnings("ignore")
def test_a_retriever_of_llama_index_drops_none() -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode

    class Embedded(BaseEmbedding):  # type: ignore[misc, unused-ignore]
        def _get_query_embedding(self, query: str) -> list[float]:
            return by_number(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return by_number(text)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return by_number(query)

    nodes = [TextNode(text=f"{each} 0", id_=str(each)) for each in range(STORED)]
    index = VectorStoreIndex(nodes, embed_model=Embedded())
    origins, asked_for = texts(1)
    search = ahop.attach(
        LlamaIndexSearch(index),
        pairs=([None if each is None else str(each) for each in origins], asked_for),
        candidates=20,
    )
    retriever = llama_index_retriever(search, index.docstore.get_nodes, k=2)
    found = [retriever.retrieve(text) for text in texts(2)[1]]
    right = [bool(each) and each[0].node.node_id == str(number) for number, each in enumerate(found[:STORED])]
    assert np.mean(right) > 0.7
    assert np.mean([not each for each in found[STORED:]]) > 0.6
