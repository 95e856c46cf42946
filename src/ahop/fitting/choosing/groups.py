"""Similarities of groups, such as devices, with partial pooling."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ahop._core.tensors import distinct
from ahop.errors import InvalidValueError
from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.posterior import behind, calibrated, closest_rivals
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity

# Groups with fewer pairs are answered by what all have in common.
LEAST_PAIRS = 2
# Groups that the choice is made on, the largest, to save time; and folds of their pairs.
TRIED_GROUPS, GROUP_FOLDS = 3, 2


def numbered(names: Sequence[str]) -> tuple[list[str], Tensor]:
    """The different groups in rising order, and the number of each copy's."""
    different = sorted(set(names))
    place = {name: number for number, name in enumerate(different)}
    return different, torch.tensor([place[name] for name in names], dtype=torch.long)


def alignment_helps(training: TrainingSet, candidate: Candidate) -> bool:
    """Test whether taking off the offset and the gain of each group improves held-out retrieval."""
    if training.groups is None or training.alignment is None or not training.alignment.is_needed:
        return False
    everybody, plain = torch.ones(len(training), dtype=torch.bool), training.unaligned()
    try:
        aligned = _held_out(training, everybody, candidate.learn)
        unaligned = _held_out(plain, everybody, candidate.learn)
    except InvalidValueError:  # half of the pairs are too few to teach it
        return False
    mean, error = behind(unaligned, aligned, training.weights.double())
    return mean > error


def learn_groups(
    training: TrainingSet,
    candidate: Candidate,
    similarity: Similarity,
    learn: Callable[[TrainingSet], Similarity],
    names: list[str],
) -> dict[str, Similarity]:
    """The common similarity as each group sees it; fitted to a group's own pairs where held-out copies ask for it.

    Args:
        candidate: what was chosen, or the best member of the pool.
        similarity: the common one.
        learn: the chosen similarity, pool and all, from other weights of the pairs.
    """
    assert training.groups is not None
    own = [training.groups == number for number in range(len(names))]
    fits = _own_fits_help(training, candidate, own)
    if not fits and (training.alignment is None or not training.alignment.is_needed):
        return {}
    found: dict[str, Similarity] = {}
    for number, name in enumerate(names):
        count = int(own[number].sum())
        if count >= LEAST_PAIRS:
            base = (
                learn(_borrowing(training, own[number]))
                if fits and count >= training.settings.groups.own_pairs
                else similarity
            )
            found[name] = _as_seen_by(number, base, training)
    return found


def _as_seen_by(number: int, similarity: Similarity, training: TrainingSet) -> Similarity:
    if training.alignment is None or not training.alignment.is_needed:
        return similarity
    aligned = AlignedSimilarity(similarity, training.patterns.shape[1]).to(training.patterns.dtype)
    aligned.offset.copy_(training.alignment.offset[number])
    aligned.gain.fill_(float(training.alignment.gain[number]))
    return aligned


def _own_fits_help(training: TrainingSet, candidate: Candidate, own: list[Tensor]) -> bool:
    """Test whether a fit to the pairs of one group alone improves held-out retrieval in the largest groups."""
    settings = training.settings.groups
    large = [each for each in own if int(each.sum()) >= settings.own_pairs]
    tried = sorted(large, key=lambda each: -int(each.sum()))[:TRIED_GROUPS]
    if not tried or candidate.is_fixed:
        return False
    common, alone = [], []
    for mine in tried:
        common.append(_held_out(training, mine, candidate.learn))
        alone.append(_held_out(training, mine, candidate.learn, own=mine))
    losses = torch.cat(common)
    mean, error = behind(losses, torch.cat(alone), torch.ones_like(losses))
    return mean > settings.own_std_errors * error


def _borrowing(training: TrainingSet, own: Tensor) -> TrainingSet:
    borrowed = training.settings.groups.borrowed_share * training.weights
    return training.weighted(torch.where(own, training.weights, borrowed))


def _held_out(
    training: TrainingSet, judged: Tensor, learn: Callable[[TrainingSet], Similarity], own: Tensor | None = None
) -> Tensor:
    """Log-losses of these pairs (m,), each half judged by what was learned from the other, mostly from one's own."""
    halves = distinct(training.origins)[1] % GROUP_FOLDS
    rows, scores = [], []
    with torch.no_grad():
        for fold in range(GROUP_FOLDS):
            asked = (judged & (halves == fold)).nonzero().squeeze(-1)
            seen = (halves != fold).nonzero().squeeze(-1)
            if not len(asked) or not len(seen):
                continue
            part = training.part(seen)
            groups = None if training.groups is None else training.groups[asked]
            copies = part.aligned(training.recorded[asked], groups)
            rows.append(asked)
            taught = part if own is None else _borrowing(part, own[seen])
            scores.append(learn(taught)(training.patterns, copies))
    if not rows:
        return torch.zeros(0, dtype=torch.float64)
    chosen = torch.cat(rows)
    trust = torch.ones(len(chosen), dtype=torch.float64)
    rivals = closest_rivals([torch.cat(scores)], training.origins[chosen])
    _, posterior = calibrated(rivals, trust, training.settings.posterior)
    return posterior.losses[chosen.argsort()]
