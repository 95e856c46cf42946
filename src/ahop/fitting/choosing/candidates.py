"""The candidates that `fit` chooses among, in the order in which they are preferred, and presets of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ahop._core.checks import check_choice
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.general import FOOTPRINT, FORWARD, LEARNED, METRICS
from ahop.fitting.choosing.heteroscedastic import HETEROSCEDASTIC
from ahop.fitting.choosing.radio import RADIO
from ahop.fitting.choosing.spectra import SPECTRA
from ahop.fitting.choosing.tables import AGREEMENT, CATEGORICAL, GOWER
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.similarities.base import Similarity
from ahop.similarities.callable import CallableSimilarity

# Where pairs cannot tell them apart, the first is taken: the more they know, the earlier.
CANDIDATES = (HETEROSCEDASTIC, *LEARNED, AGREEMENT, CATEGORICAL, *SPECTRA, FORWARD, FOOTPRINT, *RADIO, *METRICS, GOWER)
# Tried where the data look so, and wherever somebody names them.
PRESETS = {"radio": RADIO, "spectra": SPECTRA}


def wanted_candidates(names: Sequence[str] | None, brought: str | Sequence[object]) -> list[Candidate]:
    """All of ours, or those named; presets, whatever the data look like; and what somebody brought."""
    given = [brought] if isinstance(brought, str) else list(brought)
    presets = [PRESETS[check_choice("candidates", each, tuple(PRESETS))] for each in given if isinstance(each, str)]
    asked = {each.name for preset in presets for each in preset}
    ours = [
        replace(each, suits=_always, is_asked=True) if each.name in asked else each
        for each in CANDIDATES
        if names is None or each.name in names or each.name in asked
    ]
    return ours + own_candidates([each for each in given if not isinstance(each, str)])


def own_candidates(brought: Sequence[object]) -> list[Candidate]:
    """Similarities, or functions of (patterns, queries), that somebody brought."""
    found: list[Candidate] = []
    for each in brought:
        if isinstance(each, Similarity):
            similarity, name = each, type(each).__name__
        elif callable(each):
            name = getattr(each, "__name__", type(each).__name__)
            similarity = CallableSimilarity(each, name)
        else:
            raise InvalidTypeError(
                f"`candidates` must be similarities, or functions (patterns, queries) -> scores; got {each!r}. To "
                "choose among those of ahop, name them by `similarity`."
            )
        taken = [candidate.name for candidate in (*CANDIDATES, *found)]
        name = name if name not in taken else f"{name} {len(found) + 1}"
        found.append(Candidate(name, _constant(similarity), is_fixed=True, is_evidence=False, is_brought=True))
    return found


def for_other_columns(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that take copies of other columns than patterns, and what somebody brought."""
    found = [each for each in candidates if each.takes_other_columns or each.is_brought]
    if found:
        return found
    names = [each.name for each in CANDIDATES if each.takes_other_columns]
    raise InvalidValueError(
        "`copies` have other columns than the stored patterns, so that no column can be compared with its own. "
        f"`similarity` must be 'auto' or {' or '.join(map(repr, names))} for these; got "
        f"{', '.join(repr(each.name) for each in candidates)}."
    )


def suitable(candidates: Sequence[Candidate], training: TrainingSet) -> list[Candidate]:
    """Those worth trying, in the order in which they are preferred: curves move as a whole."""
    found = [candidate for candidate in candidates if candidate.suits(training)]
    return sorted(found, key=lambda each: each.name != "nuisance") if training.are_curves else found


def _constant(similarity: Similarity) -> Callable[[TrainingSet], Similarity]:
    return lambda training: similarity


def _always(training: TrainingSet) -> bool:
    return True
