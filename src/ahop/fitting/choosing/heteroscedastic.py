"""Candidates for values whose standard deviations are known, entry by entry."""

from collections.abc import Sequence
from dataclasses import replace

from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.tables import AGREEMENT, CATEGORICAL, GOWER, of_columns
from ahop.fitting.corruption.heteroscedastic import ErrorColumns, fit_heteroscedastic
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.memory.likelihood import LikelihoodSimilarity
from ahop.similarities.base import Similarity

# Candidates that are not for the values of these.
NOT_OF_VALUES = (CATEGORICAL.name, GOWER.name, AGREEMENT.name)


def learn_heteroscedastic(training: TrainingSet) -> Similarity:
    """A mixture with the noise of each entry."""
    if training.errors is None:
        raise InvalidValueError(
            "`similarity='heteroscedastic'` needs columns of standard deviations: `errors={'mass': 'mass_std'}`."
        )
    rows = training.patterns, training.originals, training.copies, training.trusted
    return LikelihoodSimilarity(
        fit_heteroscedastic(*rows, training.errors, training.mixture, settings=training.settings.mixture)
    )


HETEROSCEDASTIC = Candidate(
    "heteroscedastic", learn_heteroscedastic, suits=lambda training: training.errors is not None
)


def for_errors(candidates: Sequence[Candidate], errors: ErrorColumns) -> list[Candidate]:
    """Models that know the standard deviations, and others of the values alone."""
    found = [
        each if each.name == HETEROSCEDASTIC.name or each.is_brought else _of_values(each)
        for each in candidates
        if each.name not in NOT_OF_VALUES and not each.takes_other_columns
    ]
    if found:
        return found
    raise InvalidValueError(
        f"`similarity` must be 'auto' or another that takes standard deviations, such as 'heteroscedastic'; got "
        f"{', '.join(repr(each.name) for each in candidates)}."
    )


def check_errors_alone(**others: bool) -> None:
    """Refuse what columns of standard deviations would be read wrongly by.

    Args:
        others: arguments of the fit, and whether they were given.
    """
    given = [name for name, is_given in others.items() if is_given]
    if given:
        raise InvalidTypeError(
            f"`errors` are learned from `pairs=(origins, copies)` of numbers alone; leave `{given[0]}` out, or fit "
            "without the columns of standard deviations."
        )


def _of_values(candidate: Candidate) -> Candidate:
    def learn(training: TrainingSet) -> Similarity:
        return of_columns(candidate.learn(training.numbers), training.numeric, training)

    return replace(candidate, learn=learn, suits=lambda training: candidate.suits(training.numbers))
