"""Assignment of pairs that makes as many rows right as possible on average."""

import torch
from torch import Tensor

from ahop._core import optional
from ahop.operate.linking.edges import Edges
from ahop.operate.linking.propagation import Beliefs

# Pairs that are less likely are not linked: they would make the search long and add nothing.
LEAST_PROBABILITY = 1e-4


def assign(edges: Edges, beliefs: Beliefs, one_to_one: bool = True) -> Tensor:
    """The pairs to link, as flags (m,): those of the largest expected number of right rows that are right.

    A right row is right if it is linked to its origin, or to none and has none. The most likely matching of all is
    another answer: it wins less often row by row, since a matching is as likely as its weakest link.
    """
    alone = beliefs.right_alone[edges.right]
    chosen = torch.zeros(len(edges), dtype=torch.bool)
    is_open = (beliefs.pairs > alone) & (beliefs.pairs >= LEAST_PROBABILITY)
    if one_to_one:
        chosen = _sure(edges, beliefs.pairs)
        taken_left = _flags(edges.left[chosen], edges.rows)
        taken_right = _flags(edges.right[chosen], len(edges.rest))
        is_open &= ~taken_left[edges.left] & ~taken_right[edges.right]
    places = is_open.nonzero().squeeze(-1)
    if len(places):
        left, right, gain = edges.left[places], edges.right[places], (beliefs.pairs - alone)[places]
        chosen[places[_matching(left, right, gain) if one_to_one else _best_of_each(right, gain)]] = True
    return chosen


def _sure(edges: Edges, pairs: Tensor) -> Tensor:
    """Pairs that belong to the best matching whatever the others are, (m,): nearly all of an easy table.

    The probabilities of a row sum to one at most. Without a pair of probability p its two rows have at most 1 - p each
    elsewhere, which is less than p together if p is above two thirds.
    """
    sure = pairs > 2 / 3
    claims = torch.bincount(edges.left[sure], minlength=edges.rows)
    return sure & (claims == 1)[edges.left]


def _flags(rows: Tensor, count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.bool).index_fill_(0, rows, True)


def _best_of_each(right: Tensor, gain: Tensor) -> Tensor:
    """Take the pair of the largest gain for each right row."""
    order = gain.argsort(descending=True, stable=True)
    order = order[right[order].argsort(stable=True)]
    is_first = torch.ones(len(order), dtype=torch.bool)
    is_first[1:] = right[order][1:] != right[order][:-1]
    return order[is_first]


def _matching(left: Tensor, right: Tensor, gain: Tensor) -> Tensor:
    """Pairs that share no row, with the largest sum of gains (all positive)."""
    csgraph, sparse = optional.csgraph(), optional.sparse()
    rows, row = torch.unique(right, return_inverse=True)
    columns, column = torch.unique(left, return_inverse=True)
    count = len(rows)
    # Each right row has a column of its own for staying unlinked, worth nothing; a one is added to what all are worth,
    # since the solver takes zeros for pairs that do not exist, and every right row gets exactly one.
    own = torch.arange(count)
    weights = torch.cat([gain.double(), torch.zeros(count, dtype=torch.float64)]) + 1
    places = torch.cat([row, own]).numpy(), torch.cat([column, own + len(columns)]).numpy()
    graph = sparse.csr_matrix((weights.numpy(), places), shape=(count, len(columns) + count))
    found = csgraph.min_weight_full_bipartite_matching(graph, maximize=True)  # of all rows, in their order
    partner: Tensor = torch.from_numpy(found[1]).long()
    kept: Tensor = partner[row] == column
    return kept.nonzero().squeeze(-1)
