"""What is promised about threads: any number may recall, add and remove; each call sees one state of the memory."""

import copy
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

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
