"""V3: the service is asked to end while it is asked and told things: whatever its log calls accepted is answered."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from ahop.scale.stores import open_store
from ahop.service import Limits
from ahop.service.collections.feedback import Feedback
from ahop.service.testing import Running
from faults import forks
from faults.campaign import CRASHES, DROPPED, LOST, PHANTOM, Campaign, Tally
from faults.services import DIMENSIONS, QUESTION, ROWS, running

ASKING, ENOUGH = 3, 20  # who ask, and the answers before it is told to end
ROW = [0.5] * DIMENSIONS
RIGHT = (200, 201, 429)


@dataclass
class Client:
    """One request after the other, each with a name of its own, until nobody takes them.

    Attributes:
        keeps: whether one connection is used for all.
        answered: status by name, of those whose answer came whole.
        ids: numbers of rows that were added, as the answers have them.
    """

    name: str
    path: str
    body: dict[str, Any]
    keeps: bool = False
    answered: dict[str, int] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)

    def run(self, service: Running) -> None:
        body, connection = json.dumps(self.body).encode(), HTTPConnection("127.0.0.1", service.port, timeout=60)
        while True:
            name = f"{self.name}-{len(self.answered)}"
            try:
                connection.request("POST", self.path, body, {"X-Request-Id": name})
                response = connection.getresponse()
                said = json.loads(response.read())  # all of it, or an error
            except (OSError, HTTPException, ValueError):
                connection.close()
                return  # the port is closed, or it was dropped: the log says which
            self.answered[name] = response.status
            self.ids += said.get("ids", []) if response.status == 201 else []
            if not self.keeps:
                connection.close()


def chunk(number: int, folder: Path) -> Tally:
    tally = Tally(trials=1)
    recall = "/collections/rooms/recall"
    clients = [Client(f"ask-{each}", recall, QUESTION, keeps=each == 0) for each in range(ASKING)]
    adding = Client("add", "/collections/phones/add", {"patterns": [ROW], "metadata": {"floor": [1]}})
    telling = Client("tell", "/collections/rooms/pairs", {"queries": [ROW], "ids": [17]})
    clients += [adding, telling]
    with running(folder, "--log-accepted") as service:
        threads = [threading.Thread(target=each.run, args=(service,)) for each in clients]
        for thread in threads:
            thread.start()
        while any(len(each.answered) < 2 for each in clients) or _answers(clients) < ENOUGH:
            time.sleep(0.01)
        time.sleep(0.003 * (number % 50))
        started = time.monotonic()
        status = service.end()
        tally.most("seconds_to_end", round(time.monotonic() - started, 2))
        for thread in threads:
            thread.join()
        lines = [json.loads(line) for line in service.log.read_text("utf-8").splitlines()]
    accepted = {line["request"] for line in lines if line["event"] == "accepted"}
    answered = {name: each for client in clients for name, each in client.answered.items()}
    tally.counts.update(accepted=len(accepted), answered=len(answered))
    strange = {each for each in answered.values() if each not in RIGHT}
    if dropped := accepted - answered.keys():
        tally.bad(DROPPED, f"trial {number}: accepted and not answered: {sorted(dropped)[:5]}")
    if strange or not accepted:
        tally.bad(DROPPED, f"trial {number}: {len(accepted)} accepted, answered by {strange}")
    if status != 0:
        tally.bad(CRASHES, f"trial {number}: ended with {status}")
    _look(tally, f"trial {number}, rows", set(adding.ids), lambda: _rows(folder))
    told = list(telling.answered.values()).count(201)
    _look(tally, f"trial {number}, pairs", set(range(told)), lambda: _pairs(folder))
    return tally


def _answers(clients: list[Client]) -> int:
    return sum(len(each.answered) for each in clients)


def _look(tally: Tally, words: str, acknowledged: set[int], look: Callable[[], list[int]]) -> None:
    """All that was accepted was answered, so what is on the disk is what was acknowledged, no more."""
    ended = forks.run(lambda say: say(json.dumps(look())))
    there = set(json.loads(ended.lines[0])) if ended.status == 0 and ended.lines else set[int]()
    tally.counts["acknowledged"] += len(acknowledged)
    if acknowledged - there:
        tally.bad(LOST, f"{words}: {sorted(acknowledged - there)[:5]} were acknowledged")
    if there - acknowledged:
        tally.bad(PHANTOM, f"{words}: {sorted(there - acknowledged)[:5]} were not acknowledged")


def _rows(folder: Path) -> list[int]:
    return [each for each in open_store(folder / "phones.lance").rows().ids.tolist() if each >= ROWS]


def _pairs(folder: Path) -> list[int]:
    return list(range(len(Feedback(folder / "rooms.ahop.service", DIMENSIONS, Limits()))))


CAMPAIGN = Campaign(
    id="V3",
    name="drain",
    goal="SIGTERM under load: each request that the log calls accepted is answered, and acknowledged writes are there",
    counted=(DROPPED, LOST, PHANTOM, CRASHES),
    wanted=100,
    quick=1,
    chunk=chunk,
)
