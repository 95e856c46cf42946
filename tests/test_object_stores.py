"""Tables in an object store: the same code, the same answers, and writers who do not see each other."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from torch.testing import assert_close

import ahop

pytest.importorskip("lance")
pytest.importorskip("moto")

from faults.objects import server

from ahop.scale.cluster import LocalCluster
from ahop.scale.stores import Store, create_store

DIMENSIONS = 6


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with server("shelf") as found:
        yield found


@pytest.fixture
def address() -> str:
    return f"s3://shelf/{time.monotonic_ns()}.lance"


def patterns(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, DIMENSIONS, generator=torch.Generator().manual_seed(seed))


def memory(count: int = 60) -> ahop.AssociativeMemory:
    return ahop.AssociativeMemory(patterns(count), ahop.EuclideanSimilarity())


def test_a_table_far_away_answers_as_the_memory(address: str, options: dict[str, str]) -> None:
    known = memory()
    create_store(
        address, known, metadata={"floor": [row % 3 for row in range(60)]}, fragment_rows=40, storage_options=options
    )
    store = ahop.open_store(address, storage_options=options)
    assert isinstance(store, Store)
    queries = known.patterns + 0.1
    queries[0, 0] = torch.nan
    expected = known.recall(queries, k=4)
    for answer in (store.recall(queries, k=4), store.index().recall(queries, k=4)):
        assert torch.equal(answer.indices, expected.indices)
        assert_close(answer.posterior, expected.posterior, atol=1e-5, rtol=1e-5)
    together = LocalCluster(store, 2).recall(queries, k=4)  # each reads its own part of the table
    assert torch.equal(together.indices, expected.indices)
    assert_close(together.posterior, expected.posterior, atol=1e-5, rtol=1e-5)
    found = store.recall(queries, k=60, where={"floor": 1}).indices
    assert set(found[found >= 0].tolist()) == set(range(1, 60, 3))


def test_versions_are_kept_far_away(address: str, options: dict[str, str]) -> None:
    store = create_store(address, memory(), storage_options=options)
    assert store.add(patterns(2, seed=1)).tolist() == [60, 61]
    store.remove(torch.tensor([0, 60]))
    store.upsert(torch.zeros(1, DIMENSIONS), torch.tensor([5]))
    again = ahop.open_store(address, storage_options=options)
    assert isinstance(again, Store)
    assert sorted(again.rows().ids.tolist()) == [*range(1, 60), 61]
    assert again.recall(torch.zeros(1, DIMENSIONS)).indices.item() == 5
    assert [len(store.at(each.number)) for each in store.versions()] == [60, 62, 60, 60]
    store.compact(keep=timedelta(0))
    assert len(store.versions()) == 1
    assert sorted(ahop.open_store(address, storage_options=options).rows().ids.tolist()) == [*range(1, 60), 61]


def test_an_index_of_a_table_far_away_is_kept_here(address: str, options: dict[str, str], tmp_path: Path) -> None:
    store = create_store(address, memory(), storage_options=options)
    built = store.index(cache=tmp_path)
    files = sorted(tmp_path.iterdir())
    assert files
    written = [file.stat().st_mtime_ns for file in files]
    again = store.index(cache=tmp_path)
    assert [file.stat().st_mtime_ns for file in files] == written
    queries = patterns(9, seed=3)
    assert torch.equal(built.recall(queries, k=3).indices, again.recall(queries, k=3).indices)


def test_what_is_not_there_is_told(address: str, options: dict[str, str]) -> None:
    with pytest.raises(ahop.errors.AhopError, match="`create_store` makes one"):
        ahop.open_store(address, storage_options=options)
    create_store(address, memory(), storage_options=options)
    with pytest.raises(ahop.errors.AhopError, match="already"):
        create_store(address, memory(), storage_options=options)


WRITER = """
    import json, sys
    import torch
    import ahop

    store, mark = ahop.open_store(sys.argv[1], storage_options=json.loads(sys.argv[2])), float(sys.argv[3])
    for batch in range(10):
        print(*store.add(torch.full((3, 6), mark + batch / 1e3)).tolist(), flush=True)
"""


@pytest.mark.slow
def test_three_writers_who_do_not_wait_lose_nothing(address: str, options: dict[str, str]) -> None:
    create_store(address, memory(), storage_options=options)
    marks = (1.0, 2.0, 3.0)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", dedent(WRITER), address, json.dumps(options), str(mark)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for mark in marks
    ]
    said = [process.communicate(timeout=300)[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    rows = ahop.open_store(address, storage_options=options).rows()
    assert sorted(rows.ids.tolist()) == list(range(60 + 3 * 10 * 3))
    place = {number: row for row, number in enumerate(rows.ids.tolist())}
    for mark, lines in zip(marks, said, strict=True):
        for batch, line in enumerate(lines):
            stored = rows.patterns[[place[int(number)] for number in line.split()]]
            assert_close(stored, torch.full((3, DIMENSIONS), mark + batch / 1e3))
