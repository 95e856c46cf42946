"""A cluster is a collection of a service: the same keys, routes, limits and answers; what it cannot do is refused."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import ahop
from ahop.client import Client
from ahop.errors import InvalidValueError

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("lance")

from ahop.scale.cluster import LocalCluster
from ahop.scale.stores import Store
from ahop.service import Options, create_app, run
from ahop.service.testing import Running, running
from tests.test_cluster import BAD, COUNT, DIMENSIONS, a_store, patterns

SECRET, NARROW, OTHER = "s" * 30, "n" * 30, "o" * 30
CODE = f"""
import sys
from ahop.scale.cluster import LocalCluster
from ahop.service import Key, Options, run
keys = (
    Key.of({SECRET!r}, may_write=True),
    Key.of({NARROW!r}, collections=("phones",), where={{"floor": [1, 2]}}),
    Key.of({OTHER!r}, collections=("elsewhere",)),
)
options = Options(keys=keys, follow_seconds=float(sys.argv[2]), review=10, review_below=2.0)
run({{"phones": LocalCluster(sys.argv[1], 3)}}, port=0, options=options)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return a_store(tmp_path_factory.mktemp("store"), "unknown")


@pytest.fixture(scope="module")
def service(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("log"), store.location.address, "0", code=CODE) as started:
        yield started


@pytest.fixture(scope="module")
def queries() -> torch.Tensor:
    return ahop.NoisyVariant(0.02).sample(patterns(), 50, seed=3).queries


def ask(service: Running, method: str, route: str, body: object = None, secret: str = SECRET) -> tuple[int, dict]:  # type: ignore[type-arg]
    return service.ask(method, f"/collections/phones{route}", body, {"Authorization": f"Bearer {secret}"})[:2]


@pytest.mark.parametrize("where", [None, {"floor": [0, 1]}, {"name": "no"}])
def test_a_client_is_answered_as_by_the_store(
    service: Running, store: Store, queries: torch.Tensor, where: dict[str, object] | None
) -> None:
    with Client(service.url, "phones", key=SECRET) as client:
        assert (len(client), client.dimensions) == (COUNT, DIMENSIONS)
        answer, expected = client.recall(queries, 3, where=where), store.at(1).recall(queries, 3, where=where)
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.patterns, expected.patterns, equal_nan=True)
    assert_close(answer.posterior, expected.posterior, atol=2e-3, rtol=2e-2)
    assert answer.unknown is not None
    assert answer.is_checked == expected.is_checked


def test_facts_are_those_of_a_collection(service: Running) -> None:
    status, facts = ask(service, "GET", "")
    assert (status, facts["kind"], facts["patterns"], facts["version"]) == (200, "cluster", COUNT, 1)
    assert facts["metadata"] == {"id": "int", "floor": "int", "name": "str"}
    assert facts["tells_unknown"]
    listed = service.ask("GET", "/collections", None, {"Authorization": f"Bearer {SECRET}"})[1]["collections"]
    assert [each["kind"] for each in listed] == ["cluster"]
    ask(service, "POST", "/recall", {"queries": [[0.0] * DIMENSIONS]})
    counters = service.ask("GET", "/metrics", None, {"Authorization": f"Bearer {SECRET}"})[1].decode()
    assert 'ahop_patterns{collection="phones"} 600.0' in counters
    assert ask(service, "GET", "/review")[1]["review"][0]["ids"], "answers are kept for review as of any collection"


def test_keys_are_asked_for_and_a_filter_of_a_key_holds(service: Running, store: Store, queries: torch.Tensor) -> None:
    for method, route in (("POST", "/recall"), ("GET", ""), ("POST", "/refresh")):
        assert ask(service, method, route, secret="wrong")[0] == 401
        assert ask(service, method, route, secret=OTHER)[0] == 404
    assert ask(service, "POST", "/refresh", secret=NARROW)[0] == 403
    assert ask(service, "GET", "", secret=NARROW)[1]["patterns"] == 400
    body = {"queries": queries.tolist(), "k": 2, "where": {"floor": [0, 1], "name": ["n1", "n2"]}}
    status, found = ask(service, "POST", "/recall", body, NARROW)
    expected = store.at(1).recall(queries, 2, where={"floor": [1], "name": ["n1", "n2"]})
    assert (status, found["ids"]) == (200, expected.indices.tolist())
    body["where"] = {"floor": 0}
    assert ask(service, "POST", "/recall", body, NARROW)[1]["ids"] == [[]] * len(queries)


def test_fewer_answers_than_were_asked_for_are_told(service: Running) -> None:
    found = ask(service, "POST", "/recall", {"queries": [[0.0] * DIMENSIONS], "k": 4, "where": {"id": [7, 14]}})[1]
    assert sorted(found["ids"][0]) == [7, 14]
    assert found["exhausted"]
    assert not ask(service, "POST", "/recall", {"queries": [[0.0] * DIMENSIONS], "k": 4})[1]["exhausted"]


REFUSED = [
    ("POST", "/recall", {"queries": [[0.0] * DIMENSIONS], "explain": True}),
    ("POST", "/recall", {"queries": [[0.0] * DIMENSIONS], "same": ["a"]}),
    ("POST", "/recall", {"queries": [[0.0] * DIMENSIONS], "columns": ["floor"]}),
    ("POST", "/link", {"queries": [[0.0] * DIMENSIONS]}),
    ("POST", "/add", {"patterns": [[0.0] * DIMENSIONS]}),
    ("POST", "/delete", {"ids": [7]}),
    ("POST", "/pairs", {"queries": [[0.0] * DIMENSIONS], "ids": [7]}),
    ("POST", "/fit", {}),
    ("GET", "/versions", None),
    ("GET", "/watch", None),
    ("POST", "/versions/1/activate", None),
    ("POST", "/versions/1/restore", None),
]


@pytest.mark.parametrize(("method", "route", "body"), REFUSED)
def test_what_needs_the_patterns_is_refused_in_words(service: Running, method: str, route: str, body: object) -> None:
    status, said = ask(service, method, route, body)
    assert status == 400
    assert "cannot be asked of a cluster" in said["error"]


def test_whatever_is_sent_is_answered_by_a_sentence_and_never_by_a_fault(service: Running) -> None:
    worse = [
        b'{"queries": [], "where": {"door": 1}}',
        b'{"queries": [], "where": {"floor": "x"}}',
        b'{"queries": [], "where": {"name": "\\ud800"}}',
        b'{"queries": [[0,0,0,0,0,0,0,0]], "where": {"floor": [' + b"9" * 400 + b"]}}",
        b'{"queries": [[0,0,0,0,0,0,0,0]], "where": {"name": "\'; --"}}',
        b" " * (9 * 2**20),
    ]
    for body in [*BAD, *worse]:
        status, answer = ask(service, "POST", "/recall", body)
        assert status in (200, 400, 413), body[:60]
        assert status == 200 or isinstance(answer["error"], str)
    assert ask(service, "GET", "/recall")[0] == 405
    assert ask(service, "POST", "/recall", b'{"queries": [[0,0,0,0,0,0,0,0]], "k": 1000}')[0] == 200
    assert not service.failures()


def test_answers_are_of_the_version_that_they_name_while_it_moves(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    added = torch.full((1, DIMENSIONS), 5.0)
    body = {"queries": added.tolist()}
    with running(tmp_path, store.location.address, "0", code=CODE) as service, ThreadPoolExecutor(3) as pool:
        before = ask(service, "POST", "/recall", body)[1]["ids"]
        store.add(added, torch.tensor([99_999]), metadata={"floor": [1], "name": ["new"]})
        asked = [pool.submit(ask, service, "POST", "/recall", body) for _ in range(30)]
        moved = ask(service, "POST", "/refresh")
        asked += [pool.submit(ask, service, "POST", "/recall", body) for _ in range(30)]
        assert moved == (200, {"version": store.version, "patterns": COUNT + 1})
        for status, found in (each.result() for each in asked):
            assert status in (200, 429)
            expected = {1: before, store.version: [[99_999]]}
            assert status == 429 or found["ids"] == expected[found["version"]]
        assert ask(service, "POST", "/recall", body)[1]["version"] == store.version
        assert service.end() == 0


def test_a_service_follows_what_others_write(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    with running(tmp_path, store.location.address, "0.1", code=CODE) as service:
        store.add(torch.full((1, DIMENSIONS), 5.0), torch.tensor([99_999]), metadata={"floor": [1], "name": ["new"]})
        until = time.monotonic() + 30
        while ask(service, "GET", "")[1]["version"] != store.version:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_several_workers_are_refused(store: Store, tmp_path: Path) -> None:
    with LocalCluster(store, 2) as cluster, pytest.raises(InvalidValueError, match="take one worker"):
        run({"phones": cluster}, port=0, workers=2)
    with pytest.raises(InvalidValueError, match="take one worker"):
        run([store.location.address], port=0, options=Options(shards=2), workers=2)


def test_memories_in_files_are_held_whatever_shards_are_asked_for(tmp_path: Path) -> None:
    ahop.AssociativeMemory(patterns()).save(tmp_path / "rooms.ahop")
    app = create_app({"rooms": tmp_path / "rooms.ahop"}, Options(shards=2))
    assert app.state.shared.collections["rooms"].kind == "file"
    app.state.shared.close()
