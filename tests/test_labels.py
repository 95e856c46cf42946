"""Labels of patterns and names of dimensions: kept, looked up, put in order; honoured or refused, never dropped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ahop
from ahop._core.label_tensors import as_text, from_text
from ahop._core.labels import as_label, as_labels
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, ShapeError
from ahop.memory.saving.archive import read_archive, write_archive
from ahop.scale.stores.models import as_model, over
from tests.strategies import seeds

NAMES = ["ant", "bee", "cat", "dog", "eel"]
COLUMNS = ["a", "b", "c", "d"]
labels = st.one_of(st.text(), st.integers(-(2**63), 2**64 - 1))


def numbers(count: int = 5, dimensions: int = 4, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, dimensions))


def frame(count: int = 5, seed: int = 0) -> Any:
    return pd.DataFrame(numbers(count, seed=seed), columns=COLUMNS, index=NAMES[:count])


def nearest(patterns: Any, **settings: Any) -> ahop.AssociativeMemory:
    return ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity(), **settings)


def told(memory: ahop.AssociativeMemory) -> list[Any]:
    assert memory.labels is not None
    return list(memory.labels)


KINDS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda rows: rows.to_numpy(),
    "torch": lambda rows: torch.tensor(rows.to_numpy()),
    "lists": lambda rows: rows.to_numpy().tolist(),
    "pandas": lambda rows: rows,
    "polars": lambda rows: pl.DataFrame({name: rows[name].to_numpy() for name in rows.columns}),
}


@pytest.mark.parametrize("stored", KINDS)
@pytest.mark.parametrize("asked", ["numpy", "torch", "lists"])
def test_all_kinds_of_rows_are_the_same_rows(stored: str, asked: str) -> None:
    memory = nearest(KINDS[stored](frame()), labels=NAMES)
    answer = memory.recall(KINDS[asked](frame()), k=2)
    expected = nearest(frame().to_numpy()).recall(frame().to_numpy(), k=2)
    assert np.array_equal(np.asarray(answer.indices), expected.indices)
    assert np.array_equal(np.asarray(answer.posterior), expected.posterior)
    assert isinstance(answer.posterior, torch.Tensor) == (asked == "torch")
    assert answer.labels is not None
    assert answer.labels.tolist() == [[NAMES[row] for row in rows] for rows in expected.indices]
    assert expected.labels is None


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_are_taken_at_every_door(kind: str) -> None:
    memory, rows = nearest(frame()), KINDS[kind](frame()[["d", "b", "a", "c"]])
    array = frame().to_numpy()
    assert torch.equal(memory.scores(rows), memory.scores(array))
    assert torch.equal(memory.weights(rows), memory.weights(array))
    assert torch.equal(memory.energy(rows), memory.energy(array))
    assert np.array_equal(memory.retrieve(rows), memory.retrieve(array))
    assert np.array_equal(memory(rows), memory(array))


@given(seed=seeds, kept=st.integers(1, 4), kind=st.sampled_from(["pandas", "polars"]))
def test_columns_are_put_in_order_and_those_that_are_missing_were_not_observed(seed: int, kept: int, kind: str) -> None:
    memory, queries = nearest(frame()), frame(seed=seed)
    order = np.random.default_rng(seed).permutation(COLUMNS)[:kept]
    gaps = queries.copy()
    gaps[[name for name in COLUMNS if name not in order]] = np.nan
    answer = memory.recall(KINDS[kind](queries[list(order)]), k=3)
    expected = memory.recall(gaps.to_numpy(), k=3)
    assert np.array_equal(answer.indices, expected.indices)
    assert np.array_equal(answer.posterior, expected.posterior)


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([True, None], dtype="boolean")}),
        pd.DataFrame({"a": pd.array([1.0, None], dtype="Float64"), "b": [1, None]}),
        pd.DataFrame({"a": [1, None], "b": pd.Series([1, pd.NA], dtype=object)}),
        pl.DataFrame({"a": [1, None], "b": [True, None]}),
        pl.DataFrame({"a": [1.0, None], "b": [1, None]}, schema={"a": pl.Float32, "b": pl.UInt8}),
        [[1, 1], [None, None]],
    ],
    ids=lambda rows: f"{type(rows).__module__} {list(getattr(rows, 'dtypes', []))}",
)
def test_what_is_not_there_is_nan(rows: Any) -> None:
    stored = nearest(rows).patterns
    assert torch.equal(stored.isnan(), torch.tensor([[False, False], [True, True]]))
    assert torch.equal(stored[0], torch.ones(2, dtype=stored.dtype))


def test_a_column_of_nothing_was_not_observed() -> None:
    memory = nearest(frame())
    for rows in (pd.DataFrame({"a": [None], "b": [1.0]}), pl.DataFrame({"a": [None], "b": [1.0]})):
        assert np.array_equal(memory.recall(rows).indices, memory.recall(rows[["b"]]).indices)


def test_frames_in_single_precision_stay_so() -> None:
    assert nearest(frame().astype("float32")).patterns.dtype == torch.float32
    assert nearest(frame()).patterns.dtype == torch.float64
    assert nearest(pl.DataFrame({"a": [1, 2]})).patterns.dtype == torch.float32


def test_columns_that_are_but_counted_have_no_names() -> None:
    memory = nearest(pd.DataFrame(numbers()))
    assert memory.columns is None
    assert memory.labels is None
    assert memory.recall(pd.DataFrame(numbers())).indices.shape == (5, 1)
    with pytest.raises(ShapeError, match=r"must have shape \(b, 4\)"):
        memory.recall(pd.DataFrame(numbers(5, 3)))


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (frame().assign(z=1, y=2), InvalidValueError, r"have not got: 'z', 'y'\. Leave them out by `queries\.drop"),
        (frame().assign(a="x"), InvalidTypeError, "`queries` must hold numbers; the columns 'a' do not"),
        (pl.DataFrame({"a": ["x"]}), InvalidTypeError, "the columns 'a' do not"),
        (frame().set_axis(["a", "b", "c", "a"], axis=1), InvalidValueError, "different names; got 'a' more than once"),
        (pd.DataFrame({"a": [np.inf]}), InvalidValueError, "must be finite"),
    ],
)  # fmt: skip
def test_frames_without_meaning_are_refused(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nearest(frame()).recall(rows)


def test_names_that_nothing_is_known_of_are_refused() -> None:
    memory = nearest(numbers())
    with pytest.raises(InvalidTypeError, match=r"pass `queries\.to_numpy\(\)` if the order is that"):
        memory.recall(frame())
    with pytest.raises(InvalidTypeError, match=r"pass `copies\.to_numpy\(\)`"):
        ahop.fit(memory, pairs=(range(5), frame()), similarity="mixture", progress=False)
    assert memory.recall(frame().to_numpy()).indices.ravel().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("given", [NAMES, np.array(NAMES), pd.Series(NAMES), pl.Series(NAMES), pd.Index(NAMES)])
def test_labels_come_in_any_column(given: Any) -> None:
    assert told(nearest(numbers(), labels=given)) == NAMES


def test_labels_that_are_given_go_before_the_index() -> None:
    assert told(nearest(frame(), labels=range(5))) == [0, 1, 2, 3, 4]
    assert told(nearest(frame())) == NAMES


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("x", "x"), (3, 3), (np.int32(3), 3), (np.uint64(2**64 - 1), 2**64 - 1), (torch.tensor(3), 3), (True, "True"),
        (1.5, "1.5"), (("a", 1), "('a', 1)"), (2**64, str(2**64)), (np.str_("y"), "y"), (None, "None"),
        (pd.Timestamp("2024-05-01"), "2024-05-01 00:00:00"),
    ],
)  # fmt: skip
def test_words_and_whole_numbers_stay_and_all_others_become_words(value: object, label: object) -> None:
    found = as_label(value)
    assert found == label
    assert type(found) is type(label)


@given(st.lists(labels, min_size=1))
def test_labels_survive_a_text(given: list[str | int]) -> None:
    back = from_text(as_text(as_labels(given, len(given))), len(given))
    assert [(type(each), each) for each in back] == [(type(each), each) for each in given]


@pytest.mark.parametrize("given", [["a"], "abcde", 5, numbers(), frame()], ids=lambda value: type(value).__name__)
def test_labels_without_meaning_are_refused(given: Any, unchecked: None) -> None:
    with pytest.raises((ShapeError, InvalidTypeError), match="`labels` must"):
        nearest(numbers(), labels=given)


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_origins_are_labels_if_there_are_labels(kind: str) -> None:
    origins = [4, 2, 2, 0, 1, 3, 4, 1]
    copies = frame().iloc[origins] + 0.01
    by_row = ahop.fit(frame().to_numpy(), pairs=(origins, copies.to_numpy()), similarity="mixture", progress=False)
    named = [NAMES[row] for row in origins]
    found = ahop.fit(frame(), pairs=(named, KINDS[kind](copies)), similarity="mixture", progress=False)
    array = frame().to_numpy()
    assert torch.equal(found.scores(array), by_row.scores(array))
    assert found.columns == tuple(COLUMNS)
    rows = ahop.Pairs(torch.tensor(origins), torch.tensor(copies.to_numpy()))
    again = ahop.fit(patterns=frame(), pairs=rows, similarity="mixture", progress=False)
    assert torch.equal(again.scores(array), by_row.scores(array))
    given = ahop.fit(array, labels=NAMES, pairs=(named, copies.to_numpy()), similarity="mixture", progress=False)
    assert told(given) == NAMES


def test_origins_are_labels_where_labels_are_numbers() -> None:
    origins, numbered = torch.tensor([4, 2, 2, 0, 1, 3, 4, 1]), frame().set_axis([40, 30, 20, 10, 0])
    copies = numbered.iloc[origins.numpy()]
    by_row = ahop.fit(frame().to_numpy(), pairs=(origins, copies.to_numpy()), similarity="mixture", progress=False)
    found = ahop.fit(numbered, pairs=(40 - 10 * origins, copies), similarity="mixture", progress=False)
    assert torch.equal(found.scores(copies), by_row.scores(copies.to_numpy()))


@pytest.mark.parametrize(
    ("given", "origins", "message"),
    [
        (NAMES, ["ant", "cow"], r"such as 'ant'; 'cow' is none of them\. For row numbers pass `pairs=ahop\.Pairs"),
        (NAMES, [0, 1], "; 0 is none of them"),
        (["x", "x", "y", "z", "w"], ["x", "y"], r"'x' is that of row 0 and of row 1\. Make labels unique"),
        (NAMES, ["ant"], r"`origins` must have shape \(2,\)"),
    ],
)  # fmt: skip
def test_origins_that_cannot_be_looked_up_are_refused(given: list[str], origins: list[Any], message: str) -> None:
    with pytest.raises((InvalidValueError, ShapeError), match=message):
        ahop.fit(numbers(), labels=given, pairs=(origins, numbers(2)), progress=False)


def test_labels_are_for_bare_patterns() -> None:
    with pytest.raises(InvalidTypeError, match="`labels` are for bare patterns: a memory has its own"):
        ahop.fit(nearest(numbers()), labels=NAMES, variant=ahop.NoisyVariant(1.0), progress=False)


def test_patterns_that_are_added_bring_their_labels() -> None:
    memory = nearest(frame(3))
    first = memory.copy()
    memory.add(frame()[["d", "c", "b", "a"]].iloc[3:])
    memory.add(numbers(1, seed=7), labels=[7])
    memory.add(numbers(0))
    assert told(memory) == [*NAMES, 7]
    assert memory.recall(frame()).indices.ravel().tolist() == [0, 1, 2, 3, 4]
    memory.remove([0, 4])
    assert told(memory) == ["bee", "cat", "dog", 7]
    assert told(first) == NAMES[:3]


def test_labels_are_needed_where_there_are_some_and_refused_where_there_are_none() -> None:
    memory, bare = nearest(frame()), nearest(numbers())
    with pytest.raises(
        InvalidTypeError, match=r"`labels` are needed: those that are stored have labels, such as 'ant'"
    ):
        memory.add(numbers(2))
    with pytest.raises(ShapeError, match="`labels` must be 2, one for each pattern; got 1"):
        memory.add(numbers(2), labels=["x"])
    with pytest.raises(InvalidTypeError, match="`labels` cannot be kept: those that are stored have none"):
        bare.add(numbers(2), labels=["x", "y"])
    with pytest.raises(InvalidTypeError, match=r"`reset_index\(drop=True\)`"):
        bare.add(frame().set_axis(range(4), axis=1))
    assert len(memory) == len(bare) == 5


def test_labels_of_a_memory_cannot_be_changed_by_its_copies() -> None:
    memory = nearest(frame())
    assert memory.labels is not None
    with pytest.raises(ValueError, match="read-only"):
        memory.labels[0] = "cow"
    answer = memory.recall(frame())
    assert answer.labels is not None
    answer.labels[0] = "cow"
    assert told(memory) == NAMES


@given(given=st.lists(labels, min_size=1, max_size=6), names=st.lists(st.text(min_size=1), min_size=1, unique=True))
def test_labels_and_names_come_back_from_a_file(given: list[str | int], names: list[str], tmp_path: Path) -> None:
    rows = pd.DataFrame(numbers(len(given), len(names)), columns=pd.Index(names, dtype=object))
    memory = nearest(rows, labels=given)
    memory.save(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop")
    assert told(loaded) == given
    assert loaded.columns == memory.columns == tuple(names)
    assert torch.equal(loaded.patterns, memory.patterns)


def test_no_labels_come_back_as_none(tmp_path: Path) -> None:
    nearest(numbers()).save(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop")
    assert loaded.labels is None
    assert loaded.columns is None


def rewritten(path: Path, text: bytes | None = None, **words: object) -> Path:
    """The file with another text of labels, and other words in its manifest."""
    manifest, tensors = read_archive(path)
    if text is not None:
        tensors["labels"] = torch.tensor(list(text), dtype=torch.uint8)
    write_archive(path, {**manifest, **words}, tensors)
    return path


@pytest.mark.parametrize(
    "text",
    [b"", b"1", b"1\n2\n3\n4\n5\n6", b"1\n2\n3\n4\n", b"1\n2\n3\n4\n[5]", b"1\n2\n3\n4\ntrue", b"1\n2\n3\n4\n1.5",
     b"1\n2\n3\n4\n" + b"9" * 30, b"1\n2\n3\n4\n" + b"9" * 9000, b"1\n2\n3\n4\n" + b"[" * 99999, b"1\n2\n3\n4\n\xff"],
)  # fmt: skip
def test_a_file_with_labels_that_are_none_is_refused(text: bytes, tmp_path: Path) -> None:
    nearest(frame()).save(tmp_path / "memory.ahop")
    with pytest.raises(FileFormatError):
        ahop.load(rewritten(tmp_path / "memory.ahop", text))


@given(text=st.binary(max_size=40))
def test_no_bytes_in_the_place_of_labels_do_harm(text: bytes, tmp_path: Path) -> None:
    nearest(numbers(2), labels=["a", "b"]).save(tmp_path / "memory.ahop")
    try:
        assert len(told(ahop.load(rewritten(tmp_path / "memory.ahop", text)))) == 2
    except FileFormatError:
        return


@pytest.mark.parametrize("names", ["abcd", ["a", "b"], ["a", "a", "b", "c"], [1, 2, 3, 4], {"a": 1}, 4])
def test_a_file_with_names_that_are_none_is_refused(names: object, tmp_path: Path) -> None:
    nearest(frame()).save(tmp_path / "memory.ahop")
    with pytest.raises(FileFormatError):
        ahop.load(rewritten(tmp_path / "memory.ahop", dimensions=names))


def test_labels_that_are_no_bytes_are_refused(tmp_path: Path) -> None:
    nearest(frame()).save(tmp_path / "memory.ahop")
    path = tmp_path / "memory.ahop"
    manifest, tensors = read_archive(path)
    write_archive(path, manifest, {**tensors, "labels": torch.zeros(5)})
    with pytest.raises(FileFormatError, match="labels must be a text"):
        ahop.load(path)


def test_an_index_answers_labels_and_keeps_them_through_all_changes() -> None:
    memory = nearest(pd.DataFrame(numbers(40), columns=COLUMNS), labels=[f"row {row}" for row in range(40)])
    index = ahop.index(memory, pairs=([f"row {row}" for row in range(40)], memory.patterns.numpy()))
    queries = pd.DataFrame(numbers(40), columns=COLUMNS)[["b", "a", "d", "c"]]
    answer = index.recall(queries, k=2)
    assert answer.labels is not None
    assert answer.labels[:, 0].tolist() == [f"row {row}" for row in range(40)]
    index.add(queries.iloc[:1] + 9, labels=["new"])
    index.remove([3])
    answer = index.recall(queries.iloc[[0, 3]] + np.array([[9], [0]]), k=1)
    assert answer.labels is not None
    assert answer.labels[0, 0] == "new"
    assert answer.labels[1, 0] != "row 3"
    short = index.recall(queries, k=3, where=np.array([5, 6])).labels
    assert short is not None
    assert set(short[:, :2].ravel()) == {"row 5", "row 6"}
    assert set(short[:, 2]) == {None}


def test_an_index_that_refuses_rows_stays_as_it_was() -> None:
    memory = nearest(numbers(40), labels=range(40))
    index = ahop.index(memory, pairs=(range(40), memory.patterns), metadata={"floor": np.zeros(40)})
    with pytest.raises(InvalidTypeError, match="`labels` are needed"):
        index.add(numbers(2), metadata={"floor": np.ones(2)})
    index.add(numbers(2), metadata={"floor": np.ones(2)}, labels=[50, 51])
    assert index.recall(numbers(2), where={"floor": 1}).labels is not None


def test_a_store_names_patterns_by_their_numbers() -> None:
    model = as_model(nearest(frame()))
    assert over(model, torch.zeros(2, 4)).recall(torch.zeros(1, 4)).labels is None


def test_a_group_sees_the_names_of_the_dimensions() -> None:
    memory = nearest(frame())
    memory.model = memory.model.replaced(groups={"up": ahop.DotSimilarity()})
    asked = frame()
    seen = memory.for_group("up").recall(asked[list(reversed(asked.columns))])
    assert np.array_equal(seen.indices, memory.recall(asked, groups=["up"] * len(asked)).indices)
