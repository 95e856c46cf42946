"""Preset for spectra and other curves: offset and gain taken out of each, or their slopes compared."""

from collections.abc import Callable

from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.general import learn_mixture, learn_nuisance
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.similarities.base import Similarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.transforms.base import Transform
from ahop.transforms.difference import DifferenceTransform
from ahop.transforms.snv import SNVTransform

SNV, DIFFERENCE = SNVTransform(), DifferenceTransform()


def _behind(transform: Transform, learn: Callable[[TrainingSet], Similarity]) -> Callable[[TrainingSet], Similarity]:
    return lambda training: TransformedSimilarity(learn(training.transformed(transform)), transform)


def _are_curves(training: TrainingSet) -> bool:
    return training.are_curves


SPECTRA = (
    Candidate("snv_nuisance", _behind(SNV, learn_nuisance), suits=_are_curves),
    Candidate("difference_nuisance", _behind(DIFFERENCE, learn_nuisance), suits=_are_curves),
    Candidate("snv_mixture", _behind(SNV, learn_mixture), suits=_are_curves),
    Candidate("difference_mixture", _behind(DIFFERENCE, learn_mixture), suits=_are_curves),
)
