"""What is promised about threads: any number may recall, add and remove; each call sees one state of the memory."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
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
