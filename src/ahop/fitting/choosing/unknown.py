"""Fit the detector of unknown queries to held-out scores."""

import torch
from torch import Tensor

from ahop._core.typing import Origins, Scores
from ahop.fitting.settings import DEFAULT, PosteriorSettings
from ahop.fitting.solvers.logistic import logistic
from ahop.memory.unknown import Evidence, UnknownDetector


def fit_detector(
    scores: Scores, origins: Origins, weights: Tensor, settings: PosteriorSettings = DEFAULT.posterior
) -> UnknownDetector:
    """Learned by forgetting: without its own pattern, the scores of a copy are those of a query that is unknown."""
    others = torch.ones_like(scores, dtype=torch.bool).scatter(-1, origins.unsqueeze(-1), False)
    if scores.shape[-1] < 2 or not len(scores):
        return UnknownDetector()
    unknown = Evidence.of(scores[others].view(len(scores), -1))
    return detector_of(Evidence.of(scores).features(), unknown.features(), weights, settings)


def detector_of(
    known: Tensor, unknown: Tensor, weights: Tensor, settings: PosteriorSettings, rate: float = 0.5
) -> UnknownDetector:
    """Told apart by a logistic regression: the same queries' features (m, 4) with and without their origins."""
    detector = UnknownDetector(rate).double()
    features = torch.cat([known, unknown])
    trust = torch.cat([weights, weights]).double()
    detector.center.copy_(features.mean(0))
    detector.scale.copy_(features.std(0, correction=0).clamp_min(1e-9))
    design = torch.cat([(features - detector.center) / detector.scale, torch.ones_like(features[:, :1])], dim=-1)
    is_known = torch.cat([torch.ones(len(known)), torch.zeros(len(unknown))]).double()
    pull = settings.detector_pull * torch.eye(design.shape[1], dtype=torch.float64)
    slopes = logistic(design, is_known, trust, pull)
    detector.slopes.copy_(slopes[:-1])
    detector.offset.copy_(slopes[-1])
    return detector.to(torch.get_default_dtype())
