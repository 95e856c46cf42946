"""The `explain` function: log-odds of an answer against its rival, dimension by dimension."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ahop._core.arrays import to_numpy
from ahop._core.inputs import as_rows
from ahop._core.label_tensors import rows_named
from ahop.memory.explanation import Explanation
from ahop.memory.model import Model
from ahop.memory.ranking import Ranked, posterior_among_stored
from ahop.memory.reasons import Reasons, is_unknown, names_of_columns, no_detector, no_rival
from ahop.memory.scoring import with_prior
from ahop.separations.softmax import Softmax


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
            raise no_rival()
        names = names_of_columns(columns, patterns.shape[-1])
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


@torch.no_grad()
def explain(model: Model, ranked: Ranked, compared: Compared, query: Tensor) -> Explanation:
    """Why the first of two patterns is answered, and not the second; or one, and not "unknown".

    Args:
        ranked: what is known of all patterns.
        query: (1, d).
    """
    found = model.similarity.rows(compared.rows).contributions(compared.patterns, query)
    reasons = Reasons(
        compared.labels,
        compared.columns,
        to_numpy(query[0]),
        to_numpy(compared.patterns),
        to_numpy(found.dimensions[0].double()),
        {name: to_numpy(scores[0].double()) for name, scores in found.wholes.items()},
        None if found.is_kept is None else to_numpy(found.is_kept[0, 0]),
        float(posterior_among_stored(ranked, model, 1)),
    )
    if len(compared.rows) == 1:
        detector = model.detector
        if detector is None or ranked.evidence is None:
            raise no_detector()
        odds = float(detector.log_odds(ranked.evidence))
        return reasons.against_unknown(detector.worth_of_best, odds, detector.log_prior_odds)
    prior, scores = compared.log_prior, found.scores
    if prior is None:
        return reasons.against_rival(model.beta, None, _log_odds(model, ranked, scores))
    scores = with_prior(scores, prior, model.beta_of_prior)
    lead = float(prior[0].double() - prior[1].double())
    return reasons.against_rival(model.beta, lead, _log_odds(model, ranked, scores))


def _log_odds(model: Model, ranked: Ranked, scores: Tensor) -> float:
    """Log odds of the first against the second of two patterns with scores (1, 2)."""
    best, (first, second) = float(ranked.scores[0, 0]), scores[0].tolist()
    below: list[float] = [model.beta * (first - best), model.beta * (second - best)]
    if isinstance(model.separation, Softmax) and model.separation.floor:
        shares = torch.tensor(below, dtype=torch.float64).sub_(ranked.log_mass).exp_()
        below = model.separation.floored(shares, int(ranked.known)).log_().tolist()
    return below[0] - below[1]
