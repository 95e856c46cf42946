"""Columns that hold categories: words or codes in frames, rows and arrays, learned with labels and without."""

import json
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import ahop
from ahop._core.columns import MOST_WORDS, Columns, as_columns
from ahop._core.frames import columns_of
from ahop._core.inputs import as_queries
from ahop.errors import AhopError, FileFormatError, InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.fitting.corruption.categories import MOST_CATEGORIES, Categories, CategoryTables
from ahop.memory.report import FitReport
from ahop.scale.stores import create_store, open_store
from ahop.scale.stores.location import Location
from ahop.scale.stores.names import read_names
from ahop.similarities.gower import GowerSimilarity

PEOPLE, PAIRS = 300, 120
BLOOD, CITIES = ["0", "A", "AB", "B"], [f"city {number}" for number in range(12)]


def people(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    numbers = {f"marker {place}": rng.normal(0, 3, PEOPLE).astype(np.float32) for place in range(3)}
    return pd.DataFrame(
        {
            "blood": pd.Categorical(rng.choice(BLOOD, PEOPLE, p=[0.42, 0.43, 0.04, 0.11]), BLOOD),
            "is_donor": rng.random(PEOPLE) < 0.5,
            "city": rng.choice(CITIES, PEOPLE),
            **numbers,
        }
    )


def copies(rows: pd.DataFrame, places: NDArray[np.int64], seed: int = 1) -> pd.DataFrame:
    """Some words are others, some are missing; numbers are shifted, noisy, some missing."""
    rng, found = np.random.default_rng(seed), rows.iloc[places].reset_index(drop=True)
    for name, words in (("blood", BLOOD), ("city", CITIES)):
        values = found[name].astype(object).to_numpy().copy()
        is_wrong = rng.random(len(values)) < 0.08
        values[is_wrong] = rng.choice(words, is_wrong.sum())
        values[rng.random(len(values)) < 0.1] = None
        found[name] = values
    for name in [each for each in rows.columns if each.startswith("marker")]:
        noisy = found[name] + 1 + rng.normal(0, 1, len(found))
        found[name] = noisy.astype(np.float32).where(rng.random(len(found)) > 0.15)
    return found


class Task:
    def __init__(self, *names: str) -> None:
        rng = np.random.default_rng(2)
        self.people = people()[list(names)] if names else people()
        self.known, self.origins = rng.permutation(PEOPLE)[:PAIRS], rng.integers(0, PEOPLE, 400)
        self.pairs = self.known, copies(self.people, self.known)
        self.queries = copies(self.people, self.origins, 3)
        self.log = copies(self.people, rng.integers(0, PEOPLE, 400), 4)

    def accuracy(self, memory: ahop.AssociativeMemory) -> float:
        return float((np.asarray(memory.recall(self.queries).indices)[:, 0] == self.origins).mean())


@pytest.fixture(scope="module")
def task() -> Task:
    return Task()


@pytest.fixture(scope="module")
def fitted(task: Task) -> ahop.AssociativeMemory:
    return ahop.fit(task.people, pairs=task.pairs, progress=False)


def test_a_frame_says_which_columns_hold_categories() -> None:
    found = columns_of(people())
    assert found is not None
    assert found.words == {0: tuple(BLOOD), 1: ("False", "True"), 2: tuple(sorted(CITIES))}
    assert columns_of(pl.from_pandas(people())) == found
    assert dict(columns_of(pl.from_pandas(people())).words) == dict(found.words)  # type: ignore[union-attr]


def test_both_kinds_of_column_tell_more_than_one(task: Task, fitted: ahop.AssociativeMemory) -> None:
    numbers = task.people.columns[3:]
    alone = ahop.fit(task.people[numbers], pairs=(task.known, task.pairs[1][numbers]), progress=False)
    found = np.asarray(alone.recall(task.queries[numbers]).indices)[:, 0] == task.origins
    assert task.accuracy(fitted) > found.mean() + 0.2
    assert isinstance(fitted.report, FitReport)
    assert "mixture" in fitted.report.chosen
    assert "3 columns of categories" in str(fitted.report)


def test_it_beats_gower(task: Task, fitted: ahop.AssociativeMemory) -> None:
    metric = ahop.fit(task.people, pairs=task.pairs, similarity="gower", progress=False)
    assert task.accuracy(fitted) > task.accuracy(metric) + 0.03


def test_a_log_without_labels_teaches_them(task: Task, fitted: ahop.AssociativeMemory) -> None:
    memory = ahop.fit(task.people, queries=task.log, progress=False)
    assert task.accuracy(memory) > task.accuracy(fitted) - 0.03
    assert isinstance(memory.report, FitReport)
    assert memory.report.chosen == "mixture"
    assert not memory.report.is_checked


def test_words_alone_are_enough() -> None:
    task = Task("blood", "city", "is_donor")
    memory = ahop.fit(task.people, pairs=task.pairs, progress=False)
    posterior = np.asarray(memory.recall(task.queries, k=PEOPLE).posterior)
    indices = np.asarray(memory.recall(task.queries, k=PEOPLE).indices)
    told = posterior[indices == task.origins[:, None]]
    assert np.log(told).mean() > -log(PEOPLE) + 2.2  # most of what twelve cities, four groups and a flag can say


def test_files_keep_words(task: Task, fitted: ahop.AssociativeMemory, tmp_path: Path) -> None:
    wanted = fitted.recall(task.queries, k=3)
    fitted.save(tmp_path / "people.ahop")
    loaded, opened = ahop.load(tmp_path / "people.ahop"), ahop.open_memory(tmp_path / "people.ahop")
    for memory in (loaded, opened):
        found = memory.recall(task.queries, k=3)
        np.testing.assert_array_equal(np.asarray(found.indices), np.asarray(wanted.indices))
        np.testing.assert_allclose(np.asarray(found.posterior), np.asarray(wanted.posterior), atol=1e-5)
        assert str(memory.explain(task.queries.iloc[:1])) == str(fitted.explain(task.queries.iloc[:1]))
    assert str(loaded.report) == str(fitted.report)
    assert isinstance(loaded.columns, Columns)
    assert dict(loaded.columns.words) == dict(fitted.columns.words)  # type: ignore[union-attr]


def test_stores_keep_words(task: Task, fitted: ahop.AssociativeMemory, tmp_path: Path) -> None:
    pytest.importorskip("lance")
    store = create_store(tmp_path / "people", fitted)
    added = store.add(task.queries.iloc[:5])
    memory = open_store(tmp_path / "people").memory()
    assert dict(memory.columns.words) == dict(fitted.columns.words)  # type: ignore[union-attr]
    found, wanted = memory.patterns[-5:].numpy(), fitted.recall(task.queries.iloc[:5])
    assert len(added) == 5
    asked = as_queries(task.queries.iloc[:5], fitted.patterns, columns=fitted.columns).numpy()
    np.testing.assert_array_equal(found, asked)
    assert len(np.asarray(wanted.indices)) == 5


def test_rows_may_name_their_words(task: Task, fitted: ahop.AssociativeMemory) -> None:
    row = {name: value for name, value in task.queries.iloc[0].items() if value == value and value is not None}
    found = fitted.recall([row])
    np.testing.assert_allclose(
        np.asarray(found.posterior), np.asarray(fitted.recall(task.queries.iloc[:1]).posterior), atol=1e-6
    )


def test_a_word_that_nobody_stored_says_little_of_all(fitted: ahop.AssociativeMemory) -> None:
    bars = {bar.name: bar for bar in fitted.explain({"city": "Atlantis", "blood": "A"}).bars}
    assert bars["city"].seen == "another"
    assert abs(bars["city"].log_odds) < 1e-6


def test_explanations_use_words(task: Task, fitted: ahop.AssociativeMemory) -> None:
    stored = task.people.iloc[:80]
    bars = [bar for place in range(len(stored)) for bar in fitted.explain(stored.iloc[place : place + 1]).bars]
    of_cities = [bar for bar in bars if bar.name == "city"]
    assert {bar.word for bar in of_cities} <= {"agrees on a rare value", "agrees", "differs"}
    assert all(bar.seen in CITIES and bar.answer in CITIES for bar in of_cities)
    assert {bar.word for bar in bars if bar.name == "blood" and bar.seen == bar.answer == "AB"} == {
        "agrees on a rare value"
    }
    assert {bar.word for bar in bars if bar.name == "is_donor"} <= {"agrees", "differs"}


def test_codes_are_categories_where_they_are_named() -> None:
    """An array of codes, as a frame of the same words."""
    task = Task("blood", "city")
    columns = columns_of(task.people)
    assert columns is not None
    memory = ahop.fit(task.people, pairs=task.pairs, progress=False)

    def codes(frame: pd.DataFrame) -> NDArray[np.float32]:
        order = [{word: place for place, word in enumerate(columns.words[number])} for number in (0, 1)]
        return np.array(
            [[order[place].get(each, np.nan) for place, each in enumerate(row)] for row in frame.to_numpy()], np.float32
        )

    given = codes(task.people)
    for categorical in (True, [0, 1]):
        bare = ahop.fit(given, pairs=(task.known, codes(task.pairs[1])), categorical=categorical, progress=False)
        np.testing.assert_allclose(
            np.asarray(bare.recall(codes(task.queries)).posterior),
            np.asarray(memory.recall(task.queries).posterior),
            atol=1e-4,
        )


# Laws


def drawn(seed: int, columns: int, size: int, count: int = 200) -> tuple[torch.Tensor, torch.Tensor, Categories]:
    rng = np.random.default_rng(seed)
    stored = rng.integers(0, size, (count, columns)).astype(np.float64)
    asked = np.where(rng.random(stored.shape) < 0.2, rng.integers(0, size, stored.shape), stored)
    asked[rng.random(asked.shape) < 0.1] = np.nan
    rows = torch.from_numpy(stored), torch.from_numpy(asked)
    return *rows, Categories.of(*rows, range(columns), None)


@given(st.integers(0, 999), st.integers(1, 4), st.integers(1, 5))
def test_scores_are_log_likelihood_ratios(seed: int, columns: int, size: int) -> None:
    """The tables of knots are P(x | xi) / P(x), column by column, and nothing where something is missing."""
    stored, asked, categories = drawn(seed, columns, size)
    tables = CategoryTables(categories, stored, asked, torch.ones(len(stored)))
    similarity = tables.similarity()
    similarity.missingness.shifts.zero_()
    numbers = categories.numbers(stored), categories.numbers(asked)
    wanted = np.zeros((5, 7))
    for query in range(5):
        for row in range(7):
            for column in range(columns):
                family = next(place for place, each in enumerate(tables.families) if column in each)
                origin, copy = int(numbers[0][row, column]), int(numbers[1][query, column])
                if copy >= 0:
                    table, share = tables.tables[family], categories.shares[column]
                    wanted[query, row] += float((table[origin, copy] / (share @ table[:, copy])).log())
    np.testing.assert_allclose(similarity(stored[:7], asked[:5]).detach().numpy(), wanted, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 999), st.integers(1, 4), st.integers(1, 5))
def test_rows_of_tables_are_distributions(seed: int, columns: int, size: int) -> None:
    stored, asked, categories = drawn(seed, columns, size)
    weights = torch.rand(len(stored), generator=torch.Generator().manual_seed(seed))
    for table in CategoryTables(categories, stored, asked, weights).tables:
        assert bool((table > 0).all())
        torch.testing.assert_close(table.sum(-1), torch.ones(len(table), dtype=torch.float64))
    for share in categories.shares:
        assert abs(float(share.sum()) - 1) < 1e-12


def test_tables_tend_to_the_truth() -> None:
    rng, size = np.random.default_rng(0), 3
    truth = np.array([[0.9, 0.08, 0.02], [0.3, 0.6, 0.1], [0.05, 0.05, 0.9]])
    stored = rng.integers(0, size, (20_000, 1))
    asked = np.array([[rng.choice(size, p=truth[each])] for each in stored[:, 0]])
    rows = torch.from_numpy(stored).double(), torch.from_numpy(asked).double()
    tables = CategoryTables(Categories.of(*rows, [0], None), *rows, torch.ones(len(stored)))
    np.testing.assert_allclose(tables.tables[0][:size, :size].numpy(), truth, atol=0.02)


def test_copies_are_drawn_from_the_tables() -> None:
    stored, asked, categories = drawn(3, 2, 3, 5000)
    tables = CategoryTables(categories, stored, asked, torch.ones(len(stored)))
    found = tables.drawn(stored, torch.Generator().manual_seed(0))
    seen = asked == asked
    assert abs(float((found == stored).double().mean()) - float((asked == stored)[seen].double().mean())) < 0.02


def test_without_pairs_nothing_but_agreement_is_expected() -> None:
    stored, _, categories = drawn(0, 2, 4)
    tables = CategoryTables(categories, stored[:0], stored[:0], torch.zeros(0))
    scores = tables.similarity()(stored[:20], stored[:20])
    assert bool((scores.argmax(-1) == scores.argmax(-1)).all())
    assert bool((scores.diagonal() >= scores.amax(-1) - 1e-9).all())


def test_gower_is_the_mean_of_what_agrees() -> None:
    similarity = GowerSimilarity(3, [2])
    similarity.ranges.copy_(torch.tensor([10.0, 2.0, 1.0]))
    stored = torch.tensor([[1.0, 0.0, 3.0], [6.0, 1.0, 4.0]])
    np.testing.assert_allclose(similarity(stored, stored)[0], [3.0, 0.5 + 0.5 + 0.0])
    gap = torch.tensor([[torch.nan, 1.0, 4.0]])
    np.testing.assert_allclose(similarity(stored, gap)[0], [1.5 * (0.5 + 0.0), 1.5 * (1.0 + 1.0)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_precisions_answer_alike(dtype: type) -> None:
    stored, asked, _ = drawn(5, 6, 3)
    pairs: Any = np.arange(len(stored)), asked.numpy().astype(dtype)
    memory = ahop.fit(stored.numpy().astype(dtype), pairs=pairs, categorical=True, progress=False)
    assert memory.patterns.dtype == (torch.float64 if dtype is np.float64 else torch.float32)
    found = memory.recall(pairs[1], k=1)
    assert np.isfinite(np.asarray(found.posterior)).all()


def test_numbers_alone_are_what_they_were() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(50, 4)), columns=list("abcd"))
    memory = ahop.fit(rows, pairs=(np.arange(50), rows + 0.1), progress=False)
    again = ahop.fit(rows.to_numpy(), pairs=(np.arange(50), rows.to_numpy() + 0.1), progress=False)
    assert isinstance(memory.report, FitReport)
    assert memory.report.categories is None
    np.testing.assert_array_equal(
        np.asarray(memory.recall(rows).posterior), np.asarray(again.recall(rows.to_numpy()).posterior)
    )


# Refused, with what to do instead.


def refused(task: Task, fitted: ahop.AssociativeMemory) -> dict[str, tuple[Callable[[], Any], type[AhopError], str]]:
    names = pd.DataFrame({"name": [f"person {number}" for number in range(PEOPLE)], "size": np.arange(PEOPLE) + 0.5})
    values = np.arange(PEOPLE * 2).reshape(PEOPLE, 2).astype(np.float32)
    pairs: Any = {"pairs": task.pairs, "progress": False}
    return {
        "groups": (lambda: ahop.fit(task.people, groups=["a"] * PAIRS, **pairs), InvalidTypeError, "groups"),
        "no such column": (
            lambda: ahop.fit(task.people, categorical=["bloood"], **pairs),
            InvalidValueError,
            "Did you mean .*blood",
        ),
        "no such place": (lambda: ahop.fit(task.people, categorical=[6], **pairs), InvalidValueError, "0 to 5"),
        "a bare name": (lambda: ahop.fit(task.people, categorical="blood", **pairs), InvalidTypeError, "names or pl"),
        "too many values": (
            lambda: ahop.fit(values, pairs=(np.arange(PEOPLE), values), categorical=True, progress=False),
            InvalidValueError,
            f"at most {MOST_CATEGORIES}",
        ),
        "names of rows": (lambda: ahop.AssociativeMemory(names), InvalidTypeError, f"at most {MOST_WORDS}"),
        "a metric of numbers": (
            lambda: ahop.fit(task.people, similarity="euclidean", **pairs),
            InvalidValueError,
            "rows that hold categories",
        ),
        "no category": (
            lambda: ahop.fit(values, pairs=(np.arange(PEOPLE), values), similarity="categorical", progress=False),
            InvalidValueError,
            "needs columns of categories",
        ),
        "words for numbers": (
            lambda: fitted.recall(task.queries.assign(**{"marker 0": "tall"})),
            InvalidTypeError,
            "must hold numbers",
        ),
        "labels that repeat": (
            lambda: ahop.fit(task.people, labels=["a", "b", "c"] * (PEOPLE // 3), progress=False),
            InvalidTypeError,
            "categories have none",
        ),
        "following": (lambda: ahop.adapt(fitted, task.log), UnsupportedError, "categories"),
    }


@pytest.mark.parametrize("name", list(refused(Task(), ahop.AssociativeMemory(np.eye(3)))))
def test_it_is_refused(name: str, task: Task, fitted: ahop.AssociativeMemory) -> None:
    attempt, error, words = refused(task, fitted)[name]
    with pytest.raises(error, match=words):
        attempt()


def test_queries_without_numbers_are_learned_from_by_their_words() -> None:
    rng = np.random.default_rng(0)
    words = {f"c{place}": rng.choice(list("abcd"), 150) for place in range(6)}
    stored = pd.DataFrame({"x": rng.normal(size=150), **words})
    copies = stored.assign(x=stored["x"] + 0.1 * rng.normal(size=150))
    copies.loc[rng.random(150) < 0.3, "x"] = np.nan
    answer = ahop.fit(stored, queries=copies, progress=False).recall(copies)
    assert (answer.indices[:, 0] == np.arange(150)).mean() >= 0.9
    with pytest.raises(InvalidValueError, match="too few to learn from"):
        ahop.fit(stored, queries=copies.assign(x=np.nan), progress=False)


def copied_to_the_digit(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of whole numbers and codes; most numbers of a copy are as they were, others are off or of another row."""
    rng = np.random.default_rng(seed)
    left = pd.DataFrame({f"x{place}": np.rint(rng.lognormal(4, 1, 300)) for place in range(4)})
    left["code"] = rng.choice(list("abcd"), 300)
    right = left.copy()
    for name in left.columns[:4]:
        is_off, is_other = rng.random((2, 300)) < np.array([[0.2], [0.1]])
        right.loc[is_off, name] = np.rint(right.loc[is_off, name] * (1 + 0.05 * rng.normal(size=is_off.sum())))
        right.loc[is_other, name] = rng.permutation(left[name])[is_other]
    right.loc[rng.random(300) < 0.1, "x0"] = np.nan
    return left, right


def test_numbers_that_are_copied_to_the_digit_are_told_by_agreement() -> None:
    left, right = copied_to_the_digit()
    found = {}
    for name in ("mixture", "agreement", "auto"):
        memory = ahop.fit(left, queries=right, similarity=name, progress=False)
        answer = memory.recall(right)
        found[name] = (answer.indices[:, 0] == np.arange(300)).mean()
    assert found["agreement"] >= found["mixture"]
    assert isinstance(memory.report, FitReport)
    assert memory.report.chosen == "agreement"
    assert found["auto"] == found["agreement"] >= 0.95
    assert memory.report.categories is not None
    assert memory.report.categories.same_numbers == pytest.approx(0.7, abs=0.1)
    assert "Numbers are copied to the digit in" in str(memory.report)
    assert "agrees" in str(memory.explain(right.iloc[:1]))


def test_agreement_is_learned_from_pairs_and_kept(tmp_path: Path) -> None:
    left, right = copied_to_the_digit(1)
    memory = ahop.fit(left, pairs=(np.arange(200), right[:200]), similarity="agreement", progress=False)
    memory.save(tmp_path / "a.ahop")
    again = ahop.load(tmp_path / "a.ahop")
    np.testing.assert_array_equal(again.recall(right).posterior, memory.recall(right).posterior)
    assert (memory.recall(right[200:]).indices[:, 0] == np.arange(200, 300)).mean() >= 0.95
    with pytest.raises(UnsupportedError):
        ahop.open_memory(tmp_path / "a.ahop")


def test_agreement_of_numbers_alone() -> None:
    left, right = (each.drop(columns="code") for each in copied_to_the_digit(2))
    memory = ahop.fit(left, queries=right, similarity="agreement", progress=False)
    assert (memory.recall(right).indices[:, 0] == np.arange(300)).mean() >= 0.9


@pytest.mark.parametrize("given", [[1], "x", 3, None, {"x": ["a"]}, {"0": "a"}, {"0": ["a", 1]}, {"9": ["a"]}])
def test_words_of_a_bent_file_are_refused(given: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="categories of the dimensions"):
        as_columns({"dimensions": ["a", "b"], "categories": given}, 2)
    words = {"ahop_dimensions": json.dumps(["a", "b"]), "ahop_categories": json.dumps(given)}
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_names(pyarrow.schema([]).with_metadata(words), 2, Location.of(tmp_path / "table"))
