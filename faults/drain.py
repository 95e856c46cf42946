"""V3: the service is asked to end while it is asked questions: whatever it accepted is answered."""

import json
import threading
import time
from http.client import HTTPException
from pathlib import Path

from ahop.service.testing import Running
from faults.campaign import CRASHES, DROPPED, Campaign, Tally
from faults.services import QUESTION, running

ASKING = 3


def chunk(number: int, folder: Path) -> Tally:
    tally, answered = Tally(trials=1), list[int]()
    with running(folder) as service:
        asking = [threading.Thread(target=_ask, args=(service, answered)) for _ in range(ASKING)]
        for each in asking:
            each.start()
        while len(answered) < 20:
            time.sleep(0.01)
        time.sleep(0.003 * (number % 50))
        started = time.monotonic()
        status = service.end()
        tally.most("seconds_to_end", round(time.monotonic() - started, 2))
        for each in asking:
            each.join()
        lines = [json.loads(line) for line in service.log.read_text("utf-8").splitlines()]
    begun = sum(line.get("route") == "/collections/{name}/recall" for line in lines)
    tally.counts["answered"] += len(answered)
    strange = {each for each in answered if each not in (200, 429)}
    if begun != len(answered) or strange:
        tally.bad(DROPPED, f"trial {number}: {begun} begun, {len(answered)} answered, {strange}")
    if status != 0:
        tally.bad(CRASHES, f"trial {number}: ended with {status}")
    return tally


def _ask(service: Running, answered: list[int]) -> None:
    """One question after the other, until nobody takes them."""
    body = json.dumps(QUESTION).encode()
    while True:
        try:
            answered.append(service.ask("POST", "/collections/rooms/recall", body)[0])
        except (OSError, HTTPException):
            return  # the port is closed: nobody accepted this one, or the log has one more than there are answers


CAMPAIGN = Campaign(
    id="V3",
    name="drain",
    goal="SIGTERM under load: every request that was accepted is answered, and the process ends",
    counted=(DROPPED, CRASHES),
    wanted=100,
    quick=1,
    chunk=chunk,
)
