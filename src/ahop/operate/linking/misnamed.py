"""Rows of two tables that have the same names: which of them are not what they are called?"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.blocks import blocks

# Share of names that are expected to be wrong, before a row is looked at.
EXPECTED_SHARE = 0.02
# Tables whose names agree in less than this share of the right rows name other things.
LEAST_SHARED = 0.5
# Rows that are told one by one.
SHOWN = 5


@final
@dataclass(frozen=True)
class Misnamed:
    """Right rows that the left row of their name does not fit.

    Attributes:
        rows: (m,) their names.
        linked: (m,) names of the left rows that they are linked to; None for none.
        log_odds: (m,) by how much likelier the left row of that name is than another, in nats: far below zero.
    """

    rows: NDArray[Any]
    linked: NDArray[np.object_]
    log_odds: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        if not len(self):
            return "All right rows fit their names."
        rather = [
            f"{row} {'is none of the left rows' if left is None else f'is rather {left}'}"
            for row, left in zip(self.rows.tolist(), self.linked.tolist(), strict=True)
        ]
        more = f", and {len(rather) - SHOWN} more" if len(rather) > SHOWN else ""
        return f"Wrong names: {len(rather)} of the right rows. {', '.join(rather[:SHOWN])}{more}."


def find_misnamed(
    posterior_of: Callable[[Tensor], Tensor], left: NDArray[Any], right: NDArray[Any], linked: NDArray[np.int64]
) -> Misnamed | None:
    """Find them; None where the names of both tables are not the same.

    Args:
        posterior_of: numbers of right rows -> (s, n) how likely each left row is the one that they belong to.
        left: (n,) names of the left rows.
        right: (b,) names of the right rows.
        linked: (b,) numbers of the left rows that they are linked to, -1 for none.
    """
    places = {name: place for place, name in enumerate(left.tolist())}
    own = np.array([places.get(name, -1) for name in right.tolist()], dtype=np.int64)
    if len(left) < 2 or (own >= 0).sum() < LEAST_SHARED * max(1, len(right)):
        return None
    doubtful = ((own >= 0) & (own != linked)).nonzero()[0]
    odds = np.empty(len(doubtful))
    for part in blocks(len(doubtful), 16 * len(left)):
        rows = torch.from_numpy(doubtful[part])
        share = posterior_of(rows).double().gather(1, torch.from_numpy(own)[rows, None]).squeeze(1).numpy()
        with np.errstate(divide="ignore"):
            odds[part] = np.log(share) - np.log1p(-share) + log(len(left) - 1)
    kept = odds < log(EXPECTED_SHARE) - log(1 - EXPECTED_SHARE)
    found = doubtful[kept]
    names = np.array([None if each < 0 else left[each] for each in linked[found]], dtype=object)
    return Misnamed(right[found], names, odds[kept])
