"""A service that is told to end answers what it has accepted, and says in its log what that was."""

import json
import socket
import time
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

from ahop.service.testing import running
from tests.recallers import fitted

BODY = json.dumps({"queries": [[0.5] * 8]}).encode()


def head(name: str) -> bytes:
    lines = ["POST /collections/rooms/recall HTTP/1.1", "Host: localhost", f"X-Request-Id: {name}"]
    return "\r\n".join([*lines, f"Content-Length: {len(BODY)}", "", ""]).encode()


def test_a_body_that_comes_late_is_answered_however_short_answers_take(tmp_path: Path) -> None:
    fitted().save(tmp_path / "rooms.ahop")
    code = f"""
        from ahop.service import Limits, Options, run
        limits = Limits(answer_seconds=1.0, body_seconds=8.0)
        run([{str(tmp_path / "rooms.ahop")!r}], port=0, options=Options(limits=limits))
    """
    with (
        running(tmp_path, code=dedent(code)) as service,
        socket.create_connection(("127.0.0.1", service.port), timeout=20) as late,
    ):
        late.sendall(head("late") + BODY[:3])
        time.sleep(0.2)
        service.process.terminate()
        time.sleep(4.0)
        late.sendall(BODY[3:])
        assert late.recv(4096).startswith(b"HTTP/1.1 200")
        assert service.process.wait(20) == 0


def test_the_log_has_each_request_that_was_accepted(tmp_path: Path) -> None:
    fitted().save(tmp_path / "rooms.ahop")
    with running(tmp_path, str(tmp_path / "rooms.ahop"), "--log-accepted") as service:
        with socket.create_connection(("127.0.0.1", service.port)) as cut:
            cut.sendall(head("half")[:-5])
            time.sleep(0.1)
        with socket.create_connection(("127.0.0.1", service.port)) as whole:
            whole.sendall(head("whole"))
            until = time.monotonic() + 10
            while time.monotonic() < until and '"whole"' not in service.log.read_text("utf-8"):
                time.sleep(0.02)
            lines = [json.loads(line) for line in service.log.read_text("utf-8").splitlines()]
            assert [(line["event"], line["request"]) for line in lines if "request" in line] == [("accepted", "whole")]
            whole.sendall(BODY)
            assert whole.recv(4096).startswith(b"HTTP/1.1 200")
        assert service.end() == 0
        lines = [json.loads(line) for line in service.log.read_text("utf-8").splitlines()]
    events = [(line["event"], line["request"]) for line in lines if "request" in line]
    assert events == [("accepted", "whole"), ("request", "whole")]
