"""Limits and options of a service."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from ahop.service.keys import Key

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Limits of one request, one connection and the queue. Whatever is beyond is refused in words.

    Attributes:
        body_bytes: of a request.
        body_values: numbers, words, lists and objects of a request, as they are counted before it is read; fewer where
            the collection has no use for so many. Reading holds up all others: a million for about 60 ms.
        held_bytes: of the bodies of all requests that are being answered.
        header_bytes: of its first line and headers together.
        queries: of a request.
        answers: the largest `k`.
        answer_bytes: of an answer, as they are counted before it is worked on: not less than are sent.
        unread_bytes: of all answers that are worked on or not yet taken by who asked; small ones are always given.
        values: that a filter may name for a column.
        explained: queries of a request that asks for explanations.
        explaining: such requests at a time.
        header_seconds: to send the headers, from the connection or the last answer on.
        body_seconds: to send the body.
        answer_seconds: to be answered.
        write_seconds: to take the answer.
        connections: open at a time; if there are more, those are closed first that have not asked anything yet.
        waiting: requests in the queue.
        wait_seconds: a request that would wait longer than this, and twice its own work, is told to come back.
        work_seconds: that the queries of one request may take.
        pairs: of feedback that are kept; the oldest go first.
        fits: that run at a time, with those of other services of the same user on this machine.
        fit_seconds: that a refit may take.
        collections: that there may be, with those that requests create.
    """

    body_bytes: int = 8 * MIB
    body_values: int = 2**20
    held_bytes: int = 256 * MIB
    header_bytes: int = 16 * 2**10
    queries: int = 1024
    answers: int = 1000
    answer_bytes: int = 4 * MIB
    unread_bytes: int = 64 * MIB
    values: int = 10_000
    explained: int = 16
    explaining: int = 4
    header_seconds: float = 10.0
    body_seconds: float = 10.0
    answer_seconds: float = 30.0
    write_seconds: float = 30.0
    connections: int = 1024
    waiting: int = 256
    wait_seconds: float = 0.02
    work_seconds: float = 20.0
    pairs: int = 10_000
    fits: int = 2
    fit_seconds: float = 3600.0
    collections: int = 100

    @property
    def request_seconds(self) -> float:
        """From the headers of a request to its answer, whatever its parts take."""
        return self.body_seconds + self.answer_seconds + self.header_seconds

    def shared_by(self, count: int) -> "Limits":
        """The share of each of several processes in what all of them may hold."""
        return replace(
            self,
            connections=max(1, self.connections // count),
            held_bytes=max(self.body_bytes, self.held_bytes // count),
            unread_bytes=max(self.answer_bytes, self.unread_bytes // count),
        )


@dataclass(frozen=True)
class Options:
    """Options of a service.

    Attributes:
        limits: what requests may cost.
        keys: who may ask; if there are none, everybody who reaches the port, which must then be of the loopback.
        window_seconds: how long the first of several requests waits for others to be answered together with it.
        slice_seconds: of work on one request before others get their turn.
        review: so many answers that a person should look at are kept, with their queries, in memory; 0 for none.
        review_below: answers whose confidence is below this are kept for review.
        watch: so many of the last queries are kept, in memory, to see what has moved; 0 for none.
        watch_seconds: how often the counters tell what they show.
        drain_seconds: between the signal to end and the closing of the port: time for a load balancer to notice.
        follow_seconds: how often to look for what others have written; 0 for only when `refresh` is asked for.
        compact_seconds: how often to look for stores of many parts, removed rows or versions, and to compact them; 0
            for never.
        create_in: a folder in which requests may create collections; the stores that are there are served too.
        index: answer through indexes where few of a file's patterns are asked for; made at the first start, and kept.
        shards: hold each store in so many shards of a cluster; 0 to hold it in this process.
        replicas: of each shard.
        ray: address of the Ray cluster; None for the one that `RAY_ADDRESS` names, or one of our own on this machine.
        log_accepted: a line in the log for each request when its headers are here, beside that when it is answered.
        is_read_only: nothing can be changed by requests.
    """

    limits: Limits = field(default_factory=Limits)
    keys: tuple[Key, ...] = ()
    window_seconds: float = 0.001
    slice_seconds: float = 0.05
    review: int = 0
    review_below: float = 0.5
    watch: int = 0
    watch_seconds: float = 60.0
    drain_seconds: float = 0.5
    follow_seconds: float = 0.0
    compact_seconds: float = 60.0
    create_in: Path | None = None
    index: bool = False
    shards: int = 0
    replicas: int = 1
    ray: str | None = None
    log_accepted: bool = False
    is_read_only: bool = False
