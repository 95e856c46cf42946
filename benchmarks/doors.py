"""Servers in front of the same application: slow sockets, overload, lost workers, ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median

import psutil
import torch

import ahop
from benchmarks.service import ask, message

COUNT, DIMENSIONS = 20_000, 520
# Connections that send one byte: fewer than a server takes at a time, and more.
FEW, MANY, TAKEN = 400, 1100, 1024
# Seconds after which a connection without headers shall be closed, and one that does not read; and a while more.
HEADERS, READS, LATER = 10, 30, 3
# Connections that read nothing of two answers of three megabytes, which is more than a system takes off a process.
READERS, DEEP = 40, 450
# Requests a second beside slow sockets, and how many times as many as are answered is too much.
RATE, OVERLOAD = 4, 5
IN_FLIGHT, TURNS, START = 8, 3, 60
OURS, SERVERS = "ours", ("ours", "uvicorn", "granian")
# A process that has loaded the application has so many bytes.
LOADED = 150 * 2**20


def measure(full: bool) -> dict[str, object]:
    seconds = 10.0 if full else 4.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder)
        rate, crowds = overloads(folder, seconds)
        found = {server: {"overload": crowd, **_alone(server, folder, seconds)} for server, crowd in crowds.items()}
        return {"patterns": COUNT, "dimensions": DIMENSIONS, "overload_rate": rate, **found}


def overloads(folder: Path, seconds: float) -> tuple[float, dict[str, dict[str, float]]]:
    """Five times as many requests as are answered, by turns, as machines are noisy; medians of the turns."""
    with ExitStack() as stack:
        ports = {server: stack.enter_context(started(server, folder))[0] for server in SERVERS}
        alone = ask(ports[OURS], folder, rate=0, seconds=seconds)
        rate = OVERLOAD * alone["answered"] / alone["seconds"]
        turns = [{server: ask(ports[server], folder, rate, seconds) for server in SERVERS} for _ in range(TURNS)]
    kept = ("answered", "rejected", "errors", "p50_ms", "p99_ms", "reject_p99_ms")
    middle = {
        server: {each: round(median([turn[server][each] or 0 for turn in turns]), 1) for each in kept}
        for server in SERVERS
    }
    return round(rate, 1), middle


def _alone(server: str, folder: Path, seconds: float) -> dict[str, object]:
    """Disturbances of one server at a time."""
    with started(server, folder) as (port, process):
        slow = {f"slow_{count}": slow_headers(port, folder, count, seconds) for count in (FEW, MANY)}
        readers = slow_readers(port, process, folder)
    with started(server, folder, 2) as (port, process):
        loss = worker_killed(port, process, folder)
        left = orphans(port, process, folder)
    with started(server, folder) as (port, process):
        end = ended(port, process, folder)
    gives_up = {"ends_where_no_worker_starts": gives_up_start(server, folder)}
    return {**slow, "slow_readers": readers, "worker_killed": loss, "end": end, **left, **gives_up}


def command(server: str, folder: Path, port: int, workers: int) -> list[str]:
    """The same limits for all, where a server has them."""
    if server == OURS:
        return ["-m", "ahop.service", str(folder / "wifi.ahop"), "--port", str(port), "--workers", str(workers)]
    if server == "uvicorn":
        limits = ["--limit-concurrency", str(TAKEN), "--timeout-keep-alive", "5", "--timeout-graceful-shutdown", "50"]
        quiet = ["--no-access-log", "--log-level", "error"]
    else:
        limits = ["--http", "1", "--no-ws", "--backlog", "2048", "--backpressure", str(TAKEN), "--interface", "asgi"]
        limits += ["--http1-header-read-timeout", str(1000 * HEADERS), "--respawn-failed-workers"]
        quiet = ["--log-level", "error", "--workers-kill-timeout", "50"]
    return ["-m", server, "benchmarks._door:app", "--port", str(port), "--workers", str(workers), *limits, *quiet]


@contextmanager
def started(server: str, folder: Path, workers: int = 1) -> Iterator[tuple[int, psutil.Process]]:
    """A server on a free port, once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "AHOP_DOOR": str(folder / "wifi.ahop")}
    with (folder / f"{server}.log").open("ab") as log:
        made = subprocess.Popen(
            [sys.executable, *command(server, folder, port, workers)], env=environment, stdout=log, stderr=log
        )
    process = psutil.Process(made.pid)
    try:
        until = time.monotonic() + 180
        while status(port, body(folder, "one")) != 200:
            if made.poll() is not None or time.monotonic() > until:
                raise RuntimeError((folder / f"{server}.log").read_text("utf-8")[-2000:])
            time.sleep(0.2)
        yield port, process
    finally:
        left = [*process.children(recursive=True), process] if made.poll() is None else []
        for each in left:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        made.wait()


def orphans(port: int, process: psutil.Process, folder: Path) -> dict[str, object]:
    """SIGKILL for the process that watches: workers that nobody watches must end, or the port is never free again."""
    left = process.children(recursive=True)
    process.kill()
    time.sleep(LATER)
    is_answered = status(port, body(folder, "one")) != 0
    for each in left:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    return {"answers_unwatched": is_answered}


def gives_up_start(server: str, folder: Path) -> bool:
    """True if a server of two workers ends where none of them can start, and says so by its code."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "AHOP_DOOR": str(folder / "damaged.ahop")}
    (folder / "damaged.ahop").write_bytes(b"damaged")
    words = [each.replace("wifi.ahop", "damaged.ahop") for each in command(server, folder, 0, 2)]
    with (folder / f"{server}.log").open("ab") as log:
        made = subprocess.Popen([sys.executable, *words], env=environment, stdout=log, stderr=log)
    try:
        return made.wait(START) != 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        for each in [*psutil.Process(made.pid).children(recursive=True)] if made.poll() is None else []:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        made.kill()
        made.wait()


def slow_headers(port: int, folder: Path, count: int, seconds: float) -> dict[str, object]:
    """Connections send one byte each. Who asks properly meanwhile, and how many are there when their time is over."""
    with ExitStack() as stack:
        made, begun = list[socket.socket](), time.monotonic()
        for _ in range(count):
            with suppress(OSError):
                each = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
                each.sendall(b"P")
                made.append(each)
        found = ask(port, folder, rate=RATE, seconds=seconds)
        time.sleep(max(0.0, begun + HEADERS + LATER - time.monotonic()))
        left = sum(map(_is_open, made))
    return {"answered": found["answered"], "failed": found["rejected"] + found["errors"], "open_after": left}


def slow_readers(port: int, process: psutil.Process, folder: Path) -> dict[str, object]:
    """Connections ask for megabytes and read nothing. Bytes that this takes, and how many are there later."""
    row = json.loads(body(folder, "one"))["queries"]
    asked = message(json.dumps({"queries": row, "k": DEEP, "patterns": True}).encode()).replace(b"close", b"keep-alive")
    before = _memory(process)
    with ExitStack() as stack:
        made, most = list[socket.socket](), before
        for _ in range(READERS):
            each = stack.enter_context(socket.socket())
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.connect(("127.0.0.1", port))
            each.sendall(asked + asked)
            made.append(each)
            time.sleep(0.25)  # as fast as they are answered: none is refused for the crowd
            most = max(most, _memory(process))
        time.sleep(2)
        most = max(most, _memory(process))
        beside = [status(port, body(folder, "one")) for _ in range(10)]
        time.sleep(READS + LATER)
        left = _held(process, port)
    return {"mb": round((most - before) / 2**20), "answered_beside": beside.count(200), "held_after": left}


def worker_killed(port: int, process: psutil.Process, folder: Path) -> dict[str, object]:
    """One of two workers is killed while four ask. Failures, the longest wait, and when two are there again."""
    content, stopped, failed, longest = body(folder, "one"), threading.Event(), list[int](), [0.0]

    def keep_asking() -> None:
        last = time.monotonic()
        while not stopped.is_set():
            if status(port, content) in (200, 429):
                longest.append(time.monotonic() - last)
                last = time.monotonic()
            else:
                failed.append(1)
                time.sleep(0.01)

    until = time.monotonic() + 120
    while len(_workers(process)) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    there = _workers(process)
    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(keep_asking) for _ in range(4)]
        time.sleep(1)
        there[0].kill()
        killed, until = time.monotonic(), time.monotonic() + 60
        while time.monotonic() < until and len([each for each in _workers(process) if each != there[0]]) < 2:
            time.sleep(0.05)
        replaced = time.monotonic() - killed
        time.sleep(1)
        stopped.set()
        for each in asking:
            each.result()
    return {"failed": len(failed), "longest_s": round(max(longest), 2), "replaced_s": round(replaced, 2)}


def ended(port: int, process: psutil.Process, folder: Path) -> dict[str, object]:
    """SIGTERM while requests are being answered. How many of them are, and how long it takes."""
    content = json.dumps({"queries": 32 * json.loads(body(folder, "one"))["queries"]}).encode()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        asked = [pool.submit(status, port, content) for _ in range(IN_FLIGHT)]
        time.sleep(0.15)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        statuses = [each.result() for each in asked]
    with suppress(psutil.TimeoutExpired):
        process.wait(60)
    return {
        "in_flight": IN_FLIGHT,
        "lost": sum(each not in (200, 429) for each in statuses),
        "seconds": round(time.monotonic() - begun, 2),
    }


def status(port: int, content: bytes) -> int:
    """Status of an answer; 0 for none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as made:
            made.sendall(message(content))
            received = b""
            while chunk := made.recv(65536):
                received += chunk
        return int(received.split(b" ", 2)[1])
    except (OSError, ValueError, IndexError):
        return 0


def body(folder: Path, name: str) -> bytes:
    return str(json.loads((folder / f"{name}.json").read_text())[0]).encode()


def _write(folder: Path) -> None:
    patterns = torch.rand(COUNT, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity()).save(folder / "wifi.ahop")
    rows = (patterns[:64] + 0.05).tolist()
    for name in ("one", "batch"):
        (folder / f"{name}.json").write_text(json.dumps([json.dumps({"queries": [row], "k": 5}) for row in rows]))


def _workers(process: psutil.Process) -> list[psutil.Process]:
    found = list[psutil.Process]()
    for each in process.children(recursive=True):
        with suppress(psutil.Error):
            if each.memory_info().rss > LOADED and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


def _memory(process: psutil.Process) -> int:
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


def _is_open(made: socket.socket) -> bool:
    """True if neither an answer nor an end has come."""
    made.setblocking(False)
    try:
        made.recv(65536)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _held(process: psutil.Process, port: int) -> int:
    """Connections that the processes of a server hold."""
    found = (each for one in (process, *process.children(recursive=True)) for each in one.net_connections("tcp"))
    return sum(each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port for each in found)
