"""A store answers as a memory, keeps what it acknowledged, and lets many write."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core.files import digest
from ahop.errors import (
    ConflictError,
    DataNotFoundError,
    FileFormatError,
    InvalidTypeError,
    InvalidValueError,
    MissingPackageError,
    ShapeError,
    UnavailableError,
    UnsupportedError,
)
from ahop.scale.cluster import LocalCluster
from ahop.scale.indexes import build
from ahop.scale.stores import Store, create_store, open_store
from ahop.scale.stores.durability import Flusher
from ahop.scale.stores.integrity import recorded
from ahop.scale.stores.location import Location
from ahop.scale.stores.models import read_model
from ahop.scale.stores.recovery import heads
from tests.strategies import FEW, Problem, gapped_problems, problem, problems

lance = pytest.importorskip("lance")


def patterns(count: int = 60, dimensions: int = 6, seed: int = 0) -> Tensor:
    return torch.rand(count, dimensions, generator=torch.Generator().manual_seed(seed))


def euclidean(stored: Tensor) -> ahop.AssociativeMemory:
    return ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity(), ahop.Softmax(beta=4.0))


@pytest.fixture(scope="module")
def fitted() -> ahop.AssociativeMemory:
    """With a detector of unknown queries, and a similarity for each of two groups."""
    stored = patterns(200, 8)
    pairs = ahop.MixedVariant(0.1, 0.1, 0.1).sample(stored, 120, seed=1)
    memory = ahop.fit(stored, pairs=pairs, similarity="mixture", progress=False)
    memory.model = memory.model.replaced(groups={"a": ahop.EuclideanSimilarity(), "b": ahop.DotSimilarity()})
    return memory


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create_store(tmp_path / "table", euclidean(patterns()), metadata={"color": ["red", "green"] * 30})


def of_table(store: Store) -> list[int]:
    return sorted(store.rows().ids.tolist())


# It answers as a memory.


@pytest.mark.parametrize(
    "separation",
    [ahop.Softmax(4.0), ahop.separations.Sparsemax(), ahop.separations.Argmax(), ahop.separations.Power(3)],
    ids=repr,
)
@settings(max_examples=FEW)
@given(case=st.one_of(problems, gapped_problems), k=st.integers(1, 14), rows=st.integers(1, 5))
def test_a_store_answers_as_the_memory(case: Problem, k: int, rows: int, separation: Any, tmp_path: Path) -> None:
    memory = ahop.AssociativeMemory(case.patterns.float(), ahop.EuclideanSimilarity(), separation)
    address = f"memory://{time.monotonic_ns()}"
    store = create_store(address, memory, fragment_rows=rows)
    queries = case.queries.float()
    expected, answer = memory.recall(queries, k), store.recall(queries, k)
    assert answer.indices.shape == expected.indices.shape
    assert_close(answer.posterior, expected.posterior, atol=1e-5, rtol=1e-5)
    scores = memory.scores(queries)
    assert_close(scores.gather(-1, answer.indices), scores.gather(-1, expected.indices))
    assert_close(answer.patterns, memory.patterns[answer.indices], equal_nan=True)
    assert torch.equal(store.memory().patterns.nan_to_num(7), memory.patterns.nan_to_num(7))


def test_columns_go_by_their_names_in_any_order(tmp_path: Path) -> None:
    frame = pd.DataFrame(patterns(40, 4).numpy(), columns=["north", "east", "south", "west"])
    memory = euclidean(patterns(40, 4))
    named = ahop.AssociativeMemory(frame, ahop.EuclideanSimilarity(), ahop.Softmax(beta=4.0))
    create_store(tmp_path / "table", named, fragment_rows=15)
    store = open_store(tmp_path / "table")
    assert store.columns == store.memory().columns == ("north", "east", "south", "west")
    backwards = frame[frame.columns[::-1]].iloc[:9] + 0.01
    expected = memory.recall(frame.to_numpy()[:9] + np.float32(0.01), k=3)
    for recaller in (store, store.index(), store.memory(), store.at(1)):
        assert (recaller.columns, recaller.dimensions) == (tuple(frame.columns), 4)
        found = recaller.recall(backwards, k=3)
        assert np.array_equal(np.asarray(found.indices), expected.indices)
    assert store.explain(backwards.iloc[0]).bars[0].name in store.columns
    ids = store.add(backwards.iloc[:2])
    store.upsert(backwards.iloc[2:3], torch.tensor([7]))
    rows = store.rows()
    for number, place in ((int(ids[0]), 0), (int(ids[1]), 1), (7, 2)):
        assert_close(rows.patterns[rows.ids == number][0], torch.from_numpy(frame.to_numpy()[place] + np.float32(0.01)))
    store.learn(memory)  # what has no names is taken in the order it has
    store.compact(keep=timedelta(0))
    assert open_store(tmp_path / "table").columns == store.columns
    with pytest.raises(InvalidValueError, match="dimension 0 is 'north' in the table, and 'west' in the memory"):
        store.learn(ahop.AssociativeMemory(frame[frame.columns[::-1]], ahop.EuclideanSimilarity()))
    with pytest.raises(InvalidValueError, match="'up'"):
        store.recall(backwards.rename(columns={"north": "up"}))


def test_frames_are_refused_where_no_names_put_them_in_order(store: Store) -> None:
    assert store.columns is None
    frame = pd.DataFrame(patterns(2).numpy(), columns=list("abcdef"))
    with pytest.raises(InvalidTypeError, match="none here to put them in order by"):
        store.add(frame, metadata={"color": ["red", "red"]})
    store.add(frame.to_numpy(), metadata={"color": ["red", "red"]})


@pytest.mark.parametrize("names", ["[1, 2, 3, 4, 5, 6]", '["a"]', '["a", "a", "b", "c", "d", "e"]', "{", "[" * 9999])
def test_names_that_are_damaged_are_refused(names: str, tmp_path: Path) -> None:
    create_store(tmp_path / "table", euclidean(patterns()))
    table = lance.dataset(tmp_path / "table")
    table.update_schema_metadata({"ahop_dimensions": names})
    with pytest.raises(FileFormatError, match="names of the dimensions"):
        open_store(tmp_path / "table").recall(patterns(1))


def test_detectors_and_groups_answer_as_in_the_memory(fitted: ahop.AssociativeMemory, tmp_path: Path) -> None:
    store = create_store(tmp_path / "table", fitted, fragment_rows=70)
    queries = ahop.MixedVariant(0.1, 0.1, 0.1).sample(fitted.patterns, 40, seed=2).queries
    for groups in (None, ["a", "b", "c", "b"] * 10):
        expected, answer = fitted.recall(queries, k=3, groups=groups), store.recall(queries, k=3, groups=groups)
        assert torch.equal(answer.indices, expected.indices)
        assert_close(answer.posterior, expected.posterior, atol=1e-5, rtol=1e-5)
        assert expected.unknown is not None
        assert_close(answer.unknown, expected.unknown, atol=1e-5, rtol=1e-5)
    loaded = store.memory()
    assert repr(loaded.similarity) == repr(fitted.similarity)
    assert torch.equal(loaded.scores(queries), fitted.scores(queries))


def test_one_pattern_of_one_dimension_is_a_table(tmp_path: Path) -> None:
    store = create_store(tmp_path / "table", euclidean(torch.tensor([[2.0]])))
    answer = store.recall(np.array([[1.0], [np.nan]], dtype=np.float32), k=5)
    assert isinstance(answer.posterior, np.ndarray)
    assert answer.indices.tolist() == [[0], [0]]
    assert answer.posterior.tolist() == [[1.0], [1.0]]
    assert store.recall(torch.zeros(0, 1)).indices.shape == (0, 1)
    assert store.index().recall(torch.zeros(2, 1)).indices.tolist() == [[0], [0]]


def test_batches_are_walked_and_queries_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = patterns(20, seed=3)
    expected = store.recall(queries, k=4)
    monkeypatch.setattr("ahop.scale.stores.store.BATCH_BYTES", 7 * 4 * store.dimensions)
    monkeypatch.setattr("ahop.scale.stores.streaming.SCORE_BYTES", 300)
    answer = store.recall(queries, k=4)
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.posterior, expected.posterior)
    assert torch.equal(answer.patterns, expected.patterns)


def test_parts_of_a_table_are_memories(tmp_path: Path) -> None:
    memory = euclidean(patterns())
    store = create_store(tmp_path / "table", memory, ids=torch.arange(60) * 10, fragment_rows=25)
    parts = store.fragments()
    assert len(parts) == 3
    assert [len(store.rows([part])) for part in parts] == [25, 25, 10]
    rows = store.rows(parts[1:])
    assert rows.ids.tolist() == list(range(250, 600, 10))
    assert torch.equal(store.memory(parts[1:]).patterns, memory.patterns[25:])
    assert len(store.rows([])) == 0
    with pytest.raises(InvalidValueError, match="must be among"):
        store.rows([99])
    with pytest.raises(ShapeError, match="at least one pattern"):
        store.memory([])


# Rows come, change and go.


def test_rows_are_added_changed_and_removed(store: Store) -> None:
    more = patterns(3, seed=5)
    more[1, 2] = torch.nan
    assert store.add(more, metadata={"color": ["blue"] * 3}).tolist() == [60, 61, 62]
    assert store.recall(more).indices.squeeze(-1).tolist() == [60, 61, 62]
    store.upsert(more.flip(0), torch.tensor([60, 61, 99]), metadata={"color": ["gray"] * 3})
    assert store.recall(more[2:]).indices.item() in (60, 62)
    assert len(store) == 64
    assert store.add(more[:1], ids=np.array([70]), metadata={"color": ["blue"]}).tolist() == [70]
    assert store.add(more[:1], metadata={"color": ["blue"]}).tolist() == [100]
    store.remove(np.array([60, 62, 0]))
    assert of_table(store) == [*range(1, 60), 61, 70, 99, 100]
    rows = store.rows()
    assert rows.metadata["color"][rows.ids.tolist().index(61)] == "gray"
    assert rows.patterns[rows.ids.tolist().index(99)].equal(more[0])
    assert store.version == 6


def test_nothing_is_no_change(store: Store) -> None:
    nothing = torch.zeros(0, 6)
    assert store.add(nothing, metadata={"color": []}).tolist() == []
    store.upsert(nothing, torch.zeros(0, dtype=torch.long), metadata={"color": []})
    store.remove(torch.zeros(0, dtype=torch.long))
    assert store.version == 1


def test_what_does_not_fit_is_said(store: Store, tmp_path: Path) -> None:
    one, color = patterns(1), {"color": ["red"]}
    with pytest.raises(InvalidValueError, match=r"already there: 5\. `upsert`"):
        store.add(one, ids=torch.tensor([5]), metadata=color)
    with pytest.raises(InvalidValueError, match="not there: 77"):
        store.remove(torch.tensor([1, 77]))
    with pytest.raises(InvalidValueError, match="keeps at least one"):
        store.remove(torch.arange(60))
    with pytest.raises(InvalidValueError, match="there twice"):
        store.upsert(patterns(2), torch.tensor([3, 3]), metadata={"color": ["red", "red"]})
    with pytest.raises(InvalidValueError, match="zero or larger"):
        store.add(one, ids=torch.tensor([-4]), metadata=color)
    with pytest.raises(InvalidTypeError, match="Names belong into a column"):
        store.add(one, ids=torch.tensor([0.5]), metadata=color)
    with pytest.raises(ShapeError, match="one for each pattern"):
        store.add(one, ids=torch.tensor([70, 71]), metadata=color)
    with pytest.raises(ShapeError, match="d=6"):
        store.add(patterns(1, 5), metadata=color)
    with pytest.raises(InvalidValueError, match="must have the columns"):
        store.add(one)
    with pytest.raises(ShapeError, match="one for each row"):
        store.add(one, metadata={"color": ["red", "red"]})
    with pytest.raises(InvalidTypeError, match="as the rows before"):
        store.add(one, metadata={"color": [3.5]})
    with pytest.raises(ShapeError, match="6 dimensions"):
        store.learn(euclidean(patterns(3, 5)))
    assert store.version == 1
    with pytest.raises(InvalidValueError, match="must be new"):
        create_store(tmp_path / "table", euclidean(patterns()))
    with pytest.raises(InvalidValueError, match="letters, digits"):
        create_store(tmp_path / "other", euclidean(patterns(1)), metadata={"a b": [1]})
    with pytest.raises(InvalidTypeError, match="words, numbers"):
        create_store(tmp_path / "other", euclidean(patterns(1)), metadata={"a": [[1]]})
    with pytest.raises(DataNotFoundError, match="`create_store` makes one"):
        open_store(tmp_path / "nowhere")
    assert [each.name for each in tmp_path.iterdir()] == ["table"]


def test_models_with_numbers_for_each_pattern_are_refused(tmp_path: Path) -> None:
    stored = patterns(4)
    with pytest.raises(UnsupportedError, match="log_prior"):
        create_store(tmp_path / "table", ahop.AssociativeMemory(stored, log_prior=torch.zeros(4)))
    with pytest.raises(UnsupportedError, match="weights for each of its patterns"):
        create_store(tmp_path / "table", ahop.AssociativeMemory(stored, ahop.similarities.IsolatedSimilarity(4, 6)))


# Versions.


def test_a_version_is_patterns_and_model(store: Store, fitted: ahop.AssociativeMemory, tmp_path: Path) -> None:
    queries = patterns(5, seed=9)
    before = store.recall(queries)
    store.add(queries, metadata={"color": ["new"] * 5})
    store.learn(ahop.zoo.m_hop(patterns()))
    assert repr(store.model().similarity) == "DotSimilarity()"
    assert [(each.number, each.rows) for each in store.versions()] == [(1, 60), (2, 65), (3, 65)]
    assert all(before.when <= after.when for before, after in zip(store.versions(), store.versions()[1:], strict=False))
    for old in (store.at(1), open_store(tmp_path / "table", version=1)):
        assert old.version == 1
        assert torch.equal(old.recall(queries).posterior, before.posterior)
        with pytest.raises(UnsupportedError, match="only reads"):
            old.remove(torch.tensor([1]))
        with pytest.raises(UnsupportedError, match="only reads"):
            old.refresh()
    for open_it in (store.at, lambda number: open_store(tmp_path / "table", version=number)):
        with pytest.raises(InvalidValueError, match="`version` must be one of"):
            open_it(9)


def test_a_handle_stays_until_it_is_refreshed(store: Store, tmp_path: Path) -> None:
    other = open_store(tmp_path / "table")
    other.add(patterns(2), metadata={"color": ["red"] * 2})
    other.learn(ahop.zoo.m_hop(patterns()))
    assert (store.version, len(store)) == (1, 60)
    assert repr(store.model().similarity) == "EuclideanSimilarity()"
    store.refresh()
    assert (store.version, len(store)) == (3, 62)
    assert repr(store.model().similarity) == "DotSimilarity()"


def test_large_models_get_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ahop.scale.stores.models.LARGEST_IN_WORDS", 0)
    store = create_store(tmp_path / "table", euclidean(patterns()))
    store.learn(ahop.zoo.m_hop(patterns()))
    files = list((tmp_path / "table" / "_models").iterdir())
    assert len(files) == 2
    assert repr(open_store(tmp_path / "table").model().similarity) == "DotSimilarity()"
    assert repr(store.at(1).model().similarity) == "EuclideanSimilarity()"
    store.compact(keep=timedelta(0))
    (left,) = (tmp_path / "table" / "_models").iterdir()
    assert repr(open_store(tmp_path / "table").model().similarity) == "DotSimilarity()"
    left.write_bytes(left.read_bytes()[:-1] + b"?")
    with pytest.raises(FileFormatError, match="checksum"):
        open_store(tmp_path / "table").model()
    left.unlink()
    with pytest.raises(FileFormatError, match="cannot be read"):
        open_store(tmp_path / "table").model()


def test_compacting_joins_parts_and_drops_versions(store: Store, tmp_path: Path) -> None:
    for seed in range(4):
        store.add(patterns(3, seed=seed), metadata={"color": ["blue"] * 3})
    store.index()
    store.remove(torch.tensor([0, 61]))
    expected = store.recall(patterns(5, seed=8), k=3)
    store.compact()
    assert len(store.fragments()) == 1
    assert len(store.versions()) > 5
    newest = [each.number for each in store.versions()][-3:]
    store.compact(versions=3)
    assert [each.number for each in store.versions()] == newest
    store.compact(keep=timedelta(0))
    assert [each.number for each in store.versions()] == [store.version]
    assert not [each for each in (tmp_path / "table" / "_cache").iterdir() if each.name.startswith("v5")]
    again = open_store(tmp_path / "table").recall(patterns(5, seed=8), k=3)
    assert torch.equal(again.indices, expected.indices)
    assert_close(again.posterior, expected.posterior)
    assert store.add(patterns(1), metadata={"color": ["blue"]}).tolist() == [72]


def test_a_table_of_others_is_refused(tmp_path: Path) -> None:
    lance, arrow = pytest.importorskip("lance"), pytest.importorskip("pyarrow")
    lance.write_dataset(arrow.table({"id": [1]}), tmp_path / "table")
    with pytest.raises(FileFormatError, match="carries no model"):
        open_store(tmp_path / "table")
    words = {"ahop": '{"format": 9}'}
    lance.write_dataset(arrow.table({"id": [1]}).replace_schema_metadata(words), tmp_path / "newer")
    with pytest.raises(FileFormatError, match="has format 9; this release reads format 1"):
        open_store(tmp_path / "newer")


# Filters.

odd_words = st.one_of(
    st.text(max_size=6),
    st.text(alphabet="'\"\\`;-%_ \0\n", max_size=6),
    st.sampled_from(["' OR true --", "''", "\\'", "NULL", "true", "日本", "1"]),
)


@settings(max_examples=FEW)
@given(words=st.lists(odd_words, min_size=1, max_size=6), asked=st.lists(odd_words, max_size=3))
def test_words_are_filtered_by_what_they_are(words: list[str], asked: list[str]) -> None:
    store = create_store(
        f"memory://{time.monotonic_ns()}", euclidean(patterns(len(words))), metadata={"word": words, "select": words}
    )
    for wanted in ([*asked, words[0]], asked):
        right = [row for row, word in enumerate(words) if word in wanted]
        found = store.recall(patterns(1), k=len(words), where={"word": wanted, "select": set(wanted)}).indices
        assert sorted(found[found >= 0].tolist()) == right


@settings(max_examples=FEW)
@given(
    numbers=st.lists(st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1e-320, 0.1])), min_size=1, max_size=5),
    wholes=st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=5, max_size=5),
    asked=st.one_of(st.floats(), st.integers()),
)
def test_numbers_are_filtered_by_what_they_are(numbers: list[float], wholes: list[int], asked: float) -> None:
    count = len(numbers)
    columns = {"number": numbers, "whole": wholes[:count], "flag": [each > 0 for each in numbers]}
    store = create_store(f"memory://{time.monotonic_ns()}", euclidean(patterns(count)), metadata=columns)

    def rows(**where: object) -> list[int]:
        found = store.recall(patterns(1), k=count, where=where).indices
        return sorted(found[found >= 0].tolist())

    for value in (asked, numbers[0]):
        assert rows(number=value) == [row for row, each in enumerate(numbers) if each == value]
    for value in (asked, wholes[0]):
        assert rows(whole=value) == [row for row, each in enumerate(wholes[:count]) if each == value]
    assert rows(flag=True, whole=wholes) == [row for row, each in enumerate(numbers) if each > 0]
    assert rows(id=np.arange(2)) == list(range(min(2, count)))


def test_the_posterior_is_among_the_rows_that_pass(store: Store) -> None:
    queries = patterns(4, seed=2)
    answer = store.recall(queries, k=60, where={"color": "red"})
    assert bool((answer.indices[:, :30] % 2 == 0).all())
    assert bool((answer.indices[:, 30:] == -1).all())
    assert bool(answer.patterns[:, 30:].isnan().all())
    assert_close(answer.posterior.sum(-1), torch.ones(4))
    red = ahop.AssociativeMemory(store.rows().patterns[::2], ahop.EuclideanSimilarity(), ahop.Softmax(beta=4.0))
    assert_close(answer.posterior[:, :30], red.recall(queries, k=30).posterior, atol=1e-5, rtol=1e-5)
    assert bool((store.recall(queries, where={"color": []}).indices == -1).all())


def test_rows_without_a_value_are_found_by_none(tmp_path: Path) -> None:
    store = create_store(
        tmp_path / "table", euclidean(patterns(3)), metadata={"word": ["a", None, "b"], "n": [None, 1, 2]}
    )
    assert store.recall(patterns(1), k=3, where={"word": [None, "b"]}).indices.sort().values.tolist() == [[-1, 1, 2]]
    assert store.recall(patterns(1), where={"n": None}).indices.tolist() == [[0]]


def test_filters_that_make_no_sense_are_refused(store: Store) -> None:
    with pytest.raises(InvalidValueError, match="the columns are"):
        store.recall(patterns(1), where={"color` IS NULL OR `id": "red"})
    with pytest.raises(InvalidValueError, match="the columns are"):
        store.recall(patterns(1), where={"pattern": 3})
    with pytest.raises(InvalidTypeError, match="of the kind string"):
        store.recall(patterns(1), where={"color": 3})


def test_filters_name_columns(store: Store, unchecked: None) -> None:
    with pytest.raises(InvalidTypeError, match="For some rows"):
        store.recall(patterns(1), where=torch.arange(3))  # type: ignore[call-overload]


# What was acknowledged is durable.


def flushed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What goes to the disk, in its order."""
    seen: list[Path] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        seen.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the open files of a process")
@pytest.mark.parametrize("change", ["add", "upsert", "remove", "learn", "compact"])
def test_data_reach_the_disk_before_the_version_and_the_version_before_the_answer(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ahop.scale.stores.models.LARGEST_IN_WORDS", 0)
    store = create_store(tmp_path / "table", euclidean(patterns()), fragment_rows=20)
    before = {path for path in (tmp_path / "table").rglob("*") if path.is_file()}
    seen = flushed(monkeypatch)
    changes: dict[str, Callable[[], object]] = {
        "add": lambda: store.add(patterns(2)),
        "upsert": lambda: store.upsert(patterns(2), torch.tensor([3, 90])),
        "remove": lambda: store.remove(torch.tensor([7])),
        "learn": lambda: store.learn(ahop.zoo.m_hop(patterns())),
        "compact": lambda: store.compact(),
    }
    changes[change]()
    new = {path for path in (tmp_path / "table").rglob("*") if path.is_file() and path.name != ".lock"} - before
    new = {path for path in new if path.parent.name != "_checksums"}  # flushed under another name, then moved
    head = min(path for path in new if path.suffix == ".manifest")  # the newest
    late = {path for path in new if path.parent.name in ("_transactions", "_versions")}  # of the commit itself
    assert new - late <= set(seen)
    assert all(seen.index(path) < seen.index(head) for path in new - late)
    assert seen.index(head) < len(seen) - 1 - seen[::-1].index(head.parent)
    for path in new - late:
        assert path.parent in seen


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the open files of a process")
def test_a_new_table_reaches_the_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = flushed(monkeypatch)
    create_store(tmp_path / "table", euclidean(patterns()))
    files = {path.name for path in (tmp_path / "table").rglob("*") if path.is_file() and path.suffix != ".json"}
    assert files <= {path.name for path in seen}
    assert seen[-1] == tmp_path


def power_loss(flusher: Flusher) -> None:
    raise KeyboardInterrupt


def after_power_loss(table: Path, copy: Path, kept: set[Path]) -> Path:
    """A table of which only what was flushed is left: of other files the names, and nothing in them."""
    shutil.copytree(table, copy)
    for path in table.rglob("*"):
        was_flushed = path in kept or path.parent.name == "_checksums"  # these under another name
        if path.is_file() and not was_flushed:
            (copy / path.relative_to(table)).write_bytes(b"")
    return copy


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the open files of a process")
def test_what_was_acknowledged_survives_the_loss_of_what_was_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table"
    create_store(table, euclidean(patterns()))
    kept = {path for path in table.rglob("*") if path.is_file()}  # it was flushed under another name
    seen = flushed(monkeypatch)
    store = open_store(table)
    store.add(patterns(2))
    store.upsert(patterns(1, seed=3), torch.tensor([5]))
    store.remove(torch.tensor([7]))
    again = open_store(after_power_loss(table, tmp_path / "whole", {*kept, *seen}))
    assert of_table(again) == sorted({*range(62)} - {7})
    assert again.index().recall(patterns(1)).indices.shape == (1, 1)
    assert again.add(patterns(1)).tolist() == [62]

    with monkeypatch.context() as patch:
        patch.setattr(Flusher, "flush_versions", power_loss)
        with pytest.raises(KeyboardInterrupt):
            store.add(patterns(4))
    with pytest.warns(RuntimeWarning, match="was never finished"):
        again = open_store(after_power_loss(table, tmp_path / "torn", {*kept, *seen}))
    assert of_table(again) == sorted({*range(62)} - {7})
    assert again.add(patterns(1)).tolist() == [62]


@pytest.mark.parametrize("damage", ["empty", "half", "all but one byte", "zeros", "two of them"])
def test_a_torn_head_that_nobody_heard_of_is_put_aside(
    damage: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            if seed == 2 or (seed == 1 and damage == "two of them"):
                patch.setattr(Flusher, "flush_versions", power_loss)
            store.add(patterns(2, seed=seed), metadata={"color": ["blue"] * 2})
    (_, head), (_, before), *_ = heads(tmp_path / "table")
    whole = head.read_bytes()
    torn = {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "all but one byte": whole[:-1],
        "zeros": bytes(len(whole)),
        "two of them": b"",
    }
    head.write_bytes(torn[damage])
    left = 64
    if damage == "two of them":
        before.write_bytes(b"")
        left = 62
    with pytest.warns(RuntimeWarning, match="was never finished"):
        again = open_store(tmp_path / "table")
    assert len(again) == left
    assert list((tmp_path / "table" / "_versions").glob("*.torn"))
    again.add(patterns(1), metadata={"color": ["gray"]})
    assert len(open_store(tmp_path / "table")) == left + 1


def test_a_head_that_was_acknowledged_is_never_given_up(store: Store, tmp_path: Path) -> None:
    store.add(patterns(2), metadata={"color": ["blue"] * 2})
    folder = tmp_path / "table"
    (_, head), *_ = heads(folder)
    whole, opened = head.read_bytes(), open_store(folder)
    for damaged in (b"", whole[:-1], bytes(len(whole)), whole[:50] + bytes([whole[50] ^ 4]) + whole[51:]):
        head.write_bytes(damaged)
        for attempt in (
            lambda: open_store(folder),
            opened.refresh,
            lambda: opened.add(patterns(1), metadata={"color": [""]}),
        ):
            with pytest.raises(FileFormatError, match=r"was acknowledged, and its head .* is damaged"):
                attempt()
        assert head.read_bytes() == damaged
        assert len(open_store(folder, version=1)) == 60
        head.write_bytes(whole)
        assert len(open_store(folder)) == 62


def test_a_disk_that_fails_for_a_moment_costs_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(patterns(2), metadata={"color": ["blue"] * 2})
    (_, head), *_ = heads(tmp_path / "table")
    os.utime(head)  # it is looked at again
    real = Path.open

    def failing(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.name == head.name:
            raise OSError(5, "Input/output error")
        return real(path, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", failing)
        with pytest.raises(UnavailableError, match="Try again"):
            open_store(tmp_path / "table")
    assert len(open_store(tmp_path / "table")) == 62


@pytest.mark.parametrize("kind", ["data", "_deletions"])
def test_damaged_rows_are_never_answered(kind: str, store: Store, tmp_path: Path) -> None:
    store.remove(torch.tensor([3, 40]))
    expected = store.recall(patterns(5), k=3, where={"color": "red"})
    generator = np.random.default_rng(0)
    for path in sorted((tmp_path / "table" / kind).iterdir()):
        whole = path.read_bytes()
        for place in generator.integers(len(whole), size=20).tolist():
            path.write_bytes(
                whole[:place] + bytes([whole[place] ^ 1 << int(generator.integers(8))]) + whole[place + 1 :]
            )
            again = open_store(tmp_path / "table")
            for attempt in (
                partial(again.recall, patterns(5)),
                again.rows,
                again.index,
                partial(LocalCluster, again, 2),
                partial(again.remove, torch.tensor([5])),
            ):
                with pytest.raises(FileFormatError, match="is damaged"):
                    attempt()
        path.write_bytes(whole)
    again = open_store(tmp_path / "table")
    assert torch.equal(again.recall(patterns(5), k=3, where={"color": "red"}).posterior, expected.posterior)


def test_creating_leaves_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no space left"):
        create_store(tmp_path / "table", euclidean(patterns()))
    assert list(tmp_path.iterdir()) == []


def test_a_change_that_cannot_be_flushed_is_not_acknowledged(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no space left"):
        store.add(patterns(2), metadata={"color": ["blue"] * 2})
    monkeypatch.undo()
    again = open_store(tmp_path / "table")
    assert len(again) == 60
    assert again.add(patterns(2), metadata={"color": ["blue"] * 2}).tolist() == [60, 61]


# Many writers.

WRITER = """
    import sys
    import torch
    from ahop.scale.stores import open_store

    store, mark, count, size = open_store(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print("ready", flush=True)
    for batch in range(count):
        ids = store.add(torch.full((size, 6), mark + batch / 1e4))
        print(int(ids[0]), len(ids), batch, flush=True)
"""


def writer(path: Path, mark: float, count: int, size: int = 5) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", dedent(WRITER), str(path), str(mark), str(count), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_three_processes_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    create_store(tmp_path / "table", euclidean(patterns()))
    running = [writer(tmp_path / "table", mark, 30) for mark in (1.0, 2.0, 3.0)]
    said = [process.communicate(timeout=300)[0].split("\n")[1:-1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    rows = open_store(tmp_path / "table").rows()
    assert sorted(rows.ids.tolist()) == list(range(60 + 3 * 30 * 5))
    place = {number: row for row, number in enumerate(rows.ids.tolist())}
    for mark, lines in zip((1.0, 2.0, 3.0), said, strict=True):
        assert len(lines) == 30
        for line in lines:
            first, size, batch = map(int, line.split())
            stored = rows.patterns[[place[number] for number in range(first, first + size)]]
            assert_close(stored, torch.full((5, 6), mark + batch / 1e4))


@pytest.mark.slow
def test_what_a_killed_writer_acknowledged_is_there_and_nothing_is_half(tmp_path: Path) -> None:
    create_store(tmp_path / "table", euclidean(patterns()))
    said: list[str] = []
    for mark, timeouts in ((1.0, 0.3), (2.0, 0.6), (3.0, 0.05)):
        process = writer(tmp_path / "table", mark, 10_000)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(timeouts)
        process.send_signal(signal.SIGKILL)
        said += [f"{mark} {line}" for line in process.communicate()[0].split("\n") if len(line.split()) == 3]
    store = open_store(tmp_path / "table")
    rows = store.rows()
    numbers = rows.ids.tolist()
    assert sorted(numbers) == list(range(len(numbers)))
    assert (len(numbers) - 60) % 5 == 0
    assert len(numbers) - 60 <= 5 * (len(said) + 3)  # at most one each that was not acknowledged yet
    place = {number: row for row, number in enumerate(numbers)}
    for line in said:
        mark, first, size, batch = map(float, line.split())
        stored = rows.patterns[[place[number] for number in range(int(first), int(first + size))]]
        assert_close(stored, torch.full((5, 6), mark + batch / 1e4))
    assert len(store.add(patterns(1))) == 1


def racing(store: Store) -> Store:
    """A second writer, who has not seen what the first one writes."""
    other = store.at(store.version)
    other._is_fixed = False
    return other


def test_writers_without_turns_take_no_number_twice() -> None:
    store = create_store(f"memory://{time.monotonic_ns()}", euclidean(patterns(5)))
    other = racing(store)
    looked = other._table.checkout_latest
    other._table.checkout_latest = lambda: None  # it looks, and then another writer is faster
    assert store.add(patterns(2)).tolist() == [5, 6]
    original = other._writer.append

    def append(table: Any, rows: Any) -> None:
        try:
            original(table, rows)
        finally:
            other._table.checkout_latest = looked

    other._writer.append = append  # type: ignore[method-assign]
    assert other.add(patterns(2)).tolist() == [7, 8]
    assert of_table(other) == list(range(9))
    with pytest.raises(InvalidValueError, match="already there"):
        other.add(patterns(1), ids=torch.tensor([6]))


def test_changes_that_always_lose_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ahop.scale.stores.writer.PAUSE", 0.0)
    store = create_store(f"memory://{time.monotonic_ns()}", euclidean(patterns(5)))

    def loses(*arguments: object) -> None:
        raise OSError("Retryable commit conflict for version 2")

    monkeypatch.setattr(store._writer, "merge", loses)
    with pytest.raises(ConflictError, match="8 trials failed"):
        store.remove(torch.tensor([1]))


def test_a_lock_that_is_never_let_go_is_told(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr("ahop.scale.stores.locking.TIMEOUT", 0.05)
    with (tmp_path / "table" / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConflictError, match="Another writer has held"):
            store.remove(torch.tensor([1]))
    store.remove(torch.tensor([1]))


def test_object_stores_take_the_same_calls(tmp_path: Path) -> None:
    address = f"file-object-store://{tmp_path}/table"
    store = create_store(address, euclidean(patterns()))
    assert store.add(patterns(2, seed=1)).tolist() == [60, 61]
    store.upsert(patterns(1, seed=2), torch.tensor([3]))
    store.remove(torch.tensor([4]))
    store.learn(ahop.zoo.m_hop(patterns()))
    store.compact()
    again = open_store(address, storage_options={})
    assert of_table(again) == sorted({*range(62)} - {4})
    assert len(again.at(1)) == 60
    assert open_store(f"file://{tmp_path}/table").version == again.version
    assert again.index().recall(patterns(3)).indices.shape == (3, 1)


# Indexes.


def test_an_index_answers_as_the_store(store: Store) -> None:
    store.remove(torch.tensor([3, 4]))
    queries = patterns(10, seed=4)
    index = store.index()
    for where in (None, {"color": "green"}):
        expected, answer = store.recall(queries, k=3, where=where), index.recall(queries.numpy(), k=3, where=where)
        assert answer.indices.tolist() == expected.indices.tolist()
        assert_close(torch.from_numpy(answer.posterior), expected.posterior, atol=0.02, rtol=0)
        assert_close(torch.from_numpy(answer.patterns), expected.patterns)
    assert (len(index), index.version) == (58, 2)
    store.add(queries, metadata={"color": ["green"] * 10})  # the index stays at its version
    assert int(index.recall(queries, where={"color": "green"}).indices.max()) < 60
    only = index.recall(queries, k=4, where={"id": [7, 9]}).indices
    assert sorted(only[0].tolist()) == [-1, -1, 7, 9]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often an index was built."""
    calls: list[int] = []
    real = build.index

    def index(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        return real(*arguments, **named)

    monkeypatch.setattr("ahop.scale.stores.stored_index.index", index)
    return calls


def test_an_index_is_built_once_for_each_version_and_setting(store: Store, tmp_path: Path, built: list[int]) -> None:
    cache = tmp_path / "cache"
    queries = patterns(5, seed=4)
    expected = store.index(cache=cache).recall(queries, k=3)
    again = open_store(tmp_path / "table").index(cache=cache).recall(queries, k=3)
    assert torch.equal(again.posterior, expected.posterior)
    assert len(built) == 1
    store.index(cache=cache, candidates=7)
    store.index(cache=cache, pairs=(torch.arange(5), queries))
    store.index(cache=cache, variant=ahop.NoisyVariant(0.1))
    store.index(cache=cache, variant=ahop.NoisyVariant(0.2))
    assert len(built) == 5
    store.remove(torch.tensor([1]))
    assert store.index(cache=cache).version == 2
    assert len(built) == 6
    store.at(1).index(cache=cache)
    assert len(built) == 6
    assert not (tmp_path / "table" / "_cache").exists()


def test_damaged_files_are_noticed_and_built_anew(store: Store, tmp_path: Path, built: list[int]) -> None:
    queries = patterns(5, seed=4)
    expected = store.index().recall(queries, k=3)
    files = sorted((tmp_path / "table" / "_cache").iterdir())
    assert [each.suffix for each in files] == [".index", ".patterns"]
    generator = np.random.default_rng(0)
    for path in files:
        whole = path.read_bytes()
        for place in (0, 9, len(whole) // 2, len(whole) - 1, *generator.integers(len(whole), size=6).tolist()):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << int(generator.integers(8))
            path.write_bytes(damaged)
            before = len(built)
            with pytest.warns(RuntimeWarning, match="built anew"):
                answer = store.index().recall(queries, k=3)
            assert len(built) == before + 1
            assert torch.equal(answer.posterior, expected.posterior)
            assert path.read_bytes() == whole
        path.write_bytes(whole[:-7])
        with pytest.warns(RuntimeWarning, match="built anew"):
            store.index()


@pytest.mark.slow
def test_a_million_patterns_and_their_index_open_in_the_time_that_checking_their_bytes_takes(tmp_path: Path) -> None:
    stored = patterns(1_000_000, 64)
    create_store(tmp_path / "table", euclidean(stored)).index()
    script = """
        import hashlib, sys, time
        from pathlib import Path
        import torch
        from ahop.scale.stores import open_store
        import lance, faiss

        def seconds(work):  # of the processor: the machine may be busy with other things
            started = time.process_time()
            result = work()
            return time.process_time() - started, result

        opening, index = seconds(lambda: open_store(sys.argv[1]).index())
        rows = torch.tensor([5, 999_999])
        assert index.recall(index.index.memory.patterns[rows]).indices.squeeze(-1).tolist() == rows.tolist()
        files = [path for path in Path(sys.argv[1]).rglob("*") if path.is_file()]
        checking, _ = seconds(lambda: [hashlib.sha256(path.read_bytes()).digest() for path in files])
        print(opening / checking)
    """
    ratios = [
        float(subprocess.check_output([sys.executable, "-c", dedent(script), str(tmp_path / "table")], text=True))
        for _ in range(2)
    ]
    assert min(ratios) < 2.0


def test_without_the_package_its_name_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(MissingPackageError, match=r"ahop\[store\]"):
        open_store(tmp_path)


def test_a_store_says_what_it_is(store: Store) -> None:
    assert "version=1, rows=60" in repr(store)
    assert store.metadata_columns == ["color"]
    assert problem().patterns.shape[1] != store.dimensions


def test_a_store_goes_back_and_keeps_what_came_between(fitted: ahop.AssociativeMemory, tmp_path: Path) -> None:
    memory = fitted
    store = ahop.create_store(tmp_path / "table", memory)
    first = store.version
    store.remove(torch.tensor([0, 3]))
    store.learn(ahop.AssociativeMemory(memory.patterns, ahop.EuclideanSimilarity()))
    between, count = store.version, len(store)
    store.restore(first)
    assert store.version > between
    assert torch.equal(store.rows().ids, torch.arange(len(memory)))
    queries = memory.patterns[:5] + 0.5
    assert torch.equal(store.recall(queries).indices, memory.recall(queries).indices)
    assert torch.allclose(store.recall(queries).posterior, memory.recall(queries).posterior, atol=1e-6)
    assert len(store.at(between)) == count
    again = ahop.open_store(tmp_path / "table")
    assert len(again) == len(memory)
    again.add(memory.patterns[:1])
    with pytest.raises(InvalidValueError, match="kept"):
        store.restore(10**6)
    with pytest.raises(UnsupportedError):
        store.at(first).restore(first)


# What was built to harm.


@pytest.mark.parametrize(
    "words",
    [{"model": 3}, {"model": ["a"]}, {"file": 3}, {"file": "../../elsewhere"}, {"file": "_models/../x"}, {}],
    ids=str,
)
def test_words_of_a_table_that_make_no_sense_are_refused(words: dict[str, Any], tmp_path: Path) -> None:
    create_store(tmp_path / "table", euclidean(patterns()))
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_model({"format": 1, "digest": "0", **words}, Location.of(tmp_path / "table"))


@pytest.mark.parametrize("content", [b"[", b"[1]", b'{"a": 1}', b"\xff", b"[" * 100_000])
def test_a_list_of_checksums_that_is_none_is_left_out(content: bytes, tmp_path: Path) -> None:
    create_store(tmp_path / "table", euclidean(patterns()))
    before = recorded(tmp_path / "table")
    (tmp_path / "table" / "_checksums" / f"{digest(content)}.json").write_bytes(content)
    assert recorded(tmp_path / "table") == before
    assert len(open_store(tmp_path / "table").rows()) == 60


FULL = """
    import resource, signal, sys
    from pathlib import Path
    import torch
    from ahop.scale.stores import open_store

    store = open_store(sys.argv[1])
    print("added", len(store.add(torch.rand(300, 6))))
    largest = max(path.stat().st_size for path in Path(sys.argv[1], "data").iterdir())
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for size in (largest - 100, largest - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            print("added", len(store.add(torch.rand(300, 6))))
        except OSError as error:
            print("refused", type(error).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print("added", len(store.add(torch.rand(300, 6))))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system limits how large files may become")
def test_rows_that_the_disk_did_not_take_as_a_whole_are_refused(tmp_path: Path) -> None:
    create_store(tmp_path / "table", euclidean(patterns()))
    command = [sys.executable, "-c", dedent(FULL), str(tmp_path / "table")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # Lance does not say that the last write to a file failed.
    refused = ["refused UnavailableError"] * 2
    assert done.stdout.splitlines() == ["added 300", *refused, "added 300"]
    assert len(open_store(tmp_path / "table").rows()) == 660
