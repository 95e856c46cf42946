"""Faults and attacks in their quick form; and that what they count can be counted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from faults.steps import Disk, Step

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the shim and the forks are for Linux")
ROOT = Path(__file__).parent.parent
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
