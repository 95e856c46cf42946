"""The protocol of recall, and its result."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, overload, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.checks import check_kind
from ahop._core.html import table
from ahop._core.inputs import same_kind
from ahop._core.typing import Kind, NotTensor, RowsLike
from ahop.errors import UnsupportedError
from ahop.memory.decisions import Decisions, Policy, confidence_of, decided, q_values
from ahop.memory.posteriors import Answers, ClassMass, PerStored, expected, mass_of

# So many answers a notebook shows.
SHOWN = 10


@runtime_checkable
class Recaller(Protocol):
    """Whatever recalls: a memory, an index, a store, a cluster, a client. What one cannot do, it refuses."""

    def recall(
        self, queries: Any, k: int = 1, *, where: Any = None, groups: Sequence[object] | None = None, same: Any = None
    ) -> "Recall[Any]":
        """The k stored patterns that each query most likely came from.

        Args:
            queries: (b, d), NaN where nothing was observed.
            where: which patterns may be answered: columns and the values that they may have, or rows.
            groups: where each query comes from, such as its device.
            same: which queries have their origin in common.
        """


def refuse_same(same: object, mend: str) -> None:
    """For those that see candidates of each query alone: evidence is added over all patterns, which a memory sees."""
    if same is not None:
        raise UnsupportedError(f"`same` adds what queries say about every pattern, and this sees a few only. {mend}")


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
