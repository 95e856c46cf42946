"""Belief propagation: the probability that two rows belong together, if no row belongs to two others."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ahop.operate.linking.edges import Edges

# Rounds end when the probabilities of a right row change by less, on average.
ROUNDS, BELIEF_TOLERANCE = 500, 1e-5
# Share of the old messages that is kept: full steps can swing to and fro for ever.
DAMPING = 0.5
# Of a sum, what is left without one of its addends is at least this share: less would be rounding.
LEAST_BELIEF = 1e-12
# Steps by which the share of rows without an origin is closed in on.
BISECTIONS_OF_LINKS = 40


@dataclass(frozen=True)
class Beliefs:
    """Probabilities that rows belong together, once all have decided.

    Attributes:
        pairs: (m,) of each candidate.
        left_alone: (n,) that a left row belongs to no right row.
        right_alone: (b,) that a right row belongs to no left row.
        activity: by what the odds of each pair are multiplied, because of what all rows show; see `propagate`.
        is_settled: whether the probabilities change no more.
    """

    pairs: Tensor
    left_alone: Tensor
    right_alone: Tensor
    activity: float
    is_settled: bool


def propagate(edges: Edges, unmatched: float | None = None, one_to_one: bool = True) -> Beliefs:
    r"""The probability of each pair if a matching $M$ has $p(M) \propto \prod_{(i, j) \in M} z\, e^{o_j} p_{ij}$.

    Sum-product: each right row tells its candidates how much it needs them, given what the other candidates offer; each
    left row answers how free it is of all other right rows. This is exact where the candidates form trees, and close to
    it elsewhere. The activity $z$ is the odds of having an origin at all, times how much rarer free left rows are than
    left rows.

    Args:
        unmatched: share of the right rows that belong to no left row; estimated if None.
        one_to_one: whether a left row belongs to one right row at most; else right rows decide alone.
    """
    least = least_alone(len(edges.rest), edges.rows) if one_to_one else 0.0
    share = max(share_alone(edges.log_odds), least) if unmatched is None else unmatched
    state = _State(edges, _activity(edges, share, one_to_one), one_to_one)
    is_settled = False
    for _ in range(ROUNDS):
        if state.step() < BELIEF_TOLERANCE:
            is_settled = True
            break
    return Beliefs(state.pairs, state.left_alone(), state.right_alone(), state.activity, is_settled)


def least_alone(right: int, left: int) -> float:
    """The least share of right rows without a partner, as each needs one of its own."""
    return max(0.0, 1 - left / right) if right else 0.0


def share_alone(log_odds: Tensor) -> float:
    r"""The share $u$ of right rows without an origin that maximizes $\prod_j u + (1 - u) e^{o_j}$, each row by itself.

    Not what all rows say together: where the tables are as long as each other, "every row has a partner" agrees with
    itself, whatever the rows show. One is added to both counts: that there is none of a kind is never sure.
    """
    ratio, low, high = log_odds.exp(), 0.0, 1.0
    for _ in range(BISECTIONS_OF_LINKS):
        share = (low + high) / 2
        slope = float(((1 - ratio) / (share + (1 - share) * ratio)).sum()) + 1 / share - 1 / (1 - share)
        low, high = (share, high) if slope > 0 else (low, share)
    return (low + high) / 2


def _activity(edges: Edges, unmatched: float, one_to_one: bool) -> float:
    """The odds that a right row has an origin; and as each has one of its own, how few left rows are free for it.

    A match more leaves one left row less to choose from, of which the posterior of a single row knows nothing.
    """
    matched = (1 - unmatched) * len(edges.rest)
    odds = (1 - unmatched) / unmatched if unmatched else torch.inf
    return odds * edges.rows / max(edges.rows - matched + 1, 1) if one_to_one else odds


@final
class _State:
    """Messages between rows, and what follows from them."""

    def __init__(self, edges: Edges, activity: float, one_to_one: bool) -> None:
        self.edges, self.activity, self.one_to_one = edges, activity, one_to_one
        self.none = (-edges.log_odds).exp()  # the weight of having no origin, beside shares that sum to one
        self.free = torch.ones_like(edges.share)  # of each left row, of all right rows but the one of the edge
        self.claims = edges.share.new_ones(edges.rows)
        self._weigh()

    def step(self) -> float:
        """One round; returns by how much the probabilities of a right row have changed, on average."""
        edges, before = self.edges, self.pairs
        if self.one_to_one:
            need = edges.share / _without(self.total[edges.right], edges.share * self.free)
            self.claims = 1 + _sums(need, edges.left, edges.rows)
            answer = 1 / _without(self.claims[edges.left], need)
            self.free = DAMPING * self.free + (1 - DAMPING) * answer
        self._weigh()
        return float((self.pairs - before).abs().sum()) / max(1, len(edges.rest))

    def right_alone(self) -> Tensor:
        return self.none / self.activity / self.total

    def left_alone(self) -> Tensor:
        if self.one_to_one:
            return 1 / self.claims
        others = torch.log1p(-self.pairs.clamp_max(1 - LEAST_BELIEF))  # as each right row decides alone
        return _sums(others, self.edges.left, self.edges.rows).exp()

    def _weigh(self) -> None:
        """Sum the weights of each right row's options, and normalize them."""
        edges, wanted = self.edges, self.edges.share * self.free
        others = edges.rest * float((1 / self.claims).mean())  # rows that are no candidates are as free as any
        self.total = _sums(wanted, edges.right, len(edges.rest)) + others + self.none / self.activity
        self.pairs = wanted / self.total[edges.right]


def _sums(values: Tensor, rows: Tensor, count: int) -> Tensor:
    return values.new_zeros(count).index_add_(0, rows, values)


def _without(total: Tensor, addend: Tensor) -> Tensor:
    return torch.maximum(total - addend, LEAST_BELIEF * total)
