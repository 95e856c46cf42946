"""Scores of learned likelihoods by the compiled kernels: sums over the dimensions of a mixture, or of a table."""

import torch
from torch import Tensor

from ahop._core.kernels.native import arrays, compiled, fits, threads_for
from ahop._core.kernels.packing import packed, stored
from ahop._core.tensors import few_columns
from ahop._core.typing import Scores

# A worth below this has an exponential in float32.
LARGEST_WORTH = 80.0
# Tables of this many knots fit registers, smaller ones are filled up.
REGISTER_KNOTS = 16


def serves_mixture(patterns: Tensor, worth: Tensor) -> bool:
    """True if the kernel can take these; not where a match is worth more than it can say."""
    return _serves(patterns, worth) and (worth.numel() == 0 or float(worth.max()) < LARGEST_WORTH)


def serves_tables(patterns: Tensor, profiles: Tensor) -> bool:
    return _serves(patterns, profiles)


def serves_marginals(population: Tensor, queries: Tensor) -> bool:
    return queries.shape[-1] == len(population) and _serves(population.mT, queries)


def _serves(patterns: Tensor, queries: Tensor) -> bool:
    """No gradient flows through these kernels, and compilers do not know them."""
    wants_gradient = torch.is_grad_enabled() and (patterns.requires_grad or queries.requires_grad)
    return (
        not wants_gradient
        and not torch.compiler.is_compiling()
        and patterns.device.type == "cpu"
        and fits(patterns, queries)
        and compiled() is not None
    )


def mixture_scores(
    patterns: Tensor, asked: Tensor, worth: Tensor, alone: Tensor, slopes: Tensor, shifts: Tensor
) -> Scores:
    r"""$\sum_i \log(1 + \sum_s e^{w_i - (a_i - t_{si} - c_i \xi_i)^2 / 2}) + \alpha_i$ where the pattern is not NaN.

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
    arguments = [each.contiguous() for each in (asked, worth, alone, slopes.unsqueeze(0), shifts)]
    threads = threads_for(len(patterns) * asked.numel())
    kernels.mixture(*arrays(*stored(patterns, blocks), *arguments, scores), threads)
    return scores


def paired_mixture_scores(
    patterns: Tensor, rows: Tensor, asked: Tensor, worth: Tensor, alone: Tensor, slopes: Tensor, shifts: Tensor
) -> Scores:
    """Score each query against rows (b, c) of its own, which are read where they stand."""
    kernels = compiled()
    assert kernels is not None
    scores = patterns.new_empty(rows.shape)
    arguments = [each.contiguous() for each in (patterns, rows, asked, worth, alone, slopes.unsqueeze(0), shifts)]
    kernels.paired_mixture(*arrays(*arguments, scores), threads_for(rows.numel() * asked.shape[1]))
    return scores


def mixture_marginals(
    queries: Tensor, parameters: list[Tensor], population: Tensor, log_density: Tensor, ends: Tensor, signs: bool
) -> Tensor:
    r"""$\log g_i G(x_i)$ and $\log p_0(x_i)$, (2, ..., d); zero where a value is NaN.

    Args:
        parameters: gain, bias, std, outlier rate, center and scale, (d,) each.
        population: (d, quantiles), rising.
        log_density: (steps,) of outliers between the two ends.
    """
    kernels = compiled()
    assert kernels is not None
    values = queries.detach().reshape(-1, queries.shape[-1]).contiguous()
    found = values.new_empty(2, *values.shape)
    each = (torch.stack(parameters), population.contiguous(), log_density.unsqueeze(0), ends.unsqueeze(0))
    threads = threads_for(values.numel() * population.shape[1])
    kernels.marginals(*arrays(values, *each), signs, *arrays(found), threads)
    return found.view(2, *queries.shape)


def table_scores(patterns: Tensor, places: Tensor, profiles: Tensor) -> Scores:
    """The sum of each query's profiles (b, d, knots) at the stored values; nothing is added where these are NaN.

    Args:
        places: (d, knots) where the knots are, rising; linear between them and flat beyond.
    """
    kernels = compiled()
    assert kernels is not None
    columns = few_columns((profiles != 0).any(-1), len(patterns))
    if columns is not None:
        patterns, places = patterns.detach().index_select(1, columns), places[columns]
        profiles = profiles[:, columns]
    scores, blocks = patterns.new_zeros(len(profiles), len(patterns)), packed(patterns)
    if not patterns.shape[1]:
        return scores
    used = places.shape[1]
    room = max(0, REGISTER_KNOTS - used)
    places, profiles = (torch.nn.functional.pad(each.detach(), (0, room)).contiguous() for each in (places, profiles))
    work = len(patterns) * len(profiles) * patterns.shape[1]
    kernels.additive(*stored(patterns, blocks), places, used, profiles, scores, threads_for(work))
    return scores
