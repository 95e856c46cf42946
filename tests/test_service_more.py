"""Routes beside recall: link, create, go back, follow, compact, and answer in several processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import ahop
from ahop.client import AsyncClient, Client
from ahop.errors import AhopError, InvalidValueError

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("lance")

from ahop.service import Collection, Options, create_app, run
from ahop.service.collections.collection import MOST_FRAGMENTS
from ahop.service.testing import Running, running
from tests.recallers import fitted


@pytest.fixture(scope="module")
def memory() -> ahop.AssociativeMemory:
    return fitted()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, memory: ahop.AssociativeMemory) -> Path:
    made = tmp_path_factory.mktemp("service")
    memory.save(made / "rooms.ahop")
    ahop.create_store(made / "phones.lance", memory)
    return made


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Running]:
    paths = str(folder / "rooms.ahop"), str(folder / "phones.lance")
    with running(folder, *paths, "--create-in", str(folder / "made"), "--follow", "0.2") as made:
        yield made


def rows_of(memory: ahop.AssociativeMemory, count: int) -> list[list[float | None]]:
    return [[None if each != each else each for each in row] for row in memory.patterns[:count].tolist()]


def post(service: Running, path: str, body: Any, expected: int = 200) -> dict[str, Any]:
    status, said, _ = service.ask("POST", path, body)
    assert status == expected, said
    found: dict[str, Any] = said
    return found


# Linking.


def test_links_are_those_of_the_function(service: Running, memory: ahop.AssociativeMemory) -> None:
    right = memory.patterns[:12] + 0.4
    links = ahop.link(memory, right, progress=False)
    found = post(service, "/collections/rooms/link", {"queries": right.tolist()})
    assert found["queries"] == links.right.tolist()
    assert found["ids"] == links.left.tolist()
    assert np.allclose(found["probability"], links.probability, atol=1e-5)
    assert found["unmatched"] == links.unmatched_right.rows.tolist()
    with Client(service.url, "rooms") as client:
        assert client.link(right)["ids"] == found["ids"]
        freely = client.link(torch.cat([right[:1], right[:1]]), one_to_one=False, unmatched=0.0)
    assert freely["ids"][0] == freely["ids"][1], "both may come from the same pattern"


def test_links_stay_among_the_rows_of_a_filter(service: Running, memory: ahop.AssociativeMemory) -> None:
    body = {"queries": rows_of(memory, 4), "where": {"id": [0, 1, 2, 3, 4]}}
    found = post(service, "/collections/phones/link", body)
    assert set(found["ids"]) <= {0, 1, 2, 3, 4}
    assert len(found["ids"]) + len(found["unmatched"]) == 4


@pytest.mark.parametrize("wrong", [{"unmatched": 1}, {"unmatched": "x"}, {"one_to_one": 1}, {"k": 2}, {"queries": 3}])
def test_wrong_links_are_refused(service: Running, memory: ahop.AssociativeMemory, wrong: dict[str, Any]) -> None:
    assert "error" in post(service, "/collections/rooms/link", {"queries": rows_of(memory, 2), **wrong}, 400)


# Creating, and going back.


def test_a_collection_is_created_and_there_after_a_restart(folder: Path, service: Running) -> None:
    body = {"patterns": [[0.0, 1.0], [5.0, None]], "metadata": {"label": ["a", "b"]}}
    status, said, _ = service.ask("PUT", "/collections/new", body)
    assert status == 201, said
    found = service.recall("new", queries=[[4.9, 0.0]], columns=["label"])
    assert found["ids"] == [[1]]
    assert found["columns"] == {"label": [["b"]]}
    assert service.ask("PUT", "/collections/new", body)[0] == 409
    with running(folder, "--create-in", str(folder / "made")) as again:
        assert again.recall("new", queries=[[0.1, 1.0]])["ids"] == [[0]]


@pytest.mark.parametrize("name", ["..", ".hidden", "a%2Fb", "a b", "x" * 101])
def test_a_name_that_is_no_name_creates_nothing(folder: Path, service: Running, name: str) -> None:
    before = sorted(path.name for path in folder.rglob("*") if "log" not in path.name)
    status = service.ask("PUT", f"/collections/{name}".replace(" ", "%20"), {"patterns": [[1.0]]})[0]
    assert status in (400, 404, 405)
    assert sorted(path.name for path in folder.rglob("*") if "log" not in path.name) == before


@pytest.mark.parametrize("patterns", [None, [], [[]], [1.0], [[1.0], [1.0, 2.0]], [["x"]]])
def test_a_collection_of_no_patterns_is_refused(service: Running, patterns: Any) -> None:
    assert service.ask("PUT", "/collections/bad", {"patterns": patterns})[0] == 400


def test_a_store_goes_back_to_an_old_version(service: Running, memory: ahop.AssociativeMemory) -> None:
    with Client(service.url, "phones") as client:
        before, count = client.inspect()["version"], len(client)
        client.remove(torch.tensor([0, 1]))
        assert len(client) == count - 2
        client.restore(before)
        assert len(client) == count
        assert client.recall(memory.patterns[:2]).indices.flatten().tolist() == [0, 1]
        assert client.inspect()["version"] > before, "what came between stays a version too"
        with pytest.raises(InvalidValueError):
            client.restore(10**6)
    assert service.ask("POST", "/collections/rooms/versions/1/restore")[0] == 400, "a file has no old patterns"


def test_columns_of_a_store_go_by_their_names(tmp_path: Path) -> None:
    frame = pd.DataFrame(torch.eye(4).numpy(), columns=["north", "east", "south", "west"])
    ahop.create_store(tmp_path / "rooms", ahop.AssociativeMemory(frame, ahop.EuclideanSimilarity()))
    with running(tmp_path, str(tmp_path / "rooms")) as service, Client(service.url) as client:
        assert (client.columns, client.dimensions) == (("north", "east", "south", "west"), 4)
        backwards = frame[frame.columns[::-1]]
        assert client.recall(backwards).indices.flatten().tolist() == [0, 1, 2, 3]
        client.add(backwards.iloc[:1] + 2)
        client.remove(torch.tensor([3]))
        assert client.recall(backwards.iloc[:3] + 0.1).indices.flatten().tolist() == [0, 1, 2]
        assert client.recall(backwards.iloc[:1] + 2).indices.tolist() == [[4]]
        assert {bar.name for bar in client.explain(backwards.iloc[0]).bars} >= set(frame.columns)


def test_what_others_write_is_followed(folder: Path, service: Running, memory: ahop.AssociativeMemory) -> None:
    store = ahop.open_store(folder / "phones.lance")
    number = int(store.add(memory.patterns[:1] + 7)[0])
    query = [[each + 7 for each in memory.patterns[0].nan_to_num().tolist()]]
    for _ in range(100):
        if service.recall("phones", queries=query)["ids"] == [[number]]:
            break
        time.sleep(0.1)
    else:
        pytest.fail("it was not seen")


def test_stores_of_many_parts_are_compacted(tmp_path: Path, memory: ahop.AssociativeMemory) -> None:
    store = ahop.create_store(tmp_path / "phones.lance", memory)
    for step in range(MOST_FRAGMENTS + 1):
        store.add(memory.patterns[:1] + step)
    parts = len(store.fragments())
    assert parts > MOST_FRAGMENTS
    app = create_app({"phones": Collection("phones", tmp_path / "phones.lance")}, Options(compact_seconds=0.05))
    try:
        collection, count = app.state.shared.collections["phones"], len(store)
        for _ in range(200):
            if collection.facts()["fragments"] < parts:
                break
            time.sleep(0.05)
        assert collection.facts()["fragments"] < 5
        assert len(collection.snapshot) == count
    finally:
        app.state.shared.close()


# Watching.


def test_the_last_queries_show_what_has_moved(tmp_path: Path) -> None:
    patterns = torch.rand(200, 6, generator=torch.Generator().manual_seed(0))
    variant = ahop.MixedVariant(0.05, 0.05, 0.05)
    memory = ahop.fit(patterns, pairs=variant.sample(patterns, 300, seed=1), similarity="mixture", progress=False)
    memory.save(tmp_path / "rooms.ahop")
    queries = variant.sample(patterns, 300, seed=2).queries
    with running(tmp_path, str(tmp_path / "rooms.ahop"), "--watch", "300") as made:
        assert made.ask("GET", "/collections/rooms/watch")[0] == 409, "there was no query yet"
        made.recall("rooms", queries=queries.tolist())
        before = made.ask("GET", "/collections/rooms/watch")[1]
        assert before["queries"] == 300
        assert not before["alarm"]
        assert before["accuracy"]["low"] <= before["accuracy"]["value"] <= before["accuracy"]["high"]
        queries[:, 4] += 0.6
        made.recall("rooms", queries=queries.tolist())
        after = made.ask("GET", "/collections/rooms/watch")[1]
        assert after["queries"] == 300, "the oldest are forgotten"
        assert after["alarm"]
        assert after["moved"][0]["name"] == "dimension 4"
        assert "dimension 4" in after["words"]
        with ThreadPoolExecutor(8) as pool:  # reports are made one at a time
            found = list(pool.map(lambda _: made.ask("GET", "/collections/rooms/watch")[0], range(8)))
        assert set(found) <= {200, 429}
        assert 200 in found
        assert made.ask("GET", "/collections/rooms/watch")[0] == 200


def test_nothing_is_kept_to_be_watched_unless_asked_for(service: Running) -> None:
    status, said, _ = service.ask("GET", "/collections/rooms/watch")
    assert status == 409
    assert "--watch" in said["hint"]


# Several processes.


@pytest.fixture(scope="module")
def several(folder: Path) -> Iterator[Running]:
    with running(folder, str(folder / "phones.lance"), "--workers", "2") as made:
        yield made
        assert made.end() == 0


def workers_of(service: Running) -> list[int]:
    listed = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    return [int(each) for each in listed]


def test_several_processes_only_read(several: Running, memory: ahop.AssociativeMemory) -> None:
    assert len(workers_of(several)) == 2
    assert several.recall("phones", queries=rows_of(memory, 1))["ids"] == [[0]]
    for path, body in (("add", {"patterns": rows_of(memory, 1)}), ("delete", {"ids": [0]}), ("fit", {})):
        status, said, _ = several.ask("POST", f"/collections/phones/{path}", body)
        assert status == 403
        assert "several processes" in said["error"]
    assert several.ask("GET", "/collections/phones/versions")[0] == 200


def test_several_processes_count_together(several: Running, memory: ahop.AssociativeMemory) -> None:
    def counted() -> float:
        text = several.ask("GET", "/metrics")[1].decode()
        lines = [line for line in text.splitlines() if line.startswith('ahop_queries_total{collection="phones"}')]
        return float(lines[0].split()[-1]) if lines else 0.0

    before = counted()
    for _ in range(20):
        several.recall("phones", queries=rows_of(memory, 1))
    assert counted() == before + 20


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_no_answer_is_wrong(several: Running, memory: ahop.AssociativeMemory) -> None:
    queries, wrong, stopped = rows_of(memory, 8), list[Any](), threading.Event()
    wanted = several.recall("phones", queries=queries)["ids"]

    def ask() -> None:
        while not stopped.is_set():
            try:
                status, said, _ = several.ask("POST", "/collections/phones/recall", {"queries": queries})
            except (OSError, HTTPException):
                continue  # it was being answered by the one that was killed
            if status not in (200, 429) or (status == 200 and said["ids"] != wanted):
                wrong.append((status, said))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for each in threads:
        each.start()
    try:
        for _ in range(3):
            killed = workers_of(several)
            os.kill(killed[0], signal.SIGKILL)
            started = time.monotonic()
            several.recall("phones", queries=queries)
            assert time.monotonic() - started < 10, "the other answers meanwhile"
            while len(set(workers_of(several)) - {killed[0]}) < 2:
                assert time.monotonic() - started < 30
                time.sleep(0.05)
            time.sleep(1.1)
    finally:
        stopped.set()
        for each in threads:
            each.join()
    assert not wrong


def test_workers_end_when_nobody_watches_them(folder: Path) -> None:
    with running(folder, str(folder / "phones.lance"), "--workers", "2") as made:
        numbers = workers_of(made)
        made.process.kill()
        made.process.wait()
        for _ in range(200):
            if not any(Path(f"/proc/{each}").exists() for each in numbers):
                return
            time.sleep(0.1)
        pytest.fail("they still run")


def test_what_several_processes_cannot_share_is_refused(folder: Path) -> None:
    for options in (Options(review=5), Options(watch=5), Options(create_in=folder / "other")):
        with pytest.raises(InvalidValueError, match="only read"):
            run([str(folder / "rooms.ahop")], port=0, options=options, workers=2)
    with pytest.raises(AhopError):
        run([str(folder / "rooms.ahop")], port=0, workers=0)


# The other clients.


def test_the_asynchronous_client_answers_as_the_other(service: Running, memory: ahop.AssociativeMemory) -> None:
    async def ask() -> list[list[int]]:
        async with await AsyncClient.open(service.url, "rooms", connections=4) as client:
            answers = await asyncio.gather(*(client.recall(memory.patterns[row : row + 1]) for row in range(8)))
            assert str(await client.explain(memory.patterns[0]))
            assert (await client.inspect())["name"] == "rooms"
            assert (await client.link(memory.patterns[:3]))["ids"] == [0, 1, 2]
            return [each.indices[:, 0].tolist() for each in answers]

    assert asyncio.run(ask()) == [[row] for row in range(8)]


def test_the_client_recalls_where_torch_cannot_be_imported(service: Running, memory: ahop.AssociativeMemory) -> None:
    script = f"""
import sys
sys.modules["torch"] = None  # as if it were not installed
import numpy as np
from ahop.client import Client
with Client({service.url!r}, "rooms") as client:
    answer = client.recall(np.array({memory.patterns[:2].nan_to_num().tolist()!r}), k=2)
    print(type(answer.indices).__name__, *answer.indices[:, 0], answer.confidence.shape, answer.patterns.dtype)
    print(answer.mass([row % 2 for row in range(len(client))]).best.tolist())
    print(client.explain(answer.patterns[0, 0]).answer)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["ndarray 0 1 (2,) float32", "[0, 1]", "0"], done.stderr


def test_an_assistant_can_recall_explain_and_confirm(service: Running, memory: ahop.AssociativeMemory) -> None:
    mcp = pytest.importorskip("mcp")
    from mcp.client.stdio import stdio_client

    parameters = mcp.StdioServerParameters(command=sys.executable, args=["-m", "ahop.client.mcp", service.url, "rooms"])
    query = rows_of(memory, 2)[1]

    async def ask() -> None:
        async with stdio_client(parameters) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            tools = [each.name for each in (await session.list_tools()).tools]
            assert tools == ["recall", "explain", "confirm", "health"]

            async def call(name: str, **fields: Any) -> Any:
                found = await session.call_tool(name, fields)
                text = found.content[0].text
                return json.loads(text) if text.startswith("{") else text

            assert (await call("recall", query=query, k=2))["answers"][0]["id"] == 1
            assert "For it" in await call("explain", query=query)
            before = (await call("health"))["pairs"]
            assert "Thank you" in await call("confirm", query=query, id=1)
            assert (await call("health"))["pairs"] == before + 1

    asyncio.run(ask())


def test_traces_are_sent_where_the_environment_says(
    folder: Path, memory: ahop.AssociativeMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    received = list[Any]()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    collector = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    trace = "0af7651916cd43dd8448eb211c80319c"
    try:
        with running(folder, str(folder / "rooms.ahop")) as made:
            headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
            body = {"queries": rows_of(memory, 2)}
            assert made.ask("POST", "/collections/rooms/recall", body, headers)[0] == 200
            assert made.end() == 0
    finally:
        collector.shutdown()
        collector.server_close()
    spans = [
        span
        for request in received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    (span,) = [each for each in spans if each.name == "/collections/{name}/recall"]
    assert span.trace_id.hex() == trace, "it belongs to the trace of who asked"
    facts = {each.key: each.value for each in span.attributes}
    assert facts["queries"].int_value == 2
    assert facts["status"].int_value == 200
