"""A service answers through an index as it does without one, keeps it, and makes it anew for another model."""

from pathlib import Path

import pytest
import torch

import ahop
from ahop.errors import InvalidValueError, UnsupportedError

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("faiss")
pytest.importorskip("lance")

from ahop.service import Collection, Options, run
from ahop.service.testing import running

ROWS, DIMENSIONS = 2000, 12


@pytest.fixture(scope="module")
def memory() -> ahop.AssociativeMemory:
    patterns = torch.rand(ROWS, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    pairs = ahop.MixedVariant(0.02, 0.02, 0.02).sample(patterns, 300, seed=0)
    return ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)


@pytest.fixture
def file(memory: ahop.AssociativeMemory, tmp_path: Path) -> Path:
    memory.save(tmp_path / "rooms.ahop")
    return tmp_path / "rooms.ahop"


def damaged(memory: ahop.AssociativeMemory, count: int = 40) -> torch.Tensor:
    return ahop.MixedVariant(0.02, 0.02, 0.02).sample(memory.patterns, count, seed=5).queries


def test_answers_through_an_index_are_those_of_the_memory(memory: ahop.AssociativeMemory, file: Path) -> None:
    queries = damaged(memory)
    asked = [[None if number != number else number for number in row] for row in queries.tolist()]
    with running(file.parent, str(file), "--index") as service:
        assert service.ask("GET", "/collections/rooms")[1]["index"] == "scan"
        for k in (1, 3, 200):
            found, expected = service.recall("rooms", queries=asked, k=k), memory.recall(queries, k)
            same = torch.tensor(found["ids"])[:, 0] == expected.indices[:, 0]
            assert float(same.float().mean()) >= 0.97
            assert torch.allclose(torch.tensor(found["posterior"])[same, 0], expected.posterior[same, 0], atol=0.02)
            assert len(found["ids"][0]) == k
        some = list(range(0, ROWS, 2))
        found = service.recall("rooms", queries=asked, where={"id": some})
        assert {row[0] for row in found["ids"]} <= set(some)
        assert "actions" in service.recall("rooms", queries=asked, policy={"accept_from": 0.9})
        assert len(service.ask("POST", "/collections/rooms/link", {"queries": asked})[1]["ids"]) > 0
    assert '"index made"' in service.log.read_text("utf-8")
    with running(file.parent, str(file), "--index") as service:
        assert service.recall("rooms", queries=asked)["version"] == 1
    assert '"index made"' not in service.log.read_text("utf-8")


def test_another_model_has_an_index_of_its_own(memory: ahop.AssociativeMemory, file: Path) -> None:
    collection = Collection("rooms", file, index=True)
    pairs = ahop.MixedVariant(0.05, 0.05, 0.05).sample(memory.patterns, 300, seed=1)
    other = ahop.fit(memory.patterns, pairs=pairs, similarity="mixture", progress=False)
    before, query = collection.snapshot, damaged(memory, 1)
    learned = collection.learn(other.model)
    assert learned.index is not None
    assert learned.index is not before.index
    assert learned.answers(query, 1).indices.tolist() == other.recall(query, 1).indices.tolist()
    plain = collection.learn(ahop.AssociativeMemory(memory.patterns, ahop.EuclideanSimilarity()).model)
    assert plain.index is None  # it does not know how queries are damaged, and answers by scoring every row
    assert plain.answers(query, 1).indices.shape == (1, 1)
    assert collection.activate(1).index is not None


def test_a_memory_without_an_index_is_refused(memory: ahop.AssociativeMemory, tmp_path: Path) -> None:
    ahop.AssociativeMemory(memory.patterns, ahop.EuclideanSimilarity()).save(tmp_path / "plain.ahop")
    with pytest.raises(UnsupportedError, match="index"):
        Collection("plain", tmp_path / "plain.ahop", index=True)


def test_a_damaged_index_is_made_anew(file: Path) -> None:
    first = Collection("rooms", file, index=True)
    assert first.state is not None
    (kept,) = first.state.glob("*.index")
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.write_bytes(content)
    assert Collection("rooms", file, index=True).snapshot.index is not None
    assert kept.read_bytes() != bytes(content)


def test_stores_have_no_index(memory: ahop.AssociativeMemory, tmp_path: Path) -> None:
    ahop.create_store(tmp_path / "phones.lance", memory)
    with pytest.raises(UnsupportedError, match="index"):
        Collection("phones", tmp_path / "phones.lance", index=True)
    with pytest.raises(InvalidValueError, match="index"):
        run([], options=Options(index=True, create_in=tmp_path))
