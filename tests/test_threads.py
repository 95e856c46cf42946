"""What is promised about threads: any number may recall, add and remove; each call sees one state of the memory.

How many threads torch takes is left as it was, also for those that begin while something is fitted.
"""

import copy
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch

import ahop

COUNT, DIMENSIONS = 400, 16


def patterns(count: int = COUNT, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, DIMENSIONS, generator=torch.Generator().manual_seed(seed))


def test_removing_from_a_copy_spoils_no_answer_of_the_original() -> None:
    stored = patterns()
    memory, expected = ahop.AssociativeMemory(stored), list(range(COUNT))
    memory.recall(stored[:1])
    done = Event()

    def shrink() -> None:
        while not done.is_set():
            copy = memory.copy()
            copy.recall(stored[:1])
            copy.remove(torch.arange(0, COUNT // 2, 3))
            copy.recall(stored[:1])

    with ThreadPoolExecutor(2) as pool:
        shrinking = pool.submit(shrink)
        try:
            answers = [memory.recall(stored).indices.squeeze(-1).tolist() for _ in range(60)]
        finally:
            done.set()
        shrinking.result()
    assert all(answer == expected for answer in answers)


def test_rows_that_several_threads_add_are_all_there() -> None:
    memory = ahop.AssociativeMemory(patterns(10), ahop.EuclideanSimilarity())

    def add(thread: int) -> list[tuple[int, float]]:
        found = []
        for number in range(40):
            value = float(1000 * (thread + 1) + number)
            (row,) = memory.add(torch.full((1, DIMENSIONS), value)).tolist()
            found.append((row, value))
        return found

    with ThreadPoolExecutor(4) as pool:
        added = [each for part in pool.map(add, range(4)) for each in part]
    assert len(memory) == 10 + 160
    assert sorted(row for row, _ in added) == list(range(10, 170))
    assert all(float(memory.patterns[row, 0]) == value for row, value in added)


def test_a_call_sees_one_state_of_patterns_and_labels() -> None:
    stored = patterns(50)
    memory = ahop.AssociativeMemory(
        stored, ahop.EuclideanSimilarity(), ahop.Softmax(50.0), labels=[f"first {row}" for row in range(50)]
    )
    done = Event()

    def change() -> None:
        for number in range(200):
            memory.add(patterns(3, seed=number + 1), labels=[f"more {number} {each}" for each in range(3)])
            memory.remove(torch.arange(len(memory) - 3, len(memory)))
        done.set()

    with ThreadPoolExecutor(2) as pool:
        changing = pool.submit(change)
        while not done.is_set():
            found = memory.recall(stored, k=2)
            assert found.labels is not None
            assert found.labels[:, 0].tolist() == [f"first {row}" for row in range(50)]
            assert found.indices[:, 0].tolist() == list(range(50))
        changing.result()


def test_a_part_may_be_replaced_while_others_recall() -> None:
    stored = patterns(100)
    memory = ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity(), ahop.Softmax(1.0))
    allowed = []
    for beta in (1.0, 3.0):
        memory.separation = ahop.Softmax(beta)
        allowed.append(memory.recall(stored, k=3).posterior.numpy())
    with ThreadPoolExecutor(2) as pool:

        def swap() -> None:
            for number in range(300):
                memory.separation = ahop.Softmax(3.0 if number % 2 else 1.0)

        swapping = pool.submit(swap)
        while not swapping.done():
            found = memory.recall(stored, k=3).posterior.numpy()
            assert any(np.allclose(found, each) for each in allowed)
        swapping.result()


def _while_adding(memory: ahop.AssociativeMemory, look: Callable[[], None], times: int) -> None:
    """Look so often, while another thread adds and removes labelled rows as fast as it can."""
    done = Event()

    def change() -> None:
        number = 0
        while not done.is_set():
            memory.add(torch.full((1, DIMENSIONS), float(number)), labels=[str(number)])
            number += 1
            if len(memory) > 60:
                memory.remove([50])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            changing = pool.submit(change)
            try:
                for _ in range(times):
                    look()
            finally:
                done.set()
            changing.result()
    finally:
        sys.setswitchinterval(interval)


def _labelled() -> ahop.AssociativeMemory:
    stored = patterns(50)
    stored[:, 0] = torch.arange(50.0)
    return ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity(), labels=[str(row) for row in range(50)])


def _is_one_state(memory: ahop.AssociativeMemory) -> bool:
    labels = memory.labels
    return labels is not None and [float(each) for each in labels] == memory.patterns[:, 0].tolist()


@pytest.mark.parametrize(
    "copied",
    [ahop.AssociativeMemory.copy, copy.copy, copy.deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))],
    ids=["copy method", "copy", "deepcopy", "pickle"],
)
def test_a_copy_is_of_one_state(copied: Callable[[ahop.AssociativeMemory], ahop.AssociativeMemory]) -> None:
    memory = _labelled()

    def look() -> None:
        assert _is_one_state(copied(memory))

    _while_adding(memory, look, 150)


def test_a_file_is_of_one_state(tmp_path: Path) -> None:
    memory = _labelled()

    def look() -> None:
        memory.save(tmp_path / "memory.ahop")
        assert _is_one_state(ahop.load(tmp_path / "memory.ahop"))

    _while_adding(memory, look, 100)


def test_scores_weights_and_answers_are_of_one_state() -> None:
    memory = _labelled()
    memory.model = ahop.Model(memory.similarity, groups={"phone": ahop.DotSimilarity()})
    asked = patterns(3)

    def look() -> None:
        assert memory.weights(asked).sum(-1).allclose(torch.ones(3))
        assert memory.scores(asked).shape[0] == memory.retrieve(asked).shape[0] == len(memory.energy(asked))
        assert _is_one_state(memory.for_group("phone"))

    _while_adding(memory, look, 150)


def test_what_is_added_to_a_copy_is_not_in_the_original() -> None:
    memory = _labelled()
    other = copy.copy(memory)
    other.add(torch.zeros(1, DIMENSIONS), labels=["0"])
    assert (len(memory), len(other)) == (50, 51)
    assert _is_one_state(memory)
    assert _is_one_state(other)


# How many threads torch takes.


def in_another(work: Callable[..., Any], *given: Any) -> Any:
    """What comes of it in a thread that begins now."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, *given).result()


@pytest.fixture
def three_threads() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def fit(way: str, metric: Callable[[Any, Any], Any]) -> None:
    """One way to learn; it asks the metric for scores on the way."""
    stored = patterns(60)
    pairs = ahop.NoisyVariant(0.1).sample(stored, 64, seed=1)
    if way == "pairs":
        ahop.fit(stored, pairs=pairs, similarity="euclidean", candidates=[metric], progress=False)
    elif way == "queries":
        ahop.fit(stored, queries=pairs.queries, similarity="euclidean", candidates=[metric], progress=False)
    else:
        memory = ahop.fit(stored, pairs=pairs, similarity="euclidean", candidates=[metric], progress=False)
        ahop.adapt(memory, ahop.NoisyVariant(0.2).sample(stored, 200, seed=2).queries, progress=False)


every_fit = pytest.mark.parametrize("way", ["pairs", "queries", "adapt"])


@every_fit
def test_a_fit_leaves_the_threads_of_torch_to_others(way: str, three_threads: None) -> None:
    seen = []

    def metric(stored: Any, queries: Any) -> Any:
        seen.append((torch.get_num_threads(), in_another(torch.get_num_threads)))
        return -torch.cdist(queries.nan_to_num(), stored.nan_to_num())

    fit(way, metric)
    assert (1, 3) in seen, "a small fit is done by one thread"
    assert {others for _, others in seen} == {3}
    assert (torch.get_num_threads(), in_another(torch.get_num_threads)) == (3, 3)


@every_fit
def test_a_fit_that_fails_gives_the_threads_back(way: str, three_threads: None) -> None:
    def metric(stored: Any, queries: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(way, metric)
    assert (torch.get_num_threads(), in_another(torch.get_num_threads)) == (3, 3)


def test_fits_at_the_same_time_give_the_threads_back(three_threads: None) -> None:
    """The second begins within the first, and ends after it."""
    first_has_begun, second_has_begun, first_is_done = Event(), Event(), Event()

    def closeness(stored: Any, queries: Any) -> Any:
        return -torch.cdist(queries, stored)

    def first(stored: Any, queries: Any) -> Any:
        first_has_begun.set()
        assert second_has_begun.wait(60)
        return closeness(stored, queries)

    def second(stored: Any, queries: Any) -> Any:
        second_has_begun.set()
        assert first_is_done.wait(60)
        return closeness(stored, queries)

    def learn(metric: Callable[[Any, Any], Any], has_ended: Event) -> int:
        fit("pairs", metric)
        has_ended.set()
        return torch.get_num_threads()

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(learn, first, first_is_done)
        assert first_has_begun.wait(60)
        two = pool.submit(learn, second, Event())
        assert (one.result(), two.result()) == (3, 3)
    assert (torch.get_num_threads(), in_another(torch.get_num_threads)) == (3, 3)


def test_the_threads_of_an_estimator_are_its_own(three_threads: None) -> None:
    from ahop.estimators._threads import threads

    with threads(2):
        assert (torch.get_num_threads(), in_another(torch.get_num_threads)) == (2, 3)
        with threads(None):
            assert torch.get_num_threads() == 2
    assert (torch.get_num_threads(), in_another(torch.get_num_threads)) == (3, 3)

    def limited() -> int:
        torch.set_num_threads(1)  # as whoever began while another had set it
        in_another(torch.set_num_threads, 3)
        with threads(None):
            return int(in_another(torch.get_num_threads))

    assert in_another(limited) == 3, "what is not asked for is not set"


@pytest.mark.parametrize("n_jobs", [None, 1])
def test_estimators_give_the_threads_back(n_jobs: int | None, three_threads: None) -> None:
    estimators = pytest.importorskip("ahop.estimators")
    stored = patterns(60)
    classes = np.arange(60) % 3
    estimators.PrototypeClassifier(n_jobs=n_jobs).fit(stored.numpy(), classes).predict(stored.numpy())
    assert (torch.get_num_threads(), in_another(torch.get_num_threads)) == (3, 3)
    with pytest.raises(ValueError, match=r"NaN|inf|sample"):
        estimators.PrototypeClassifier(n_jobs=n_jobs).fit(np.full((4, 3), np.inf), classes[:4])
    assert (torch.get_num_threads(), in_another(torch.get_num_threads)) == (3, 3)


def test_an_index_gives_the_threads_back(three_threads: None) -> None:
    faiss = pytest.importorskip("faiss")
    before = faiss.omp_get_max_threads(), in_another(faiss.omp_get_max_threads)
    index = ahop.index(ahop.AssociativeMemory(patterns(3000), ahop.EuclideanSimilarity()))
    index.recall(patterns(5))
    assert (faiss.omp_get_max_threads(), in_another(faiss.omp_get_max_threads)) == before
    assert (torch.get_num_threads(), in_another(torch.get_num_threads)) == (3, 3)
