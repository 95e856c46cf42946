"""Strengths of which some were not heard, as in radio maps, and nobody knows where a query comes from."""

import torch
from torch import Tensor

from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.radio import RADIO
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.fitting.settings import Settings
from ahop.fitting.unlabeled.contrast import Halves
from ahop.memory.scoring import nearest
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.pooled import PooledSimilarity

MEMBERS = ("heard_sorensen", "powed_sorensen")
HEARD = " + ".join(MEMBERS)
# Rounds of answers and of the offset that these show.
HEARD_ROUNDS = 4


@torch.no_grad()
def learn_heard(patterns: Tensor, queries: Tensor, settings: Settings) -> PooledSimilarity:
    """Two metrics of strengths together, each as sure as halves of the queries ask for.

    What a device adds to all strengths is the median of what queries differ by from the answers they get: an answer
    nearby shows it as well as the right one.
    """
    members = [_followed(each, patterns, queries, settings) for each in RADIO if each.name in MEMBERS]
    pool = PooledSimilarity(members, MEMBERS).to(patterns)
    halves = Halves(patterns, queries)
    pool.weights.copy_(torch.tensor([halves.contrast(each).posterior.beta for each in members]))
    return pool


def _followed(candidate: Candidate, patterns: Tensor, queries: Tensor, settings: Settings) -> Similarity:
    weights = torch.ones(len(queries)).to(patterns)
    origins = torch.zeros(len(queries), dtype=torch.long, device=patterns.device)
    for number in range(HEARD_ROUNDS + 1):
        training = TrainingSet(patterns, origins, queries, weights, is_trusted=True, settings=settings)
        similarity = candidate.learn(training)
        assert isinstance(similarity, AlignedSimilarity)
        if number == 0:  # nothing is known yet
            similarity.offset.zero_()
        origins = nearest(similarity, patterns, queries, 1)[:, 0]
    return similarity
