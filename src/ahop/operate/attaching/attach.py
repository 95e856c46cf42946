"""The `attach` function: probabilities in front of a search that somebody already runs."""

import os
from typing import Any

import numpy as np
import torch

from ahop._core.checks import check_count, check_rate
from ahop._core.inputs import as_matrix
from ahop._core.labels import entries, right_ids
from ahop._core.typing import Entries, RowsLike
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.memory.report import LEAST_QUERIES
from ahop.operate.attaching.attach_report import AttachReport
from ahop.operate.attaching.attached import AttachedSearch, restored
from ahop.operate.attaching.learning import Lesson
from ahop.operate.attaching.levels import Calibration
from ahop.operate.attaching.lists import Lists, Search, ask


def attach(
    search: Search,
    *,
    pairs: tuple[Entries, RowsLike] | None = None,
    queries: RowsLike | None = None,
    candidates: int = 50,
    unknown_rate: float | None = None,
    learned: str | os.PathLike[str] | None = None,
) -> AttachedSearch:
    """Put probabilities, "none of these", and policies in front of a search.

    It learns which scores right answers have beside the others of their list, which ids are answered to everything, and
    how lists without a right answer look: a list is shown without its right answer, too. No pattern is needed.

    Args:
        search: (queries, k) -> ids and scores, (b, k) each, best first. Whether larger or smaller scores are closer is
            seen from the lists.
        pairs: (ids, queries) such as clicks: an id for each query, several in a list, or None where no answer is right.
            Rows with None, in the share in which they come, teach how often that is so.
        queries: such as a log has them, without labels: they show which ids are answered to everything. Alone they
            give probabilities that nobody has checked.
        candidates: so many answers of the search are looked at, and `unknown` is that none of them is right.
        unknown_rate: how many queries have no right answer, if that is known.
        learned: a file of `AttachedSearch.save`; instead of pairs and queries.
    """
    if not callable(search):
        raise InvalidTypeError(
            f"`search` must be a function of queries and k that answers ids and scores; got {type(search).__name__}. "
            "`ahop.adapters` has some for what others offer."
        )
    if learned is not None:
        if pairs is not None or queries is not None:
            raise InvalidTypeError("`learned` goes without `pairs` and `queries`: give one or the other.")
        return restored(search, learned)
    check_count("candidates", candidates, 2)
    named, asked = ((), None) if pairs is None else pairs
    wanted = [right_ids(each) for each in entries("pairs", named)]
    parts = [(name, each) for name, each in (("pairs", asked), ("queries", queries)) if each is not None]
    known = {name: _as_asked(name, each) for name, each in parts}
    widths = {each.shape[1] if isinstance(each, np.ndarray) else 0 for each in known.values()}
    if len(widths) > 1:
        raise ShapeError(f"`pairs` and `queries` must be of one width; got {sorted(widths)}.")
    count, sign, lists = len(known.get("pairs", ())), None, dict[str, Lists]()
    if count != len(wanted):
        raise ShapeError(f"`pairs` must have an entry of ids for each query; got {len(wanted)} for {count}.")
    if count + len(known.get("queries", ())) < LEAST_QUERIES:
        raise InvalidValueError(
            f"`pairs` and `queries` must hold {LEAST_QUERIES} queries or more to learn anything; got "
            f"{count + len(known.get('queries', ()))}."
        )
    for name, each in known.items():
        lists[name], sign = ask(search, each, candidates + 1, sign)
    nothing = Lists(np.empty((0, candidates + 1), dtype=object), torch.empty(0, candidates + 1, dtype=torch.float64))
    rate = None if unknown_rate is None else check_rate("unknown_rate", unknown_rate)
    lesson = Lesson.of(lists.get("pairs", nothing), wanted, lists.get("queries", nothing), rate)
    found = lesson.learned()
    return AttachedSearch(search, found, _report(lesson, found, sign == -1), widths.pop())


def _report(lesson: Lesson, found: Calibration, distances: bool) -> AttachReport:
    stored = [row for row, right in enumerate(lesson.wanted) if right]
    reordered, said = lesson.held_out()
    hits, count = lesson.hits[:, : lesson.k], max(1, len(lesson.wanted))
    return AttachReport(
        pairs=len(lesson.wanted),
        none=len(lesson.wanted) - len(stored),
        log=len(lesson.logged),
        found=float(hits.any(-1).sum()) / max(1, len(stored)),
        first=float(hits[:, 0].sum()) / count,
        reordered=reordered,
        said=said,
        closeness=found.levels.closeness,
        hubness=found.levels.hubness,
        unknown_rate=found.detector.rate,
        candidates=lesson.k,
        distances=distances,
    )


def _as_asked(name: str, value: Any) -> Any:
    """Rows of numbers as an array; anything else, such as texts, as the search takes it."""
    first = value[0] if isinstance(value, list | tuple) and len(value) else None
    if isinstance(value, list | tuple) and (first is None or isinstance(first, str | bytes | dict)):
        return list(value)
    return as_matrix(name, value).detach().cpu().numpy()
