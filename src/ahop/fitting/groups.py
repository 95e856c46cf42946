"""One corruption for each group of copies, such as a device, with strength borrowed from the others."""

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ahop._numbers import distinct
from ahop.fitting.calibration import log_loss
from ahop.fitting.candidates import Candidate, Lesson
from ahop.similarities.base import Similarity

# How much a pair of another group counts; one is no groups at all.
BORROWED = (0.02, 0.1, 0.4, 1.0)
# Groups and folds that the choice is made on.
TRIED_GROUPS, FOLDS = 4, 2
LEAST_PAIRS = 2


def learn_groups(
    lesson: Lesson, candidate: Candidate, beta: float, names: list[str], progress: bool
) -> dict[str, Similarity]:
    """A similarity for each group: fitted to its own pairs, and to the others' at the weight that predicts best."""
    different = sorted(set(names))
    members = {name: torch.tensor([each == name for each in names]) for name in different}
    large = [name for name in different if int(members[name].sum()) >= LEAST_PAIRS]
    if len(different) < 2 or not large:
        return {}
    tried = sorted(large, key=lambda name: -int(members[name].sum()))[:TRIED_GROUPS]
    borrowed = min(
        BORROWED, key=lambda weight: sum(_held_out(lesson, candidate, beta, members[name], weight) for name in tried)
    )
    if borrowed == BORROWED[-1]:
        return {}
    bar = tqdm(large, desc="groups", unit="group", disable=not progress)
    return {name: candidate.learn(_borrowing(lesson, members[name], borrowed)) for name in bar}


def _borrowing(lesson: Lesson, own: Tensor, weight: float) -> Lesson:
    return lesson.weighted(torch.where(own, lesson.weights, weight * lesson.weights))


def _held_out(lesson: Lesson, candidate: Candidate, beta: float, own: Tensor, weight: float) -> float:
    """Log-loss of the group's own pairs, each half judged by what was learned from the rest."""
    losses = torch.zeros((), dtype=torch.float64)
    halves = distinct(lesson.origins)[1] % FOLDS
    with torch.no_grad():
        for fold in range(FOLDS):
            judged = (own & (halves == fold)).nonzero().squeeze(-1)
            seen = (halves != fold).nonzero().squeeze(-1)
            if not len(judged) or not len(seen):
                continue
            similarity = candidate.learn(_borrowing(lesson, own, weight).part(seen))
            scores = similarity(lesson.patterns, lesson.copies[judged])
            losses += (log_loss(scores, lesson.origins[judged], beta) * lesson.trusted[judged]).sum()
    return float(losses)
