"""The last queries of a collection, and what they show: how many answers are right, and what has moved."""

from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import Any, final

import torch
from torch import Tensor

from ahop.operate.watching import WatchReport, watch
from ahop.service.collections.snapshot import Snapshot

# Fewer show nothing.
LEAST = 20
# Dimensions that are told of.
TOLD = 10


@final
class Watched:
    """Keeps queries in memory alone, and only if that was asked for.

    Args:
        count: how many; 0 for none.
    """

    def __init__(self, count: int) -> None:
        self.is_on = count > 0
        self._kept: deque[tuple[Tensor, str | None]] = deque(maxlen=count)
        self._lock, self._looking, self._new = Lock(), Lock(), 0

    def look(self, queries: Tensor, groups: list[str] | None) -> None:
        """These were asked."""
        if not self.is_on:
            return
        with self._lock:
            names: Sequence[str | None] = groups if groups is not None else [None] * len(queries)
            self._kept.extend(zip(queries.unbind(), names, strict=True))
            self._new += len(queries)

    @property
    def is_looking(self) -> bool:
        """True while a report is being made."""
        return self._looking.locked()

    def is_due(self) -> bool:
        """True if there are enough new queries to look again."""
        return self._new >= LEAST

    def report(self, snapshot: Snapshot) -> WatchReport | None:
        """Watch the kept queries; None while there are too few. Groups that the model does not know count among all."""
        with self._looking:
            return self._report(snapshot)

    def _report(self, snapshot: Snapshot) -> WatchReport | None:
        with self._lock:
            kept, self._new = list(self._kept), 0
        if len(kept) < LEAST:
            return None
        queries, names = torch.stack([query for query, _ in kept]), [name for _, name in kept]
        known = set(snapshot.memory.model.group_names)
        told = None if not known or any(name not in known for name in names) else [str(name) for name in names]
        return watch(snapshot.memory, queries.to(snapshot.memory.patterns), groups=told)


def report_words(report: WatchReport) -> dict[str, Any]:
    """A report as JSON has it."""
    return {
        "queries": report.queries,
        "accuracy": None if report.accuracy is None else vars(report.accuracy),
        "unknown": None if report.unknown is None else vars(report.unknown),
        "alarm": report.alarm,
        "moved": [{"name": each.name, "what": each.what, "words": str(each)} for each in report.moved[:TOLD]],
        "words": str(report),
        "groups": {name: report_words(each) for name, each in report.groups.items()},
    }
