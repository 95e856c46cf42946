"""Making probabilities mean what they say, on pairs that the similarity was not fitted to."""

import torch
from torch import Tensor

from ahop._typing import Origins, Scores
from ahop.calibration import UnknownDetector, score_features

SHARPNESSES = torch.logspace(-4, 4, 161, dtype=torch.float64)
NEWTON_STEPS, RIDGE = 30, 1.0
# How much of a pair more, in which the runner-up was right, is added: no number of pairs makes anything certain.
DOUBT = 0.25


def log_loss(scores: Scores, origins: Origins, beta: float) -> Tensor:
    r"""$-\log \mathrm{softmax}(\beta s)_k$ for each query, (b,)."""
    # Below the highest score: a shift for each query changes nothing, and large numbers cost digits.
    sharpened = beta * (scores.double() - scores.double().amax(-1, keepdim=True))
    return torch.logsumexp(sharpened, -1) - sharpened.gather(-1, origins.unsqueeze(-1)).squeeze(-1)


def best_sharpness(scores: Scores, origins: Origins, weights: Tensor, log_counts: Tensor | None = None) -> float:
    r"""The $\beta$ with the least log-loss, of a grid that spans all scales.

    Args:
        log_counts: how many patterns each score stands for, in logarithms; one each if None.
    """
    scores = scores.double() - scores.double().amax(-1, keepdim=True)
    second = scores.topk(min(2, scores.shape[-1]), dim=-1).values[:, -1]
    origin = scores.gather(-1, origins.unsqueeze(-1)).squeeze(-1)
    doubt = DOUBT / weights.sum().clamp_min(1e-12)

    def loss(beta: float) -> float:
        total = torch.logsumexp(beta * scores if log_counts is None else beta * scores + log_counts, -1)
        return float(((total - beta * origin + doubt * (total - beta * second)) * weights).sum())

    # The loss is convex in beta: a search by thirds finds the place.
    spread = float(scores[scores > -torch.inf].abs().median().clamp_min(1e-12))
    grid = (SHARPNESSES / spread).tolist()
    low, high = 0, len(grid) - 1
    while high - low > 2:
        left, right = low + (high - low) // 3, high - (high - low) // 3
        low, high = (low, right) if loss(grid[left]) <= loss(grid[right]) else (left, high)
    best: float = min(grid[low : high + 1], key=loss)
    return best


def fit_detector(scores: Scores, origins: Origins, weights: Tensor, rate: float = 0.5) -> UnknownDetector:
    """Learned by forgetting: without its own pattern, the scores of a copy are those of a query that is unknown."""
    others = torch.ones_like(scores, dtype=torch.bool).scatter(-1, origins.unsqueeze(-1), False)
    if scores.shape[-1] < 2 or not len(scores):
        return UnknownDetector(rate)
    return detector_of(score_features(scores), score_features(scores[others].view(len(scores), -1)), weights, rate)


def detector_of(known: Tensor, unknown: Tensor, weights: Tensor, rate: float = 0.5) -> UnknownDetector:
    """Told apart by a logistic regression: the same queries' features (m, 4) with and without their origins."""
    detector = UnknownDetector(rate).double()
    features = torch.cat([known, unknown])
    trust = torch.cat([weights, weights]).double()
    detector.centre.copy_(features.mean(0))
    detector.scale.copy_(features.std(0, correction=0).clamp_min(1e-9))
    design = torch.cat([(features - detector.centre) / detector.scale, torch.ones_like(features[:, :1])], dim=-1)
    is_known = torch.cat([torch.ones(len(known)), torch.zeros(len(unknown))]).double()
    slopes = torch.zeros(design.shape[1], dtype=torch.float64)
    pull = RIDGE * torch.eye(len(slopes), dtype=torch.float64)
    for _ in range(NEWTON_STEPS):
        guess = torch.sigmoid(design @ slopes)
        gradient = design.mT @ (trust * (guess - is_known)) + pull @ slopes
        bend = (design.mT * (trust * guess * (1 - guess))) @ design + pull
        slopes = slopes - torch.linalg.solve(bend, gradient)
    detector.slopes.copy_(slopes[:-1])
    detector.offset.copy_(slopes[-1])
    return detector.to(torch.get_default_dtype())
