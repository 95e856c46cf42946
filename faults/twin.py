"""Another process that writes to the same files: forked for each change from one that has opened nothing itself."""

import json
import os
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import Pipe
from typing import Any

from ahop.errors import AhopError
from faults import forks

Change = Callable[[dict[str, Any]], Any]


class Twin:
    """Makes changes when told to, each in a process of its own, which may be killed at any moment.

    Args:
        change: makes the change that the words describe, and returns what can be said in JSON.
    """

    def __init__(self, change: Change) -> None:
        self._ours, theirs = Pipe()
        self._process = os.fork()
        if self._process == 0:
            self._ours.close()
            _listen(change, theirs)
        theirs.close()

    def ask(self, words: dict[str, Any], life: float | None = None) -> tuple[str, Any]:
        """The outcome ("done", "refused", "untyped" or "killed"), and what was returned or why it was not.

        Args:
            life: seconds until it is killed; None to let it end.
        """
        self._ours.send((words, life))
        lines, status = self._ours.recv()
        if lines:
            said: tuple[str, Any] = tuple(json.loads(lines[-1]))
            return said
        return ("killed", None) if life is not None else ("untyped", f"the process ended with {status}")

    def close(self) -> None:
        self._ours.close()
        os.waitpid(self._process, 0)


def _listen(change: Change, pipe: Any) -> None:
    """In the twin; never returns."""
    try:
        while True:
            words, life = pipe.recv()
            child = forks.Child(partial(_make, change, words))
            if life is not None:
                time.sleep(life)
                child.kill()
            ended = child.wait()
            pipe.send((ended.lines, ended.status))
    except EOFError:
        os._exit(0)
    finally:
        os._exit(1)


def _make(change: Change, words: dict[str, Any], say: forks.Say) -> None:
    say(json.dumps(_outcome(change, words)))


def _outcome(change: Change, words: dict[str, Any]) -> tuple[str, Any]:
    try:
        return "done", change(words)
    except AhopError as error:
        return "refused", f"{type(error).__name__}: {error}"
    except Exception as error:
        return "untyped", f"{type(error).__name__}: {error}"
