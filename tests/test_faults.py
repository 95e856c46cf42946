"""Faults and attacks in their quick form; and that what they count can be counted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from faults.campaign import LOST, UNTYPED
from faults.machines import BrokenError, Machine, play, require
from faults.steps import Disk, Step
from faults.truth import check_answer, truth
from hypothesis import strategies as st
from hypothesis.stateful import rule

import ahop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the shim and the forks are for Linux")
ROOT = Path(__file__).parent.parent
MACHINES = ("memory_machine", "store_machine", "service_machine")
QUICK = ("kills", "commit_steps", "writers", "power_loss", "disk_errors", "read_errors", "flips", "fuzz")


def step(what: str, path: str, node: int = 0, content: bytes = b"", place: int = 0, other: str = "") -> Step:
    return Step(what, node, f"/top/{path}" if path else "/top", f"/top/{other}" if other else "", place, content)


def left(*steps: Step) -> list[dict[str, bytes | None]]:
    """What cuts after these steps may leave."""
    import random

    disk = Disk(Path("/top"))
    for each in steps:
        disk.take(each)
    return [disk.after_a_cut(random.Random(seed)) for seed in range(200)]


def test_a_cut_takes_what_was_not_flushed_and_nothing_else() -> None:
    made = (step("create", "a", 5), step("write", "a", 5, b"abcd"))
    assert {} in left(*made)
    assert {"a": b"abcd"} in left(*made)
    assert {"a": b""} in left(*made, step("sync", "")), "a name without what is in it"
    assert {} in left(*made, step("sync", "a", 5)), "flushing a file does not flush its name"
    flushed = (*made, step("sync", "a", 5), step("sync", ""))
    assert all(each == {"a": b"abcd"} for each in left(*flushed))
    moved = left(*flushed, step("rename", "a", other="b"))
    assert {"a": b"abcd"} in moved
    assert {"b": b"abcd"} in moved
    assert all(len(each) == 1 for each in moved)


class Forgetful(Machine):
    """A list that forgets its first entry when it has three."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[int] = []
        self.count = 0

    @rule(number=st.integers(0, 9))
    def add(self, number: int) -> None:
        self.kept, self.count = [*self.kept, number][-2:], self.count + 1
        require(len(self.kept) == self.count, LOST, f"{self.kept} are left of {self.count}")


class Rude(Machine):
    """One that fails in words of its own where a dog comes in."""

    @rule(pet=st.sampled_from(["cat", "dog"]))
    def feed(self, pet: str) -> None:
        self.attempt("feed", lambda: {"cat": "fish"}[pet], None)


class Careful(Machine):
    """One that keeps its promises, and rests after some of them."""

    @rule(pet=st.sampled_from(["cat", "dog"]), rests=st.booleans())
    def feed(self, pet: str, rests: bool) -> None:
        self.attempt("feed", lambda: f"food of a {pet}", True)
        self.is_idle = rests


def test_a_machine_tells_the_shortest_way_to_what_it_breaks() -> None:
    for machine, outcome, steps in (
        (Forgetful, LOST, ["state.add(number=0)"] * 3),
        (Rude, UNTYPED, ["state.feed(pet='dog')"]),
    ):
        found = play(machine, 0)
        ((kind, words),) = found["bad"]
        assert kind == outcome
        assert words.splitlines()[1:] == steps
        assert found["counts"]["steps"] < 100, "steps that only shorten a sequence are no trials"


def test_the_same_number_gives_the_same_steps() -> None:
    first, second = play(Careful, 1), play(Careful, 1)
    assert first == second
    assert not first["bad"]
    assert 0 < first["counts"]["steps"] < first["counts"]["feed"]


def test_a_wrong_answer_is_told_from_a_tie() -> None:
    memory = ahop.AssociativeMemory(torch.tensor([[0.0], [1.0], [1.0], [3.0]]), ahop.EuclideanSimilarity())
    queries = torch.tensor([[0.9]])
    wanted, found = truth(memory.model, memory.patterns, queries), memory.recall(queries, 2)
    posterior = found.posterior
    check_answer("right", wanted, 2, [[1, 2]], posterior, None)
    check_answer("a tie", wanted, 2, [[2, 1]], posterior, None)
    for ids, sure in (
        ([[1, 0]], posterior),
        ([[1, 1]], posterior),
        ([[1, 2]], 1.01 * posterior),
        ([[1, 7]], posterior),
    ):
        with pytest.raises(BrokenError):
            check_answer("wrong", wanted, 2, ids, sure, None)
    with pytest.raises(BrokenError):
        check_answer("unknown", wanted, 2, [[1, 2]], posterior, [0.5])


@pytest.mark.slow
def test_random_sequences_break_no_promise() -> None:
    command = [sys.executable, "-m", "faults", "--quick", "--json", "--only", *MACHINES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    rows = {row["name"]: row for row in json.loads(done.stdout.splitlines()[-1])["rows"]}
    assert rows.keys() == set(MACHINES)
    assert all(row["bad"] == 0 and row["trials"] >= 2000 for row in rows.values())
    calls = {name: rows[name]["counts"] for name in MACHINES}
    assert (
        min(calls["memory_machine"][each] for each in ("add", "remove", "recall", "load", "copy", "index.recall")) > 0
    )
    assert min(calls["store_machine"][each] for each in ("add", "compact", "restore", "process done", "both")) > 0
    assert min(calls["service_machine"][each] for each in ("add", "delete", "pairs", "recall", "refresh")) > 0


@pytest.mark.slow
def test_nothing_that_was_tried_is_lost_wrong_or_untyped() -> None:
    command = [sys.executable, "-m", "faults", "--quick", "--json", "--only", *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = {row["name"]: row for row in json.loads(done.stdout.splitlines()[-1])["rows"]}
    assert rows.keys() == set(QUICK)
    assert all(row["bad"] == 0 and row["trials"] > 0 for row in rows.values())
    assert rows["kills"]["counts"]["acknowledged"] > 0
    assert rows["commit_steps"]["counts"]["killed"] == rows["commit_steps"]["trials"]
    assert rows["disk_errors"]["counts"]["refused"] > 0
    assert rows["read_errors"]["counts"]["refused"] > 0
    assert rows["flips"]["counts"]["refused"] > 0


@pytest.mark.slow
def test_a_service_withstands_what_is_sent_to_it() -> None:
    command = [sys.executable, "-m", "faults", "--quick", "--json", "--only", "requests", "routes", "others"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = {row["name"]: row for row in json.loads(done.stdout.splitlines()[-1])["rows"]}
    assert rows["requests"]["counts"]["answered"] > 100
    assert rows["routes"]["trials"] > 500
    assert rows["others"]["counts"]["answered"] > 20


@pytest.mark.slow
def test_a_service_ends_and_goes_on_as_it_should() -> None:
    command = [sys.executable, "-m", "faults", "--quick", "--json", "--only", "drain", "soak"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = {row["name"]: row for row in json.loads(done.stdout.splitlines()[-1])["rows"]}
    assert rows["drain"]["counts"]["accepted"] >= 20
    assert rows["drain"]["counts"]["acknowledged"] >= 4
    assert rows["soak"]["counts"]["recall 200"] > 20
    assert rows["soak"]["largest"]["resident_mb_at_the_end"] > 0
