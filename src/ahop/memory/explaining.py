"""The `explain` function: log-odds of an answer against its rival, dimension by dimension."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ahop._core.inputs import as_rows
from ahop._core.label_tensors import rows_named
from ahop.errors import UnsupportedError
from ahop.memory.explanation import Bar, Explanation
from ahop.memory.model import Model
from ahop.memory.ranking import Ranked, posterior_among_stored
from ahop.memory.scoring import with_prior
from ahop.separations.softmax import Softmax
from ahop.similarities.contributions import Contributions

# Names of bars that are no dimension, and of the rival that is no stored pattern.
PRIOR, MARGIN, OTHER_ANSWERS, OTHER_PATTERNS = "prior", "safety margin", "other answers", "other patterns"

UNKNOWN = "unknown"
LEAST_POSTERIOR = 1e-38
# Less is rounding.
LEAST = 1e-6


@dataclass(frozen=True)
class Compared:
    """The answer and its rival; the answer alone, if its rival is "unknown".

    Attributes:
        rows: (m,) of the stored patterns, the answer first.
        patterns: (m, d) themselves, modulated.
        log_prior: (m,) how often each is the origin; None if all are alike.
        labels: what they are called.
        columns: the names of the columns.
    """

    rows: Tensor
    patterns: Tensor
    log_prior: Tensor | None
    labels: Sequence[object]
    columns: Sequence[str]

    @classmethod
    def of(
        cls,
        rows: Tensor,
        patterns: Tensor,
        log_prior: Tensor | None = None,
        labels: Sequence[object] | None = None,
        columns: Sequence[str] | None = None,
    ) -> "Compared":
        """With rows for labels and numbers for dimensions, where these have no names."""
        if min(rows.tolist()) < 0:
            raise UnsupportedError(
                "One pattern has no rival to tell the answer from. A memory that was fitted can tell it from none: "
                '`against="unknown"`.'
            )
        names = columns or [f"dimension {place}" for place in range(patterns.shape[-1])]
        return cls(rows, patterns, log_prior, rows.tolist() if labels is None else labels, names)

    @classmethod
    def among(
        cls,
        ranked: Ranked,
        against: object,
        stored: Tensor,
        log_prior: Tensor | None,
        labels: NDArray[np.object_] | None,
        columns: Sequence[str] | None,
    ) -> "Compared":
        """The first answer and the rival that is asked for, among all stored patterns (n, d).

        Args:
            against: a label, a row if there are no labels, or "unknown"; the second answer if None.
        """
        rows = pad(ranked.ids[0], (0, 2 - ranked.ids.shape[1]), value=-1)
        if against is not None:
            rows = rows[:1]
            if not is_unknown(against, labels):
                named = (
                    as_rows("against", [against], len(stored))
                    if labels is None
                    else rows_named(labels, [against], "against")
                )
                rows = torch.cat([rows, named.to(rows)])
        called = None if labels is None else labels[rows.cpu().numpy()].tolist()
        return cls.of(rows, stored[rows], None if log_prior is None else log_prior[rows], called, columns)


def is_unknown(against: object, labels: NDArray[np.object_] | None = None) -> bool:
    """True if no stored pattern is meant, and not one that has this very label."""
    return isinstance(against, str) and against == UNKNOWN and (labels is None or UNKNOWN not in labels)


@torch.no_grad()
def explain(model: Model, ranked: Ranked, compared: Compared, query: Tensor) -> Explanation:
    """Why the first of two patterns is answered, and not the second; or one, and not "unknown".

    Args:
        ranked: what is known of all patterns.
        query: (1, d).
    """
    found = model.similarity.rows(compared.rows).contributions(compared.patterns, query)
    posterior = float(posterior_among_stored(ranked, model, 1))
    if len(compared.rows) == 1:
        bars = _against_unknown(model, ranked, compared, found, query, posterior)
    else:
        bars = _against_rival(model, ranked, compared, found, query)
    bars.sort(key=lambda bar: -abs(bar.log_odds))
    answer, rival = (*compared.labels, UNKNOWN)[:2]
    return Explanation(answer, rival, posterior, sum(bar.log_odds for bar in bars), tuple(bars))


def _against_rival(model: Model, ranked: Ranked, compared: Compared, found: Contributions, query: Tensor) -> list[Bar]:
    bars, prior = _of_similarity(compared, found, query, model.beta), compared.log_prior
    scores = found.scores
    if prior is not None:
        size = float(prior[0].double() - prior[1].double())
        bars.append(Bar(PRIOR, size, _side(size)))
        scores = with_prior(scores, prior, model.separation)
    log_odds = _log_odds(model, ranked, scores)
    margin = log_odds - sum(bar.log_odds for bar in bars)
    if abs(margin) > LEAST * max(1.0, abs(log_odds)):
        bars.append(Bar(MARGIN, margin, "in case scores mislead"))
    return bars


def _against_unknown(
    model: Model, ranked: Ranked, compared: Compared, found: Contributions, query: Tensor, posterior: float
) -> list[Bar]:
    """The detector weighs the score of the best pattern beside those of all others, and only the first is a sum."""
    detector = model.detector
    if detector is None or ranked.evidence is None:
        raise UnsupportedError(
            "This memory was not fitted to tell queries of no stored pattern: `ahop.fit(patterns, pairs=...)` does so."
        )
    bars = _of_similarity(compared, found, query, detector.worth_of_best)
    known, prior = -float(detector.log_odds(ranked.evidence)), -detector.log_prior_odds
    others = known - prior - sum(bar.log_odds for bar in bars)
    bars.append(Bar(OTHER_PATTERNS, others, "how well they fit"))
    bars.append(Bar(OTHER_ANSWERS, log(max(posterior, LEAST_POSTERIOR)), "may be right"))
    return [*bars, Bar(PRIOR, prior, _side(prior))] if prior else bars


def _of_similarity(compared: Compared, found: Contributions, query: Tensor, weight: float) -> list[Bar]:
    """Evidence of each dimension, and of the whole vector alone, for the answer less that for the rival."""
    sizes = (weight * _lead(found.dimensions[0].double())).tolist()
    kept = None if found.is_kept is None else found.is_kept[0, 0].tolist()
    if query.shape[-1] == compared.patterns.shape[-1]:
        values = torch.cat([query, compared.patterns]).mT.tolist()
        bars = [
            Bar(name, size, _word(size, None if kept is None else kept[place], *of_dimension[:2]), *of_dimension)
            for place, (name, size, of_dimension) in enumerate(zip(compared.columns, sizes, values, strict=True))
        ]
    else:  # the query has other columns: there is no value of it beside that of the patterns
        stored = compared.patterns.mT.tolist()
        bars = [
            Bar(name, size, _side(size), None, *values)
            for name, size, values in zip(compared.columns, sizes, stored, strict=True)
        ]
    for name, scores in found.wholes.items():
        size = weight * float(_lead(scores[0].double()))
        bars.append(Bar(name, size, _side(size)))
    return bars


def _lead(values: Tensor) -> Tensor:
    """Lead of the first over the second, if there is one."""
    return values[0] if len(values) == 1 else values[0] - values[1]


def _log_odds(model: Model, ranked: Ranked, scores: Tensor) -> float:
    """Log odds of the first against the second of two patterns with scores (1, 2)."""
    best, (first, second) = float(ranked.scores[0, 0]), scores[0].tolist()
    below: list[float] = [model.beta * (first - best), model.beta * (second - best)]
    if isinstance(model.separation, Softmax) and model.separation.floor:
        shares = torch.tensor(below, dtype=torch.float64).sub_(ranked.log_mass).exp_()
        below = model.separation.floored(shares, int(ranked.known)).log_().tolist()
    return below[0] - below[1]


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
