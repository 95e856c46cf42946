"""Top-k rows and total mass of scores, accumulated block by block and mergeable."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ahop._core.best_rows import BestRows
from ahop._core.tensors import exponentials_, saturate
from ahop._core.typing import PerQuery, Scores
from ahop.memory.model import Model
from ahop.memory.unknown import Evidence
from ahop.separations.softmax import Softmax, has_evidence, sharpened


@dataclass(frozen=True)
class Ranked:
    r"""The best rows of each query, best first, and what all rows weigh.

    Attributes:
        ids: (b, k) numbers of rows; -1 where there are no more.
        scores: (b, k); minus infinity there.
        log_mass: (b,) $\log \sum_n e^{\beta (s_n - s_{\max})}$ over all rows, in float64.
        known: (b,) how many rows share anything with the query, if the separation has a floor; else all.
        rows: how many rows there are.
        evidence: what a detector of unknown queries looks at; None if there is none.
        patterns: (b, k, d) of the best; None if the caller has them.
        weights: (b, k) of a separation that needs all scores at once; None where the mass is enough.
    """

    ids: Tensor
    scores: Scores
    log_mass: PerQuery
    known: Tensor
    rows: int
    evidence: Evidence | None = None
    patterns: Tensor | None = None
    weights: Tensor | None = None

    def best(self, k: int) -> "Ranked":
        """The k best alone; the mass is still that of all."""
        cut: dict[str, Any] = {name: _at(getattr(self, name), (slice(None), slice(k))) for name in _PER_ROW}
        return replace(self, **cut)


_PER_ROW = ("ids", "scores", "patterns", "weights")
_PER_QUERY = (*_PER_ROW, "log_mass", "known")


class Ranking:
    """Gathers the scores of queries as rows pass by. The k best rows of each query are kept, and the mass of all.

    Args:
        model: whose scores they are.
        queries: how many.
        k: how many rows to keep for each.
        like: in whose dtype and on whose device the scores are.
        dimensions: of the patterns, if these are to be kept beside the ids.
    """

    def __init__(self, model: Model, queries: int, k: int, like: Tensor, dimensions: int | None = None) -> None:
        self.model, self.k, self.beta, self.queries, self.rows = model, k, model.beta, queries, 0
        self.best = BestRows(queries, k, like, dimensions)
        self.has_floor = isinstance(model.separation, Softmax) and model.separation.floor > 0
        # What the first rows show stands by itself: one query has few scores, and each merger takes its time.
        self.top: PerQuery | None = None
        self.log_mass: PerQuery | None = None
        self.evidence: Evidence | None = None
        self.known = torch.zeros(queries, dtype=torch.long, device=like.device)
        self._all: list[Scores] | None = None if model.weighs_by_mass else []

    def update(
        self, scores: Scores, ids: Tensor, evidence: Scores | None = None, patterns: Tensor | None = None
    ) -> None:
        """See the scores (b, m) of more rows.

        Args:
            ids: (m,) of these rows.
            evidence: (b, m) what a detector sees, if that is not the scores themselves.
            patterns: (m, d) of these rows, if they are to be kept.
        """
        # A prior of zero rules a row out, whatever is asked: it has no part of a floor.
        has_floor = self.has_floor and bool(scores.numel())
        self.rows += int((scores[0] > -torch.inf).sum()) if has_floor else scores.shape[-1]
        if not scores.numel():
            return
        if self._all is not None:
            self._all.append(scores)
        top = scores.amax(-1)
        self._weigh(scores, top)
        self.best.update(scores, top, ids, patterns)
        if self.model.detector is not None:
            seen = Evidence.of(scores if evidence is None else evidence)
            self.evidence = seen if self.evidence is None else self.evidence.merged(seen)

    def ranked(self) -> Ranked:
        weights = None
        if self._all:
            best = self.model.separation(torch.cat(self._all, dim=-1)).sort(dim=-1, descending=True).values
            weights = pad(best[:, : self.k], (0, max(0, self.k - best.shape[1])))  # a separation keeps the order
        ids, scores, patterns = self.best.padded()
        log_mass, evidence = self.log_mass, self.evidence
        if log_mass is None:
            log_mass = torch.full((self.queries,), -torch.inf, dtype=torch.float64, device=scores.device)
        if evidence is None and self.model.detector is not None:
            evidence = Evidence.none(self.queries, scores.device)
        return Ranked(ids, scores, log_mass, self.known, self.rows, evidence, patterns, weights)

    def _weigh(self, scores: Scores, top: PerQuery) -> None:
        """The mass, relative to the best score so far: differences of the largest floats fit into float64."""
        has_mass = torch.isneginf(top).logical_not()  # patterns whose prior is zero have none
        below = scores - top.where(has_mass, 0).unsqueeze(-1)
        block = exponentials_(sharpened(below, self.beta)).sum(-1).double().log().where(has_mass, -torch.inf)
        if self.top is None or self.log_mass is None:
            self.top, self.log_mass = top.double(), block
        else:
            before, self.top = self.top, torch.maximum(self.top, top.double())
            known, more = (self.beta * _below(each, self.top) for each in (before, top.double()))
            self.log_mass = torch.logaddexp(self.log_mass + known, block + more)
        self.known += has_evidence(scores).sum(-1) if self.has_floor else scores.shape[-1]


def merged(parts: Sequence[Ranked], k: int, beta: float) -> Ranked:
    """The k best of parts that share no row, of equals the one with the lower number; and the mass of all."""
    ids, scores = (torch.cat([getattr(part, name) for part in parts], dim=1) for name in ("ids", "scores"))
    by_id = ids.argsort(dim=-1, stable=True)
    by_score = scores.gather(-1, by_id).argsort(dim=-1, descending=True, stable=True)
    order = by_id.gather(-1, by_score)[:, :k]
    patterns = None
    if all(part.patterns is not None for part in parts):
        every = torch.cat([part.patterns for part in parts if part.patterns is not None], dim=1)
        patterns = every.gather(1, order.unsqueeze(-1).expand(-1, -1, every.shape[-1]))
    tops = torch.stack([part.scores[:, 0].double() for part in parts])
    shifts = beta * _below(tops, tops.amax(0))
    evidence = parts[0].evidence
    for part in parts[1:]:
        evidence = None if evidence is None or part.evidence is None else evidence.merged(part.evidence)
    return Ranked(
        ids.gather(-1, order),
        scores.gather(-1, order),
        torch.stack([part.log_mass for part in parts]).add(shifts).logsumexp(0),
        torch.stack([part.known for part in parts]).sum(0),
        sum(part.rows for part in parts),
        evidence,
        patterns,
    )


def _at(values: Tensor | None, place: Any) -> Tensor | None:
    return None if values is None else values[place]


def _below(scores: Tensor, best: Tensor) -> Tensor:
    """Distance of scores below the best; zero if neither has any."""
    return (scores - best).nan_to_num(0, neginf=-torch.inf)


def stacked(parts: Sequence[Ranked]) -> Ranked:
    """Stack the results for blocks of queries, one below the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    joined: dict[str, Any] = {
        name: None if getattr(first, name) is None else torch.cat([getattr(part, name) for part in parts])
        for name in _PER_QUERY
    }
    evidence = [part.evidence for part in parts if part.evidence is not None]
    return replace(first, **joined, evidence=Evidence.stacked(evidence) if evidence else None)


def gathered(parts: Sequence[tuple[Tensor, Ranked]]) -> Ranked:
    """Gather the results for parts of the queries, in the order of the queries.

    Args:
        parts: numbers of queries, (b,) and rising, and what was found for these; together each query once.
    """
    if len(parts) == 1:
        return parts[0][1]
    ranked, place = stacked([found for _, found in parts]), torch.cat([queries for queries, _ in parts]).argsort()
    moved: dict[str, Any] = {name: _at(getattr(ranked, name), place) for name in _PER_QUERY}
    return replace(ranked, **moved, evidence=None if ranked.evidence is None else ranked.evidence[place])


def posterior_of(ranked: Ranked, model: Model, k: int) -> tuple[Tensor, Tensor | None]:
    """The posterior (b, k) of the k best rows, and how likely the origin is unknown."""
    unknown = None
    if model.detector is not None and ranked.evidence is not None:
        unknown = model.detector.of_evidence(ranked.evidence).to(ranked.scores)
    return posterior_among_stored(ranked, model, k), unknown


def posterior_among_stored(ranked: Ranked, model: Model, k: int) -> Tensor:
    """The posterior (b, k) of the k best rows, zero where there are no more."""
    if ranked.weights is not None:
        posterior = ranked.weights
    elif model.weighs_by_mass:
        below = model.beta * (ranked.scores.double() - ranked.scores[:, :1].double())
        posterior = (below - ranked.log_mass.unsqueeze(-1)).exp().nan_to_num(0).to(ranked.scores)
        if isinstance(model.separation, Softmax):
            posterior = model.separation.floored_best(posterior, ranked.scores, ranked.known, ranked.rows)
    else:
        # A query that nothing is known of has the lowest score everywhere; rows that are not there must have less.
        is_there = ranked.ids >= 0
        nothing = ~has_evidence(ranked.scores).any(-1, keepdim=True)
        posterior = model.separation(saturate(ranked.scores.masked_fill(nothing & is_there, 0)))
    is_out = (ranked.ids < 0) | torch.isneginf(ranked.scores)  # not there, or of a prior of zero
    return posterior.masked_fill(is_out, 0)[:, :k]
