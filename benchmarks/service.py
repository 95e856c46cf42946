"""A service under load, exact and by an index: the rate that it holds, how it refuses, what slow connections cost."""

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import torch

import ahop
from ahop.service.testing import Running, running
from benchmarks._wifi import grown, places_and_scans
from benchmarks._workers import killed

COUNT, DIMENSIONS, K = 20_000, 520, 5
SCANS = 256
# The slowest of a hundred answers may take so many milliseconds.
MOST_MS = 25.0
# Requests a second that are tried, and how many times the rate that holds is too much; at least twice what it can do.
RATES, OVERLOAD = (2, 5, 10, 20, 40, 80, 120, 160, 200, 250, 300, 400, 500), 5
SLOW_SOCKETS = 400
# Throughput is measured with so many queries in a request, by so many that ask at a time.
BATCH, CLIENTS, TURNS = 8, 2, 3
SMALL_REQUEST = 34_000
# Queries whose first answer is compared with that of the memory.
AGREEING = 64


def measure(full: bool) -> dict[str, object]:
    seconds = 20.0 if full else 4.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        memory, queries = fitted(folder / "wifi.ahop")
        exact = measured(memory, queries, folder, seconds)
        indexed = measured(memory, queries, folder, seconds, "--index")
        torch_s = seconds_of_torch()
        with running(folder, str(folder / "wifi.ahop"), threads=None) as service:
            service.ask("GET", "/readyz")
            start_s = service.start_seconds - torch_s
            amplification = largest_answer(service)
        with running(folder, str(folder / "wifi.ahop"), "--workers", "2", threads=None) as service:
            one = json.loads((folder / "one.json").read_text())[0].encode()
            loss = killed(service.process.pid, service.port, service.log, one, trials=10 if full else 3)
    return {
        "patterns": COUNT,
        "dimensions": DIMENSIONS,
        **{f"exact_{name}": value for name, value in exact.items()},
        **{f"index_{name}": value for name, value in indexed.items()},
        "start_s": round(start_s, 2),
        "amplification_mb": round(amplification / 2**20, 3),
        "worker_killed_back_s": loss["back_s"],
        "worker_killed_replaced_s": loss["replaced_s"],
        "worker_killed_wrong_answers": loss["wrong"],
    }


def measured(
    memory: ahop.AssociativeMemory, queries: torch.Tensor, folder: Path, seconds: float, *arguments: str
) -> dict[str, object]:
    """The rate that a service holds, then five times as much, then slow sockets beside it."""
    with running(folder, str(folder / "wifi.ahop"), *arguments, threads=None) as made:
        port, process = made.port, made.process.pid
        alone, service = throughputs(memory, queries, port, folder, seconds / TURNS)
        held = {"rate": 0, **ask(port, folder, rate=RATES[0], seconds=seconds)}
        for rate in RATES:
            found = ask(port, folder, rate=rate, seconds=seconds)
            if found["p99_ms"] > MOST_MS or found["rejected"]:
                break
            held = {"rate": rate, **found}
        before = psutil.Process(process).memory_info().rss
        too_much = max(OVERLOAD * held["rate"], 2 * service)
        crowd = ask(port, folder, rate=too_much, seconds=seconds)
        slow = with_slow_sockets(port, folder, max(RATES[0], held["rate"]), seconds)
        memory_ratio = psutil.Process(process).memory_info().rss / before
        rows = as_json(queries[:AGREEING])
        answered = [
            made.recall("wifi", queries=rows[start : start + BATCH])["ids"] for start in range(0, AGREEING, BATCH)
        ]
    first = torch.tensor(answered).flatten()
    return {
        "agrees": round(float((first == memory.recall(queries[:AGREEING]).indices[:, 0]).double().mean()), 4),
        "rate": held["rate"],
        "p50_ms": held["p50_ms"],
        "p99_ms": held["p99_ms"],
        "errors": held["errors"] + crowd["errors"] + slow["errors"],
        "overload_rate": round(too_much, 1),
        "overload_answered": crowd["answered"],
        "overload_rejected": crowd["rejected"],
        "overload_p99_ms": crowd["p99_ms"],
        "reject_p99_ms": crowd["reject_p99_ms"],
        "queries_a_second_in_process": round(alone, 1),
        "queries_a_second_service": round(service, 1),
        "throughput_ratio": round(service / alone, 3),
        "slow_sockets_ok": slow["errors"] == 0 and slow["answered"] > 0,
        "slow_sockets_p99_ms": slow["p99_ms"],
        "memory_ratio_after_overload": round(memory_ratio, 3),
    }


def fitted(path: Path) -> tuple[ahop.AssociativeMemory, torch.Tensor]:
    """A memory of the places of a city, learned from 30 scans of a phone, and other scans of it."""
    places, pairs = places_and_scans(30 + SCANS)
    taught = ahop.Pairs(pairs.origins[:30], pairs.queries[:30])
    learned = ahop.fit(places, pairs=taught, progress=False)
    memory, queries = ahop.AssociativeMemory(grown(places, COUNT), model=learned.model), pairs.queries[30:]
    memory.save(path)
    rows = as_json(queries)
    for name, size in (("one", 1), ("batch", BATCH)):
        bodies = [json.dumps({"queries": rows[start : start + size], "k": K}) for start in range(0, len(rows), size)]
        (path.parent / f"{name}.json").write_text(json.dumps(bodies))
    return memory, queries


def as_json(queries: torch.Tensor) -> list[list[float | None]]:
    """Rows with null where nothing was heard."""
    return [[None if value != value else value for value in row] for row in queries.tolist()]


def throughputs(
    memory: ahop.AssociativeMemory, queries: torch.Tensor, port: int, folder: Path, seconds: float
) -> tuple[float, float]:
    """Queries a second in this process and of the service; medians of turns, as machines are noisy."""
    alone, service = list[float](), list[float]()
    for _ in range(TURNS):
        alone.append(throughput_of(memory, queries, seconds))
        found = ask(port, folder, rate=0, seconds=seconds)
        service.append(BATCH * found["answered"] / found["seconds"])
    return median(alone), median(service)


def throughput_of(memory: ahop.AssociativeMemory, queries: torch.Tensor, seconds: float) -> float:
    """Queries a second in this process, in batches as large as the requests that the service gets."""
    memory.recall(queries[:BATCH], K)
    started, done = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        first = done % (len(queries) - BATCH)
        memory.recall(queries[first : first + BATCH], K)
        done += BATCH
    return done / (time.monotonic() - started)


def seconds_of_torch() -> float:
    """What importing torch takes, which is none of ours."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.monotonic() - started


def ask(port: int, folder: Path, rate: float, seconds: float) -> dict[str, Any]:
    """What a client in a process of its own sees."""
    command = [sys.executable, "-m", "benchmarks.service", str(port), str(folder), str(rate), str(seconds)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def with_slow_sockets(port: int, folder: Path, rate: float, seconds: float) -> dict[str, Any]:
    """The same while many connections send one byte each."""
    with ExitStack() as stack:
        for _ in range(SLOW_SOCKETS):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            made.sendall(b"P")
        return ask(port, folder, rate, seconds)


def largest_answer(service: Running) -> int:
    """Bytes that come back for a small request that asks for as much as it can."""
    row = ",".join(["0"] * DIMENSIONS)
    queries = ",".join([f"[{row}]"] * (SMALL_REQUEST // (2 * DIMENSIONS + 2)))
    largest = 0
    for k in (10, 100, 1000):
        for patterns in ("true", "false"):
            body = f'{{"queries": [{queries}], "k": {k}, "patterns": {patterns}}}'.encode()
            largest = max(largest, len(service.raw(message(body), 60.0)))
    return largest


def message(body: bytes) -> bytes:
    head = (
        f"POST /collections/wifi/recall HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}"
    )
    return head.encode() + b"\r\n\r\n" + body


async def load(port: int, bodies: list[str], rate: float, seconds: float) -> dict[str, Any]:
    """Requests at times of their own, whether or not earlier ones are answered; as fast as they are if `rate` is 0.

    The latency of a request counts from when it was due, so that a client that falls behind hides nothing.
    """
    drawn, outcomes = np.random.default_rng(0), list[tuple[int, float]]()

    async def one(number: int, due: float) -> None:
        body = bodies[number % len(bodies)].encode()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(message(body))
            answer = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            status = int(answer.split(b" ", 2)[1])
        except (OSError, TimeoutError, ValueError, IndexError):
            status = 0
        outcomes.append((status, 1000 * (time.monotonic() - due)))

    started = time.monotonic()
    if rate:
        due, tasks, number = started, list[asyncio.Task[None]](), 0
        while due < started + seconds:
            due += float(drawn.exponential(1 / rate))
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.append(asyncio.create_task(one(number, due)))
            number += 1
        await asyncio.gather(*tasks)
    else:

        async def keep_asking(first: int) -> None:
            number = first
            while time.monotonic() < started + seconds:
                await one(number, time.monotonic())
                number += 7

        await asyncio.gather(*(keep_asking(first) for first in range(CLIENTS)))
    passed = time.monotonic() - started
    answered = [latency for status, latency in outcomes if status == 200]
    rejected = [latency for status, latency in outcomes if status in (429, 503)]

    def percentile(values: list[float], share: float) -> float | None:
        return round(float(np.percentile(values, share)), 2) if values else None

    return {
        "seconds": passed,
        "answered": len(answered),
        "rejected": len(rejected),
        "errors": len(outcomes) - len(answered) - len(rejected),
        "p50_ms": percentile(answered, 50),
        "p99_ms": percentile(answered, 99) or float("inf"),
        "reject_p99_ms": percentile(rejected, 99),
    }


def main() -> None:
    port, folder, rate, seconds = int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    bodies = json.loads((folder / ("one.json" if rate else "batch.json")).read_text())
    print(json.dumps(asyncio.run(load(port, bodies, rate, seconds))))


if __name__ == "__main__":
    main()
