"""Choices for copies of other columns than patterns: refused, judged and calibrated among all stored patterns."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log

import torch
from torch import Tensor

from ahop._core.tensors import distinct
from ahop._core.typing import Origins, Patterns
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.choosing.posterior import behind, calibrated, closest_rivals
from ahop.fitting.choosing.selection import Choice
from ahop.fitting.choosing.unknown import fit_detector
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.memory.report import SpacesReport
from ahop.separations.softmax import Softmax
from ahop.similarities.base import Similarity
from ahop.similarities.forward import ForwardSimilarity
from ahop.similarities.pooled import PooledSimilarity

# Fewer different origins teach no map.
LEAST_MAPPED = 8
# A map is the better the more pairs it has seen: probabilities are those of maps that have seen all but one in so many.
LEFT_OUT = 20
# Scores of pairs that are left out, of all stored patterns; and pairs, at most and at least.
LEFT_OUT_SCORES, MOST_LEFT_OUT, LEAST_LEFT_OUT = 1 << 25, 1024, 32
# What a map brings is ranked again.
CANDIDATES_OF_MAP = 100
# Standard errors by which copies must tell more of their origins than a guess.
CLEAR = 2.0


def check_enough(training: TrainingSet, groups: Sequence[object] | None) -> None:
    """Refuse what copies of other columns cannot teach."""
    if groups is not None:
        raise InvalidTypeError(
            "`groups` differ by an offset and a gain of each column, and `copies` have other columns than the stored "
            "patterns. Leave `groups` out, or fit each of them by itself."
        )
    different = len(distinct(training.origins)[0])
    if different < LEAST_MAPPED:
        raise InvalidValueError(
            f"`pairs` must have at least {LEAST_MAPPED} different origins, as their copies have other columns than the "
            f"stored patterns; got {different}. Give more pairs."
        )


@torch.no_grad()
def among_all_stored(choice: Choice, training: TrainingSet, patterns: Patterns, origins: Origins, seed: int) -> Choice:
    """The choice with the probabilities, and the verdict, of pairs that were left out, among all stored patterns."""
    count = min(MOST_LEFT_OUT, max(LEAST_LEFT_OUT, LEFT_OUT_SCORES // len(patterns)), len(training))
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(training), generator=generator)[:count].sort().values.to(origins)
    scores, shares = patterns.new_empty(count, len(patterns)), torch.zeros(2, dtype=torch.float64)
    for similarity, places in _left_out(choice, training, some, generator):
        rows = some[places]
        scores[places] = similarity(patterns, training.copies[rows])
        shares += _kept(similarity, patterns, training.copies[rows], scores[places], origins[rows])
    asked, trust = origins[some], training.weights[some].double()
    settings = training.settings.posterior
    beta, posterior = calibrated(closest_rivals([scores], asked), trust, settings)
    _check_clear(posterior.losses, trust, len(patterns))
    exact = float((scores.argmax(-1) == asked).double().mean())
    mapped, reranked = (shares / count).tolist()
    spaces = SpacesReport(
        columns=training.recorded.shape[1],
        checked=count,
        stored=len(patterns),
        mapped=mapped,
        reranked=reranked,
        exact=exact,
        candidates=min(CANDIDATES_OF_MAP, len(patterns)),
    )
    return replace(
        choice,
        separation=Softmax(beta, posterior.floor),
        detector=fit_detector(scores, asked, trust, settings),
        log_loss=float((posterior.losses * trust).sum() / trust.sum()),
        accuracy=exact,
        spaces=spaces,
    )


def _left_out(
    choice: Choice, training: TrainingSet, some: Tensor, generator: torch.Generator
) -> Iterator[tuple[Similarity, Tensor]]:
    """Similarities of all other pairs, and the places of those of `some` that are left out; each once."""
    different, places = distinct(training.origins)
    number = min(LEFT_OUT, len(different))
    fold = (torch.randperm(len(different), generator=generator).to(places) % number)[places]
    for each in range(number):
        asked = (fold[some] == each).nonzero().squeeze(-1)
        if len(asked):
            yield choice.learned_from(training.part((fold != each).nonzero().squeeze(-1))), asked


def _kept(similarity: Similarity, patterns: Patterns, copies: Tensor, scores: Tensor, origins: Tensor) -> Tensor:
    """Counts (2,) of origins that come first by the map alone, and among its candidates; none where there is no map."""
    maps = [each for each in _parts(similarity) if isinstance(each, ForwardSimilarity)]
    if not maps:
        return torch.zeros(2, dtype=torch.float64)
    products = maps[0].images(copies) @ patterns.mT
    best = products.topk(min(CANDIDATES_OF_MAP, len(patterns)), dim=-1).indices
    first = best.gather(-1, scores.gather(-1, best).argmax(-1, keepdim=True)).squeeze(-1)
    return torch.stack([(best[:, 0] == origins).sum(), (first == origins).sum()]).double().cpu()


def _parts(similarity: Similarity) -> list[Similarity]:
    return similarity.parts() if isinstance(similarity, PooledSimilarity) else [similarity]


def _check_clear(losses: Tensor, trust: Tensor, count: int) -> None:
    mean, error = behind(losses, torch.full_like(losses, log(count)), trust)
    if mean > -CLEAR * error:
        raise InvalidValueError(
            f"`pairs` do not teach what their copies have to do with the stored patterns: held-out copies find their "
            f"origins no better than a guess among {count} (log-loss {mean + log(count):.2f}, a guess has "
            f"{log(count):.2f}). Check that `origins` and `copies` belong together, or give more pairs."
        )
