"""V4: the service is killed while it is told pairs and rows, and starts again: what it acknowledged is there."""

import json
import random
import threading
import time
from http.client import HTTPException
from pathlib import Path

from ahop.service.testing import Running
from faults.campaign import LOST, PHANTOM, UNANSWERED, Campaign, Tally
from faults.services import answers, running

KILLS = 5  # of a chunk, on the same files


def chunk(number: int, folder: Path) -> Tally:
    chance, tally, pairs, rows = random.Random(number), Tally(), 0, 0
    for trial in range(KILLS):
        told, added = list[int](), list[int]()
        with running(folder) as service:
            threads = [
                threading.Thread(target=_tell, args=(service, told)),
                threading.Thread(target=_add, args=(service, added)),
            ]
            for each in threads:
                each.start()
            time.sleep(chance.uniform(0.05, 1.0))
            service.process.kill()
            for each in threads:
                each.join()
        started = time.monotonic()
        with running(folder) as service:
            tally.most("seconds_to_answer", round(time.monotonic() - started, 2))
            tally.trials += 1
            words = f"chunk {number}, {trial}"
            if not answers(service):
                tally.bad(UNANSWERED, words)
            found = _count(service, "rooms", "ahop_pairs"), _count(service, "phones", "ahop_patterns")
        wanted = pairs + len(told), rows + len(added)
        tally.counts["acknowledged"] += len(told) + len(added)
        for name, there, least in zip(("pairs", "rows"), found, wanted, strict=True):
            there -= 60 if name == "rows" else 0
            if there < least:
                tally.bad(LOST, f"{words}: {least} {name} acknowledged, {there} found")
            elif there > least + 1:  # one of each may have been under way
                tally.bad(PHANTOM, f"{words}: {least} {name} acknowledged, {there} found")
        pairs, rows = found[0], found[1] - 60
    return tally


def _tell(service: Running, told: list[int]) -> None:
    body = json.dumps({"queries": [[0.1, None, 0.3, 0.9]], "ids": [17]}).encode()
    _repeat(service, "/collections/rooms/pairs", body, told)


def _add(service: Running, added: list[int]) -> None:
    body = json.dumps({"patterns": [[0.5, 0.5, 0.5, 0.5]], "metadata": {"floor": [1]}}).encode()
    _repeat(service, "/collections/phones/add", body, added)


def _repeat(service: Running, path: str, body: bytes, acknowledged: list[int]) -> None:
    while True:
        try:
            status, _, _ = service.ask("POST", path, body)
        except (OSError, HTTPException):
            return
        if status == 201:
            acknowledged.append(status)


def _count(service: Running, collection: str, name: str) -> int:
    lines = service.ask("GET", "/metrics")[1].decode().splitlines()
    return next(int(float(each.split()[-1])) for each in lines if each.startswith(f'{name}{{collection="{collection}"'))


CAMPAIGN = Campaign(
    id="V4",
    name="restarts",
    goal="the service is killed while it is told pairs and rows; when it starts again, what it acknowledged is there",
    counted=(LOST, PHANTOM, UNANSWERED),
    wanted=100,
    quick=1,
    chunk=chunk,
)
