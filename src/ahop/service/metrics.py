"""Counters for Prometheus."""

from collections.abc import Callable, Mapping
from typing import final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@final
class Metrics:
    """What a service counts. No label comes from a request: names of collections are those that there are."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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
        self.queue = Gauge("ahop_queue", "Requests that wait to be answered", registry=self.registry)
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
        self.version = Gauge("ahop_version", "Version that is answered from", **on_collection)  # type: ignore[arg-type]
        self.patterns = Gauge("ahop_patterns", "Stored patterns", **on_collection)  # type: ignore[arg-type]
        self.pairs = Gauge("ahop_pairs", "Pairs of feedback that are kept", **on_collection)  # type: ignore[arg-type]
        self.fragments = Gauge("ahop_fragments", "Parts of the table", **on_collection)  # type: ignore[arg-type]
        self.tombstones = Gauge(
            "ahop_tombstones",
            "Removed rows that still lie in the table",
            **on_collection,  # type: ignore[arg-type]
        )

    def watch(self, waiting: Callable[[], int]) -> None:
        self.queue.set_function(waiting)

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
        return generate_latest(self.registry)
