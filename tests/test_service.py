"""A service answers as a memory does, refuses what it must, and is not brought down by anything that is sent."""

import asyncio
import json
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ahop
from ahop._core.kernels import native
from ahop.client import Client
from ahop.errors import AhopError, InvalidValueError, UnavailableError

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("lance")

from ahop.service import Collection, Key, Limits, Options, create_app, read_keys
from ahop.service.collections.batching import BusyError, Cost, Job, Worker
from ahop.service.collections.snapshot import RecallOptions, Snapshot
from ahop.service.http.server import named
from ahop.service.jobs.refit import Refits
from ahop.service.keys import key_of, refuse_open
from ahop.service.testing import Running, running
from tests.readme import python_blocks, run_block
from tests.recallers import colors, fitted, rows_of

SECRET, OTHER, NARROW = "s" * 30, "o" * 30, "n" * 30


@pytest.fixture(scope="module")
def memory() -> ahop.AssociativeMemory:
    return fitted()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, memory: ahop.AssociativeMemory) -> Path:
    made = tmp_path_factory.mktemp("service")
    names = [f"room {row}" for row in range(len(memory))]
    ahop.AssociativeMemory(memory.patterns, model=memory.model, labels=names).save(made / "rooms.ahop")
    ahop.create_store(made / "phones.lance", memory, metadata={"color": colors()})
    return made


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Running]:
    with running(folder, str(folder / "rooms.ahop"), str(folder / "phones.lance"), "--review", "5") as made:
        yield made


def queries_of(memory: ahop.AssociativeMemory, count: int = 4) -> list[list[float | None]]:
    rows = memory.patterns[:count] + 0.9
    return [[None if number != number else round(number, 4) for number in row] for row in rows.tolist()]


def as_tensor(queries: list[list[float | None]]) -> torch.Tensor:
    return torch.tensor([[float("nan") if each is None else each for each in row] for row in queries])


# Answers.


def test_answers_are_those_of_the_memory(service: Running, memory: ahop.AssociativeMemory) -> None:
    queries = queries_of(memory)
    queries[1][3] = None
    found = service.recall("rooms", queries=queries, k=3, patterns=True)
    expected = memory.recall(as_tensor(queries), 3)
    assert found["ids"] == expected.indices.tolist()
    assert np.allclose(found["posterior"], expected.posterior, atol=1e-6)
    assert expected.unknown is not None
    assert np.allclose(found["unknown"], expected.unknown, atol=1e-6)
    assert np.array_equal(np.array(found["patterns"], dtype=np.float32), expected.patterns, equal_nan=True)
    assert found["labels"][0][0] == f"room {found['ids'][0][0]}"
    assert found["version"] == 1
    assert not found["exhausted"]


def test_filters_groups_columns_and_exhaustion(service: Running, memory: ahop.AssociativeMemory) -> None:
    queries, red = queries_of(memory), rows_of("red")
    groups = ["up"] * len(queries)
    found = service.recall("phones", queries=queries, k=4, where={"color": "red"}, groups=groups, columns=["color"])
    expected = memory.recall(as_tensor(queries), 4, where=red, groups=groups)
    assert found["ids"] == expected.indices.tolist()
    assert {each for row in found["columns"]["color"] for each in row} == {"red"}
    few = service.recall("phones", queries=queries, k=4, where={"id": [7, 9], "color": ["green", "blue", None]})
    assert [sorted(row) for row in few["ids"]] == [[9]] * len(queries)  # 7 is black
    assert few["exhausted"]
    none = service.recall("rooms", queries=queries, k=2, where={"label": "no such room"})
    assert none["ids"] == [[]] * len(queries)
    by_label = service.recall("rooms", queries=queries, where={"label": ["room 3", "room 5"]})
    assert {row[0] for row in by_label["ids"]} <= {3, 5}


def test_queries_of_one_origin_are_added(service: Running, memory: ahop.AssociativeMemory) -> None:
    queries = queries_of(memory)
    found = service.recall("rooms", queries=queries, k=2, same=["a", "b", "a", "b"])
    expected = memory.recall(as_tensor(queries), 2, same=["a", "b", "a", "b"])
    assert found["ids"] == expected.indices.tolist()
    none = service.recall("rooms", queries=queries, same=["a"] * len(queries), where={"label": "no such room"})
    assert (none["ids"], none["unknown"]) == ([[]], [1.0])


def test_explanations_and_actions(service: Running, memory: ahop.AssociativeMemory) -> None:
    queries = queries_of(memory, 2)
    found = service.recall("phones", queries=queries, explain=True, policy={"accept_from": 0.9}, groups=["up", "up"])
    expected = memory.explain(as_tensor(queries[:1]), group="up")
    told = found["explanations"][0]
    assert told["answer"] == expected.answer
    assert told["log_odds"] == pytest.approx(expected.log_odds, rel=1e-3)
    assert sum(bar["log_odds"] for bar in told["bars"]) == pytest.approx(told["log_odds"], rel=1e-3, abs=1e-3)
    assert set(found["actions"]) <= {"accept", "ask", "unknown"}
    among = service.recall("phones", queries=queries[:1], explain=True, where={"color": "blue"})["explanations"][0]
    assert among["answer"] in rows_of("blue").tolist()
    assert among["rival"] in rows_of("blue").tolist(), "no row that the filter leaves out is named"


def test_requests_at_the_same_time_are_answered_as_alone(service: Running, memory: ahop.AssociativeMemory) -> None:
    queries = queries_of(memory, 40)
    alone = [service.recall("rooms", queries=[query], k=2)["ids"] for query in queries]
    with ThreadPoolExecutor(8) as pool:

        def ask(query: list[float | None]) -> Any:
            while True:
                status, said, _ = service.ask("POST", "/collections/rooms/recall", {"queries": [query], "k": 2})
                if status != 429:
                    assert status == 200, said
                    return said["ids"]
                time.sleep(0.05)

        assert list(pool.map(ask, queries)) == alone


def test_a_collection_says_what_it_is(service: Running, memory: ahop.AssociativeMemory) -> None:
    assert [each["name"] for each in service.ask("GET", "/collections")[1]["collections"]] == ["rooms", "phones"]
    facts = service.ask("GET", "/collections/phones")[1]
    assert facts["patterns"] == len(memory)
    assert facts["metadata"] == {"id": "int", "color": "str"}
    assert "held-out" in facts["report"]


def test_the_routes_describe_themselves(service: Running) -> None:
    status, schema, _ = service.ask("GET", "/openapi.json")
    assert status == 200
    assert "/collections/{name}/recall" in schema["paths"]
    status, page, _ = service.ask("GET", "/docs")
    assert status == 200
    assert b"/collections/{name}/recall" in page
    assert not re.findall(rb'(?:src|href)="(?:https?:)?//', page), "nothing comes from elsewhere"


def test_counters_and_log_know_no_queries(service: Running) -> None:
    service.recall("rooms", queries=[[7.654321] + [0.5] * 7])
    status, said, headers = service.ask("GET", "/metrics", headers={"X-Request-Id": "my-own-1"})
    assert status == 200
    assert headers["x-request-id"] == "my-own-1"
    text = said.decode()
    for name in ("ahop_request_seconds_bucket", "ahop_queue", "ahop_rejected_total", "ahop_queries_unknown_total"):
        assert name in text
    assert 'ahop_version{collection="phones"}' in text
    assert 'ahop_fragments{collection="phones"} ' in text
    for _ in range(100):
        if '"request": "my-own-1"' in service.log.read_text("utf-8"):
            break
        time.sleep(0.05)  # the line comes after the answer
    logged = [json.loads(line) for line in service.log.read_text("utf-8").splitlines()]
    assert [line["route"] for line in logged if line.get("request") == "my-own-1"] == ["/metrics"]
    assert "7.654321" not in service.log.read_text("utf-8")


def test_doubtful_answers_are_kept_for_review(service: Running) -> None:
    for _ in range(7):
        service.recall("rooms", queries=[[50.0] * 8])
    kept = service.ask("GET", "/collections/rooms/review")[1]["review"]
    assert len(kept) == 5
    assert kept[0]["query"] == [50.0] * 8


# Writing.


def test_patterns_are_added_and_deleted(folder: Path, memory: ahop.AssociativeMemory, tmp_path: Path) -> None:
    store = ahop.create_store(tmp_path / "changing", memory, metadata={"color": colors()})
    with running(tmp_path, str(tmp_path / "changing")) as made:
        row = [3.0, -3.0] * 4
        path = "/collections/changing"
        status, said, _ = made.ask("POST", f"{path}/add", {"patterns": [row], "metadata": {"color": ["pink"]}})
        assert (status, said["ids"]) == (201, [len(memory)])
        found = made.recall("changing", queries=[row], where={"color": ["pink", "red"]}, columns=["color"])
        assert (found["ids"], found["columns"]["color"]) == ([[len(memory)]], [["pink"]])
        assert found["version"] == said["version"]
        assert made.ask("POST", f"{path}/add", {"patterns": [row]})[0] == 400
        assert made.ask("POST", f"{path}/delete", {"ids": [10**6]})[0] == 400
        assert made.ask("POST", f"{path}/delete", {"ids": [len(memory), 0]})[0] == 200
        assert made.recall("changing", queries=[row])["ids"] != [[len(memory)]]
        store.refresh()
        store.add(torch.tensor([row]), metadata={"color": ["pink"]})  # another writer
        assert made.ask("POST", f"{path}/refresh")[1]["patterns"] == len(memory)
        assert made.recall("changing", queries=[row], where={"color": "pink"})["ids"] != [[]]
        assert made.end() == 0
    store.refresh()
    assert len(store) == len(memory)
    assert store.tombstones() == 1, "row 0 still lies in its file"


def test_a_file_keeps_its_patterns(service: Running) -> None:
    status, said, _ = service.ask("POST", "/collections/rooms/add", {"patterns": [[0.0] * 8]})
    assert status == 400
    assert "create_store" in said["error"]


@pytest.mark.parametrize("kind", ["file", "store"])
def test_feedback_is_learned_from_and_can_be_taken_back(
    kind: str, memory: ahop.AssociativeMemory, tmp_path: Path
) -> None:
    """Copies are shifted by 3, which the first model knows nothing of."""
    plain = ahop.AssociativeMemory(memory.patterns, ahop.EuclideanSimilarity(), ahop.Softmax(beta=2.0))
    path = tmp_path / ("rooms.ahop" if kind == "file" else "rooms")
    plain.save(path) if kind == "file" else ahop.create_store(path, plain)
    generator = torch.Generator().manual_seed(0)
    origins = torch.randint(len(memory), (120,), generator=generator)
    copies = memory.patterns[origins] + 3 + 0.2 * torch.randn(120, 8, generator=generator)
    with running(tmp_path, str(path)) as made:
        client = Client(made.url)
        before = float((client.recall(copies).indices[:, 0] == origins).float().mean())
        assert made.ask("POST", "/collections/rooms/fit", {})[0] == 400, "there is nothing to learn from"
        assert client.tell(copies, origins) == 120
        assert made.ask("POST", "/collections/rooms/pairs", {"queries": [[0.0] * 8], "ids": [4000]})[0] == 400
        first = made.recall("rooms", queries=[[0.0] * 8])["version"]
        assert client.fit(similarity="mixture")["state"] == "running"
        for _ in range(600):
            version = made.recall("rooms", queries=[[0.0] * 8])["version"]
            jobs = client.versions()["fits"]
            if jobs[-1]["state"] != "running":
                break
            assert version == first, "it was answered before the fit had ended"
            time.sleep(0.1)
        assert jobs[-1]["state"] == "done", jobs
        after = float((client.recall(copies).indices[:, 0] == origins).float().mean())
        assert before < 0.7 < 0.95 < after
        assert made.recall("rooms", queries=[[0.0] * 8])["version"] == jobs[-1]["version"]
        client.activate(first)
        assert float((client.recall(copies).indices[:, 0] == origins).float().mean()) == before
        made.end()
    if kind == "store":
        return
    with running(tmp_path, str(path)) as made:  # feedback and versions outlive the process
        assert Client(made.url).inspect()["pairs"] == 120
        assert made.ask("POST", "/collections/rooms/versions/99/activate")[0] == 400


# Keys.


def test_every_route_asks_for_a_key(folder: Path, tmp_path: Path) -> None:
    keys = [
        {"name": "all", "sha256": sha256(SECRET.encode()).hexdigest(), "may_write": True},
        {"name": "rooms", "sha256": sha256(OTHER.encode()).hexdigest(), "collections": ["rooms"]},
        {"name": "red", "sha256": sha256(NARROW.encode()).hexdigest(), "where": {"color": "red"}},
    ]
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    paths = [str(folder / "rooms.ahop"), str(folder / "phones.lance")]
    with running(tmp_path, *paths, "--keys", str(tmp_path / "keys.json")) as made:

        def ask(secret: str, method: str, path: str, body: Any = None) -> tuple[int, Any, dict[str, str]]:
            return made.ask(method, path, body, {"Authorization": f"Bearer {secret}"})

        schema = ask(SECRET, "GET", "/openapi.json")[1]
        routes = [(path, method) for path, methods in schema["paths"].items() for method in methods]
        assert len(routes) >= 14
        for path, method in [*routes, ("/openapi.json", "get"), ("/docs", "get"), ("/nothing", "get")]:
            where = path.replace("{name}", "rooms").replace("{version}", "1")
            expected = 200 if path in ("/livez", "/readyz") else 401
            assert made.ask(method.upper(), where, {})[0] == expected, path
            assert ask("x" * 30, method.upper(), where, {})[0] == expected
        assert [each["name"] for each in ask(OTHER, "GET", "/collections")[1]["collections"]] == ["rooms"]
        assert ask(OTHER, "GET", "/collections/phones")[0] == 404
        assert ask(OTHER, "GET", "/metrics")[0] == 403
        assert ask(OTHER, "POST", "/collections/rooms/pairs", {"queries": [[0.0] * 8], "ids": [1]})[0] == 403
        asked = {"queries": [[float(row)] * 8 for row in range(-3, 4)], "k": 50, "explain": True}
        status, said, _ = ask(NARROW, "POST", "/collections/phones/recall", asked)
        assert status == 200, said
        red = set(rows_of("red").tolist())
        assert {each for row in said["ids"] for each in row} <= red
        assert {each[name] for each in said["explanations"] for name in ("answer", "rival")} <= red
        wider = {"queries": [[0.0] * 8], "k": 5, "where": {"color": ["red", "blue"]}}
        assert set(ask(NARROW, "POST", "/collections/phones/recall", wider)[1]["ids"][0]) <= red
        assert ask(NARROW, "GET", "/collections/phones")[1]["patterns"] == len(red)
        client = Client(made.url, "phones", key=NARROW)
        assert len(client) == len(red)
        with pytest.raises(InvalidValueError, match="key"):
            Client(made.url, "phones", key="wrong" * 6)


def test_a_public_address_needs_a_key(folder: Path) -> None:
    with pytest.raises(InvalidValueError, match="AHOP_KEY"):
        refuse_open("0.0.0.0", ())
    refuse_open("::1", ())
    refuse_open("0.0.0.0", (Key.of(SECRET),))
    command = [sys.executable, "-m", "ahop.service", str(folder / "rooms.ahop"), "--host", "0.0.0.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "AHOP_KEY" in done.stderr


def test_keys_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="characters"):
        Key.of("short")
    with pytest.raises(InvalidValueError, match="only reads"):
        Key.of(SECRET, where={"a": 1}, may_write=True)
    keys = (Key.of(SECRET, "one"), Key.of(OTHER, "two"))
    assert key_of(OTHER, keys) is keys[1]
    assert key_of("", keys) is None
    for wrong in (
        '{"name": 1}',
        "[1]",
        '[{"name": "a", "sha256": "00"}]',
        '[{"name": "a", "typo": 1}]',
        "[",
        "[" * 9999,
    ):
        (tmp_path / "keys.json").write_text(wrong)
        with pytest.raises(AhopError):
            read_keys(tmp_path / "keys.json")


def test_pages_of_other_places_may_not_ask(service: Running) -> None:
    path, body = "/collections/rooms/recall", {"queries": [[0.0] * 8]}
    assert service.ask("POST", path, body, {"Origin": "http://evil.example"})[0] == 403
    assert service.ask("POST", path, body, {"Host": "evil.example"})[0] == 421
    assert service.ask("POST", path, body, {"Origin": service.url})[0] == 200


# Limits.


def test_what_is_too_large_is_refused(service: Running) -> None:
    path = "/collections/rooms/recall"
    row = [0.0] * 8
    assert service.ask("POST", path, {"queries": [row] * 1025})[0] == 400
    assert service.ask("POST", path, {"queries": [row], "k": 1001})[0] == 400
    status, said, _ = service.ask("POST", path, {"queries": [row] * 1000, "k": 400, "patterns": True})
    assert status == 413
    assert "at a time" in said["hint"]
    assert service.ask("POST", path, b'{"queries": [' + b" " * (9 * 2**20) + b"]}")[0] == 413
    assert b" 400 " in service.raw(b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000)[:20]
    upgrade = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert b" 400 " in service.raw(upgrade, 1.0)[:20]


def test_a_small_request_has_no_large_answer(service: Running) -> None:
    largest = 0
    for count, k, patterns in (
        (1000, 400, False),
        (250, 400, False),
        (90, 400, False),
        (60, 400, True),
        (20, 400, True),
    ):
        asked = json.dumps({"queries": [[0] * 8] * count, "k": k, "patterns": patterns}).encode()
        status, said, _ = service.ask("POST", "/collections/rooms/recall", asked)
        assert status in (200, 413, 429)
        largest = max(largest, len(json.dumps(said)))
    assert largest <= 4 * 2**20


def test_slow_sockets_harm_nobody(folder: Path, tmp_path: Path) -> None:
    code = f"""
import sys
from ahop.service import Limits, Options, run
limits = Limits(header_seconds=2.0, body_seconds=2.0, connections=300)
run([{str(folder / "rooms.ahop")!r}], port=0, options=Options(limits=limits))
"""
    with running(tmp_path, code=code) as made:
        slow = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(400)]
        for place, each in enumerate(slow):
            with suppress(OSError):  # it may be closed already, to make room
                each.sendall(b"G" if place % 2 else b"POST /livez HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        for _ in range(20):
            assert made.recall("rooms", queries=[[0.0] * 8])["version"] == 1
        time.sleep(3.0)
        closed = 0
        for each in slow:
            each.settimeout(1.0)
            try:
                while each.recv(4096):
                    pass
                closed += 1
            except ConnectionError:
                closed += 1
            except TimeoutError:
                pass
            each.close()
        assert closed == len(slow)
        assert made.recall("rooms", queries=[[0.0] * 8])["version"] == 1


@pytest.mark.skipif(native.native is None, reason="plans are compiled")
def test_recalls_are_one_compiled_call_with_patterns_and_without(memory: ahop.AssociativeMemory) -> None:
    snapshot = Snapshot(memory, torch.arange(len(memory)), {}, 1)
    asked = memory.patterns[:5] + 0.1
    for rows in (None, torch.arange(0, len(memory), 2)):
        wanted = memory.recall(asked, k=3, where=rows)
        for patterns in (True, False):
            found = snapshot.answers(asked, 3, RecallOptions(rows=rows, patterns=patterns))
            assert snapshot._state.plans.plan is not None
            assert torch.equal(found.indices, wanted.indices)
            assert torch.equal(found.posterior, wanted.posterior)
            assert found.patterns.shape == (5, 3, memory.dimensions if patterns else 0)


def test_too_many_requests_are_told_to_come_back(memory: ahop.AssociativeMemory) -> None:
    worker, held = Worker(Options(limits=Limits(waiting=3, wait_seconds=10.0))), threading.Event()
    snapshot = Snapshot(memory, torch.arange(len(memory)), {}, 1)
    told: list[Any] = []

    def hold(found: Any) -> None:
        told.append(found)
        held.wait(30)

    def job(tell: Any) -> Job:
        return Job(snapshot, Cost(), memory.patterns[:2], 1, None, "", None, None, False, tell)

    worker.submit(job(hold))
    while not told:
        time.sleep(0.01)
    for _ in range(3):
        worker.check_free()
        worker.submit(job(told.append))
    with pytest.raises(BusyError):
        worker.check_free()
    held.set()
    worker.close()
    assert len(told) == 4, "what was accepted is answered"
    with pytest.raises(UnavailableError):
        worker.submit(job(told.append))


def test_long_waits_are_refused_by_estimated_work(memory: ahop.AssociativeMemory) -> None:
    worker, held = Worker(Options(limits=Limits(wait_seconds=0.5))), threading.Event()
    snapshot = Snapshot(memory, torch.arange(len(memory)), {}, 1)
    slow = Cost(overhead=0.0, each=0.1)
    begun: list[Any] = []

    def hold(found: Any) -> None:
        begun.append(found)
        held.wait(30)

    worker.submit(Job(snapshot, Cost(), memory.patterns[:1], 1, None, "", None, None, False, hold))
    while not begun:
        time.sleep(0.01)
    worker.check_free(0.4)
    large = Job(snapshot, slow, memory.patterns[:100], 1, None, "", None, None, False, lambda found: None)
    worker.submit(large)
    assert large.seconds_left == pytest.approx(10.0)
    worker.check_free(0.1)  # a small one gets its turn beside a large one
    for _ in range(6):
        worker.submit(Job(snapshot, slow, memory.patterns[:2], 1, None, "", None, None, False, lambda found: None))
    with pytest.raises(BusyError) as caught:
        worker.check_free(0.1)
    assert caught.value.seconds >= 1
    large.is_given_up = True
    held.set()
    worker.close()


def test_accepted_requests_are_answered_when_the_service_ends(folder: Path, tmp_path: Path) -> None:
    with ExitStack() as stack, running(tmp_path, str(folder / "rooms.ahop")) as made:
        outcomes: list[int] = []
        half = stack.enter_context(socket.create_connection(("127.0.0.1", made.port)))
        body = json.dumps({"queries": [[0.0] * 8]}).encode()
        head = f"POST /collections/rooms/recall HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        half.sendall(head.encode() + body[:5])

        def ask() -> None:
            for _ in range(200):
                try:
                    outcomes.append(made.ask("POST", "/collections/rooms/recall", {"queries": [[0.0] * 8] * 20})[0])
                except ConnectionError:
                    return  # the port is closed: nobody accepted this one, as the log will show

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for each in asking:
            each.start()
        time.sleep(0.3)
        made.process.terminate()
        time.sleep(0.1)
        assert made.ask("GET", "/readyz")[0] == 503
        time.sleep(0.8)
        half.sendall(body[5:])
        assert half.recv(4096).startswith(b"HTTP/1.1 200")
        started = time.monotonic()
        assert made.process.wait(15) == 0
        assert time.monotonic() - started < 10
        for each in asking:
            each.join()
        assert outcomes
        assert set(outcomes) <= {200, 429}
        lines = [json.loads(line) for line in made.log.read_text("utf-8").splitlines()]
        begun = [line["status"] for line in lines if line.get("route") == "/collections/{name}/recall"]
        assert begun.count(200) == outcomes.count(200) + 1, "each that was begun has its answer; one came by halves"
        assert begun.count(429) <= outcomes.count(429), "those that were shed are counted, not logged one by one"
        assert set(begun) <= {200, 429}


def test_answers_are_of_one_version_while_models_change(memory: ahop.AssociativeMemory, tmp_path: Path) -> None:
    """Each version answers with a temperature of its own, which the posterior shows."""
    path = tmp_path / "rooms.ahop"
    model = memory.model.replaced(detector=None, groups=None)
    ahop.AssociativeMemory(memory.patterns, model=model.replaced(separation=ahop.Softmax(1.0))).save(path)
    collection = Collection("rooms", path)
    queries, seen = memory.patterns[:64] + 0.9, set[int]()
    worker, is_over = Worker(Options(slice_seconds=1e-9, limits=Limits(wait_seconds=100.0))), threading.Event()
    expected = {1: collection.snapshot.answers(queries, 1).posterior}

    def swap() -> None:
        for step in range(2, 12):
            changed = model.replaced(separation=ahop.Softmax(1.0 / step))
            expected[step] = (
                Snapshot(ahop.AssociativeMemory(memory.patterns, model=changed), torch.arange(len(memory)), {}, step)
                .answers(queries, 1)
                .posterior
            )
            assert collection.learn(changed).version == step
            until = time.monotonic() + 60
            while step not in seen and time.monotonic() < until:
                time.sleep(0.005)
        is_over.set()

    swapping = threading.Thread(target=swap)
    swapping.start()
    while not is_over.is_set():
        snapshot, ended, found = collection.snapshot, threading.Event(), list[Any]()

        def tell(answer: Any, ended: threading.Event = ended, found: list[Any] = found) -> None:
            found.append(answer)
            ended.set()

        worker.submit(Job(snapshot, collection.cost, queries, 1, None, "", None, None, False, tell))
        assert ended.wait(30)
        assert torch.allclose(found[0].posterior, expected[snapshot.version], atol=1e-5)
        seen.add(snapshot.version)
    swapping.join()
    worker.close()
    assert seen >= set(range(2, 12))
    assert Collection("rooms", path).snapshot.version == 11, "the last one is found again"


def test_a_fit_that_fails_changes_nothing(memory: ahop.AssociativeMemory, tmp_path: Path) -> None:
    path = tmp_path / "rooms.ahop"
    memory.save(path)
    collection, refits = Collection("rooms", path), Refits(60.0)
    refits.start(collection, (memory.patterns[:40] + 1, list(range(40)), None), None, "no such similarity")
    while refits.of("rooms")[-1].state == "running":
        time.sleep(0.1)
    assert refits.of("rooms")[-1].state == "failed"
    assert "no such similarity" in str(refits.of("rooms")[-1].error)
    assert collection.snapshot.version == 1
    refits.close()


def asked_in_process(app: Any, body: bytes) -> tuple[int, Any]:
    """Answer of an application to a recall, without a server."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/collections/rooms/recall"}
    scope |= {"headers": [(b"host", b"localhost")], "query_string": b"", "http_version": "1.1", "scheme": "http"}
    scope |= {"root_path": ""}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_bodies_and_explanations_at_a_time_are_limited(folder: Path) -> None:
    body = json.dumps({"queries": [[0.0] * 8], "explain": True}).encode()
    app = create_app({"rooms": folder / "rooms.ahop"}, Options(limits=Limits(held_bytes=len(body) + 1, explaining=0)))
    assert asked_in_process(app, body + b"  ")[0] == 429
    assert app.state.shared.held.bytes == 0, "it is given back"
    status, said = asked_in_process(app, body)
    assert (status, set(said)) == (429, {"error", "hint"})
    assert asked_in_process(app, body.replace(b"true", b"false"))[0] == 200
    app.state.shared.close()


def test_work_that_takes_too_long_is_refused(folder: Path) -> None:
    app = create_app({"rooms": folder / "rooms.ahop"}, Options(limits=Limits(work_seconds=1e-9)))
    status, said = asked_in_process(app, json.dumps({"queries": [[0.0] * 8] * 3}).encode())
    assert status == 413
    assert "at a time" in said["hint"]
    app.state.shared.close()


def test_collections_are_named(tmp_path: Path) -> None:
    assert named(["a/b/phones.ahop", "rooms=c.lance", "s3://x/y.lance"]) == {
        "phones": "a/b/phones.ahop",
        "rooms": "c.lance",
        "y": "s3://x/y.lance",
    }
    for wrong in (["a/x.ahop", "b/x.ahop"], [], ["a b.ahop"]):
        with pytest.raises(InvalidValueError):
            named(wrong)
    with pytest.raises(AhopError, match="no file"):
        Collection("x", tmp_path / "nothing")


# Anything may be sent.

STRANGE: list[Any] = [
    None, True, 0, -1, 1.5, 1e308, 10**30, "", "word", "\ud800", [], {}, [[]], [None], [[None] * 8], [[0.0] * 7],
    [[0.0] * 8], [["0"] * 8], [[True] * 8], {"queries": 1}, {"id": []}, {"color": {"a": 1}}, {"accept_from": 2},
]  # fmt: skip
TEXTS = [
    b"", b"{", b"[" * 100_000, b'{"queries": [[1e999]]}', b'{"queries": [[NaN]]}', b"\xff\xfe\x00",
    b'{"queries": ' + b"9" * 10_000 + b"}", b"null", b'{"queries": "\\ud800"}', b'{"a": 1, "a": 2}',
    b"{}" * 1000, b'{"\\ud800": 1}',
    b'{"queries": [[' + b"1" * 5000 + b"]]}", b'{"queries": [[-0, 1e-999, 0, 0, 0, 0, 0, 0]], "k": 1}',
]  # fmt: skip
FIELDS = ["queries", "k", "where", "groups", "same", "patterns", "columns", "explain", "policy", "ids", "metadata", "x"]
NAMES = ["rooms", "phones", "rooms", "phones", "rooms", "nothing", "%00", "..%2f..", "%ff", "a" * 300]
ENDS = ["/recall"] * 8 + ["/add", "/delete", "/pairs", "/versions/1e9/activate", "/versions", "/review", "", "/x"]


def test_no_request_is_answered_by_a_failure(service: Running) -> None:
    drawn = random.Random(1)
    counts: dict[int, int] = {}
    for number in range(500):
        path = f"/collections/{drawn.choice(NAMES)}{drawn.choice(ENDS)}"
        method = drawn.choice(["POST"] * 40 + ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
        if drawn.random() < 0.2:
            body = drawn.choice(TEXTS)
        else:
            asked = {field: drawn.choice(STRANGE) for field in drawn.sample(FIELDS, drawn.randrange(1, 4))}
            if drawn.random() < 0.7:
                asked = {**asked, "queries": [[0.5] * 8]} if drawn.random() < 0.5 else {"queries": [[0.5] * 8]}
            body = json.dumps(asked).encode()
        headers = {"Content-Type": drawn.choice(["application/json", "text/plain", "application/octet-stream", "\xe9"])}
        headers |= {"Authorization": drawn.choice(["Bearer", "Basic \xff", "Bearer x"])} if drawn.random() < 0.2 else {}
        status, said, _ = service.ask(method, path, body, headers)
        counts[status] = counts.get(status, 0) + 1
        assert status < 500, (number, body, said)
        if status >= 400 and method != "HEAD":
            assert isinstance(said["error"], str)
        if number % 50 == 0:
            service.recall("rooms", queries=[[0.0] * 8])
    assert counts.get(200, 0) > 10, "some make sense"
    assert counts.get(400, 0) > 100


def test_no_bytes_bring_it_down(service: Running) -> None:
    drawn = random.Random(2)
    body = json.dumps({"queries": [[0.5] * 8]}).encode()
    head = f"POST /collections/rooms/recall HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(150):
        broken = bytearray(head + body)
        for _ in range(drawn.choice((1, 2, 8))):
            place = drawn.randrange(len(broken))
            how = drawn.randrange(3)
            broken[place : place + (1, 0, 3)[how]] = b"" if how == 2 else bytes([drawn.randrange(256)])
        answer = service.raw(bytes(broken), 0.05)
        assert not re.match(rb"HTTP/1.1 5\d\d", answer), (bytes(broken), answer)
    assert service.recall("rooms", queries=[[0.0] * 8])["version"] == 1
    assert '"failure"' not in service.log.read_text("utf-8")


# The page.

PAGE = Path(__file__).resolve().parent.parent / "docs" / "service.md"
METRICS = Path(ahop.__file__).parent / "service" / "http" / "metrics.py"


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    for block in python_blocks(text):
        run_block(block, PAGE.name, {"__name__": "__main__"})
    commands = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(commands) >= 6
    with running(tmp_path, "phones.ahop") as made:
        said = []
        for command in commands:
            here = command.replace("localhost:8000", f"localhost:{made.port}")
            done = subprocess.run(here, shell=True, capture_output=True, text=True, check=True, cwd=tmp_path)
            said.append(json.loads(done.stdout))
            assert "error" not in said[-1], (command, said[-1])
    assert len(said[0]["ids"][0]) == 2
    assert said[1]["actions"][0] in ("accept", "ask", "unknown")


def test_the_page_names_the_limits_and_routes_that_there_are() -> None:
    text, limits = PAGE.read_text("utf-8"), Limits()
    assert f"{limits.body_bytes >> 20} MiB, 413" in text
    assert f"{limits.queries} queries or `k` over {limits.answers}" in text
    assert f"{limits.answer_bytes >> 20} MiB, 413 before" in text
    assert f"over {limits.work_seconds:g} seconds, 413" in text
    assert f"{limits.header_bytes >> 10} KiB" in text
    assert f"may have {limits.unread_bytes >> 20} MiB together" in text
    assert f"within {limits.write_seconds:g} seconds is cut off" in text
    assert f"newest {limits.pairs:,}" in text
    for name in re.findall(r"`(ahop_\w+)`", text):
        assert name.removesuffix("_total") in METRICS.read_text("utf-8")


# The client.


def test_a_client_speaks_as_a_memory(service: Running, memory: ahop.AssociativeMemory) -> None:
    client = Client(service.url, "rooms")
    queries = memory.patterns[:30] + 0.9
    found, expected = client.recall(queries, 3), memory.recall(queries, 3)
    assert torch.equal(found.indices, expected.indices)
    assert torch.equal(found.patterns.nan_to_num(9), expected.patterns.nan_to_num(9))
    assert found.labels is not None
    assert found.labels[0, 0] == f"room {int(found.indices[0, 0])}"
    assert Client(service.url, "rooms", patterns=False).recall(queries, 2).patterns.shape == (30, 2, 0)
    told, of_memory = client.explain(queries[0], group="up"), memory.explain(queries[0], group="up")
    assert told.answer == f"room {of_memory.answer}"
    assert told.log_odds == pytest.approx(of_memory.log_odds, rel=1e-3)
    together = client.recall(queries[:4], 2, same=[1, 1, 2, 2])
    assert torch.equal(together.indices, memory.recall(queries[:4], 2, same=[1, 1, 2, 2]).indices)
    few = client.recall(queries[:2], 3, where={"id": np.array([4])})
    assert few.indices.tolist() == [[4, -1, -1]] * 2
    with pytest.raises(AhopError, match="collection"):
        Client(service.url)
    with pytest.raises(UnavailableError):
        Client("http://127.0.0.1:9", timeout=1.0)
