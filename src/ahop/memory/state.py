"""One state of a memory: what a call sees of it from its beginning to its end."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.derived import keep_derived
from ahop._core.kernels.packing import keep_packed
from ahop._core.missing import filled, holds_nan, observed
from ahop._core.tensors import all_finite, saturate
from ahop._core.typing import Queries, Scores, Weights
from ahop.memory.model import Model
from ahop.memory.scoring import with_prior


@dataclass(frozen=True)
class State:
    """What answers one call, whatever is added or learned meanwhile: patterns, labels and model belong together."""

    patterns: Tensor
    log_prior: Tensor | None
    labels: NDArray[np.object_] | None
    model: Model

    def stored(self) -> Tensor:
        """The patterns as the similarity sees them."""
        keep_packed(self.patterns)
        keep_derived(self.patterns)
        return self.model.modulation(self.patterns)

    def scores(self, queries: Queries) -> Scores:
        scores = self.model.similarity(self.stored(), queries)
        return scores if self.log_prior is None else with_prior(scores, self.log_prior, self.model.separation)

    def weights(self, queries: Queries) -> Weights:
        return self.model.separation(self.scores(queries))

    def read(self, weights: Weights) -> Queries:
        answers = weights @ self.patterns
        if all_finite(answers):
            return answers
        if not holds_nan(self.patterns):  # weights that are no distribution may be very large
            return _held_finite(weights, self.patterns)
        is_mean = self.model.separation.is_distribution
        mass = (weights if is_mean else torch.ones_like(weights)) @ observed(self.patterns)
        sums = _held_finite(weights, filled(self.patterns))
        return (sums / mass.where(mass > 0, 1.0) if is_mean else sums).where(mass > 0, torch.nan)


def _held_finite(weights: Weights, patterns: Tensor) -> Queries:
    """Sums of weighed patterns, held at the largest finite number."""
    largest = weights.detach().abs().amax(-1, keepdim=True)
    largest = largest.where(largest > 1, 1)
    return saturate(saturate((weights / largest) @ patterns) * largest)
