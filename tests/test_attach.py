"""A search that somebody already runs, with probabilities in front of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import ahop
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.operate.attaching import AttachedSearch, Search

STORED, STRANGE, WIDTH, NOISE = 300, 100, 12, 0.6
Rows = NDArray[np.float32]


def patterns() -> Rows:
    return np.random.default_rng(0).normal(size=(STORED + STRANGE, WIDTH)).astype(np.float32)


def by_distance(rows: Rows) -> Search:
    def search(queries: Any, k: int) -> tuple[Any, Any]:
        distances = np.linalg.norm(queries[:, None] - rows[None], axis=-1)
        ids = distances.argsort(-1)[:, :k]
        return ids, np.take_along_axis(distances, ids, -1)

    return search


def by_closeness(rows: Rows) -> Search:
    def search(queries: Any, k: int) -> tuple[Any, Any]:
        ids, distances = by_distance(rows)(queries, k)
        return ids, -distances

    return search


def asked(count: int, seed: int) -> tuple[list[int | None], Rows]:
    """Rows that queries come from, None for a quarter of them, and the queries."""
    generator = np.random.default_rng(seed)
    rows = generator.integers(STORED + STRANGE, size=count)
    noise = NOISE * generator.normal(size=(count, WIDTH))
    queries = (patterns()[rows] + noise).astype(np.float32)
    return [int(row) if row < STORED else None for row in rows], queries


def attached(search: Search | None = None, **given: Any) -> AttachedSearch:
    found = by_distance(patterns()[:STORED]) if search is None else search
    return ahop.attach(found, **(given or {"pairs": asked(400, 1)}))


@pytest.fixture(scope="module")
def front() -> AttachedSearch:
    return attached()


def test_probabilities_in_front_of_a_search_are_right_and_tell_strangers(front: AttachedSearch) -> None:
    origins, queries = asked(1500, 2)
    answer = front.recall(queries)
    known = np.array([origin is not None for origin in origins])
    right = np.array([found == origin for found, origin in zip(answer.indices[:, 0], origins, strict=True)])
    assert answer.is_checked
    assert abs(float(answer.confidence.mean()) - float(right.mean())) <= 0.04
    assert answer.unknown is not None
    assert answer.unknown[~known].mean() > answer.unknown[known].mean() + 0.3
    sure = answer.confidence > 0.9
    assert right[sure].mean() >= 0.9


def test_scores_and_distances_give_the_same_answers(front: AttachedSearch) -> None:
    other = attached(by_closeness(patterns()[:STORED]), pairs=asked(400, 1))
    queries = asked(50, 3)[1]
    ours, theirs = front.recall(queries, 3), other.recall(queries, 3)
    assert front.report.distances
    assert not other.report.distances
    assert np.array_equal(ours.indices, theirs.indices)
    assert np.allclose(ours.posterior, theirs.posterior, atol=1e-6)


@pytest.mark.parametrize(("factor", "shift"), [(1e-3, -100.0), (1e3, 7.0)])
def test_the_unit_of_the_scores_does_not_matter(factor: float, shift: float) -> None:
    def search(queries: Any, k: int) -> tuple[Any, Any]:
        ids, distances = by_distance(patterns()[:STORED])(queries, k)
        return ids, factor * distances.astype(np.float64) + shift

    queries = asked(20, 3)[1]
    ours = attached(search, pairs=asked(100, 1)).recall(queries, 3)
    theirs = attached(pairs=asked(100, 1)).recall(queries, 3)
    assert np.allclose(ours.posterior, theirs.posterior, atol=1e-3)


def test_a_query_is_answered_alike_alone_twice_and_in_another_order(front: AttachedSearch) -> None:
    queries = asked(30, 4)[1]
    whole, again, back = front.recall(queries, 5), front.recall(queries, 5), front.recall(queries[::-1].copy(), 5)
    assert np.array_equal(whole.posterior, again.posterior)
    assert np.array_equal(whole.indices, back.indices[::-1])
    assert np.allclose(front.recall(queries[7:8], 5).posterior, whole.posterior[7:8], atol=1e-6)


def test_tensors_are_answered_with_tensors(front: AttachedSearch) -> None:
    queries = asked(5, 4)[1]
    answer, plain = front.recall(torch.from_numpy(queries), 2), front.recall(queries, 2)
    assert isinstance(answer.posterior, torch.Tensor)
    assert isinstance(answer.relevance, torch.Tensor)
    assert isinstance(plain.relevance, np.ndarray)
    assert np.array_equal(answer.indices.numpy(), plain.indices)


def test_ids_that_are_words_are_labels(front: AttachedSearch) -> None:
    def search(queries: Any, k: int) -> tuple[Any, Any]:
        ids, distances = by_distance(patterns()[:STORED])(queries, k)
        return [[f"row {each}" for each in row] for row in ids], distances

    origins, queries = asked(400, 1)
    named = attached(search, pairs=([None if each is None else f"row {each}" for each in origins], queries))
    answer, plain = named.recall(queries, 2), front.recall(queries, 2)
    assert answer.labels is not None
    assert answer.labels[:, 0].tolist() == [f"row {each}" for each in plain.indices[:, 0]]
    assert np.allclose(answer.posterior, plain.posterior)
    frame = answer.to_frame()
    assert frame["label"][0] == answer.labels[0, 0]


def test_texts_are_asked_as_they_are() -> None:
    words = [f"word {row}" for row in range(80)]

    def search(queries: list[str], k: int) -> tuple[Any, Any]:
        places = [int(query.split()[1]) for query in queries]
        ids = [[(place + step) % 80 for step in range(k)] for place in places]
        return ids, [[10.0 - step for step in range(k)] for _ in places]

    found = ahop.attach(search, pairs=(list(range(80)), words), candidates=5)
    answer = found.recall(["word 3", "word 70"])
    assert answer.indices[:, 0].tolist() == [3, 70]
    assert found.explain("word 3").answer == 3
    with pytest.raises(InvalidTypeError, match=r"Pass `\[query\]`"):
        found.recall("word 3")


def test_a_policy_keeps_its_promise_where_some_labels_are_none(front: AttachedSearch) -> None:
    policy = ahop.policy(front, asked(600, 5), precision=0.9)
    origins, queries = asked(1500, 6)
    answer = front.recall(queries)
    accepted = answer.decide(policy).actions == "accept"
    right = np.array([found == origin for found, origin in zip(answer.indices[:, 0], origins, strict=True)])
    assert accepted.mean() > 0.3
    assert right[accepted].mean() >= 0.88


def test_several_right_answers_have_relevance_of_their_own() -> None:
    rows = patterns()[:STORED]
    twins = np.concatenate([rows, rows + 0.01])
    origins, queries = asked(500, 1)
    right = [None if each is None else [each, each + STORED] for each in origins]
    found = attached(by_distance(twins), pairs=(right, queries))
    fresh, others = asked(500, 7)
    answer = found.recall(others, 10)
    assert answer.relevance is not None
    hits = np.array(
        [
            [each in (origin, origin + STORED) if origin is not None else False for each in row]
            for row, origin in zip(answer.indices.tolist(), fresh, strict=True)
        ]
    )
    assert answer.posterior[:, 0].mean() < 0.6  # two are as good as each other
    assert answer.relevance[:, 0].mean() > 0.55
    assert abs(float(answer.relevance.mean()) - float(hits.mean())) < 0.02
    policy = ahop.policy(found, (right, queries), precision=0.8)
    assert policy.accepted is not None


def test_explanations_sum_to_the_log_odds(front: AttachedSearch) -> None:
    query = asked(5, 8)[1][0]
    answer = front.recall(query[None], 3)
    first, rival = front.explain(query), int(answer.indices[0, 2])
    expected = np.log(answer.posterior[0, 0] / answer.posterior[0, 1])
    assert first.log_odds == pytest.approx(float(expected), abs=1e-4)
    assert {bar.name for bar in first.bars} >= {"score", "answered often"}
    assert front.explain(query, against=rival).rival == rival
    none = front.explain(query, against="unknown")
    assert answer.unknown is not None
    odds = answer.posterior[0, 0] * (1 - answer.unknown[0]) / answer.unknown[0]
    assert none.log_odds == pytest.approx(float(np.log(odds)), abs=1e-3)
    with pytest.raises(InvalidValueError, match="one of the candidates"):
        front.explain(query, against=10**6)


def test_what_was_learned_is_saved_without_the_search(front: AttachedSearch, tmp_path: Path) -> None:
    queries = asked(40, 9)[1]
    path = tmp_path / "front.ahop"
    front.save(path)
    again = ahop.attach(front.search, learned=path)
    ours, theirs = front.recall(queries, 4), again.recall(queries, 4)
    assert np.array_equal(ours.posterior, theirs.posterior)
    assert np.array_equal(np.asarray(ours.unknown), np.asarray(theirs.unknown))
    assert np.array_equal(np.asarray(ours.relevance), np.asarray(theirs.relevance))
    assert str(again.report) == str(front.report)
    assert str(ahop.watch(again, queries)) == str(ahop.watch(front, queries))
    ahop.AssociativeMemory(np.eye(2)).save(path)
    with pytest.raises(FileFormatError, match="learned about a search"):
        ahop.attach(front.search, learned=path)


def test_a_log_alone_gives_probabilities_that_nobody_has_checked() -> None:
    found = attached(queries=asked(400, 1)[1])
    assert not found.recall(asked(3, 2)[1]).is_checked
    assert str(found.report).startswith("Unchecked")
    assert ahop.watch(found, asked(50, 2)[1]).accuracy is None
    with pytest.raises(UnsupportedError, match="no label has checked"):
        ahop.policy(found, asked(100, 3), costs={"wrong": 20, "ask": 1})


def test_a_log_beside_clicks_tells_how_many_have_no_answer() -> None:
    origins, queries = asked(400, 1)
    clicked = [place for place, origin in enumerate(origins) if origin is not None]
    found = attached(pairs=([origins[place] for place in clicked], queries[clicked]), queries=asked(600, 5)[1])
    assert 0.15 <= found.report.unknown_rate <= 0.35


def test_a_search_is_watched_by_its_lists(front: AttachedSearch) -> None:
    origins, queries = asked(400, 10)
    calm = ahop.watch(front, queries)
    right = np.mean([a == b for a, b in zip(front.recall(queries).indices[:, 0], origins, strict=True)])
    assert calm.accuracy is not None
    assert calm.accuracy.low <= right <= calm.accuracy.high
    assert not calm.alarm
    moved = ahop.watch(front, queries + 1)
    assert moved.alarm
    assert moved.moved[0].name in ("best score", "last score", "mean score", "lead over the second")
    with pytest.raises(UnsupportedError, match="`groups` are for memories"):
        ahop.watch(front, queries, groups=["a"] * len(queries))


def test_short_lists_and_empty_ones_are_answered() -> None:
    def search(queries: Any, k: int) -> tuple[Any, Any]:
        ids, distances = by_distance(patterns()[:STORED])(queries, k)
        counts = np.where(queries[:, 0] > 0, 3, 0)
        there = range(len(queries))
        return [ids[row][: counts[row]] for row in there], [distances[row][: counts[row]] for row in there]

    origins, queries = asked(300, 1)
    origins = [origin if query[0] > 0 else None for origin, query in zip(origins, queries, strict=True)]
    found = attached(search, pairs=(origins, queries), candidates=10)
    answer = found.recall(np.array([[1.0] * WIDTH, [-1.0] * WIDTH], dtype=np.float32), 5)
    assert answer.indices[0, 3:].tolist() == [-1, -1]
    assert (answer.indices[0, :3] >= 0).all()
    assert answer.indices[1].tolist() == [-1] * 5
    assert answer.posterior[1].sum() == 0
    assert answer.unknown is not None
    assert answer.unknown[1] == 1
    with pytest.raises(UnsupportedError, match="nothing to explain"):
        found.explain([-1.0] * WIDTH)
    assert "queries" in str(ahop.watch(found, queries))


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"pairs": ([1, 2], np.ones((3, WIDTH)))}, ShapeError, "an entry of ids for each query"),
        ({"pairs": ([1, 2], np.ones((2, WIDTH)))}, InvalidValueError, "12 queries or more"),
        ({}, InvalidValueError, "12 queries or more"),
        ({"pairs": ([1] * 20, np.ones((20, WIDTH))), "learned": "x"}, InvalidTypeError, "goes without"),
        ({"queries": np.ones((20, WIDTH)), "candidates": 1}, InvalidValueError, "`candidates`"),
        ({"search": lambda queries, k: queries, "queries": np.ones((20, 3))}, InvalidTypeError, "ids and scores"),
        (
            {
                "search": lambda queries, k: ([[1]] * len(queries), [[np.nan]] * len(queries)),
                "queries": np.ones((20, 3)),
            },
            InvalidValueError,
            "finite scores",
        ),
        ({"search": lambda queries, k: ([1], [1.0]), "queries": np.ones((20, 3))}, ShapeError, "a row for each"),
    ],
)
def test_what_cannot_be_attached_is_refused(given: dict[str, Any], error: type[Exception], words: str) -> None:
    search = given.pop("search", by_distance(patterns()[:STORED]))
    with pytest.raises(error, match=words):
        ahop.attach(search, **given)


def test_filters_belong_to_the_search(front: AttachedSearch) -> None:
    with pytest.raises(UnsupportedError, match="`where` is for the search"):
        front.recall(asked(2, 1)[1], where=[1])
    with pytest.raises(UnsupportedError, match="`same`"):
        front.recall(asked(2, 1)[1], same=[1, 1])
    with pytest.raises(ShapeError, match=f"d={WIDTH}"):
        front.recall(np.ones((2, WIDTH + 1)))
