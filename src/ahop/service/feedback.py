"""What people say about answers: pairs of a query and the row that it came from; and answers to look at."""

import json
import os
import time
from collections import deque
from pathlib import Path
from threading import Lock
from typing import Any, final

import torch
from torch import Tensor

from ahop.errors import AhopError
from ahop.recaller import Recall
from ahop.service.options import Limits, Options
from ahop.service.request import read_rows

FILE = "pairs.jsonl"


@final
class Feedback:
    """Pairs, the newest of them, kept in a file of JSON lines if there is a folder for it.

    A line is on the disk before it is acknowledged. The file is written anew when it has twice as many lines as are
    kept.
    """

    def __init__(self, folder: Path | None, dimensions: int, limits: Limits) -> None:
        self._file = None if folder is None else folder / FILE
        self._limits, self._dimensions, self._lock = limits, dimensions, Lock()
        self._pairs: deque[tuple[list[float | None], int, str | None]] = deque(maxlen=limits.pairs)
        self._lines = 0
        self._read()

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, queries: Tensor, ids: list[int], groups: list[str] | None) -> None:
        """Keep pairs: each query came from the row of this number."""
        numbers = [[None if each != each else each for each in row] for row in queries.tolist()]
        named: list[str | None] = [None] * len(ids) if groups is None else list(groups)
        new = list(zip(numbers, ids, named, strict=True))
        lines = "".join(
            json.dumps({"query": query, "id": number, "group": group}) + "\n" for query, number, group in new
        )
        with self._lock:
            if self._file is not None:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("a", encoding="ascii") as file:
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())
            self._pairs.extend(new)
            self._lines += len(new)
            if self._file is not None and self._lines > 2 * self._limits.pairs:
                self._rewrite(self._file)

    def pairs(self) -> tuple[Tensor, list[int], list[str] | None]:
        """Queries, numbers of their rows, and their groups if all have one."""
        with self._lock:
            kept = list(self._pairs)
        numbers = torch.tensor(
            [[float("nan") if each is None else each for each in query] for query, _, _ in kept], dtype=torch.float32
        ).reshape(len(kept), self._dimensions)
        groups = [group for _, _, group in kept if group is not None]
        return numbers, [number for _, number, _ in kept], groups if kept and len(groups) == len(kept) else None

    def _read(self) -> None:
        if self._file is None or not self._file.exists():
            return
        with self._file.open(encoding="ascii", errors="replace") as file:
            for line in file:
                self._lines += 1
                try:
                    found = json.loads(line)
                    read_rows("query", [found["query"]], self._dimensions, 1)
                    group = found.get("group")
                    pair = found["query"], int(found["id"]), None if group is None else str(group)
                except (ValueError, KeyError, TypeError, AhopError):
                    continue  # the end of a line that was cut off, or of another collection
                self._pairs.append(pair)

    def _rewrite(self, path: Path) -> None:
        beside = path.with_suffix(".partial")
        with beside.open("w", encoding="ascii") as file:
            for query, number, group in self._pairs:
                file.write(json.dumps({"query": query, "id": number, "group": group}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        self._lines = len(self._pairs)


@final
class Review:
    """The last answers that a person should look at, with their queries; in memory alone, and only if asked for."""

    def __init__(self, options: Options) -> None:
        self._below = options.review_below
        self._kept: deque[dict[str, Any]] = deque(maxlen=options.review)
        self.is_on = options.review > 0

    def look(self, request: str, version: int, queries: Tensor, ids: list[list[int]], found: Recall[Tensor]) -> None:
        """Keep what is not sure enough, or likely unknown."""
        if not self.is_on:
            return
        confidence = torch.as_tensor(found.confidence)
        for row in (confidence < self._below).nonzero().squeeze(-1).tolist():
            kept = {
                "request": request,
                "time": round(time.time(), 3),
                "version": version,
                "query": [None if each != each else each for each in queries[row].tolist()],
                "ids": ids[row],
                "posterior": found.posterior[row].tolist(),
                "confidence": float(confidence[row]),
            }
            if found.unknown is not None:
                kept["unknown"] = float(found.unknown[row])
            self._kept.append(kept)

    def entries(self, count: int) -> list[dict[str, Any]]:
        """The newest first."""
        return list(self._kept)[::-1][:count]
