"""No request stops a service, fails in it, or costs more than its limits say."""

import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import ahop

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("lance")

from ahop.errors import InvalidTypeError
from ahop.service import Limits
from ahop.service.collections.columns import Columns
from ahop.service.request import (
    MOST_IDS,
    DeleteBody,
    FitBody,
    RecallBody,
    TooLargeError,
    bound_of,
    read_body,
    recall_request,
)
from ahop.service.testing import Running, running
from tests.recallers import fitted

ROW = [0.5] * 8


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
    with running(folder, *paths, "--create-in", str(folder / "made")) as made:
        yield made


# Requests that ask for nothing.


@pytest.mark.parametrize("name", ["rooms", "phones"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"same": []},
        {"same": [], "patterns": True, "k": 3},
        {"same": [], "where": {"id": 3}},
        {"same": [], "where": {"id": -1}, "groups": []},
        {"explain": True},
        {"explain": True, "policy": {"accept_from": 0.5, "set_from": 0.9}, "patterns": True, "columns": ["id"]},
        {"same": [], "policy": {"accept_from": 0.5, "set_from": 0.9}, "columns": ["id"]},
        {"where": {"id": []}, "groups": []},
    ],
)
def test_no_queries_get_no_answers_at_once(service: Running, name: str, more: dict[str, Any]) -> None:
    started = time.monotonic()
    found = service.recall(name, queries=[], **more)
    assert time.monotonic() - started < 2.0
    assert found["ids"] == []
    assert found["posterior"] == []
    assert service.recall("rooms", queries=[ROW])["version"] == 1, "others are answered after it"


# Failures.


@pytest.mark.parametrize("origin", ["http://[x", "http://[::1", "//[", "http://a]b", "null", "http://127.0.0.1@evil"])
def test_an_origin_that_is_no_address_is_another_place(service: Running, origin: str) -> None:
    assert service.ask("GET", "/collections", headers={"Origin": origin})[0] == 403


@pytest.mark.parametrize("name", ["rooms", "phones"])
@pytest.mark.parametrize("where", [{"id": -1}, {"id": []}, {"id": None}, {"id": 10**400}])
@pytest.mark.parametrize("more", [{}, {"one_to_one": False}])
def test_a_link_among_no_rows_links_nothing(service: Running, name: str, where: Any, more: dict[str, Any]) -> None:
    status, said, _ = service.ask("POST", f"/collections/{name}/link", {"queries": [ROW, ROW], "where": where, **more})
    assert status == 200, said
    assert (said["queries"], said["ids"]) == ([], [])
    assert (said["unmatched"], said["unmatched_probability"]) == ([0, 1], [1.0, 1.0])
    assert said["unmatched_share"] == 1.0


def test_a_link_among_no_rows_cannot_have_a_share_of_origins(service: Running) -> None:
    body = {"queries": [ROW, ROW], "where": {"id": []}, "unmatched": 0.5}
    status, said, _ = service.ask("POST", "/collections/rooms/link", body)
    assert status == 400
    assert "unmatched" in said["error"]


def test_a_column_of_nothing_is_filtered_by_anything() -> None:
    columns = Columns({"floor": [None, None]}, 2)
    for wanted in (0, 1.5, True, "east", None, [0, "east"]):
        assert columns.rows({"floor": wanted}).tolist() == ([0, 1] if wanted is None else [])
    with pytest.raises(InvalidTypeError, match="floor"):
        columns.rows({"floor": {}})


def test_a_link_of_no_queries_links_nothing(service: Running) -> None:
    status, said, _ = service.ask("POST", "/collections/rooms/link", {"queries": []})
    assert status == 200, said
    assert (said["queries"], said["unmatched"]) == ([], [])


def test_the_largest_number_harms_no_later_row(service: Running) -> None:
    assert service.ask("PUT", "/collections/numbers", {"patterns": [[1.0], [2.0]]})[0] == 201
    for numbers in ([2**63 - 1], [2**63], [-1], [2**200], [1.5]):
        assert service.ask("POST", "/collections/numbers/add", {"patterns": [[3.0]], "ids": numbers})[0] < 500
    status, said, _ = service.ask("POST", "/collections/numbers/add", {"patterns": [[4.0]]})
    assert status < 500, said
    for numbers in ([2**63 - 1], [2**63], [2**200]):
        assert service.ask("POST", "/collections/numbers/delete", {"ids": numbers})[0] < 500
        pairs = {"queries": [[1.0]], "ids": numbers}
        assert service.ask("POST", "/collections/numbers/pairs", pairs)[0] < 500
    assert service.recall("numbers", queries=[[1.1]])["ids"] == [[0]]
    assert not service.failures()


@pytest.mark.parametrize("names", [["_rowid"], ["_rowaddr"], ["_rowoffset"], ["_distance"]])
def test_columns_that_a_table_cannot_have_are_refused(folder: Path, service: Running, names: list[str]) -> None:
    body = {"patterns": [[1.0]], "metadata": {name: [1] for name in names}}
    status, said, _ = service.ask("PUT", "/collections/reserved", body)
    assert status == 400, said
    assert names[-1] in said["error"]
    assert not list((folder / "made").glob("*reserved*")), "nothing is left of it"
    assert not service.failures()


def test_columns_that_differ_by_case_alone_are_two(service: Running) -> None:
    body = {"patterns": [[1.0], [2.0]], "metadata": {"A": [1, 2], "a": [3, 4]}}
    assert service.ask("PUT", "/collections/cases", body)[0] == 201
    more = {"patterns": [[9.0]], "metadata": {"A": [5], "a": [6]}}
    assert service.ask("POST", "/collections/cases/add", more)[0] == 201
    found = service.recall("cases", queries=[[9.0]], k=3, where={"a": [3, 6]}, columns=["A", "a"])
    assert found["columns"] == {"A": [[5, 1]], "a": [[6, 3]]}


def test_counters_are_told_while_collections_are_created(service: Running) -> None:
    outcomes, ends = Counter[str](), threading.Event()

    def look() -> None:
        while not ends.is_set():
            for path in ("/metrics", "/collections"):
                outcomes[f"{path} {service.ask('GET', path)[0]}"] += 1

    with ThreadPoolExecutor(3) as pool:
        looking = [pool.submit(look) for _ in range(3)]
        for number in range(15):
            body = {"patterns": [[1.0, 2.0]]}
            assert service.ask("PUT", f"/collections/counted{number}", body)[0] == 201
        ends.set()
        for each in looking:
            each.result()
    assert set(outcomes) == {"/metrics 200", "/collections 200"}, outcomes


# Bodies.


def bodies() -> dict[str, bytes]:
    """Eight million bytes each, of which a collection of eight dimensions has use for few."""
    return {
        "numbers": b'{"queries":[[' + b"1," * 4_000_000 + b"1]]}",
        "words": b'{"groups":["' + b'","'.join([b"a"] * 2_000_000) + b'"]}',
        "names": b'{"where":{' + b",".join(b'"%d":1' % each for each in range(600_000)) + b"}}",
        "lists": b'{"queries":[' + b"[]," * 2_600_000 + b"[]]}",
    }


@pytest.mark.parametrize("kind", bodies())
def test_a_body_of_too_many_values_is_refused_before_it_is_read(kind: str) -> None:
    body, started = bodies()[kind], time.process_time()
    with pytest.raises(TooLargeError, match="The body may have"):
        read_body(RecallBody, body, bound_of(Limits(), 8, 1))
    counted = time.process_time() - started
    started = time.process_time()
    json.loads(body)
    assert counted < (time.process_time() - started) / 3


def test_bodies_as_large_as_they_may_be_are_read() -> None:
    limits, row = Limits(), [0.25] * 7 + [None]
    names = [f"device, {number}" for number in range(limits.queries)]
    full = {"queries": [row] * limits.queries, "groups": names, "same": names, "k": 3, "columns": ["id"] * 100}
    full["where"] = {"id": list(range(limits.values))}
    read = read_body(RecallBody, json.dumps(full).encode(), bound_of(limits, 8, 1))
    assert len(recall_request(read, 8, limits).queries) == limits.queries
    deleted = json.dumps({"ids": list(range(2**62, 2**62 + MOST_IDS))}).encode()
    assert len(read_body(DeleteBody, deleted, bound_of(limits, 0, 0, MOST_IDS)).ids) == MOST_IDS
    learned = json.dumps({"queries": [row] * limits.pairs}).encode()
    assert len(read_body(FitBody, learned, bound_of(limits, 8, 1, limits.pairs)).queries or ()) == limits.pairs


@pytest.mark.parametrize(
    "path",
    [
        "/collections/phones/recall",
        "/collections/phones/link",
        "/collections/phones/add",
        "/collections/phones/pairs",
        "/collections/phones/delete",
        "/collections/phones/fit",
    ],
)
def test_every_route_counts_the_values_of_a_body(service: Running, path: str) -> None:
    status, said, _ = service.ask("POST", path, bodies()["numbers"])
    assert status == 413
    assert "values" in said["error"]


# Answers.


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Labels and names of dimensions of many bytes; every row is as likely as any other."""
    made = tmp_path_factory.mktemp("wordy")
    frame = pd.DataFrame(torch.rand(400, 2).numpy(), columns=["\N{GRINNING FACE}" * 5000, "é" * 5000])
    labels = [f"{number}" + "\N{GRINNING FACE}" * 1000 for number in range(400)]
    flat = ahop.Softmax(beta=1e-6)
    ahop.AssociativeMemory(frame, ahop.EuclideanSimilarity(), flat, labels=labels).save(made / "wordy.ahop")
    wide = ahop.AssociativeMemory(torch.rand(2000, 240), ahop.EuclideanSimilarity(), flat)
    wide.save(made / "wide.ahop")
    code = f"""
from ahop.service import Limits, Options, run
limits = Limits(unread_bytes=8 * 2**20, write_seconds=4.0, header_seconds=1.0)
run([{str(made / "wordy.ahop")!r}, {str(made / "wide.ahop")!r}], port=0, options=Options(limits=limits, review=100))
"""
    with running(made, code=code) as service:
        yield service


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("recall", {"k": 400}),
        ("recall", {"k": 200, "columns": ["label"]}),
        ("recall", {"k": 200, "policy": {"accept_from": 1.0, "unknown_from": 1.0, "set_from": 0.0}}),
        ("recall", {"explain": True, "queries": [[0, 0]] * 16}),
        ("recall", {"k": 400, "patterns": True, "where": {"id": list(range(400))}}),
        ("link", {"queries": [[0.001 * row, 0] for row in range(400)]}),
    ],
)
def test_answers_are_counted_in_the_bytes_that_are_sent(wordy: Running, path: str, asked: dict[str, Any]) -> None:
    sent = json.dumps({"queries": [[0, 0]], **asked}).encode()
    head = f"POST /collections/wordy/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    answer = wordy.raw(head.encode() + b"Content-Length: %d\r\n\r\n" % len(sent) + sent, 20.0)
    assert re.match(rb"HTTP/1.1 (200|413) ", answer), answer[:100]
    assert len(answer) <= Limits().answer_bytes + 1000


def test_answers_that_fit_are_given(wordy: Running) -> None:
    found = wordy.recall("wordy", queries=[[0, 0]], k=300)
    assert 3.5e6 < len(json.dumps(found)) < Limits().answer_bytes
    assert len(wordy.ask("GET", "/collections/wordy/review")[1]["review"]) >= 1


def test_values_that_json_has_not_got_are_refused_or_left_out(folder: Path, service: Running) -> None:
    body = b'{"patterns": [[1.0]], "metadata": {"height": [1e999]}}'
    assert service.ask("PUT", "/collections/heights", body)[0] == 400
    memory = ahop.AssociativeMemory(torch.eye(2), ahop.EuclideanSimilarity())
    ahop.create_store(folder / "high.lance", memory, metadata={"height": [float("inf"), 2.0]})
    with running(folder, str(folder / "high.lance")) as made:
        found = made.recall("high", queries=[[1.0, 0.1]], k=2, columns=["height"])
        assert found["columns"]["height"] == [[None, 2.0]]


def asking(service: Running) -> socket.socket:
    """A connection that asks for about 3 MB, and does not read yet."""
    body = json.dumps({"queries": [[0.5] * 240], "k": 1000, "patterns": True}).encode()
    head = b"POST /collections/wide/recall HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(20.0)
    made.connect(("127.0.0.1", service.port))
    made.sendall(head + body)
    return made


def test_answers_that_nobody_reads_are_bounded(wordy: Running) -> None:
    slow = list[socket.socket]()
    for _ in range(30):
        slow.append(asking(wordy))
        time.sleep(0.05)
    statuses = Counter(each.recv(12)[9:] for each in slow)
    assert set(statuses) == {b"200", b"429"}
    # The system takes some of each answer; what is left must fit.
    assert statuses[b"200"] < 15
    assert wordy.recall("wide", queries=[[0.5] * 240])["exhausted"] is False, "small answers are given meanwhile"
    time.sleep(5.0)  # who reads nothing is cut off
    with asking(wordy) as again:
        assert again.recv(12)[9:] == b"200"
    for each in slow:
        each.close()


def test_who_reads_slowly_gets_all_of_the_answer(wordy: Running) -> None:
    with asking(wordy) as made:
        answer = made.recv(65536)
        length = int(re.search(rb"content-length: (\d+)", answer)[1])  # type: ignore[index]
        for _ in range(5):  # for longer than headers may take
            time.sleep(0.4)
            answer += made.recv(65536)
        while len(answer.partition(b"\r\n\r\n")[2]) < length and (chunk := made.recv(2**20)):
            answer += chunk
    assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["ids"][0]) == 1000
