"""The model: everything that was learned, without patterns."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from ahop._core.checks import as_group_names, check_kind
from ahop._core.component import Component
from ahop.energies.base import Energy
from ahop.energies.free import FreeEnergy
from ahop.errors import UnsupportedError
from ahop.memory.reference import Reference
from ahop.memory.report import Report
from ahop.memory.unknown import UnknownDetector
from ahop.modulations.base import Modulation
from ahop.modulations.unmodulated import Unmodulated
from ahop.separations.base import Separation
from ahop.separations.softmax import Softmax
from ahop.similarities.base import Similarity

DEFAULT_ENERGY: Final = FreeEnergy()


@final
class Model(nn.Module):
    """Similarity, separation and all else that compares, weighs and judges queries: a memory without its patterns.

    Args:
        similarity: how close a query is to a pattern.
        separation: from scores to weights; default softmax.
        modulation: what is done to patterns first; default nothing.
        energy: of a state; None for networks without one.
        detector: of queries that come from no stored pattern; None if nothing was learned about these.
        groups: the similarity for queries of each group, such as a device.
        report: what the fit found.
        reference: some of the queries that it was fitted to, for `ahop.watch`; None if there were none.
    """

    def __init__(
        self,
        similarity: Similarity,
        separation: Separation | None = None,
        modulation: Modulation | None = None,
        energy: Energy | None = DEFAULT_ENERGY,
        detector: UnknownDetector | None = None,
        groups: Mapping[str, Similarity] | None = None,
        report: Report | None = None,
        reference: Reference | None = None,
    ) -> None:
        super().__init__()
        self.similarity = check_kind("similarity", similarity, Similarity)
        self.separation = check_kind("separation", separation or Softmax(), Separation)
        self.modulation = check_kind("modulation", modulation or Unmodulated(), Modulation)
        self.energy = None if energy is None else check_kind("energy", energy, Energy)
        self.detector = None if detector is None else check_kind("detector", detector, UnknownDetector)
        self.group_names = [str(name) for name in groups or {}]
        self._of_groups = nn.ModuleList(check_kind("groups", each, Similarity) for each in (groups or {}).values())
        self.report = report
        self.reference = None if reference is None else check_kind("reference", reference, Reference)

    @property
    def groups(self) -> dict[str, Similarity]:
        """The similarity for queries of each group."""
        found = [each for each in self._of_groups if isinstance(each, Similarity)]
        return dict(zip(self.group_names, found, strict=True))

    @property
    def query_dimensions(self) -> int | None:
        """Number of columns of queries, where they are others than those of patterns."""
        return self.similarity.query_dimensions

    def check_same_columns(self, what: str) -> None:
        """Refuse what compares columns of queries with those of patterns, where they are others."""
        if self.query_dimensions is not None:
            raise UnsupportedError(
                f"{what} compares queries with stored patterns column by column, and queries of this memory have "
                f"{self.query_dimensions} columns of their own. Recall with the memory or an index of it."
            )

    @property
    def is_checked(self) -> bool:
        """True if probabilities were compared with known origins."""
        return self.report is not None and self.report.is_checked

    @property
    def weighs_by_mass(self) -> bool:
        """True if a weight needs only the mass of all others; other separations need all scores at once."""
        return isinstance(self.separation, Softmax) or not self.separation.is_distribution

    @property
    def beta(self) -> float:
        """The inverse temperature of the posterior. Separations that are no distribution have that of a softmax: 1."""
        return self.separation.beta if isinstance(self.separation, Softmax) else 1.0

    @property
    def beta_of_prior(self) -> float:
        """The inverse temperature that scores meet on their way to the posterior; it must not weigh a prior."""
        return self.separation.beta if self.separation.is_distribution else 1.0

    def replaced(self, **parts: Any) -> "Model":
        """Replace parts of the model, by the names of the constructor's arguments."""
        ours: dict[str, Any] = {**self.components(), "groups": self.groups, "report": self.report}
        return Model(**{**ours, **parts})

    def for_group(self, group: object) -> "Model":
        """The model for queries of this group; itself if the group is not known."""
        found = self.groups.get(str(group))
        return self if found is None else self.replaced(similarity=found, groups=None)

    def by_group(self, groups: Sequence[object] | None, count: int) -> list[tuple[Similarity, Tensor]]:
        """Similarities, and which of `count` queries each of them scores; groups that are not known share one."""
        device = _device(self)
        if groups is None:
            return [(self.similarity, torch.arange(count, device=device))]
        known, rows = self.groups, dict[str | None, list[int]]()
        for row, name in enumerate(as_group_names(groups, count)):
            rows.setdefault(name if name in known else None, []).append(row)
        return [
            (self.similarity if name is None else known[name], torch.tensor(which, device=device))
            for name, which in rows.items()
        ]

    def with_similarities(self, change: Callable[[Similarity], Similarity]) -> "Model":
        """The model with all its similarities changed, those of groups too; itself if none changes."""
        similarity, groups = change(self.similarity), {name: change(each) for name, each in self.groups.items()}
        if similarity is self.similarity and all(groups[name] is each for name, each in self.groups.items()):
            return self
        return self.replaced(similarity=similarity, groups=groups)

    def components(self) -> dict[str, Component | None]:
        """The parts by name, without groups and report."""
        names = ("similarity", "separation", "modulation", "energy", "detector", "reference")
        return {name: getattr(self, name) for name in names}


def _device(model: nn.Module) -> torch.device | None:
    return next((each.device for each in chain(model.buffers(), model.parameters())), None)
