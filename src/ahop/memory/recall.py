"""The protocol of recall, and its result."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.checks import as_queries, check_count, check_kind, same_kind
from ahop._core.html import table
from ahop._core.optional import pandas
from ahop._core.typing import Entries, Kind, NotTensor, Queries, RowsLike
from ahop.errors import UnsupportedError
from ahop.memory.decisions import Decisions, Policy, confidence_of, decided, q_values
from ahop.memory.model import Model
from ahop.memory.posteriors import Answers, ClassMass, PerStored, expected, mass_of
from ahop.memory.ranking import Ranked, posterior_of

# So many answers a notebook shows.
SHOWN = 10
# The patterns that may be answered, as one that recalls takes them: rows, or columns and their values.
Filter = TypeVar("Filter")


@runtime_checkable
class Recaller(Protocol):
    """Anything with this method: a memory, an index, a store, a cluster, a client."""

    def recall(
        self, queries: Any, k: int = 1, *, where: Any = None, groups: Sequence[object] | None = None, same: Any = None
    ) -> "Recall[Any]": ...


class BaseRecaller(ABC, Generic[Filter]):
    """The one `recall`: it checks its arguments and answers in the kind of array that was given.

    A subclass says what queries look like, `columns` and `dimensions`, and answers checked tensors, `_recalled`.
    """

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns of the stored patterns; None if they have none."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """The number of these columns."""

    @overload
    def recall(
        self,
        queries: Tensor,
        k: int = 1,
        *,
        where: Filter | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> "Recall[Tensor]": ...
    @overload
    def recall(
        self,
        queries: NotTensor,
        k: int = 1,
        *,
        where: Filter | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> "Recall[NDArray[Any]]": ...
    def recall(
        self,
        queries: RowsLike,
        k: int = 1,
        *,
        where: Filter | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> "Recall[Any]":
        """Recall the k stored patterns that each query most likely came from.

        Scores are computed in blocks and dropped. Separations that are no distribution (Hop, D-Hop, E-Hop) rank by
        score, and their posterior is its softmax. A store reads its whole table in batches, so it may be larger than
        memory; for many queries build an `index`.

        Args:
            queries: (b, d), NaN where nothing was observed. The columns of a frame are put into the order of the stored
                one; those that it has not got were not observed.
            where: the patterns that may be answered; the posterior is among them. Beyond those there are, the index is
                -1. A memory takes rows, as flags (n,) or as numbers; a store and a cluster take columns and the values
                that they may have, one or several; an index takes both.
            groups: the origin of each query, such as its device, if the memory was fitted with groups. Unknown groups
                are answered by what all have in common.
            same: queries that have their origin in common, such as repeated scans or the frames of a video: an entry
                for each query, equal where the origin is the same. Their evidence is added, and there is one answer for
                each entry, in the order of their first appearance. They must be damaged independently of each other:
                a damage that they share is counted as often as there are queries. A memory and a service take this.

        Raises:
            UnavailableError: a cluster or a service does not answer, or says to come back later.
        """
        checked = as_queries(queries, self._like(), columns=self.columns)
        if same is None:
            found = self._recalled(checked, check_count("k", k), where, groups)
        else:
            found = self._recalled_together(checked, check_count("k", k), where, groups, same)
        return in_kind_of(queries, found)

    def _like(self) -> Tensor:
        """A tensor (n, d) in the dtype and on the device of the stored patterns; n may be 0."""
        return torch.empty(0, self.dimensions)

    @abstractmethod
    def _recalled(
        self, queries: Queries, k: int, where: Filter | None, groups: Sequence[object] | None
    ) -> "Recall[Tensor]":
        """Answer queries that were checked; k is at least 1, and may be larger than the number of patterns."""

    def _recalled_together(
        self, queries: Queries, k: int, where: Filter | None, groups: Sequence[object] | None, same: Entries
    ) -> "Recall[Tensor]":
        """Answer queries that have their origin in common; refused where only candidates of each query are seen."""
        raise UnsupportedError(
            "`same` adds what queries say about every pattern, and this sees a few only. Ask a memory of the same "
            "patterns, such as `index.memory` or `store.memory()`."
        )


@dataclass(frozen=True)
class Recall(Generic[Kind]):
    """What a memory answers, best first.

    Attributes:
        indices: rows of the stored patterns, (b, k).
        posterior: how sure each of them is, (b, k); over all stored patterns it sums to one.
        patterns: the stored patterns themselves, (b, k, d).
        unknown: how likely each query comes from none of them, (b,); None if the memory was not fitted to tell.
            The posterior is for those that do come from one.
        labels: of the stored patterns, (b, k); None if they have none.
        is_checked: whether probabilities were compared with origins that somebody knew. If not, they order answers, and
            how high they are means nothing yet.
    """

    indices: Kind
    posterior: Kind
    patterns: Kind
    unknown: Kind | None = None
    labels: NDArray[np.object_] | None = None
    is_checked: bool = False

    def _repr_html_(self) -> str:
        """The first answers to the first queries."""
        named: Any = self.indices if self.labels is None else self.labels
        sure: Any = self.posterior
        unknown: Any = self.unknown
        head = ["query", "first answer", "posterior"] + ([] if unknown is None else ["unknown"])
        rows = [
            [query, named[query][0], f"{sure[query][0]:.3f}"] + ([] if unknown is None else [f"{unknown[query]:.3f}"])
            for query in range(min(SHOWN, len(named)))
        ]
        more = f"<p>{len(named) - SHOWN} more queries</p>" if len(named) > SHOWN else ""
        unchecked = "" if self.is_checked else "<p>Unchecked: no label has shown whether these are right.</p>"
        return table(head, rows) + more + unchecked

    def expect(self, values: PerStored) -> Kind:
        r"""$\sum_k p_k v_k / \sum_k p_k$: the mean of what is known of the k answers, (b,) or (b, c).

        It speaks of the k answers alone: their posterior is made to sum to one. Ask for a larger k to hear more of
        the stored patterns.

        Args:
            values: (n,) or (n, c) for the stored patterns in their order; or by label (by row, if there are no labels):
                a mapping, or a frame or column of pandas with that index. NaN or None where it is not known: those
                are left out of the mean, which is NaN if all are.

        Example:
            >>> from ahop import AssociativeMemory
            >>> memory = AssociativeMemory([[0.0, 1.0], [1.0, 0.0]], labels=["hall", "yard"])
            >>> answer = memory.recall([[0.0, 1.0]], k=2)
            >>> answer.expect({"hall": 10.0, "yard": 10.0})
            array([10.])
        """
        return self._kept(expected(self._answers(), values))

    def mass(self, classes: PerStored) -> ClassMass[Kind]:
        """The sum of the posterior over the answers in each class, (b, c).

        It speaks of the k answers alone, and is not made to sum to one: the rest belongs to patterns that were not
        answered. Ask for a larger k to make it small.

        Args:
            classes: one for each stored pattern in their order; or by label (by row, if there are no labels): a
                mapping, or a column of pandas with that index. None or NaN for patterns of no class.
        """
        found = mass_of(self._answers(), classes)
        precision = torch.as_tensor(self.posterior).dtype
        return ClassMass(found.classes, self._kept(found.mass.to(precision)), found.best)

    @property
    def confidence(self) -> Kind:
        """How likely each first answer is right, (b,): its posterior, times how likely the origin is stored at all."""
        return self._kept(self._confidence())

    def q_values(self) -> Kind:
        """The share of wrong first answers to expect if this one and all that are as sure are accepted, (b,)."""
        return self._kept(q_values(self._confidence()))

    def decide(self, policy: Policy) -> Decisions:
        """What to do with each answer: accept it, ask a person, or take the query for one of no stored pattern.

        Args:
            policy: of `ahop.policy`. For sets, recall as many answers as a set may have.
        """
        indices = torch.as_tensor(self.indices).cpu()
        names = indices.tolist() if self.labels is None else self.labels.tolist()
        posterior = torch.as_tensor(self.posterior).detach().cpu().where(indices >= 0, 0)
        unknown = None if self.unknown is None else torch.as_tensor(self.unknown).detach().cpu()
        return decided(check_kind("policy", policy, Policy), posterior, unknown, names)

    def to_frame(self, policy: Policy | None = None) -> Any:
        """Return a pandas frame with one row for each query and rank.

        Its columns are `query` (a number from 0), `rank` (from 1), `pattern` (the stored one, -1 where there are no
        more), `label` if there are labels, `probability`, `unknown` if the memory was fitted to tell, and `decision` if
        there is a policy.

        Args:
            policy: of `ahop.policy`.

        Example:
            >>> from ahop import AssociativeMemory
            >>> memory = AssociativeMemory([[0.0, 1.0], [1.0, 0.0]], labels=["hall", "yard"])
            >>> memory.recall([[0.0, 1.0]], k=2).to_frame()[["query", "rank", "label"]]
               query  rank label
            0      0     1  hall
            1      0     2  yard
        """
        indices = torch.as_tensor(self.indices).cpu().numpy()
        count, k = indices.shape
        columns: dict[str, Any] = {
            "query": np.arange(count).repeat(k),
            "rank": np.tile(np.arange(1, k + 1), count),
            "pattern": indices.reshape(-1),
        }
        if self.labels is not None:
            columns["label"] = self.labels.reshape(-1)
        columns["probability"] = torch.as_tensor(self.posterior).detach().cpu().numpy().reshape(-1)
        if self.unknown is not None:
            columns["unknown"] = torch.as_tensor(self.unknown).detach().cpu().numpy().repeat(k)
        if policy is not None:
            columns["decision"] = self.decide(policy).actions.repeat(k)
        return pandas().DataFrame(columns)

    def _confidence(self) -> Tensor:
        unknown = None if self.unknown is None else torch.as_tensor(self.unknown).detach().cpu()
        return confidence_of(torch.as_tensor(self.posterior).detach().cpu(), unknown)

    def _answers(self) -> Answers:
        indices, posterior = torch.as_tensor(self.indices).cpu(), torch.as_tensor(self.posterior).detach().cpu()
        return Answers(indices, posterior.double().where(indices >= 0, 0.0), self.labels)

    def _kept(self, found: Tensor) -> Kind:
        """As the posterior is kept: in numpy, or on its device."""
        device = self.posterior.device if isinstance(self.posterior, Tensor) else "cpu"
        return same_kind(found.to(device), self.posterior)


def answers_of(
    ranked: Ranked, model: Model, k: int, patterns: Tensor | None = None, labels: NDArray[np.object_] | None = None
) -> Recall[Tensor]:
    """Look up the k best rows and their posterior.

    Args:
        patterns: (n, d) the stored ones; None if they were kept beside the rows.
        labels: (n,) of these.
    """
    posterior, unknown = posterior_of(ranked, model, k)
    return looked_up(ranked.best(k), posterior, unknown, model, patterns, labels)


def looked_up(
    best: Ranked,
    posterior: Tensor,
    unknown: Tensor | None,
    model: Model,
    patterns: Tensor | None = None,
    labels: NDArray[np.object_] | None = None,
) -> Recall[Tensor]:
    """Look up the patterns and labels of ranked rows; NaN and None where there are no more."""
    found = best.patterns if patterns is None else patterns[best.ids.clamp_min(0)]
    assert found is not None
    if patterns is not None:
        found = found.masked_fill_((best.ids < 0).unsqueeze(-1), torch.nan)
    return Recall(best.ids, posterior, found, unknown, labels_at(labels, best.ids), model.is_checked)


def labels_at(labels: NDArray[np.object_] | None, indices: Tensor) -> NDArray[np.object_] | None:
    """The labels of these rows; None for those of number -1, which are no rows."""
    if labels is None:
        return None
    rows = indices.cpu().numpy()
    found: NDArray[np.object_] = labels[rows]  # the last one for -1, which is then taken back
    found[rows < 0] = None
    return found


@overload
def in_kind_of(queries: Tensor, found: Recall[Tensor]) -> Recall[Tensor]: ...
@overload
def in_kind_of(queries: NotTensor, found: Recall[Tensor]) -> Recall[NDArray[Any]]: ...
def in_kind_of(queries: RowsLike, found: Recall[Tensor]) -> Recall[Any]:
    """The same answers, as tensors to those who asked with tensors, as arrays to all others."""
    return Recall(
        same_kind(found.indices, queries),
        same_kind(found.posterior, queries),
        same_kind(found.patterns, queries),
        None if found.unknown is None else same_kind(found.unknown, queries),
        found.labels,
        found.is_checked,
    )


def cut(found: Recall[Tensor], rows: slice, k: int) -> Recall[Tensor]:
    """The first k answers to some of the queries."""
    return replace(
        found,
        indices=found.indices[rows, :k],
        posterior=found.posterior[rows, :k],
        patterns=found.patterns[rows, :k],
        unknown=None if found.unknown is None else found.unknown[rows],
        labels=None if found.labels is None else found.labels[rows, :k],
    )


def joined(parts: Sequence[Recall[Tensor]]) -> Recall[Tensor]:
    """The answers to blocks of queries, one below the other."""
    unknown = [part.unknown for part in parts if part.unknown is not None]
    labels = [part.labels for part in parts if part.labels is not None]
    return Recall(
        torch.cat([part.indices for part in parts]),
        torch.cat([part.posterior for part in parts]),
        torch.cat([part.patterns for part in parts]),
        torch.cat(unknown) if unknown else None,
        np.concatenate(labels) if labels else None,
        all(part.is_checked for part in parts),
    )
