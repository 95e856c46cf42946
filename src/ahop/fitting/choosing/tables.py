"""Candidates for rows of categories, and of numbers beside these."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.corruption.agreement import fit_agreement
from ahop.fitting.corruption.categories import Categories
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.similarities.agreement import AgreementSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.gower import GowerSimilarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.transforms.select import SelectTransform

# Those whose scores are log-likelihoods, which add up with those of categories.
OF_NUMBERS = ("mixture", "agreement", "additive", "additive_per_dimension")
# Names of the parts of a model and tables that are added.
SUM = ["numbers", "categories"]


def learn_tables(training: TrainingSet) -> Similarity:
    """Tables of the categories; what numbers say is left out."""
    if training.categories is None:
        raise InvalidValueError(
            "`similarity='categorical'` needs columns of categories: words in a frame, or those that `categorical=` "
            "names."
        )
    tables = training.tables.similarity(training.settings.mixture)
    return of_columns(tables, training.categories.places, training)


def learn_gower(training: TrainingSet) -> Similarity:
    stored, places = training.patterns, () if training.categories is None else training.categories.places
    similarity = GowerSimilarity(stored.shape[1], places).to(stored)
    gap = stored.isnan()
    ranges = stored.masked_fill(gap, -torch.inf).amax(0) - stored.masked_fill(gap, torch.inf).amin(0)
    similarity.ranges.copy_(ranges.where(torch.isfinite(ranges) & (ranges > 0), 1))
    return similarity


def learn_agreement(training: TrainingSet) -> AgreementSimilarity:
    return fit_agreement(training.patterns, training.originals, training.copies, training.trusted)


def same_numbers(training: TrainingSet) -> float:
    """Share of the entries of the columns of numbers that are copied to the digit."""
    return float(learn_agreement(training.numbers).copied[:, 0].mean())


AGREEMENT = Candidate("agreement", learn_agreement, suits=lambda training: False)
CATEGORICAL = Candidate("categorical", learn_tables, suits=lambda training: training.categories is not None)
GOWER = Candidate(
    "gower", learn_gower, is_fixed=True, suits=lambda training: training.categories is not None, is_evidence=False
)


def for_categories(candidates: Sequence[Candidate], categories: Categories) -> list[Candidate]:
    """Those that take categories: for numbers beside them, models of these together with tables."""
    has_numbers = bool(categories.numeric)
    found = [with_tables(each) for each in candidates if has_numbers and each.name in OF_NUMBERS]
    found += [each for each in candidates if each.is_brought or each.name in (CATEGORICAL.name, GOWER.name)]
    if found:
        return found
    names = (*(OF_NUMBERS if has_numbers else ()), CATEGORICAL.name, GOWER.name)
    raise InvalidValueError(
        f"`similarity` must be 'auto' or {' or '.join(map(repr, names))} for rows that hold categories; got "
        f"{', '.join(repr(each.name) for each in candidates)}."
    )


def with_tables(candidate: Candidate) -> Candidate:
    """A model of the numbers, and tables of the categories: their log-likelihoods add up."""

    def learn(training: TrainingSet) -> Similarity:
        assert training.categories is not None
        of_numbers = of_columns(candidate.learn(training.numbers), training.categories.numeric, training)
        return PooledSimilarity([of_numbers, learn_tables(training)], SUM)

    def suits(training: TrainingSet) -> bool:
        return candidate.name == AGREEMENT.name or candidate.suits(training.numbers)

    return replace(candidate, learn=learn, suits=suits)


def parts_of_pools(members: Sequence[tuple[str, float, Similarity]]) -> list[tuple[str, float, Similarity]]:
    """Names, weights and similarities of models, with those that are a sum taken apart; tables count once."""
    found, tables, weight_of_tables = [], None, 0.0
    for name, weight, similarity in members:
        if isinstance(similarity, PooledSimilarity) and similarity.names == SUM:
            of_numbers, tables = similarity.parts()
            weight_of_tables += weight
            found.append((name, weight, of_numbers))
        elif name == CATEGORICAL.name:
            tables = similarity
            weight_of_tables += weight
        else:
            found.append((name, weight, similarity))
    return found if tables is None else [*found, (CATEGORICAL.name, weight_of_tables, tables)]


def check_no_groups(groups: Sequence[object] | None) -> None:
    if groups is not None:
        raise InvalidTypeError(
            "`groups` differ by an offset and a gain of each column, which categories have not. Leave `groups` out, or "
            "fit each of them by itself."
        )


def of_columns(similarity: Similarity, places: Sequence[int], training: TrainingSet) -> Similarity:
    is_whole = len(places) == training.patterns.shape[1]
    return similarity if is_whole else TransformedSimilarity(similarity, SelectTransform(places))
