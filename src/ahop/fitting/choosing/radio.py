"""Preset for radio maps, and all else that tells strengths: a gap was not heard, and devices add an offset."""

from collections.abc import Callable
from math import e

import torch

from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.sorensen import SorensenSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.transforms.power import PowerTransform

# Below the least value by this share of the range nothing is heard at all.
MARGIN = 0.01


def _strengths(
    base: Callable[[], Similarity], exponent: float = 1.0, missing: float | None = 0.0
) -> Callable[[TrainingSet], Similarity]:
    """Compare strengths above the least one, without the common offset; a gap was not heard at all."""

    def learn(training: TrainingSet) -> Similarity:
        values = torch.cat([training.patterns.flatten(), training.copies.flatten()])
        known = values[~values.isnan()]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        margin = MARGIN * (high - low) or 1.0
        transform = PowerTransform(low - margin, max(high, low + margin), exponent, missing)
        aligned = AlignedSimilarity(TransformedSimilarity(base(), transform), training.copies.shape[1])
        aligned.offset.fill_(_offset(training))
        return aligned

    return learn


def _offset(training: TrainingSet) -> float:
    """Estimate the offset of copies from their originals: one number for all dimensions, which few pairs tell well."""
    difference = (training.copies - training.originals)[training.trusted > 0.5 * training.trusted.max()]
    return float(difference.nanmedian().nan_to_num(0)) if difference.numel() else 0.0


def _has_gaps(training: TrainingSet) -> bool:
    return training.missing > training.settings.candidates.least_missing_share


def _are_no_curves(training: TrainingSet) -> bool:
    return not training.are_curves


RADIO = (
    Candidate("sorensen", _strengths(SorensenSimilarity, missing=None), suits=_are_no_curves, is_evidence=False),
    Candidate("heard_sorensen", _strengths(SorensenSimilarity), suits=_has_gaps, is_evidence=False),
    Candidate("powed_sorensen", _strengths(SorensenSimilarity, e), suits=_has_gaps, is_evidence=False),
    Candidate("heard_cosine", _strengths(CosineSimilarity), suits=_has_gaps, is_evidence=False),
    Candidate("powed_cosine", _strengths(CosineSimilarity, e), suits=_has_gaps, is_evidence=False),
)
