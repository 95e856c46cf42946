"""Shards answer together as one memory does, in one process: cut, merged, asked in jobs that are killed and resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import ahop
from ahop._core import optional
from ahop.errors import (
    AhopError,
    DataNotFoundError,
    FileFormatError,
    InvalidTypeError,
    InvalidValueError,
    MissingPackageError,
    ShapeError,
    UnsupportedError,
)
from ahop.scale.cluster import LocalCluster, ShardOptions, connect, recall_dataset
from ahop.scale.cluster.messages import MESSAGE_BYTES, MESSAGE_ROWS, message_blocks
from ahop.scale.cluster.query_table import QueryTable
from ahop.scale.cluster.ray_access import refuse_open_ray
from ahop.scale.cluster.router import ReplicaSet
from ahop.scale.cluster.spec import read_shard, shard_specs
from ahop.scale.indexes.lifted_candidates import lift_for_candidates
from ahop.scale.stores import Store, create_store, open_store
from ahop.scale.stores.stored_index import CACHE

pytest.importorskip("lance")
arrow = optional.pyarrow()
parquet = optional.parquet()

COUNT, DIMENSIONS = 600, 8
MEMORIES = ["euclidean", "mixture", "footprint", "sparse", "unknown"]


def patterns(count: int = COUNT) -> torch.Tensor:
    return 2 * torch.rand(count, DIMENSIONS, generator=torch.Generator().manual_seed(0)) - 1


def memory(kind: str) -> ahop.AssociativeMemory:
    stored = patterns()
    if kind == "euclidean":
        return ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity(), ahop.Softmax(beta=5.0))
    if kind == "footprint":
        return ahop.AssociativeMemory(stored)
    if kind == "sparse":
        return ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity(), ahop.separations.Sparsemax(beta=5.0))
    similarity = "mixture" if kind == "mixture" else "euclidean"
    pairs = ahop.MixedVariant(0.2, 0.1, 0.1).sample(stored, 64, seed=1)
    fitted = ahop.fit(stored, pairs=pairs, similarity=similarity, progress=False)
    if kind == "mixture":
        fitted.detector = None
    return fitted


def a_store(folder: Path, kind: str = "euclidean", fragment_rows: int = 250) -> Store:
    ids = 7 * torch.arange(COUNT).flip(0)
    columns = {"floor": torch.arange(COUNT) % 3, "name": [f"n{number % 5}" for number in range(COUNT)]}
    return create_store(folder / "patterns.lance", memory(kind), ids, columns, fragment_rows=fragment_rows)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return a_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def queries() -> torch.Tensor:
    return ahop.NoisyVariant(0.02).sample(patterns(), 50, seed=3).queries


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, COUNT, 5000])
def test_shares_are_all_rows_once_in_their_order(store: Store, count: int) -> None:
    shares = shard_specs(store, count)
    assert len(shares) == min(count, COUNT)
    sizes = {len(share) for share in shares}
    assert max(sizes) - min(sizes) <= 1
    if count < 50:
        rows = [read_shard(share) for share in shares]
        whole = store.rows()
        assert torch.equal(torch.cat([each.ids for each in rows]), whole.ids)
        assert torch.equal(torch.cat([each.patterns for each in rows]), whole.patterns)


def test_shares_know_rows_that_are_gone(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.remove(7 * torch.arange(200, 400))
    shares = shard_specs(store, 3)
    assert sum(map(len, shares)) == 400
    rows = torch.cat([read_shard(share).ids for share in shares])
    assert torch.equal(rows, store.rows().ids)


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("shards", [1, 4])
def test_shards_answer_as_the_store_does(kind: str, shards: int, queries: torch.Tensor, tmp_path: Path) -> None:
    store = a_store(tmp_path, kind)
    expected = store.recall(queries, k=3)
    with LocalCluster(store, shards, threads=2) as found:
        answer = found.recall(queries, k=3)
        assert len(found) == COUNT
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.patterns, expected.patterns)
    assert_close(answer.posterior, expected.posterior, atol=2e-3, rtol=2e-2)
    assert (answer.unknown is None) == (expected.unknown is None)
    if expected.unknown is not None and answer.unknown is not None:
        assert_close(answer.unknown, expected.unknown, atol=0.1, rtol=0)


@pytest.mark.parametrize("where", [{"floor": 1}, {"floor": [0, 2], "name": "n3"}, {"id": [7, 14, 21]}, {"name": "no"}])
def test_only_rows_that_pass_a_filter_are_answered(
    store: Store, queries: torch.Tensor, where: dict[str, object]
) -> None:
    expected = store.recall(queries, 4, where=where)
    with LocalCluster(store, 3) as shards:
        for _ in range(2):  # the second time from what is kept
            answer = shards.recall(queries, 4, where=where)
            assert torch.equal(answer.indices, expected.indices)
            assert_close(answer.posterior, expected.posterior, atol=2e-3, rtol=2e-2)
        with pytest.raises(InvalidValueError, match="`where` names 'door'"):
            shards.recall(queries, where={"door": 1})


def test_queries_may_have_gaps_and_more_may_be_asked_for_than_there_is(store: Store) -> None:
    queries = patterns(5).numpy()
    queries[:, 2] = np.nan
    with LocalCluster(store, 4) as shards:
        answer = shards.recall(queries, k=10 * COUNT)
        nothing = shards.recall(queries[:0], k=2)
    assert isinstance(answer.indices, np.ndarray)
    assert answer.indices.shape == (5, COUNT)
    assert np.array_equal(answer.indices[:, 0], 7 * (COUNT - 1 - np.arange(5)))
    assert answer.posterior.sum(-1) == pytest.approx(1, abs=2e-3)
    assert nothing.indices.shape == (0, 2)
    assert nothing.patterns.shape == (0, 2, DIMENSIONS)


def test_of_equals_the_lower_number_is_answered_wherever_it_lies(tmp_path: Path) -> None:
    same = torch.ones(40, DIMENSIONS)
    equal = ahop.AssociativeMemory(same, ahop.EuclideanSimilarity())
    store = create_store(tmp_path / "equal.lance", equal, ids=torch.arange(40).flip(0))
    with LocalCluster(store, 4) as shards:
        answer = shards.recall(same[:2], k=3)
    assert answer.indices.tolist() == [[0, 1, 2]] * 2 or answer.indices[0].tolist() == sorted(
        answer.indices[0].tolist()
    )
    assert_close(answer.posterior, torch.full((2, 3), 1 / 40), atol=1e-4, rtol=0)


@given(count=st.integers(0, 5000), dimensions=st.integers(1, 4096), k=st.integers(1, 1000), shards=st.integers(1, 64))
def test_messages_are_small_and_hold_every_query_once(count: int, dimensions: int, k: int, shards: int) -> None:
    cuts = list(message_blocks(count, dimensions, k, shards))
    assert [row for cut in cuts for row in range(cut.start, cut.stop)] == list(range(count))
    for cut in cuts:
        rows = cut.stop - cut.start
        assert rows <= MESSAGE_ROWS
        assert rows == 1 or 4 * rows * k * dimensions * shards <= MESSAGE_BYTES


def test_an_index_is_found_again_and_built_anew_where_its_file_is_damaged(
    tmp_path: Path, queries: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = a_store(tmp_path)
    with LocalCluster(store, 2) as shards:
        expected = shards.recall(queries, 2)
    files = sorted((tmp_path / "patterns.lance" / CACHE).glob("*.shard"))
    assert len(files) == 2
    files[0].write_bytes(files[0].read_bytes()[:-9])
    built = []

    def counted(*given: Any, **named: Any) -> Any:
        built.append(1)
        return lift_for_candidates(*given, **named)

    monkeypatch.setattr("ahop.scale.cluster.shard.lift_for_candidates", counted)
    with LocalCluster(store, 2) as shards:
        answer = shards.recall(queries, 2)
    assert built == [1]
    assert torch.equal(answer.indices, expected.indices)
    assert torch.equal(answer.posterior, expected.posterior)


def test_the_least_busy_replica_is_asked_and_not_the_one_that_just_failed() -> None:
    team = ReplicaSet(["a", "b", "c"])
    taken = [team.take() for _ in range(3)]
    assert [each.handle for each in taken] == ["a", "b", "c"]
    team.give_back(taken[1], has_failed=True)
    team.give_back(taken[2])
    assert team.take().handle == "c"
    assert team.take(besides=taken[0]).handle == "c"


def test_a_replica_that_keeps_people_waiting_is_left_alone_until_it_answers() -> None:
    team = ReplicaSet(["a", "b"])
    slow = team.take()
    team.avoid(slow)
    team.give_back(slow)  # somebody else has answered
    others = [team.take() for _ in range(3)]
    assert {each.handle for each in others} == {"b"}
    team.give_back(slow, has_failed=False)
    assert team.take().handle == "a"


# Jobs.


def write_queries(path: Path, queries: torch.Tensor, **columns: object) -> None:
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(queries.numpy().reshape(-1)), queries.shape[1])
    parquet.write_table(arrow.table({**columns, "query": lists}), path, row_group_size=1000)


def parts_of(folder: Path) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """Names, numbers and posteriors of all parts, in the order of their files."""
    tables = [parquet.read_table(file) for file in sorted(folder.glob("part-*.parquet"))]
    whole = arrow.concat_tables(tables)
    k = whole.schema.field("indices").type.list_size
    numbers = (np.asarray(whole[name].combine_chunks().flatten()).reshape(-1, k) for name in ("indices", "posterior"))
    return whole["id"].to_pylist(), *numbers


def test_a_job_answers_every_query_of_a_table(store: Store, tmp_path: Path) -> None:
    queries = ahop.NoisyVariant(0.02).sample(patterns(), 2500, seed=5).queries
    write_queries(tmp_path / "q.parquet", queries, id=[f"query {row}" for row in range(2500)])
    done = recall_dataset(store, tmp_path / "q.parquet", tmp_path / "out", k=2, batch_size=400, progress=False)
    assert (done.queries, done.parts, done.kept) == (2500, 8, 0)  # no block crosses a group of 1000 rows
    names, numbers, posterior = parts_of(done.folder)
    assert names == [f"query {row}" for row in range(2500)]
    expected = store.recall(queries, k=2)
    assert np.array_equal(numbers, expected.indices.numpy())
    assert posterior == pytest.approx(expected.posterior.numpy(), abs=5e-3)
    again = recall_dataset(store, tmp_path / "q.parquet", tmp_path / "out", k=2, batch_size=400, progress=False)
    assert again.kept == again.parts == 8
    with pytest.raises(InvalidValueError, match="differs in k"):
        recall_dataset(store, tmp_path / "q.parquet", tmp_path / "out", k=3, batch_size=400, progress=False)


def test_a_job_stays_with_the_version_it_began_with(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    write_queries(tmp_path / "q.parquet", patterns(100))
    job = partial(recall_dataset, queries=tmp_path / "q.parquet", out=tmp_path / "out", batch_size=50, progress=False)
    first = job(store)
    _, expected, _ = parts_of(first.folder)
    store.upsert(patterns(100), torch.arange(10_000, 10_100), {"floor": [9] * 100, "name": ["new"] * 100})
    (first.folder / "part-00000001.parquet").unlink()
    (first.folder / ".part-00000001.parquet.half").write_bytes(b"half")
    again = job(open_store(store.location.address))
    assert (again.version, again.kept) == (first.version, 1)
    names, numbers, _ = parts_of(again.folder)
    assert names == list(range(100))  # without a column of names, rows have numbers
    assert np.array_equal(numbers, expected)
    assert not list(again.folder.glob(".*"))


def test_queries_are_read_from_columns_lists_and_lance(tmp_path: Path) -> None:
    rows = patterns(7).numpy()
    rows[2, 3] = np.nan
    columns = {f"x{number}": arrow.array(rows[:, number], from_pandas=True) for number in range(DIMENSIONS)}
    parquet.write_table(arrow.table({"id": list(range(7)), **columns}), tmp_path / "columns.parquet")
    lists = [None if number == 5 else row.tolist() for number, row in enumerate(rows)]
    parquet.write_table(arrow.table({"q": lists}), tmp_path / "lists.parquet")
    optional.lance().write_dataset(arrow.table({"q": arrow.array(lists)}), tmp_path / "lists.lance")
    for path in (tmp_path / "columns.parquet", tmp_path / "lists.parquet", tmp_path / "lists.lance"):
        table = QueryTable(path)
        found = [table.read(block) for block in table.blocks(3)]
        assert [name for names, _ in found for name in names.to_pylist()] == list(range(7))
        expected = rows.copy()
        expected[5] = rows[5] if "columns" in path.name else np.nan
        assert np.array_equal(np.concatenate([numbers for _, numbers in found]), expected, equal_nan=True)
    (tmp_path / "folder").mkdir()
    for number in (2, 1):
        write_queries(tmp_path / "folder" / f"{number}.parquet", patterns(4))
    assert [block.first for block in QueryTable(tmp_path / "folder").blocks(3)] == [0, 3, 4, 7]


def test_tables_that_hold_no_queries_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="no queries"):
        QueryTable(tmp_path / "none")
    (tmp_path / "bad.parquet").write_bytes(b"bad")
    with pytest.raises(FileFormatError, match="Parquet"):
        QueryTable(tmp_path / "bad.parquet")
    parquet.write_table(arrow.table({"a": [[1.0]], "b": [[1.0]]}), tmp_path / "two.parquet")
    with pytest.raises(InvalidTypeError, match="several columns of lists"):
        QueryTable(tmp_path / "two.parquet")
    parquet.write_table(arrow.table({"a": [[1.0], [1.0, 2.0]]}), tmp_path / "ragged.parquet")
    ragged = QueryTable(tmp_path / "ragged.parquet")
    with pytest.raises(ShapeError, match="one length"):
        ragged.read(ragged.blocks(10)[0])
    with pytest.raises(InvalidTypeError, match="`columns`"):
        QueryTable(tmp_path / "two.parquet", columns=["c"])
    write_queries(tmp_path / "narrow.parquet", torch.zeros(3, 2))
    with pytest.raises(ShapeError, match=r"shape \(b, 8\)"):
        recall_dataset(store, tmp_path / "narrow.parquet", tmp_path / "out", progress=False)
    (tmp_path / "out" / "_job.json").write_text("[]")
    with pytest.raises(FileFormatError, match="does not describe a job"):
        recall_dataset(store, tmp_path / "narrow.parquet", tmp_path / "out", progress=False)


@pytest.mark.slow
def test_a_job_that_is_killed_goes_on_and_loses_and_doubles_nothing(store: Store, tmp_path: Path) -> None:
    count = 40_000
    rows = torch.randint(COUNT, (count,), generator=torch.Generator().manual_seed(1))
    write_queries(tmp_path / "q.parquet", patterns()[rows], id=list(range(count)))
    job = [str(store.location.address), str(tmp_path / "q.parquet"), str(tmp_path / "out")]
    script = dedent("""
        import sys
        from ahop.scale.cluster import recall_dataset
        recall_dataset(*sys.argv[1:], batch_size=500, progress=False)
    """)
    for wanted in (5, 20):
        running = subprocess.Popen([sys.executable, "-c", script, *job])
        until = time.monotonic() + 60
        while len(list((tmp_path / "out").glob("part-*"))) < wanted and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    before = len(list((tmp_path / "out").glob("part-*")))
    assert 20 <= before < 80
    done = recall_dataset(job[0], job[1], job[2], batch_size=500, progress=False)
    assert (done.parts, done.kept) == (80, before)
    names, numbers, _ = parts_of(done.folder)
    assert names == list(range(count))
    assert np.array_equal(numbers[:, 0], 7 * (COUNT - 1 - rows.numpy()))


# Requests.

GOOD = {"queries": [[0.5, None, -1, 0, 1e300, 2**200, 0.25, 0]], "k": 3, "where": {"floor": [1, 2]}}


def read_request(body: bytes, dimensions: int) -> Any:
    """Read a request as a service does, whatever it answers from."""
    pytest.importorskip("fastapi")
    pytest.importorskip("prometheus_client")
    from ahop.service import Limits
    from ahop.service.request import RecallBody, read_body, recall_request

    return recall_request(read_body(RecallBody, body), dimensions, Limits())


def test_a_request_is_read() -> None:
    question = read_request(json.dumps(GOOD).encode(), 8)
    assert question.queries.shape == (1, 8)
    assert question.queries[0, 1].isnan()
    assert question.queries[0, 2:].isfinite().all()
    assert (question.k, question.where) == (3, {"floor": [1, 2]})
    assert read_request(b'{"queries": []}', 8).queries.shape == (0, 8)


BAD = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[1]",
    b"null",
    b'{"queries": null}',
    b'{"queries": 3}',
    b'{"queries": [1]}',
    b'{"queries": [[1]]}',
    b'{"queries": [[1,2,3,4,5,6,7,"8"]]}',
    b'{"queries": [[1,2,3,4,5,6,7,true]]}',
    b'{"queries": [[1,2,3,4,5,6,7,[8]]]}',
    b'{"queries": [[1,2,3,4,5,6,7,NaN]]}',
    b'{"queries": [[1,2,3,4,5,6,7,-Infinity]]}',
    b'{"queries": [[1,2,3,4,5,6,7,1e999]]}',
    b'{"queries": [], "k": 0}',
    b'{"queries": [], "k": 1000000000000}',
    b'{"queries": [], "k": 1.5}',
    b'{"queries": [], "k": true}',
    b'{"queries": [], "K": 1}',
    b'{"queries": [], "where": 3}',
    b'{"queries": [], "where": {"floor": [[1]]}}',
    b'{"queries": [], "where": {"floor": {}}}',
    b"[" * 100_000,
    b'{"queries": [], "k": ' + b"9" * 10_000 + b"}",
    b'{"queries": [' + b"[]," * 1024 + b"[]]}",
]


@pytest.mark.parametrize("body", BAD, ids=lambda body: repr(body[:40]))
def test_requests_that_make_no_sense_are_refused_with_a_sentence(body: bytes) -> None:
    with pytest.raises(AhopError) as error:
        read_request(body, 8)
    assert str(error.value).endswith((".", "'"))
    assert len(str(error.value)) < 500


@given(
    body=st.binary() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_request_does_harm(body: bytes) -> None:
    for wrapped in (body, b'{"queries": ' + body + b"}", b'{"queries": [], "where": ' + body + b"}"):
        try:
            read_request(wrapped, 2)
        except AhopError:
            continue


def test_without_ray_its_name_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"ahop\[cluster\]"):
        connect(store)


def test_options_are_checked() -> None:
    with pytest.raises(InvalidValueError, match="`candidates`"):
        ShardOptions(candidates=0)


@pytest.mark.parametrize(
    ("address", "environment", "is_open"),
    [
        (None, {}, False),  # Ray asks for a token by itself
        (None, {"RAY_AUTH_MODE": "disabled"}, True),
        (None, {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}, False),
        ("127.0.0.1:6379", {"RAY_AUTH_MODE": "disabled"}, False),
        ("ray://[::1]:10001", {}, False),
        ("ray://localhost:10001", {}, False),
        ("10.0.0.5:6379", {}, True),
        ("auto", {}, True),
        ("ray://ray.example:10001", {"RAY_AUTH_MODE": "token"}, True),
        ("10.0.0.5:6379", {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "secret"}, False),
        ("10.0.0.5:6379", {"RAY_AUTH_TOKEN": "secret"}, False),
        ("10.0.0.5:6379", {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "secret"}, True),
    ],
)
def test_a_ray_that_strangers_could_use_is_refused(
    address: str | None, environment: dict[str, str], is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # no token of whoever runs this
    with pytest.raises(UnsupportedError, match="run code") if is_open else nullcontext():
        refuse_open_ray(address, environment)
