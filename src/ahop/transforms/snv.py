"""Standard normal variate: each row on a scale of its own."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._missing import about_mean, filled, observed
from ahop._tensors import of_unit_length
from ahop.transforms.base import Transform


@final
class SNVTransform(Transform):
    r"""$(x_i - \bar x) / \mathrm{std}(x)$ over what was observed of a row; constant rows become 0.

    The standard normal variate of spectroscopy: what is added to a whole row or multiplies it is gone.
    """

    @override
    def forward(self, rows: Tensor) -> Tensor:
        present = observed(rows)
        variate = of_unit_length(filled(about_mean(rows))) * present.sum(-1, keepdim=True).sqrt()
        return variate.where(present > 0, torch.nan)
