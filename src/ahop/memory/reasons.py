"""From what each dimension says for an answer and its rival to an explanation. Torch is not needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahop._core.columns import word_at, words_of
from ahop.errors import UnsupportedError
from ahop.memory.explanation import Bar, Explanation

# Names of bars that are no dimension, and of the rival that is no stored pattern.
PRIOR, MARGIN, OTHER_ANSWERS, OTHER_PATTERNS = "prior", "safety margin", "other answers", "other patterns"

UNKNOWN = "unknown"
AGREES_RARELY = "agrees on a rare value"
LEAST_POSTERIOR = 1e-38
# Less is rounding.
LEAST = 1e-6
# Nats: so much an agreement says where one stored row in ten has the value.
RARE = log(10.0)


@dataclass(frozen=True)
class Reasons:
    """Reasons for the answer, and for its rival; for the answer alone, if its rival is "unknown".

    Attributes:
        labels: (m,) of both, the answer first.
        columns: (d,) the names of the columns.
        query: (d,).
        patterns: (m, d) as they are stored.
        dimensions: (m, d) what each dimension adds to the score.
        wholes: (m,) what only the whole vector says, by name.
        is_kept: (d,) whether each entry of the query was rather kept than an outlier; None if nothing tells.
        posterior: how sure the answer is among what is stored.
    """

    labels: Sequence[object]
    columns: Sequence[str]
    query: NDArray[Any]
    patterns: NDArray[Any]
    dimensions: NDArray[np.float64]
    wholes: Mapping[str, NDArray[np.float64]]
    is_kept: NDArray[np.bool_] | None
    posterior: float

    def against_rival(self, beta: float, prior: float | None, log_odds: float) -> Explanation:
        """Explain why this answer, and not the rival.

        Args:
            prior: by how much it leads; None if all patterns are alike.
            log_odds: of both.
        """
        bars = self._bars(beta)
        if prior is not None:
            bars.append(Bar(PRIOR, prior, _side(prior)))
        margin = log_odds - sum(bar.log_odds for bar in bars)
        # Of a rival that is never the origin the prior says all.
        if isfinite(margin) and abs(margin) > LEAST * max(1.0, abs(log_odds)):
            bars.append(Bar(MARGIN, margin, "in case scores mislead"))
        return self._explanation(bars)

    def against_unknown(self, worth: float, log_odds: float, prior: float) -> Explanation:
        """Explain why this answer, and not none: of the scores that a detector weighs the best alone is a sum.

        Args:
            worth: of a nat of the best score.
            log_odds: of an unknown origin; `prior` before the query is looked at.
        """
        bars = self._bars(worth)
        bars.append(Bar(OTHER_PATTERNS, prior - log_odds - sum(bar.log_odds for bar in bars), "how well they fit"))
        bars.append(Bar(OTHER_ANSWERS, log(max(self.posterior, LEAST_POSTERIOR)), "may be right"))
        return self._explanation([*bars, Bar(PRIOR, -prior, _side(-prior))] if prior else bars)

    def _explanation(self, bars: list[Bar]) -> Explanation:
        bars.sort(key=lambda bar: -abs(bar.log_odds))
        answer, rival = (*self.labels, UNKNOWN)[:2]
        return Explanation(answer, rival, self.posterior, sum(bar.log_odds for bar in bars), tuple(bars))

    def _bars(self, weight: float) -> list[Bar]:
        """Evidence of each dimension, and of the whole vector alone, for the answer less that for the rival."""
        sizes = (weight * _lead(self.dimensions)).tolist()
        stored = self.patterns.T.tolist()
        if len(self.query) == len(stored):
            kept = [None] * len(stored) if self.is_kept is None else self.is_kept.tolist()
            alone, words = (weight * self.dimensions[0]).tolist(), words_of(self.columns)
            bars = []
            for place, (seen, values) in enumerate(zip(self.query.tolist(), stored, strict=True)):
                size, known = sizes[place], words.get(place)
                is_seen = not isnan(seen + values[0])
                is_silent = is_seen and alone[place] == 0 and bool(kept[place])  # such as a standard deviation
                found = _side(0.0) if is_silent else _word(size, kept[place], seen, values[0])
                if known is not None and is_seen:
                    found = "differs" if seen != values[0] else "agrees" if alone[place] < RARE else AGREES_RARELY
                shown = [word_at(value, known) for value in (seen, *values)]
                bars.append(Bar(self.columns[place], size, found, *shown))
        else:  # the query has other columns: there is no value of it beside that of the patterns
            bars = [
                Bar(name, size, _side(size), None, *values)
                for name, size, values in zip(self.columns, sizes, stored, strict=True)
            ]
        for name, scores in self.wholes.items():
            size = weight * float(_lead(scores))
            bars.append(Bar(name, size, _side(size)))
        return bars


def names_of_columns(columns: Sequence[str] | None, dimensions: int) -> Sequence[str]:
    """Names, or numbers where there are none."""
    return columns or [f"dimension {place}" for place in range(dimensions)]


def is_unknown(against: object, labels: NDArray[np.object_] | None = None) -> bool:
    """True if no stored pattern is meant, and not one that has this very label."""
    return isinstance(against, str) and against == UNKNOWN and (labels is None or UNKNOWN not in labels)


def no_rival() -> UnsupportedError:
    return UnsupportedError(
        "One pattern has no rival to tell the answer from. A memory that was fitted can tell it from none: "
        '`against="unknown"`.'
    )


def no_detector() -> UnsupportedError:
    return UnsupportedError(
        "This memory was not fitted to tell queries of no stored pattern: `ahop.fit(patterns, pairs=...)` does so."
    )


def _lead(values: NDArray[Any]) -> Any:
    """Lead of the first over the second, if there is one; of equals none, also where both are infinite."""
    if len(values) == 1:
        return values[0]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(values[0] == values[1], 0.0, values[0] - values[1])


def _word(size: float, is_kept: bool | None, seen: float, stored: float) -> str:
    """Name the fate of a dimension: "kept" or "outlier" for a mixture, else the side that it supports."""
    if isnan(seen):
        return "missing"
    if isnan(stored):
        return "not stored"
    if is_kept is None:
        return _side(size)
    return "outlier" if not is_kept else "agrees" if size >= 0 else "agrees less"


def _side(size: float) -> str:
    return "speaks for" if size > 0 else "speaks against" if size < 0 else "says nothing"
