"""Replace values by their ranks."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop.transforms.base import Transform


@final
class RankTransform(Transform):
    r"""$2\,\mathrm{rank}(x_i) / (m - 1) - 1$: the rank among the $m$ observed values of a row, from -1 to 1.

    Equal values share the mean of their ranks; a single value has 0. Whatever keeps the order of a row changes
    nothing. Ranks have no slope.
    """

    @override
    def forward(self, rows: Tensor) -> Tensor:
        gaps, values = rows.isnan(), rows.detach().nan_to_num(torch.inf).contiguous()
        ordered = values.sort(-1).values
        below, up_to = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
        last = ((~gaps).sum(-1, keepdim=True) - 1).clamp_min(1)
        ranks = (below + up_to - 1).to(rows.dtype) / last - 1  # twice the mean rank
        return ranks.where((~gaps).sum(-1, keepdim=True) > 1, 0).where(~gaps, torch.nan)
