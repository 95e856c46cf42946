"""Upper bounds of the bytes of an answer as it is sent; counted before any work is done on it."""

from http import HTTPStatus

from ahop.service.collections.snapshot import BaseSnapshot, Snapshot
from ahop.service.http.answers import BARS, RefusedError
from ahop.service.request import RecallRequest

# Bytes of a number in JSON with what stands around it: of an index or a posterior; of an entry of a pattern, which has
# the digits of single precision.
NUMBER, ENTRY = 26, 17
# Of one query: its brackets, confidence, action, and how likely it is unknown. Of a bar of an explanation, without its
# name; and names in the words of one.
QUERY, BAR, NAMED = 120, 300, 6
# The names of the fields.
FIELDS = 500


def bytes_of(snapshot: BaseSnapshot) -> dict[str, int]:
    """Bytes of one answer to one query, and of its pattern."""
    return {"answer": 2 * NUMBER + snapshot.label_bytes, "pattern": ENTRY * snapshot.dimensions + 4}


def recall_bytes(request: RecallRequest, snapshot: BaseSnapshot) -> int:
    """Bytes of the answer of a recall."""
    return FIELDS + len(request.queries) * _query_bytes(request, snapshot)


def link_bytes(request: RecallRequest, snapshot: BaseSnapshot) -> int:
    """Bytes of the answer of a link: each query is linked or not."""
    return FIELDS + len(request.queries) * (4 * NUMBER + snapshot.label_bytes)


def check_size(size: int, queries: int, most: int) -> None:
    """Refuse an answer that would be too large."""
    if size <= most:
        return
    fit = queries * (most - FIELDS) // size
    raise RefusedError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The answer would have about {size} bytes; it may have {most}.",
        f"Send at most {fit} such queries at a time." if fit > 0 else "Ask for a smaller `k`, or without `patterns`.",
    )


def _query_bytes(request: RecallRequest, snapshot: BaseSnapshot) -> int:
    sizes, policy, name = bytes_of(snapshot), request.thresholds(), snapshot.name_bytes
    each = sizes["answer"]
    if isinstance(snapshot, Snapshot):
        each += sum(snapshot.metadata.columns[column].longest for column in request.columns or ())
    each += sizes["pattern"] if request.patterns else 0
    each += max(NUMBER, snapshot.label_bytes) if policy is not None and policy.set_from is not None else 0
    explained = (BARS + 2) * (BAR + name) + NAMED * name + 4 * max(NUMBER, snapshot.label_bytes)
    return QUERY + min(request.k, len(snapshot)) * each + (explained if request.explain else 0)
