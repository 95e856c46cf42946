"""Random sequences of calls, held against a plain model: how a machine of hypothesis becomes trials of a campaign.

A trial is a step: one rule that was carried out, after which all promises were looked at. Arguments of rules are drawn
without a look at the state, so that the same number of a chunk gives the same steps.
"""

import json
import math
import shutil
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.reporting import with_reporter
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from ahop.errors import AhopError
from faults import forks
from faults.campaign import CRASHES, HANGS, UNANSWERED, UNTYPED, WRONG, Tally

Result = TypeVar("Result")
# Examples of one seed, and steps of an example. A broken promise ends its seed, and the next one begins.
EXAMPLES, STEPS = 21, 40
# Seconds until all seeds of a chunk must have ended, with what it takes to shorten a sequence.
PATIENCE = 3600.0
# Characters of a sequence that are kept.
TOLD = 3000
# Columns that are drawn; a machine takes as many as it needs.
WIDTH = 6
# Threads that may be there: our own, and the one that watches all progress bars of a process.
THREADS = {"MainThread", "tqdm_monitor"}
# In memory where that can be: a flush to a real disk would be most of a step.
IN_MEMORY = Path("/dev/shm")
TAME = (
    *(0.0, 1.0, -1.0, 0.5, 2.0, math.nan, 0.25, -0.5, 1.5, 3.0, 0.75, -2.0, 0.1, 1.1, -0.0, 0.3),
    *(math.nan, 0.9, 0.6, -0.7, 1.3, 2.5, 0.05, -1.2, 0.45, 1.7, -0.35, 0.8, 2.2, -3.0, math.nan, 10.0),
)
WILD = (*TAME, 1e30, -1e30, 3.4e38, -3.4e38, 1e-40, 1e19, -1e19, 1e-30, 1e300, -1e300, 65504.0, 1e-5)


class BrokenError(Exception):
    """A promise that was not kept; `outcome` is one of those that a campaign counts."""

    def __init__(self, outcome: str, words: str) -> None:
        super().__init__(f"{outcome}: {words}")
        self.outcome = outcome


class Machine(RuleBasedStateMachine):
    """What the machines share: a folder in memory, counters, and the promises about the process."""

    counts: ClassVar[Counter[str]] = Counter()
    # The first promise that was broken. Steps are counted until then: those that only shorten its sequence are none.
    broken: ClassVar[Exception | None] = None
    # Threads of the process, and of torch, before the first step.
    threads_before: ClassVar[set[threading.Thread]] = set()
    torch_threads: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__()
        self.is_idle = False
        self.folder = Path(tempfile.mkdtemp(prefix="ahop-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))

    @classmethod
    @contextmanager
    def world(cls) -> Iterator[None]:
        """What all examples of a chunk share."""
        yield

    def teardown(self) -> None:
        error = sys.exc_info()[1]
        if Machine.broken is None and isinstance(error, Exception):
            Machine.broken = error
        shutil.rmtree(self.folder, ignore_errors=True)

    @invariant()
    def a_step_was_taken(self) -> None:
        if not self.is_idle:
            self._count("steps")
        self.is_idle = False
        require(torch.get_num_threads() == Machine.torch_threads, WRONG, "the number of torch's threads was changed")
        require(torch.get_default_dtype() == torch.float32, WRONG, "torch's default precision was changed")
        began = set(threading.enumerate()) - Machine.threads_before
        left = [each.name for each in began if each.name not in THREADS]
        require(not left, WRONG, f"threads are left: {left}")

    def attempt(self, name: str, call: Callable[[], Result], is_right: bool | None) -> Result | None:
        """What a call returns; None where it is refused.

        Args:
            is_right: whether it must be answered; if not it must be refused by an error of ahop. None if both may be.
        """
        try:
            found = call()
        except AhopError as error:
            if is_right:
                raise BrokenError(UNANSWERED, f"{name} was refused: {type(error).__name__}: {error}") from error
            self._count(f"{name} refused")
            return None
        except BrokenError:
            raise
        except Exception as error:
            raise BrokenError(UNTYPED, f"{name}: {type(error).__name__}: {str(error)[:500]}") from error
        require(is_right is not False, WRONG, f"{name} took what it must refuse")
        self._count(name)
        return found

    def succeeds(self, name: str, call: Callable[[], object], is_right: bool | None) -> bool:
        """The same of calls that return nothing: whether it was done."""
        return self.attempt(name, lambda: (call(),), is_right) is not None

    def _count(self, name: str) -> None:
        if Machine.broken is None:
            Machine.counts[name] += 1


def require(is_kept: bool, outcome: str, words: str) -> None:
    if not is_kept:
        raise BrokenError(outcome, words)


def rows(most: int, least: int = 0, values: tuple[float, ...] = TAME) -> st.SearchStrategy[list[list[float]]]:
    """Rows of `WIDTH` numbers. Many are alike, some are NaN; bytes are drawn, which is fast and shortens to zeros."""

    def made(drawn: bytes) -> list[list[float]]:
        numbers = [values[each % len(values)] for each in drawn]
        return [numbers[start : start + WIDTH] for start in range(0, len(numbers) // WIDTH * WIDTH, WIDTH)]

    return st.binary(min_size=WIDTH * least, max_size=WIDTH * most + 5).map(made)


def some_rows(most: int, least: int = 0) -> st.SearchStrategy[list[list[float]]]:
    """Of moderate numbers for the most part; one in eight draws has the largest and smallest that there are."""
    tame = rows(most, least)
    return st.one_of(*[tame] * 7, rows(most, least, WILD))


def played(machine: type[Machine], number: int, seeds: int) -> Tally:
    """The seeds of a chunk, in a process of its own: a crash is seen, and nothing is left to the next."""
    ended = forks.Child(lambda say: _begin(machine, number, seeds, say)).wait(PATIENCE)
    tally = Tally()
    for line in ended.lines:
        said = json.loads(line)
        tally.trials += said["counts"].pop("steps", 0)
        tally.counts.update(said["counts"])
        for outcome, words in said["bad"]:
            tally.bad(outcome, words)
    if ended.status is None:
        tally.bad(HANGS, f"seed {number * seeds + len(ended.lines)}: no end after {PATIENCE:g} seconds")
    elif ended.status != 0:
        tally.bad(CRASHES, f"seed {number * seeds + len(ended.lines)}: ended with {ended.status}")
    return tally


def _begin(machine: type[Machine], number: int, seeds: int, say: forks.Say) -> None:
    with machine.world():
        for each in range(seeds):
            say(json.dumps(play(machine, number * seeds + each)))


def play(machine: type[Machine], number: int) -> dict[str, Any]:
    """The sequences of one seed: `counts` of steps and calls, and as `bad` what was broken by which sequence."""
    Machine.counts, Machine.broken, bad = Counter(), None, list[tuple[str, str]]()
    Machine.threads_before, Machine.torch_threads = set(threading.enumerate()), torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with with_reporter(lambda line: None):
                seed(number)(machine)
                run_state_machine_as_test(machine, settings=_settings())
        except Exception as error:
            # What comes and goes, as races do, hypothesis tells as something else: the first time counts then.
            broken = (Machine.broken or error) if isinstance(error, Flaky) else error
            outcome = broken.outcome if isinstance(broken, BrokenError) else UNTYPED
            words = f"seed {number}: {type(broken).__name__}: {broken}\n" + "\n".join(_steps(error))
            bad.append((outcome, words[:TOLD]))
    return {"counts": Machine.counts, "bad": bad}


def _steps(error: BaseException) -> list[str]:
    """The sequence that hypothesis found, without the looks between its steps."""
    inner = [_steps(each) for each in error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    lines = [line for note in getattr(error, "__notes__", ()) for line in note.splitlines()]
    return [line for line in lines if line.startswith("state.") and "()" not in line] or next(iter(inner), [])


def _settings() -> settings:
    return settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.normal,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
