"""One state of a memory: what a call sees of it from its beginning to its end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.label_tensors import numbers_of_entries
from ahop._core.missing import filled, holds_nan, observed
from ahop._core.prepared import Prepared, derived, prepared
from ahop._core.tensors import all_finite, saturate
from ahop._core.typing import Entries, Queries, Scores, Weights
from ahop.memory.explaining import Compared, explain
from ahop.memory.explanation import Explanation
from ahop.memory.model import Model
from ahop.memory.planning import Answered
from ahop.memory.plans import Plans
from ahop.memory.ranking import posterior_of
from ahop.memory.recall import Recall, labels_at
from ahop.memory.recaller import answers_of, looked_up
from ahop.memory.scoring import rank, rank_together, settled, with_prior, without_floor
from ahop.modulations.unmodulated import Unmodulated


@dataclass(frozen=True)
class State:
    """Patterns, labels and model that belong together: they answer one call, whatever is added or learned meanwhile.

    Attributes:
        modulated: the patterns as the similarity sees them, where they are no longer those of `patterns`.
        prepared: what was made of the patterns alone; None if nothing is kept.
        plans: patterns and model laid out for the compiled recall, once they were asked.
    """

    patterns: Tensor
    log_prior: Tensor | None
    labels: NDArray[np.object_] | None
    model: Model
    modulated: Tensor | None = None
    prepared: Prepared | None = field(init=False)
    plans: Plans = field(init=False, default_factory=Plans)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prepared", prepared(self.patterns))

    def stored(self) -> Tensor:
        """The patterns as the similarity sees them."""
        if self.modulated is not None:
            return self.modulated
        modulation = self.model.modulation
        return self.patterns if isinstance(modulation, Unmodulated) else derived(self.patterns, modulation, modulation)

    def scores(self, queries: Queries) -> Scores:
        scores = self.model.similarity(self.stored(), queries)
        return scores if self.log_prior is None else with_prior(scores, self.log_prior, self.model.separation.beta)

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

    def recalled(
        self,
        queries: Queries,
        k: int,
        rows: Tensor | None = None,
        groups: Sequence[object] | None = None,
        looks_up: bool = True,
    ) -> Recall[Tensor]:
        """Recall by the scores of all patterns, or of some rows (m,).

        Args:
            looks_up: the stored patterns of the answers; else these have no columns.
        """
        k = min(k, len(self.patterns))
        answered = None if groups is not None else self._planned(queries, k, rows)
        if answered is not None:
            return self._answered(answered, looks_up)
        ranked = rank(self.model, self.stored(), queries, k, groups=groups, rows=rows, log_prior=self.log_prior)
        return answers_of(ranked, self.model, k, self.told(looks_up), self.labels)

    def told(self, looks_up: bool) -> Tensor:
        """The patterns that answers are looked up in."""
        return self.patterns if looks_up else self.patterns[:, :0]

    def _planned(self, queries: Queries, k: int, rows: Tensor | None) -> Answered | None:
        """The answer of the compiled recall; None where it has none."""
        plan = None if self.modulated is not None else self.plans.of(self.model, self.patterns, self.log_prior)
        if plan is None:
            return None
        allowed = None
        if rows is not None:
            allowed = np.zeros(len(self.patterns), dtype=np.bool_)
            allowed[rows.numpy()] = True
        return plan.rank(queries.detach().numpy(), k, torch.get_num_threads(), allowed)

    def _answered(self, found: Answered, looks_up: bool) -> Recall[Tensor]:
        ids, posterior = torch.from_numpy(found.ids), torch.from_numpy(found.posterior)
        unknown = None if found.unknown is None else torch.from_numpy(found.unknown)
        labels = labels_at(self.labels, found.ids)
        patterns = self.told(looks_up).detach()[ids.clamp_min(0)]
        if bool((ids < 0).any()):
            patterns.masked_fill_((ids < 0).unsqueeze(-1), torch.nan)
        return Recall(ids, posterior, patterns, unknown, labels, self.model.is_checked)

    def recalled_together(
        self,
        queries: Queries,
        k: int,
        rows: Tensor | None,
        groups: Sequence[object] | None,
        same: Entries,
        looks_up: bool = True,
    ) -> Recall[Tensor]:
        """Recall the common origin of queries that `same` has equal entries for."""
        k, numbers = min(k, len(self.patterns)), numbers_of_entries("same", same, len(queries)).to(queries.device)
        ranked, unknown = rank_together(
            self.model, self.stored(), queries, numbers, k, groups=groups, rows=rows, log_prior=self.log_prior
        )
        posterior = posterior_of(ranked, without_floor(self.model), k)[0]
        return looked_up(ranked, posterior, unknown, self.model, self.told(looks_up), self.labels)

    def explained(
        self,
        query: Queries,
        against: object,
        group: object,
        names: NDArray[np.object_] | None,
        columns: Sequence[str] | None,
        rows: Tensor | None = None,
    ) -> Explanation:
        """Explain the answer to one query (1, d), among some rows (m,) or all.

        Args:
            names: (n,) of the patterns.
            columns: (d,) the names of the dimensions.
        """
        stored = self.stored()
        model = self.model if group is None else self.model.for_group(group)
        model = settled(model, stored, query, rows)
        ranked = rank(model, stored, query, 2, rows=rows, log_prior=self.log_prior)
        compared = Compared.among(ranked, against, stored, self.log_prior, names, columns)
        return explain(model, ranked, compared, query)


def _held_finite(weights: Weights, patterns: Tensor) -> Queries:
    """Sums of weighed patterns, held at the largest finite number."""
    largest = weights.detach().abs().amax(-1, keepdim=True)
    largest = largest.where(largest > 1, 1)
    return saturate(saturate((weights / largest) @ patterns) * largest)
