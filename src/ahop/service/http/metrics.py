"""Counters for Prometheus."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess, values

from ahop.operate.watching import WatchReport

# Where processes that count together keep their counters; the library looks for it.
TOGETHER = "PROMETHEUS_MULTIPROC_DIR"

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOO_MANY = 429
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@final
class Metrics:
    """Metrics of a service. No label comes from a request: names of collections are those that there are."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        kept = {"labelnames": ("collection",), "registry": self.registry, "multiprocess_mode": "livemax"}
        on_collection = {"labelnames": ("collection",), "registry": self.registry}
        self.seconds = Histogram(
            "ahop_request_seconds",
            "Seconds from the headers of a request to its answer",
            ("route",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.requests = Counter("ahop_requests", "Requests by answer", ("route", "status"), registry=self.registry)
        self.rejected = Counter("ahop_rejected", "Requests that were told to come back", registry=self.registry)
        self.queue = Gauge(
            "ahop_queue", "Requests that wait to be answered", registry=self.registry, multiprocess_mode="livesum"
        )
        self._waiting: Callable[[], int] = lambda: 0
        self.queries = Counter("ahop_queries", "Queries that were answered", **on_collection)  # type: ignore[arg-type]
        self.unknown = Counter(
            "ahop_queries_unknown",
            "Sum of the probabilities that queries come from no stored pattern",
            **on_collection,  # type: ignore[arg-type]
        )
        self.top = Counter(
            "ahop_queries_confidence",
            "Sum of the confidences of first answers; over ahop_queries_total, the estimated accuracy",
            **on_collection,  # type: ignore[arg-type]
        )
        self.version = Gauge("ahop_version", "Version that is answered from", **kept)  # type: ignore[arg-type]
        self.patterns = Gauge("ahop_patterns", "Stored patterns", **kept)  # type: ignore[arg-type]
        self.pairs = Gauge("ahop_pairs", "Pairs of feedback that are kept", **kept)  # type: ignore[arg-type]
        of_group = {**kept, "labelnames": ("collection", "group")}
        self.watched_accuracy = Gauge(
            "ahop_watched_accuracy",
            "Share of right answers to the last queries, as the posteriors have it",
            **of_group,  # type: ignore[arg-type]
        )
        self.moved = Gauge(
            "ahop_moved_dimensions",
            "Dimensions that have moved since the fit",
            **of_group,  # type: ignore[arg-type]
        )
        self.fragments = Gauge("ahop_fragments", "Parts of the table", **kept)  # type: ignore[arg-type]
        self.tombstones = Gauge(
            "ahop_tombstones",
            "Removed rows that still lie in the table",
            **kept,  # type: ignore[arg-type]
        )

    def saw(self, collection: str, report: WatchReport) -> None:
        """Set the gauges of the watch: of all queries, and of each group that the model knows."""
        for group, each in (("", report), *report.groups.items()):
            if each.accuracy is not None:
                self.watched_accuracy.labels(collection, group).set(each.accuracy.value)
            self.moved.labels(collection, group).set(len(each.moved))

    def watch(self, waiting: Callable[[], int]) -> None:
        self._waiting = waiting

    def ended(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.seconds.labels(route).observe(seconds)
        self.requests.labels(route, str(status)).inc()
        self.queue.set(self._waiting())
        if status == TOO_MANY:
            self.rejected.inc()

    def answered(self, collection: str, count: int, confidence: float, unknown: float | None) -> None:
        """Args: confidence, unknown: sums over the queries."""
        self.queries.labels(collection).inc(count)
        self.top.labels(collection).inc(confidence)
        if unknown is not None:
            self.unknown.labels(collection).inc(unknown)

    def state(self, collection: str, version: int, patterns: int, pairs: int, facts: Mapping[str, float]) -> None:
        self.version.labels(collection).set(version)
        self.patterns.labels(collection).set(patterns)
        self.pairs.labels(collection).set(pairs)
        for name, gauge in (("fragments", self.fragments), ("tombstones", self.tombstones)):
            if name in facts:
                gauge.labels(collection).set(facts[name])

    def text(self) -> bytes:
        self.queue.set(self._waiting())
        if TOGETHER not in os.environ:
            return generate_latest(self.registry)
        of_all = CollectorRegistry()
        multiprocess.MultiProcessCollector(of_all)  # type: ignore[no-untyped-call]
        return generate_latest(of_all)


@contextmanager
def counted_together() -> Iterator[Callable[[int], None]]:
    """Processes that are forked within count together; gives what forgets one that is gone."""
    with tempfile.TemporaryDirectory(prefix="ahop-counters-") as folder:
        os.environ[TOGETHER] = folder
        # It has looked for the folder before, when it was imported.
        values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]
        yield lambda number: multiprocess.mark_process_dead(number, folder)  # type: ignore[no-untyped-call]
