"""Rows whose labels repeat: patterns of identities, and copies of them that are left out.

A row is a copy of its identity whose origin is known, if the pattern that it is compared with is made without it, and
without all that shares its damage: the rows of the same device, visit or day.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Generator, Tensor

from ahop.errors import InvalidValueError
from ahop.transforms.visits import pooled
from ahop.variants.base import Pairs

# A dimension that fewer of the rows of an identity have is no part of its pattern.
LEAST_OBSERVED_SHARE = 0.3
# Groups are left out one at a time, or in so many parts; each round of patterns and offsets leaves each out once.
MOST_PARTS, REPEAT_ROUNDS = 32, 4
# Pairs that a fit learns from: 400 of 15 phones tell what happens to copies as well as 800.
MOST_PAIRS = 512


@dataclass(frozen=True)
class Repeats:
    """Rows of identities.

    Attributes:
        rows: (m, d) as they came.
        identities: (m,) the number of each row's.
        groups: (m,) the number of what it shares its damage with; its own number where nobody has said.
        offsets: (g,) what each group adds to all dimensions, which is taken off; None for nothing.
    """

    rows: Tensor
    identities: Tensor
    groups: Tensor
    offsets: Tensor | None = None

    @cached_property
    def aligned(self) -> Tensor:
        """The rows on the scale that all groups have in common."""
        return self.rows if self.offsets is None else self.rows - self.offsets[self.groups].unsqueeze(-1)

    @cached_property
    def parts(self) -> Tensor:
        """The part (m,) that each row is left out with: its group, or several of them."""
        return self.groups % min(MOST_PARTS, int(self.groups.max()) + 1)

    def patterns(self, used: Tensor) -> Tensor:
        """The mean (n, d) of the used rows (m,) of each identity; NaN for those that have none."""
        count = int(self.identities.max()) + 1
        return pooled(self.aligned[used], self.identities[used], count, LEAST_OBSERVED_SHARE)[0]

    def in_turn(self) -> list[tuple[Tensor, Tensor]]:
        """For each part the patterns without it, and its rows whose identities are still there."""
        found = []
        for part in sorted(set(self.parts.tolist())):
            patterns = self.patterns(self.parts != part)
            is_there = ~patterns.isnan().all(-1)
            found.append((patterns, ((self.parts == part) & is_there[self.identities]).nonzero().squeeze(-1)))
        return found

    def with_offsets(self) -> "Repeats":
        """Bring each group to the scale of the others, in turns of patterns and offsets.

        One offset for all dimensions, the median: offsets and gains of each dimension were no better on 15 phones, as
        they drift from round to round.
        """
        repeats, number = self, int(self.groups.max()) + 1
        for _ in range(REPEAT_ROUNDS):
            offsets = torch.zeros(number, dtype=self.rows.dtype)
            for patterns, rows in repeats.in_turn():
                differences = self.rows[rows] - patterns[self.identities[rows]]
                for group in set(self.groups[rows].tolist()):
                    own = differences[self.groups[rows] == group]
                    known = own[~own.isnan()]
                    offsets[group] = known.median() if len(known) else 0.0
            repeats = Repeats(self.rows, self.identities, self.groups, offsets - offsets.mean())
        return repeats

    def pairs(self, seed: int) -> tuple[Tensor, Pairs]:
        """Patterns, and copies that they are made without: of each identity the rows of one group, drawn at random."""
        generator = Generator().manual_seed(seed)
        number = int(self.groups.max()) + 1
        visits, place = torch.unique(self.identities * number + self.groups, return_inverse=True)
        identity = visits // number
        lot = torch.rand(len(visits), generator=generator)
        highest = torch.zeros(int(identity.max()) + 1).scatter_reduce(0, identity, lot, "amax")
        is_several = torch.bincount(identity) > 1
        if not bool(is_several.any()):
            raise InvalidValueError(
                "`labels` repeat within one group only, so that nothing tells how groups differ. Leave `groups` out to "
                "compare rows of one group, or give rows of the same labels by several."
            )
        is_out = ((lot == highest[identity]) & is_several[identity])[place]
        chosen = self._evenly(is_out.nonzero().squeeze(-1), generator)
        return self.patterns(~is_out), Pairs(self.identities[chosen], self.aligned[chosen])

    def _evenly(self, rows: Tensor, generator: Generator) -> Tensor:
        """At most `MOST_PAIRS` of these, as many of each group as can be."""
        drawn = rows[torch.randperm(len(rows), generator=generator)]
        order = self.groups[drawn].argsort(stable=True)
        starts = torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(self.groups[drawn]).cumsum(0)])
        rank = torch.arange(len(drawn)) - starts[self.groups[drawn[order]]]
        return drawn[order[rank.argsort(stable=True)[:MOST_PAIRS]]]
