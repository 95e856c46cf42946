"""The `ask` function: the queries whose origins are worth knowing."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ahop._core.checks import check_count
from ahop._core.typing import RowsLike
from ahop.errors import InvalidValueError
from ahop.memory.recall import Recaller


def ask(memory: Recaller, queries: RowsLike, k: int = 20, *, groups: Sequence[object] | None = None) -> Tensor:
    """The rows (k,) of queries that a person should label: as evenly sure as all of them are.

    Labels show how often answers are right that are said with some probability. Queries are put in the order of how
    sure their answers are, and one is taken from each of k equal parts of it, so that no degree of sureness is left to
    chance; of a part the one in the middle, and of queries with the same answer the first only, if there are others.
    Any first few of them are spread in the same way.

    Args:
        memory: whatever recalls; one that has learned from the queries is best.
        queries: (b, d) a log, or a part of it that is like the rest.
        k: how many labels can be had. Twenty calibrate probabilities; a promise of `ahop.policy` needs about three for
            each share of errors that is allowed, such as 29 for a precision of 0.9.
        groups: where each query comes from, if the memory was fitted with groups.

    Example:
        >>> memory, log = AssociativeMemory(torch.eye(3)), torch.eye(3)[[0, 1, 2, 0]]
        >>> len(ask(memory, log, k=2))
        2
    """
    answer = memory.recall(queries, groups=groups)
    count, wanted = len(answer.indices), check_count("k", k)
    if wanted > count:
        raise InvalidValueError(f"`k` must be at most {count}, as many as there are queries; got {k}.")
    order = torch.as_tensor(answer.confidence).argsort(stable=True).cpu()
    first, taken, chosen = torch.as_tensor(answer.indices)[:, 0].cpu(), set[int](), list[int]()
    for place in _spread(wanted):
        part = order[place * count // wanted : (place + 1) * count // wanted].tolist()
        by_middle = _from_middle(part)
        row = next((each for each in by_middle if int(first[each]) not in taken), by_middle[0])
        taken.add(int(first[row]))
        chosen.append(row)
    return torch.tensor(chosen)


def _from_middle(rows: list[int]) -> list[int]:
    """Order rows from the middle outwards."""
    return [rows[place] for place in sorted(range(len(rows)), key=lambda place: abs(2 * place + 1 - len(rows)))]


def _spread(count: int) -> list[int]:
    """The numbers below a count, each as far from those before it as can be: by their bits in reverse."""
    bits = max(1, (count - 1).bit_length())
    reverse = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits))
    return [number for number in reverse if number < count]
