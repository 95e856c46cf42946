"""Similarities of rows that something else has computed, as evidence: how alike rows are that belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.blocks import blocks
from ahop._core.free_memory import check_free_memory
from ahop._core.typing import Queries
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.memory.memory import AssociativeMemory
from ahop.operate.linking.edges import LARGEST_LOG_ODDS, Edges, posterior_of_all
from ahop.operate.linking.propagation import share_alone

# Each level takes a quarter of the pairs that the level below it takes, up to one pair in 4 ** 9 = 260,000.
MOST_LEVELS, SHARE_OF_LEVEL_BELOW = 10, 0.25
# Right rows that are enough to learn how alike rows are that belong together; and rounds until that has settled.
ROWS_LEARNED_FROM, ROUNDS_OF_LEVELS, LEVELS_TOLERANCE = 1024, 100, 1e-4
# Before any is seen, so many pairs of rows that belong together are taken for granted, this share of them most alike.
EXPECTED_PAIRS, EXPECTED_AGREEMENT = 5.0, 0.6
# Of a posterior in single precision: what other columns call impossible may still be said by all comparisons together.
LEAST_SHARE = 1e-30


@final
@dataclass(frozen=True)
class Comparison:
    """Evidence of a similarity, level by level.

    Attributes:
        least: (l,) the least similarity of each level, rising; the first is of all that are less alike.
        together: (l,) share of the rows that belong together, by level.
        apart: (l,) share of all pairs of rows.
    """

    least: NDArray[np.float64]
    together: NDArray[np.float64]
    apart: NDArray[np.float64]

    @property
    def log_odds(self) -> NDArray[np.float64]:
        """(l,) by how much likelier each level is where rows belong together, in nats; more where a value is rare."""
        with np.errstate(divide="ignore"):
            return np.log(self.together) - np.log(self.apart)


@final
class Compared:
    """Levels of the similarities of all pairs of rows, and what they say.

    Args:
        given: by name, (b, n), larger is closer, NaN where they could not be compared.
    """

    def __init__(self, given: Mapping[str, Any], right: int, left: int) -> None:
        if not isinstance(given, Mapping) or not given:
            raise InvalidTypeError(
                "`comparisons` must be similarities by name, such as `comparisons={'surname': similarities}` with an "
                f"entry for each right and each left row; got {type(given).__name__}."
            )
        self.names = list(given)
        check_free_memory(2 * right * left * len(given), "`comparisons`")
        self.least, self.levels = [], []
        for name, values in given.items():
            least, levels = _levels(name, values, (right, left))
            self.least.append(least)
            self.levels.append(levels)
        self.apart = [_apart(levels, len(least)) for levels, least in zip(self.levels, self.least, strict=True)]
        self.together = [_expected(len(least)) for least in self.least]

    def log_ratio(self, rows: slice | Tensor) -> Tensor:
        r"""$\sum_c \log P(\text{level} \mid \text{together}) - \log P(\text{level} \mid \xi_i)$ of these right rows."""
        total = torch.zeros(self.levels[0][rows].shape)
        for levels, apart, together in zip(self.levels, self.apart, self.together, strict=True):
            table = (together.log() - apart.log()).float()  # (n, l), and 0 where rows could not be compared
            table = torch.cat([table, table.new_zeros(len(table), 1)], 1)
            total += table.mT.gather(0, levels[rows].long() % table.shape[1])
        return total

    def learn(self, shares: Tensor, log_odds: Tensor, rows: Tensor) -> None:
        """Learn how alike rows are that belong together, by expectation and maximization.

        Args:
            shares: (s, n) the posterior of each left row, by other columns.
            log_odds: (s,) of having an origin at all, by these.
            rows: (s,) numbers of the right rows.
        """
        for _ in range(ROUNDS_OF_LEVELS):
            before = torch.cat(self.together)
            weighed, gained = weigh(shares, self.log_ratio(rows))
            odds = (log_odds + gained).clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
            alone = share_alone(odds)
            weighed *= torch.sigmoid(odds + np.log1p(-alone) - np.log(alone)).float().unsqueeze(-1)
            for place, levels in enumerate(self.levels):
                expected = _expected(len(self.least[place]))
                counts = torch.bincount(levels[rows].long().view(-1) + 1, weighed.double().view(-1), len(expected) + 1)[
                    1:
                ]
                self.together[place] = (counts + EXPECTED_PAIRS * expected) / (counts.sum() + EXPECTED_PAIRS)
            if float((torch.cat(self.together) - before).abs().max()) < LEVELS_TOLERANCE:
                break

    def told(self) -> dict[str, Comparison]:
        """Evidence of each, by name."""
        shares = [apart.mean(0).numpy() for apart in self.apart]
        return {
            name: Comparison(least, together.numpy(), apart)
            for name, least, together, apart in zip(self.names, self.least, self.together, shares, strict=True)
        }


def compare(
    memory: AssociativeMemory, queries: Queries, candidates: int, groups: Sequence[str] | None, compared: Compared
) -> Edges:
    """The best candidates of each query by its columns and comparisons together; these are learned on the way."""
    every = -(-len(queries) // ROWS_LEARNED_FROM) if len(queries) else 1
    rows = torch.arange(0, len(queries), every)
    compared.learn(*posterior_of_all(memory, queries, groups, rows), rows)
    count, found = min(candidates, len(memory)), []
    for part in blocks(len(queries), 16 * len(memory)):
        rows = torch.arange(len(queries))[part]
        shares, log_odds = posterior_of_all(memory, queries, groups, rows)
        weighed, gained = weigh(shares, compared.log_ratio(rows))
        best = weighed.topk(count)
        found.append((best.indices, best.values, log_odds + gained))
    ids, shares, odds = (torch.cat(each) for each in zip(*found, strict=True)) if found else _none(count)
    edges = Edges.of(ids, shares, None, 0.0, len(memory))
    return replace(edges, log_odds=odds.double().clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS))


def weigh(shares: Tensor, log_ratio: Tensor) -> tuple[Tensor, Tensor]:
    r"""The posterior with what comparisons say, $\propto p_{ij} e^{r_{ij}}$, and the logarithm of its sum."""
    logits = shares.clamp_min(LEAST_SHARE).log() + log_ratio
    return logits.softmax(-1), logits.logsumexp(-1)


def _levels(name: str, values: Any, shape: tuple[int, int]) -> tuple[NDArray[np.float64], Tensor]:
    """The least similarity of each level, and the level of each pair, -1 where there is none."""
    given = np.asarray(values)
    if given.shape != shape:
        raise ShapeError(
            f"`comparisons[{name!r}]` must have a row for each right row and a column for each left row, {shape}; got "
            f"{given.shape}."
        )
    if given.dtype.kind not in "fiub":
        raise InvalidTypeError(f"`comparisons[{name!r}]` must hold numbers; got {given.dtype}.")
    known = given[~np.isnan(given)]
    if np.isinf(known).any():
        raise InvalidValueError(f"`comparisons[{name!r}]` must be finite, or NaN where rows could not be compared.")
    least = np.array([-np.inf])
    if known.size:
        tails = 1 - SHARE_OF_LEVEL_BELOW ** np.arange(1, MOST_LEVELS)
        least = np.unique(np.concatenate([least, np.quantile(known, tails, method="lower")]))
        # The least similarity that is met begins no level: nothing is below.
        least = least[(least == -np.inf) | (least > known.min())]
    levels = np.searchsorted(least, given, side="right").astype(np.int8) - 1
    levels[np.isnan(given)] = -1
    return least.astype(np.float64), torch.from_numpy(levels.astype(np.int8))


def _apart(levels: Tensor, count: int) -> Tensor:
    """(n, l) how often a right row is so much like each left row; one more is counted, shared as all pairs are."""
    met = torch.stack([(levels == level).sum(0) for level in range(count)], 1).double()
    of_all = (met.sum(0) + 1 / count) / (met.sum() + 1)
    return (met + of_all) / (met.sum(1, keepdim=True) + 1)


def _expected(count: int) -> Tensor:
    if count == 1:
        return torch.ones(1, dtype=torch.float64)
    below = torch.full((count - 1,), (1 - EXPECTED_AGREEMENT) / (count - 1), dtype=torch.float64)
    return torch.cat([below, torch.tensor([EXPECTED_AGREEMENT], dtype=torch.float64)])


def _none(count: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty(0, count, dtype=torch.long), torch.empty(0, count), torch.empty(0)
