"""Requests that are refused by their bytes alone, while too many wait."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

from ahop.service import Key, Limits, Options, create_app
from ahop.service.http.shedding import LoadShedder
from ahop.service.testing import running
from tests.recallers import fitted

SECRET, NARROW = "s" * 30, "n" * 30
KEYS = (
    Key("all", sha256(SECRET.encode()).hexdigest()),
    Key("other", sha256(NARROW.encode()).hexdigest(), collections=("other",)),
)
FULL = Limits(waiting=0)  # as if there were always too many


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shedding") / "rooms.ahop"
    fitted().save(made)
    return made


@pytest.fixture(scope="module")
def shedders(path: Path) -> Iterator[dict[str, LoadShedder]]:
    options = {"open": Options(), "full": Options(limits=FULL), "keyed": Options(limits=FULL, keys=KEYS)}
    shared = {name: create_app({"rooms": path}, each).state.shared for name, each in options.items()}
    yield {name: each.shedder for name, each in shared.items()}
    for each in shared.values():
        each.close()


def request(body: bytes = b'{"queries": []}', name: str = "rooms", verb: str = "recall", headers: str = "") -> bytes:
    head = f"POST /collections/{name}/{verb} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def test_while_there_is_room_everything_is_let_in(shedders: dict[str, LoadShedder]) -> None:
    assert shedders["open"].answer(request()) is None


def test_a_recall_is_refused_in_the_words_of_the_service(shedders: dict[str, LoadShedder]) -> None:
    answer = shedders["full"].answer(request(headers="X-Request-Id: my-own-1\r\n"))
    assert answer is not None
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    assert status == "HTTP/1.1 429 Too Many Requests"
    assert set(json.loads(body)) == {"error", "hint"}
    found = dict(line.lower().split(": ") for line in headers)
    assert found["connection"] == "close"
    assert found["x-request-id"] == "my-own-1"
    assert int(found["content-length"]) == len(body)
    assert int(found["retry-after"]) >= 1


@pytest.mark.parametrize(
    "asked",
    [
        request(name="another"),
        request(name="rooms%2f"),
        request(verb="link"),
        request()[:-1],  # the rest is on its way
        request() + b"G",  # another follows
        request().split(b"\r\n\r\n")[0],
        request().replace(b"Content-Length", b"Transfer-Encoding"),
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"",
        b"\x00" * 100,
    ],
)
def test_all_else_is_let_in(shedders: dict[str, LoadShedder], asked: bytes) -> None:
    assert shedders["full"].answer(asked) is None


def test_only_who_may_recall_is_told_that_many_wait(shedders: dict[str, LoadShedder]) -> None:
    shedder = shedders["keyed"]
    assert shedder.answer(request()) is None
    assert shedder.answer(request(headers=f"Authorization: Bearer {NARROW}\r\n")) is None
    assert shedder.answer(request(headers="Authorization: Bearer \xff\r\n")) is None
    answer = shedder.answer(request(headers=f"authorization: bearer {SECRET}\r\n"))
    assert answer is not None
    assert answer.startswith(b"HTTP/1.1 429")


def test_a_server_sheds_load_and_counts_it(path: Path, tmp_path: Path) -> None:
    code = f"""
        from ahop.service import Limits, Options
        from ahop.service.http.server import run
        run([{str(path)!r}], port=0, options=Options(limits=Limits(waiting=0)))
    """
    with running(tmp_path, code=dedent(code)) as service:
        for _ in range(3):
            assert service.raw(request()).startswith(b"HTTP/1.1 429")
        assert service.raw(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 200"
        )
        counted = service.raw(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").decode()
        assert "load shed" in service.log.read_text()
        rejected = [line for line in counted.splitlines() if "rejected_total" in line and not line.startswith("#")]
        assert [float(line.split()[-1]) for line in rejected] == [3.0]
        assert not service.failures()
