"""Feedback and fits belong to the patterns that they were given for."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import ahop

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("lance")

from ahop._core.files import digest
from ahop.errors import AhopError, InvalidValueError
from ahop.service import Collection, Limits
from ahop.service.collections.batching import BusyError
from ahop.service.collections.feedback import FILE, Feedback
from ahop.service.jobs import refit as fitting
from ahop.service.jobs.refit import Refit, Refits
from ahop.service.testing import Running, running

PATTERNS = torch.rand(60, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    ahop.create_store(tmp_path / "rooms.lance", ahop.AssociativeMemory(PATTERNS, ahop.EuclideanSimilarity()))
    return Collection("rooms", tmp_path / "rooms.lance")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Data that a fitting process is given; it learns nothing of them."""
    found, begins = dict[str, Any](), threading.Event()

    def wait(self: Refits, name: str, folder: Path) -> str:
        begins.wait(20)
        memory, told = ahop.load(folder / fitting.MEMORY), load_file(folder / fitting.GIVEN)
        found.update(patterns=memory.patterns, **told)
        raise InvalidValueError("Nothing is learned.")

    monkeypatch.setattr(Refits, "_wait", wait)
    yield {"found": found, "begins": begins}
    begins.set()


def ended(refits: Refits, name: str = "rooms") -> Refit:
    while refits.of(name)[-1].state == "running":
        time.sleep(0.01)
    return refits.of(name)[-1]


def tell(log: Feedback, collection: Collection, ids: list[int]) -> None:
    snapshot = collection.snapshot
    rows = [snapshot.row_of(each) for each in ids]
    log.add(PATTERNS[ids], ids, None, [snapshot.digest_of(row) for row in rows if row is not None])


def start(refits: Refits, collection: Collection, log: Feedback) -> Refit:
    queries, ids, groups, patterns = log.pairs()
    return refits.start(collection, (queries, ids, groups), None, None, patterns)


def test_a_pair_is_not_learned_from_where_its_row_has_another_pattern(
    collection: Collection, given: dict[str, Any], tmp_path: Path
) -> None:
    log, refits = Feedback(tmp_path / "log", 6, Limits()), Refits(60.0)
    tell(log, collection, [3, 5])
    log.add(PATTERNS[4:5], [4], None, [collection.snapshot.digest_of(3)])
    collection.remove([3])
    given["begins"].set()
    assert start(refits, collection, Feedback(tmp_path / "log", 6, Limits())).left_out == 2
    assert ended(refits).facts()["pairs"] == 1
    found = given["found"]
    assert torch.equal(found["patterns"][found["origins"]], PATTERNS[5:6])
    assert torch.equal(found["copies"], PATTERNS[5:6])


def test_nothing_is_learned_from_pairs_whose_patterns_are_gone(collection: Collection) -> None:
    log, refits = Feedback(None, 6, Limits()), Refits(60.0)
    tell(log, collection, [3])
    collection.remove([3])
    with pytest.raises(InvalidValueError, match=r"1 pair.*gone"):
        start(refits, collection, log)


def test_a_fit_sees_one_state_however_long_it_takes_to_begin(
    collection: Collection, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(tempfile.TemporaryDirectory[str]):
        def __enter__(self) -> str:
            time.sleep(0.3)  # a disk under load
            return super().__enter__()

    monkeypatch.setattr(tempfile, "TemporaryDirectory", Slow)
    log, refits = Feedback(None, 6, Limits()), Refits(60.0)
    tell(log, collection, list(range(60)))
    start(refits, collection, log)
    collection.remove([0, 7])
    given["begins"].set()
    ended(refits)
    found = given["found"]
    assert len(found["origins"]) == 60
    assert torch.equal(found["patterns"][found["origins"]], found["copies"])


def test_digests_are_of_the_numbers_and_gaps_of_a_pattern(tmp_path: Path) -> None:
    rows = torch.tensor([[1.0, float("nan"), 0.5], [1.0, 2.0, 0.5], [1.0, -float("nan"), 0.5]])
    ahop.create_store(tmp_path / "gaps.lance", ahop.AssociativeMemory(rows, ahop.EuclideanSimilarity()))
    opened = Collection("gaps", tmp_path / "gaps.lance")
    before = [opened.snapshot.digest_of(row) for row in range(3)]
    assert before[0] == before[2] != before[1]
    added = opened.add(rows[:1], None, {})[0]
    assert [added.digest_of(row) for row in range(4)] == [*before, before[0]]
    assert [opened.refresh().digest_of(row) for row in range(4)] == [*before, before[0]], "also when it is read again"


def test_pairs_of_before_are_learned_from_where_their_rows_are_there(
    collection: Collection, given: dict[str, Any], tmp_path: Path
) -> None:
    words = [json.dumps({"query": [0.5] * 6, "id": number, "group": None}) for number in (2, 1000)]
    lines = [f'{each[:-1]}, "checksum": "{digest(each.encode())[:16]}"}}\n' for each in words]
    (tmp_path / FILE).write_text("".join(lines))
    log = Feedback(tmp_path, 6, Limits())
    assert log.pairs()[1:] == ([2, 1000], None, [None, None])
    given["begins"].set()
    refits = Refits(60.0)
    assert start(refits, collection, log).pairs == 1
    ended(refits)
    assert given["found"]["origins"].tolist() == [2]
    tell(log, collection, [5])
    assert Feedback(tmp_path, 6, Limits()).pairs()[1] == [2, 1000, 5]


def test_weights_of_single_patterns_are_not_put_over_others(collection: Collection) -> None:
    isolated = ahop.AssociativeMemory(PATTERNS, ahop.similarities.IsolatedSimilarity(60, 6))
    before = collection.snapshot
    with pytest.raises(AhopError):
        collection.learn(isolated.model)
    assert collection.snapshot is before
    assert collection.refresh().version == before.version


def test_feedback_told_to_a_service_knows_its_pattern(tmp_path: Path) -> None:
    memory = ahop.AssociativeMemory(torch.arange(5.0).reshape(5, 1).repeat(1, 3), ahop.EuclideanSimilarity())
    ahop.create_store(tmp_path / "rooms.lance", memory)
    with running(tmp_path, str(tmp_path / "rooms.lance")) as service:
        pairs = {"queries": [[4.1, 4.0, 3.9]], "ids": [4]}
        assert service.ask("POST", "/collections/rooms/pairs", pairs)[0] == 201
        assert service.ask("POST", "/collections/rooms/delete", {"ids": [4]})[0] == 200
        service.ask("POST", "/collections/rooms/add", {"patterns": [[-9.0] * 3], "ids": [4]})
        status, said, _ = service.ask("POST", "/collections/rooms/fit", {"similarity": "euclidean"})
        assert status == 400
        assert "gone" in said["error"]


# How many at a time.


def test_so_many_fits_run_at_a_time_in_all_processes(
    tmp_path: Path, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    refits, others = Refits(60.0, 2), Refits(60.0, 2)
    made = list[Collection]()
    for name in ("one", "two", "three"):
        memory = ahop.AssociativeMemory(PATTERNS, ahop.EuclideanSimilarity())
        memory.save(tmp_path / f"{name}.ahop")
        made.append(Collection(name, tmp_path / f"{name}.ahop"))
    pairs = PATTERNS[:5], list(range(5)), None
    refits.start(made[0], pairs, None, None)
    others.start(made[1], pairs, None, None)
    with pytest.raises(BusyError, match="2 fits"):
        refits.start(made[2], pairs, None, None)
    code = f"""
        import torch
        from ahop.service import Collection
        from ahop.service.collections.batching import BusyError
        from ahop.service.jobs.refit import Refits
        collection, pairs = Collection("three", {str(tmp_path / "three.ahop")!r}), (torch.rand(2, 6), [0, 1], None)
        try:
            Refits(60.0, 2).start(collection, pairs, None, None)
        except BusyError:
            print("busy")
    """
    done = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "busy\n", done.stderr
    given["begins"].set()
    ended(refits, "one")
    ended(others, "two")
    assert refits.start(made[2], pairs, None, None).state == "running"
    ended(refits, "three")


def test_a_fit_ends_with_the_service_that_waits_for_it(tmp_path: Path) -> None:
    ahop.AssociativeMemory(torch.rand(4000, 64), ahop.EuclideanSimilarity()).save(tmp_path / "rooms.ahop")
    with running(tmp_path, str(tmp_path / "rooms.ahop")) as service:
        rows = torch.rand(1000, 64).tolist()
        pairs = {"queries": rows, "ids": list(range(1000))}
        assert service.ask("POST", "/collections/rooms/pairs", pairs)[0] == 201
        assert service.ask("POST", "/collections/rooms/fit", {})[0] == 202
        fits = list[int]()
        until = time.monotonic() + 30
        while not fits and time.monotonic() < until:
            fits = children(service)
            time.sleep(0.05)
        assert len(fits) == 1
        service.process.kill()
        service.process.wait()
        until = time.monotonic() + 20
        while is_running(fits[0]) and time.monotonic() < until:
            time.sleep(0.1)
        assert not is_running(fits[0])


def children(service: Running) -> list[int]:
    listed = Path(f"/proc/{service.process.pid}/task").glob("*/children")
    found = [Path(f"/proc/{each}/cmdline") for path in listed for each in path.read_text().split()]
    return [
        int(path.parent.name) for path in found if path.exists() and b"ahop.service.jobs.refit" in path.read_bytes()
    ]


def is_running(number: int) -> bool:
    stat = Path(f"/proc/{number}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_limit_of_collections_holds_for_all_who_create_at_once(tmp_path: Path) -> None:
    code = f"""
        from pathlib import Path
        from ahop.service import Limits, Options, run
        run([], port=0, options=Options(limits=Limits(collections=5), create_in=Path({str(tmp_path / "made")!r})))
    """
    outcomes = Counter[int]()
    with running(tmp_path, code=dedent(code)) as one, running(tmp_path, code=dedent(code)) as other:

        def create(number: int) -> int:
            service = (one, other)[number % 2]
            return service.ask("PUT", f"/collections/room{number}", {"patterns": [[1.0]]})[0]

        with ThreadPoolExecutor(10) as pool:
            outcomes.update(pool.map(create, range(20)))
    assert outcomes == {201: 5, 409: 15}
    assert len(list((tmp_path / "made").glob("*.lance"))) == 5


def test_workers_share_the_limits_of_one_service() -> None:
    limits = Limits(connections=100, held_bytes=100 * 2**20, unread_bytes=6 * 2**20)
    share = limits.shared_by(4)
    assert (share.connections, share.held_bytes) == (25, 25 * 2**20)
    assert share.unread_bytes == limits.answer_bytes, "one answer fits at least"
    assert Limits(connections=2).shared_by(4).connections == 1
