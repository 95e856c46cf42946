"""The protocol of recall, and its result."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ahop._core.arrays import Kind, below_each_other, is_tensor, to_kind_of, to_numpy
from ahop._core.checks import check_kind
from ahop._core.html import table
from ahop._core.optional import pandas
from ahop.memory.decisions import Decisions, Policy, confidence_of, decide, q_values
from ahop.memory.posteriors import Answers, ClassMass, PerStored, expected, mass_of

if TYPE_CHECKING:
    import torch

    from ahop._core.typing import NotTensor

# Answers that a notebook shows.
SHOWN = 10


@runtime_checkable
class Recaller(Protocol):
    """Anything with this method: a memory, an index, a store, a cluster, a client."""

    def recall(
        self, queries: Any, k: int = 1, *, where: Any = None, groups: Sequence[object] | None = None, same: Any = None
    ) -> "Recall[Any]": ...


@dataclass(frozen=True)
class Recall(Generic[Kind]):
    """Answers of a memory, best first.

    Attributes:
        indices: rows of the stored patterns, (b, k).
        posterior: how sure each of them is, (b, k); over all stored patterns it sums to one.
        patterns: the stored patterns themselves, (b, k, d).
        unknown: how likely each query comes from none of them, (b,); None if the memory was not fitted to tell.
            The posterior is for those that do come from one.
        labels: of the stored patterns, (b, k); None if they have none.
        is_checked: whether probabilities were compared with origins that somebody knew. If not, they order answers, and
            how high they are means nothing yet.
        relevance: how likely each answer is a right one, whatever the others are, (b, k); None where one origin is all
            that there can be.
    """

    indices: Kind
    posterior: Kind
    patterns: Kind
    unknown: Kind | None = None
    labels: NDArray[np.object_] | None = None
    is_checked: bool = False
    relevance: Kind | None = None

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
        mass = found.mass.astype(to_numpy(self.posterior).dtype)
        return ClassMass(found.classes, self._kept(mass), found.best)

    @property
    def confidence(self) -> Kind:
        """Probability that each first answer is right, (b,): its posterior, times that of the origin being stored."""
        return self._kept(self._confidence())

    def q_values(self) -> Kind:
        """The share of wrong first answers to expect if this one and all that are as sure are accepted, (b,)."""
        return self._kept(q_values(self._confidence()))

    def decide(self, policy: Policy) -> Decisions:
        """Decide on each answer: accept it, ask a person, or take the query for one of no stored pattern.

        Args:
            policy: of `ahop.policy`. For sets, recall as many answers as a set may have.
        """
        indices = to_numpy(self.indices)
        names = indices.tolist() if self.labels is None else self.labels.tolist()
        posterior = np.where(indices >= 0, to_numpy(self.posterior), 0)
        unknown = None if self.unknown is None else to_numpy(self.unknown)
        return decide(check_kind("policy", policy, Policy), posterior, unknown, names)

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
        indices = to_numpy(self.indices)
        count, k = indices.shape
        columns: dict[str, Any] = {
            "query": np.arange(count).repeat(k),
            "rank": np.tile(np.arange(1, k + 1), count),
            "pattern": indices.reshape(-1),
        }
        if self.labels is not None:
            columns["label"] = self.labels.reshape(-1)
        columns["probability"] = to_numpy(self.posterior).reshape(-1)
        if self.unknown is not None:
            columns["unknown"] = to_numpy(self.unknown).repeat(k)
        if policy is not None:
            columns["decision"] = self.decide(policy).actions.repeat(k)
        return pandas().DataFrame(columns)

    def _confidence(self) -> NDArray[Any]:
        return confidence_of(to_numpy(self.posterior), None if self.unknown is None else to_numpy(self.unknown))

    def _answers(self) -> Answers:
        indices, posterior = to_numpy(self.indices), to_numpy(self.posterior).astype(np.float64)
        return Answers(indices, np.where(indices >= 0, posterior, 0.0), self.labels)

    def _kept(self, found: NDArray[Any]) -> Kind:
        """As the posterior is kept: in numpy, or on its device."""
        kept: Kind = to_kind_of(self.posterior, found)
        return kept


def labels_at(labels: NDArray[np.object_] | None, indices: Any) -> NDArray[np.object_] | None:
    """The labels of these rows; None for those of number -1, which are no rows."""
    if labels is None:
        return None
    rows = to_numpy(indices)
    found: NDArray[np.object_] = labels[rows]  # the last one for -1, which is then taken back
    found[rows < 0] = None
    return found


@overload
def in_kind_of(queries: "torch.Tensor", found: "Recall[torch.Tensor]") -> "Recall[torch.Tensor]": ...
@overload
def in_kind_of(queries: "NotTensor", found: "Recall[torch.Tensor]") -> Recall[NDArray[Any]]: ...
def in_kind_of(queries: Any, found: Recall[Any]) -> Recall[Any]:
    """Convert answers to tensors for those who asked with tensors, to arrays for all others."""
    if is_tensor(queries):
        return found
    return replace(
        found,
        indices=to_numpy(found.indices),
        posterior=to_numpy(found.posterior),
        patterns=to_numpy(found.patterns),
        unknown=None if found.unknown is None else to_numpy(found.unknown),
        relevance=None if found.relevance is None else to_numpy(found.relevance),
    )


def cut(found: Recall[Kind], rows: slice, k: int) -> Recall[Kind]:
    """The first k answers to some of the queries."""
    return replace(
        found,
        indices=found.indices[rows, :k],
        posterior=found.posterior[rows, :k],
        patterns=found.patterns[rows, :k],
        unknown=None if found.unknown is None else found.unknown[rows],
        labels=None if found.labels is None else found.labels[rows, :k],
        relevance=None if found.relevance is None else found.relevance[rows, :k],
    )


def joined(parts: Sequence[Recall[Kind]]) -> Recall[Kind]:
    """The answers to blocks of queries, one below the other."""
    unknown = [part.unknown for part in parts if part.unknown is not None]
    labels = [part.labels for part in parts if part.labels is not None]
    relevance = [part.relevance for part in parts if part.relevance is not None]
    return Recall(
        below_each_other([part.indices for part in parts]),
        below_each_other([part.posterior for part in parts]),
        below_each_other([part.patterns for part in parts]),
        below_each_other(unknown) if unknown else None,
        np.concatenate(labels) if labels else None,
        all(part.is_checked for part in parts),
        below_each_other(relevance) if relevance else None,
    )
