"""Several processes behind one port, of which one is killed under load."""

import json
import os
import signal
import threading
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import psutil


def killed(process: int, port: int, log: Path, body: bytes, trials: int) -> dict[str, Any]:
    """Kill one of the workers of a service again and again while others ask.

    Returns the longest time until a request was answered again (`back_s`) and until all workers were there again
    (`replaced_s`), and how many answers were wrong.
    """
    wanted, wrong, stopped = _answer(port, body), list[Any](), threading.Event()

    def ask() -> None:
        while not stopped.is_set():
            try:
                found = _answer(port, body)
            except (OSError, HTTPException):
                continue  # it was being answered by the one that was killed
            if found != wanted and found["status"] != 429:
                wrong.append(found)

    asking = threading.Thread(target=ask)
    asking.start()
    back, replaced = list[float](), list[float]()
    try:
        for _ in range(trials):
            there = _listening(log)
            os.kill(psutil.Process(process).children()[0].pid, signal.SIGKILL)
            started = time.monotonic()
            while True:
                try:
                    if _answer(port, body) == wanted:
                        break
                except (OSError, HTTPException):
                    pass
            back.append(time.monotonic() - started)
            while _listening(log) == there:
                time.sleep(0.01)
            replaced.append(time.monotonic() - started)
            time.sleep(1.0)
    finally:
        stopped.set()
        asking.join()
    return {"back_s": round(max(back), 3), "replaced_s": round(max(replaced), 3), "wrong": len(wrong)}


def _listening(log: Path) -> int:
    return log.read_text("utf-8").count('"listening"')


def _answer(port: int, body: bytes) -> dict[str, Any]:
    made = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        made.request("POST", "/collections/wifi/recall", body)
        response = made.getresponse()
        words = json.loads(response.read())
        return {"status": response.status, "ids": words.get("ids")}
    finally:
        made.close()
