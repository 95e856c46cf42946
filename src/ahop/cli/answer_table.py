"""Answers of a memory as tables, for files and for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table as Grid

from ahop.cli.talk import grid

# Queries that are shown; a file has all.
SHOWN = 10


@dataclass(frozen=True)
class Answers:
    """Answers of a recall, as columns.

    Attributes:
        queries: (b,) what they are called.
        answers: (b, k) labels or rows of the stored patterns, best first; None beyond those that there are.
        posterior: (b, k) how sure each is.
        unknown: (b,) how likely each query comes from none of them; None if the memory cannot tell.
        confidence: (b,) how likely each first answer is right.
        actions: (b,) "accept", "ask" or "unknown"; None if nobody asked.
    """

    queries: Sequence[object]
    answers: NDArray[Any]
    posterior: NDArray[Any]
    unknown: NDArray[Any] | None
    confidence: NDArray[Any]
    actions: NDArray[Any] | None

    def columns(self) -> dict[str, Sequence[Any]]:
        """A long table: a line for each answer, by query and rank."""
        count, k = self.answers.shape
        found: dict[str, Any] = {
            "query": [query for query in self.queries for _ in range(k)],
            "rank": [rank + 1 for _ in range(count) for rank in range(k)],
            "answer": self.answers.reshape(-1).tolist(),
            "posterior": self.posterior.reshape(-1).tolist(),
            "confidence": np.repeat(self.confidence, k).tolist(),
        }
        if self.unknown is not None:
            found["unknown"] = np.repeat(self.unknown, k).tolist()
        if self.actions is not None:
            found["action"] = np.repeat(self.actions, k).tolist()
        kept = [place for place, each in enumerate(found["answer"]) if each is not None]
        return {name: [values[place] for place in kept] for name, values in found.items()}

    def documents(self) -> list[dict[str, Any]]:
        """One for each query."""
        return [
            {
                "query": query,
                "answers": [
                    {"answer": name, "posterior": float(p)}
                    for name, p in zip(self.answers[row], self.posterior[row], strict=True)
                    if name is not None
                ],
                "confidence": float(self.confidence[row]),
                **({} if self.unknown is None else {"unknown": float(self.unknown[row])}),
                **({} if self.actions is None else {"action": str(self.actions[row])}),
            }
            for row, query in enumerate(self.queries)
        ]

    def shown(self) -> Grid:
        """The first few, for people."""
        has_unknown = self.unknown is not None
        titles = ["query", "answer", "confidence", "none of these", "if one of them"] if has_unknown else []
        titles = titles or ["query", "answer", "confidence", "then"]
        titles += ["action"] if self.actions is not None else []
        rows = [self._row(row) for row in range(min(SHOWN, len(self.queries)))]
        return grid(titles, rows, ("confidence", "none of these"))

    def _row(self, row: int) -> list[str]:
        names, sure = self.answers[row], self.posterior[row]
        first = 1 if self.unknown is None else 0  # beside "none of these", all are shown as they are among themselves
        then = [f"{name} {p:.2f}" for name, p in zip(names[first:], sure[first:], strict=True) if name is not None]
        found = [str(self.queries[row]), str(names[0]), f"{self.confidence[row]:.3f}"]
        found += [f"{self.unknown[row]:.3f}"] if self.unknown is not None else []
        found += [", ".join(then)]
        return [*found, str(self.actions[row])] if self.actions is not None else found
