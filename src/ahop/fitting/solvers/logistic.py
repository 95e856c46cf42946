"""Logistic regression with few features, by Newton's method."""

import torch
from torch import Tensor

LOGISTIC_STEPS = 30


def logistic(design: Tensor, is_true: Tensor, trust: Tensor, pull: Tensor, start: Tensor | None = None) -> Tensor:
    r"""The coefficients (p,) that make $\sum t \log p(y) - \frac12 (w - w_0)' R (w - w_0)$ largest.

    Args:
        design: (m, p), a column of ones among them if an offset is wanted.
        is_true: (m,) zeros and ones.
        trust: (m,) how much each row counts.
        pull: $R$, (p, p), towards the start.
        start: $w_0$, (p,); zeros if None.
    """
    origin = torch.zeros(design.shape[1], dtype=torch.float64) if start is None else start.double()
    found = origin.clone()
    for _ in range(LOGISTIC_STEPS):
        guess = torch.sigmoid(design @ found)
        gradient = design.mT @ (trust * (guess - is_true)) + pull @ (found - origin)
        bend = (design.mT * (trust * guess * (1 - guess))) @ design + pull
        found = found - torch.linalg.solve(bend, gradient)
    return found
