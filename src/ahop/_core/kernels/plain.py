r"""The truth that the compiled footprints are checked against: $s = \sum_k u_k^\top \tilde q^{(k)}$ in plain torch."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ahop._core.missing import filled, observed
from ahop._core.tensors import lowest
from ahop._core.typing import Scores

# The base similarities that the kernels know, in the order of their numbers there; patterns and queries broadcast.
BASES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "euclidean": lambda patterns, queries: -(queries - patterns).square(),
    "dot": lambda patterns, queries: queries * patterns,
    "manhattan": lambda patterns, queries: -(queries - patterns).abs(),
}
NUMBERS = {name: number for number, name in enumerate(BASES)}
RULES = list(BASES.values())


def footprint_scores_plain(patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int]) -> Scores:
    """Patterns (n, d); queries (k, b, d), as each base sees them; weights of the ranks (k, d) -> scores (b, n).

    Patterns (g, n, d) and queries (g, k, b, d) are g such groups.
    A dimension that is NaN on either side counts as the mean of the others of its pair; a pair that shares none scores
    the lowest finite number.
    """
    each = queries.unbind(-3)
    mask = observed(each[0]).unsqueeze(-2) * observed(patterns).unsqueeze(-3)
    shared = mask.sum(-1, keepdim=True)
    stored, scores = filled(patterns).unsqueeze(-3), []
    for base, asked, ranks in zip(bases, each, weights, strict=True):
        values = RULES[base](stored, filled(asked).unsqueeze(-2)).where(mask > 0, 0.0)
        values = values.where(mask > 0, values.sum(-1, keepdim=True) / shared.clamp_min(1))
        scores.append(torch.sort(values, dim=-1, descending=True).values @ ranks)
    return torch.stack(scores).sum(0).masked_fill(shared.squeeze(-1) == 0, lowest(patterns.dtype))
