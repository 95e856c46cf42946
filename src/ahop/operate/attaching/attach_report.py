"""Findings of attaching to a search, in numbers and in words."""

from dataclasses import dataclass

from ahop._core.html import paragraph
from ahop.memory.report import UNCHECKED

# Labeled queries that check a probability; fewer show nothing.
LEAST_CHECKS = 20


@dataclass(frozen=True)
class AttachReport:
    """Report of what was learned about a search; `print` it.

    Attributes:
        pairs: labeled queries.
        none: how many of them have no right answer.
        log: queries without labels.
        found: the share of the labeled queries with a right answer that have it among the candidates.
        first: the share of the labeled queries whose first answer of the search is right,
        reordered: of these answered by others than themselves, in the order of their probability,
        said: and the mean probability that those first answers had. All three are 0 without labels.
        closeness: nats that a spread of the scores of a list is worth.
        hubness: nats that an id loses for each time it is answered e times as often to the queries of then.
        unknown_rate: how many queries have no right answer, before one is looked at.
        candidates: how many answers of the search are looked at.
        distances: whether smaller scores of the search are closer.
    """

    pairs: int
    none: int
    log: int
    found: float
    first: float
    reordered: float
    said: float
    closeness: float
    hubness: float
    unknown_rate: float
    candidates: int
    distances: bool

    @property
    def is_checked(self) -> bool:
        return self.pairs >= LEAST_CHECKS

    def __str__(self) -> str:
        kind = "distances, smaller is closer" if self.distances else "scores, larger is closer"
        seen = [f"{self.pairs} labeled queries"] if self.pairs else []
        seen += [f"{self.log} without labels"] if self.log else []
        learned = (
            f"Learned from {' and '.join(seen)}; the search answers {kind}. A spread of a list is worth "
            f"{self.closeness:.2f} nats, being answered e times as often {-self.hubness:+.2f}. About "
            f"{100 * self.unknown_rate:.0f} % of the queries have no right answer among {self.candidates}."
        )
        if not self.is_checked:
            return f"{UNCHECKED}\n{learned}"
        return (
            f"First answer right on held-out queries: {100 * self.reordered:.0f} % (the search alone "
            f"{100 * self.first:.0f} %), mean probability {100 * self.said:.0f} %. {learned}"
        )

    def _repr_html_(self) -> str:
        return paragraph(self)
