"""Links between two tables, as a long table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahop._core import optional


@dataclass(frozen=True)
class Unmatched:
    """Rows that were linked to none.

    Attributes:
        rows: (m,) their labels, or their numbers if there are no labels.
        probability: (m,) that each of them belongs to no row of the other table.
    """

    rows: NDArray[Any]
    probability: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Links:
    """Rows that belong together: a long table with a line for each pair, by right row and rank.

    Attributes:
        left: (m,) labels of the left rows, or their numbers if there are no labels.
        right: (m,) of the right rows.
        probability: (m,) that both belong together.
        rank: (m,) 1 for the link; from 2 on other candidates of the same right row, likeliest first.
        unmatched_left: rows that are linked to none.
        unmatched_right: the same of the right table.
        unmatched_share: how many of the right rows belong to no left row, as estimated or as was given.
    """

    left: NDArray[Any]
    right: NDArray[Any]
    probability: NDArray[np.float64]
    rank: NDArray[np.int64]
    unmatched_left: Unmatched
    unmatched_right: Unmatched
    unmatched_share: float

    def __len__(self) -> int:
        return len(self.left)

    def __str__(self) -> str:
        is_link = self.rank == 1
        sure = f", right with {100 * self.probability[is_link].mean():.1f} % on average" if is_link.any() else ""
        return (
            f"{int(is_link.sum())} links{sure}. Linked to none: {len(self.unmatched_left)} rows of the left table, "
            f"{len(self.unmatched_right)} of the right."
        )

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """The columns left, right, probability and rank by name, as `polars.DataFrame` and others take them."""
        return {"left": self.left, "right": self.right, "probability": self.probability, "rank": self.rank}

    def to_frame(self) -> Any:
        """Return the links as a frame of pandas."""
        return optional.pandas().DataFrame(self.to_dict())

    def to_arrow(self) -> Any:
        """Return the links as a table of Arrow."""
        return optional.pyarrow().table({name: column.tolist() for name, column in self.to_dict().items()})
