"""Similarities of a query and a stored pattern. Larger is closer, always."""

import ahop._core.with_torch  # noqa: F401
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.agreement import AgreementSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import DecomposableSimilarity, LinearSimilarity, Similarity
from ahop.similarities.callable import CallableSimilarity
from ahop.similarities.correlation import CorrelationSimilarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.footprint import FootprintSimilarity, footprint
from ahop.similarities.forward import ForwardSimilarity
from ahop.similarities.gower import GowerSimilarity
from ahop.similarities.isolated import IsolatedSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.similarities.match import MatchSimilarity
from ahop.similarities.optimal import optimal_for_biased, optimal_for_masked, optimal_for_noisy
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.sorensen import SorensenSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.similarities.unified import UnifiedSimilarity

__all__ = [
    "AdaptiveSimilarity",
    "AdditiveSimilarity",
    "AgreementSimilarity",
    "AlignedSimilarity",
    "CallableSimilarity",
    "CorrelationSimilarity",
    "CosineSimilarity",
    "DebiasedSimilarity",
    "DecomposableSimilarity",
    "DotSimilarity",
    "EuclideanSimilarity",
    "FootprintSimilarity",
    "ForwardSimilarity",
    "GowerSimilarity",
    "IsolatedSimilarity",
    "LinearSimilarity",
    "ManhattanSimilarity",
    "MatchSimilarity",
    "PooledSimilarity",
    "Similarity",
    "SorensenSimilarity",
    "TransformedSimilarity",
    "UnifiedSimilarity",
    "footprint",
    "optimal_for_biased",
    "optimal_for_masked",
    "optimal_for_noisy",
]
