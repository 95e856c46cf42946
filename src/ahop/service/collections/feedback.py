"""Feedback: pairs of a query and the row that it came from; and answers for people to review."""

import json
import logging
import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias, final

import msgspec
import torch
from torch import Tensor

from ahop._core.files import digest, flush, make_folder, replacing
from ahop.memory.recall import Recall
from ahop.service.logs import log
from ahop.service.options import Limits, Options

FILE = "pairs.jsonl"

# A query, the number of the row that it came from, its group, and a digest of the pattern that this row had. Lines that
# were written before there were digests have none.
Pair: TypeAlias = tuple[list[float | None], int, str | None, str | None]
FIELDS = ("query", "id", "group", "pattern")


class Line(msgspec.Struct):
    """Pair as its line in the file has it."""

    query: list[float | None]
    id: int
    group: str | None
    checksum: str
    pattern: str | None = None


READER = msgspec.json.Decoder(Line)


@final
class Feedback:
    """Pairs, the newest of them, kept in a file of JSON lines if there is a folder for it.

    A line is on the disk before it is acknowledged, and carries a checksum. The file is written anew when it has twice
    as many lines as are kept.
    """

    def __init__(self, folder: Path | None, dimensions: int, limits: Limits) -> None:
        self._file = None if folder is None else folder / FILE
        self._limits, self._dimensions, self._lock = limits, dimensions, Lock()
        self._pairs: deque[Pair] = deque(maxlen=limits.pairs)
        self._lines = 0
        self._read()

    def __len__(self) -> int:
        return len(self._pairs)

    def add(
        self, queries: Tensor, ids: list[int], groups: list[str] | None, patterns: Sequence[str] | None = None
    ) -> None:
        """Keep pairs: each query came from the row of this number, whose pattern has this digest."""
        numbers = [[None if each != each else each for each in row] for row in queries.tolist()]
        named: list[str | None] = [None] * len(ids) if groups is None else list(groups)
        digests: list[str | None] = [None] * len(ids) if patterns is None else list(patterns)
        new: list[Pair] = list(zip(numbers, ids, named, digests, strict=True))
        with self._lock:
            if self._file is not None:
                _append(self._file, "".join(map(_line, new)))
            self._pairs.extend(new)
            self._lines += len(new)
            if self._file is not None and self._lines > 2 * self._limits.pairs:
                with replacing(self._file) as beside:
                    beside.write_text("".join(map(_line, self._pairs)), "ascii")
                self._lines = len(self._pairs)

    def pairs(self) -> tuple[Tensor, list[int], list[str] | None, list[str | None]]:
        """Queries, numbers of their rows, their groups if all have one, and digests of their patterns."""
        with self._lock:
            kept = list(self._pairs)
        numbers = torch.tensor(
            [[float("nan") if each is None else each for each in query] for query, *_ in kept], dtype=torch.float32
        ).reshape(len(kept), self._dimensions)
        ids, digests = [number for _, number, _, _ in kept], [pattern for *_, pattern in kept]
        groups = [group for _, _, group, _ in kept if group is not None]
        return numbers, ids, groups if kept and len(groups) == len(kept) else None, digests

    def _read(self) -> None:
        if self._file is None or not self._file.exists():
            return
        left_out = 0
        with self._file.open(encoding="ascii", errors="replace") as file:
            for line in file:
                self._lines += 1
                pair = self._pair(line)
                if pair is None:
                    left_out += 1
                else:
                    self._pairs.append(pair)
        if left_out:
            log("pairs_left_out", logging.WARNING, file=str(self._file), lines=left_out)

    def _pair(self, line: str) -> Pair | None:
        """None if the line was cut off or damaged, or is of another collection."""
        try:
            found = READER.decode(line)
        except ValueError:
            return None
        pair = found.query, found.id, found.group, found.pattern
        is_whole = len(found.query) == self._dimensions and _line(pair).rstrip() == line.rstrip()
        return pair if is_whole else None


def _line(pair: Pair) -> str:
    fields = dict(zip(FIELDS, pair, strict=True))
    words = json.dumps({name: value for name, value in fields.items() if name != "pattern" or value is not None})
    return f'{words[:-1]}, "checksum": "{digest(words.encode())[:16]}"}}\n'


def _append(path: Path, lines: str) -> None:
    """Add lines to a file; on the disk when this returns."""
    make_folder(path.parent)
    is_new = not path.exists()
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        is_cut_off = file.read(1) not in (b"", b"\n")  # a process was killed there: what it wrote must not spoil ours
        file.write(b"\n" * is_cut_off + lines.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        flush(path.parent)


@final
class Review:
    """The last answers that a person should look at, with their queries; in memory alone, and only if asked for."""

    def __init__(self, options: Options) -> None:
        self._below = options.review_below
        self._kept: deque[dict[str, Any]] = deque(maxlen=options.review)
        self.is_on = options.review > 0

    def look(self, request: str, version: int, queries: Tensor, ids: list[list[int]], found: Recall[Tensor]) -> None:
        """Keep what is not sure enough, or likely unknown."""
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

    def entries(self, count: int, most: int) -> list[dict[str, Any]]:
        """The newest first; as many as have so many bytes in JSON."""
        found, size = list[dict[str, Any]](), 0
        for each in list(self._kept)[::-1][:count]:
            size += len(json.dumps(each)) + len(", ")
            if size > most:
                break
            found.append(each)
        return found
