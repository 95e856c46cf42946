"""What the paper's generator does: as its text says, and as its printed figures need.

`python -m experiments generator` shows how each reading stands to each figure.
"""

from dataclasses import dataclass
from typing import Literal

import ahop

Reading = Literal["as written", "as fitted"]


@dataclass(frozen=True)
class Scales:
    """What a difficulty d means: a share `mask` * d redrawn, noise of std `noise` * d, a bias of +-`bias` * d."""

    mask: float = 1.0
    noise: float = 1.0
    bias: float = 1.0
    mask_last: bool = False

    def variant(
        self,
        mask: float,
        noise: float,
        bias: float,
        signs: Literal["constant", "per_query"] = "per_query",
        seed: int = 0,
    ) -> ahop.MixedVariant:
        return ahop.MixedVariant(
            min(1.0, self.mask * mask),
            self.noise * noise,
            self.bias * bias,
            signs=signs,
            seed=seed,
            mask_last=self.mask_last,
        )


READINGS: dict[Reading, Scales] = {
    "as written": Scales(),
    "as fitted": Scales(noise=1.2, bias=1.5, mask_last=True),
}
