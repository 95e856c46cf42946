r"""Scores of a learned mixture by the compiled kernel: $\sum_i \log(1 + e^{w_i - (a_i - c_i \xi_i)^2 / 2})$."""

import torch
from torch import Tensor

from ahop._typing import Scores
from ahop.kernels.native import compiled, fits, threads_for
from ahop.kernels.packing import in_rows, packed, stored

# A worth below this has an exponential in float32.
LARGEST_WORTH = 80.0


def serves_mixture(patterns: Tensor, worth: Tensor) -> bool:
    """Whether the kernel can take these: not under a compiler, and not where a match is worth more than it can say."""
    return (
        not torch.compiler.is_compiling()
        and patterns.device.type == "cpu"
        and fits(patterns, worth)
        and compiled() is not None
        and (worth.numel() == 0 or float(worth.max()) < LARGEST_WORTH)
    )


def mixture_scores(
    patterns: Tensor, asked: Tensor, worth: Tensor, alone: Tensor, slopes: Tensor, shifts: Tensor
) -> Scores:
    """Scores (b, n) of patterns (n, d), which add nothing where they are NaN. No gradient flows through.

    Args:
        asked: (b, d) where a match would be.
        worth: (b, d) and what it would be worth, in logarithms.
        alone: (b, d) what is added where a pattern was observed.
        slopes: (d,) what the patterns are multiplied by.
        shifts: (s, d) places beside `asked` where a match may be as well.
    """
    kernels = compiled()
    assert kernels is not None
    scores, blocks = patterns.new_empty(len(asked), len(patterns)), packed(patterns)
    arguments = [each.detach().contiguous() for each in (asked, worth, alone, slopes.unsqueeze(0), shifts)]
    kernels.mixture(*stored(patterns, blocks), *arguments, scores, threads_for(len(patterns) * asked.numel()))
    return in_rows(scores, blocks)
