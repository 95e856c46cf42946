"""One way to be similar, as `fit` tries it."""

from collections.abc import Callable
from dataclasses import dataclass

from ahop.fitting.corruption.training_set import TrainingSet
from ahop.similarities.base import Similarity


@dataclass(frozen=True)
class Candidate:
    """One way to be similar.

    Attributes:
        learn: the similarity from pairs.
        is_fixed: nothing is learned.
        suits: whether it is worth trying on these pairs.
        is_evidence: its scores are log-likelihoods, or distances that are read as such; else they are calibrated first.
        is_brought: by the user, who wants it judged to the end.
        takes_other_columns: copies may have other columns than patterns.
        is_asked: by the name of its preset, whatever the data look like.
    """

    name: str
    learn: Callable[[TrainingSet], Similarity]
    is_fixed: bool = False
    suits: Callable[[TrainingSet], bool] = lambda training: True
    is_evidence: bool = True
    is_brought: bool = False
    is_asked: bool = False
    takes_other_columns: bool = False
