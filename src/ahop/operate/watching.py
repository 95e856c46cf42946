"""The `watch` function: how good are answers that nobody has checked, and what has moved since the fit?"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ahop._core.arrays import to_numpy
from ahop._core.checks import as_group_names, check_count, check_kind
from ahop._core.html import paragraph, table
from ahop._core.rows import read_queries
from ahop.errors import InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.memory.decisions import Share
from ahop.memory.report import FitReport
from ahop.memory.runtime import Runtime
from ahop.operate.drift import Drift, Rows, Seen, drift_between
from ahop.operate.mixture import Mixture

if TYPE_CHECKING:
    from ahop._core.typing import RowsLike
    from ahop.memory.memory import AssociativeMemory
    from ahop.operate.attaching.attached import AttachedSearch

# Dimensions that are told one by one in words; the others are counted.
IN_WORDS = 3
# An answer that is not sure counts so much: values that are beyond all patterns must show.
LEAST_WEIGHT = 0.1
# Pairs; with fewer a detector mistakes damage that it has not seen for strangers, so none may be one. A hundred tell a
# share within a tenth.
TELLING_PAIRS = 100


@dataclass(frozen=True)
class WatchReport:
    """Findings about a memory from unlabeled queries; `print` it.

    Attributes:
        queries: how many there were.
        accuracy: the share of them whose first answer is right, as the posteriors have it; None where no label has
            checked these. The interval covers chance among these queries and among the pairs that probabilities were
            calibrated on, and nothing else: it is right while probabilities are still calibrated, and no pattern means
            something else than it did. Below a hundred pairs its upper end is that of queries without strangers.
        unknown: the share that comes from no stored pattern; None if the memory cannot tell: then all are taken to come
            from one.
        drift: of each dimension since the fit, the largest first; empty if there is nothing to compare with.
        false_alarms: the probability of an alarm where nothing has moved.
        reference: how many queries of then they were compared with.
        calibration: what the probabilities rest on, in words.
        groups: the same for the queries of each group, if groups were named.
        windows: the same for so many queries in a row each, if windows were asked for.
    """

    queries: int
    accuracy: Share | None
    unknown: Share | None
    drift: tuple[Drift, ...]
    false_alarms: float
    reference: int
    calibration: str
    groups: Mapping[str, "WatchReport"] = field(default_factory=dict)
    windows: tuple["WatchReport", ...] = ()

    @property
    def moved(self) -> tuple[Drift, ...]:
        """The dimensions that have moved beyond chance, largest first."""
        return tuple(each for each in self.drift if each.p <= self.false_alarms)

    @property
    def alarm(self) -> bool:
        """True if any dimension has moved beyond chance."""
        return bool(self.moved)

    def rows(self) -> list[dict[str, object]]:
        """One for each dimension, for a frame or a file."""
        return [{**asdict(each), "moved": each.p <= self.false_alarms} for each in self.drift]

    def __str__(self) -> str:
        parts = [self._answers(), self._drift(), *self._parts()]
        return " ".join(part for part in parts if part)

    def _answers(self) -> str:
        if self.accuracy is None:
            return (
                f"How many of {self.queries} queries are answered right cannot be told by {self.calibration}. Label "
                "some of them and fit again with `pairs=`."
            )
        unknown = "" if self.unknown is None else f", and {self.unknown} come from no stored pattern"
        return f"Of {self.queries} queries about {self.accuracy} are answered right{unknown}, by {self.calibration}."

    def _drift(self) -> str:
        if not self.drift:
            return "There is no reference to tell drift from: pass queries of then as `reference=`."
        if not self.alarm:
            return (
                f"No dimension has moved beyond chance (p = {self.drift[0].p:.2g}, {self.reference} queries of then)."
            )
        told = ", ".join(str(each) for each in self.moved[:IN_WORDS])
        more = len(self.moved) - IN_WORDS
        others = f" and {more} more" if more > 0 else ""
        return (
            f"{len(self.moved)} of {len(self.drift)} dimensions have moved (p = {self.drift[0].p:.2g}): "
            f"{told}{others}. Probabilities were calibrated before that: check the sensors, or `ahop.adapt`."
        )

    def _parts(self) -> list[str]:
        alarmed = [name for name, each in self.groups.items() if each.alarm]
        windows = [str(place + 1) for place, each in enumerate(self.windows) if each.alarm]
        groups = f"Groups that have moved: {', '.join(alarmed) or 'none'}." if self.groups else ""
        return [groups, f"Windows that have moved: {', '.join(windows) or 'none'}." if self.windows else ""]

    def _repr_html_(self) -> str:
        shown = self.moved or self.drift[:IN_WORDS]
        cells = [(each.name, each.what, f"{each.before:.3g}", f"{each.now:.3g}", f"{each.p:.2g}") for each in shown]
        return paragraph(self) + table(["dimension", "what", "before", "now", "p"], cells)


def watch(
    memory: "AssociativeMemory | Runtime | AttachedSearch",
    queries: "RowsLike",
    *,
    reference: "RowsLike | None" = None,
    groups: Sequence[object] | None = None,
    reference_groups: Sequence[object] | None = None,
    windows: int = 1,
    confidence: float = 0.95,
    false_alarms: float = 0.05,
) -> WatchReport:
    """Estimate accuracy, the share of unknown queries, and drift from unlabeled queries.

    How many is told only where labels have checked the probabilities of the fit: it is the mean of the calibrated
    confidence then, for the share of unknown queries that these queries show. A dimension has moved if values beside
    those of the answers, missing ones among them, differ from the reference by more than chance explains, all
    dimensions taken together. Neither depends on which patterns are asked for.

    Args:
        memory: also one that `ahop.open_memory` opened; or a search that `ahop.attach` made, of which statistics of its
            lists are the dimensions.
        queries: (b, d) such as a log has them, at least one.
        reference: queries of a time when all was well; default those that the memory keeps of its fit.
        groups: where each query comes from, if the memory was fitted with groups; each is watched by itself too.
        reference_groups: where each query of `reference` came from.
        windows: into so many parts queries are cut, in the order in which they came, each watched by itself too.
        confidence: of the intervals.
        false_alarms: how often there may be an alarm if nothing has moved.
    """
    searched: Any = memory if hasattr(memory, "levels_of") else None
    watched: _Watched = _Searched(searched) if searched is not None else _Remembered(memory)  # type: ignore[arg-type]
    if not len(queries):
        raise InvalidValueError(
            "`queries` must hold at least one query; got none. Wait for some, or watch a longer log."
        )
    for name, value in (("confidence", confidence), ("false_alarms", false_alarms)):
        if not 0 < value < 1:
            raise InvalidValueError(f"`{name}` must lie between 0 and 1, such as 0.05 or 0.95; got {value!r}.")
    names = None if groups is None else as_group_names(groups, len(queries))
    watcher = _Watcher(watched, *_then(watched, reference, groups, reference_groups), confidence)
    now = watched.answered(queries, groups)
    parts: dict[str, list[int]] = {}
    for row, name in enumerate(names or []):
        parts.setdefault(name, []).append(row)
    cuts = np.array_split(np.arange(len(queries)), min(check_count("windows", windows), len(queries)))
    each_group, each_window = false_alarms / max(1, len(parts)), false_alarms / len(cuts)
    return replace(
        watcher.report(now, false_alarms),
        groups={name: watcher.report(now.rows(rows), each_group, name) for name, rows in sorted(parts.items())},
        windows=tuple(watcher.report(now.rows(rows), each_window) for rows in cuts) if len(cuts) > 1 else (),
    )


@dataclass(frozen=True)
class _Answered:
    """Queries and answers; posterior (b,) of the first, and how likely the origin is unknown, (b,)."""

    seen: Seen
    posterior: Rows
    unknown: Rows | None

    def rows(self, which: Any) -> "_Answered":
        return _Answered(
            self.seen.rows(which), self.posterior[which], None if self.unknown is None else self.unknown[which]
        )


class _Watched(ABC):
    """One that answers, as it is watched.

    Attributes:
        names: of the dimensions.
        rate: of its detector; None if it cannot tell unknown queries.
        pairs: how many its probabilities were calibrated on; None if on none.
        calibration: that in words.
        is_checked: whether labels have checked them.
        spread: the standard deviation between groups of what is right and what is said.
    """

    names: Sequence[str]
    rate: float | None
    pairs: int | None
    calibration: str
    is_checked: bool
    spread: float = 0.0

    @abstractmethod
    def answered(self, queries: Any, groups: Sequence[object] | None, name: str = "queries") -> _Answered:
        """Queries beside their answers."""

    @abstractmethod
    def kept(self) -> tuple[_Answered | None, Sequence[str] | None]:
        """Queries of then that it keeps, and their groups."""


@final
class _Remembered(_Watched):
    """A memory: entries of queries are watched beside those of their answers."""

    def __init__(self, memory: "AssociativeMemory | Runtime") -> None:
        self.memory = memory if isinstance(memory, Runtime) else _checked(memory)
        if not isinstance(self.memory, Runtime):
            self.memory.model.check_same_columns("`watch`")
        self.names = memory.columns or [f"dimension {place}" for place in range(memory.patterns.shape[1])]
        self.rate = None if memory.detector is None else memory.detector.rate
        self.pairs, self.calibration = _calibration(memory)
        self.is_checked = memory.report is not None and memory.report.is_checked
        repeats = memory.report.repeats if isinstance(memory.report, FitReport) else None
        self.spread = 0.0 if repeats is None else repeats.spread

    def answered(self, queries: Any, groups: Sequence[object] | None, name: str = "queries") -> _Answered:
        asked = self._read(queries, name)
        answer: Any = self.memory.recall(asked, 1, groups=groups)
        unknown = None if answer.unknown is None else to_numpy(answer.unknown).astype(np.float64)
        sure = np.maximum(to_numpy(answer.confidence).astype(asked.dtype), LEAST_WEIGHT)
        seen = Seen(asked, to_numpy(answer.patterns)[:, 0], sure)
        return _Answered(seen, to_numpy(answer.posterior)[:, 0].astype(np.float64), unknown)

    def kept(self) -> tuple[_Answered | None, Sequence[str] | None]:
        then = self.memory.reference if isinstance(self.memory, Runtime) else self.memory.model.reference
        return (None, None) if then is None else (self.answered(then.queries, then.groups), then.groups)

    def _read(self, queries: Any, name: str) -> Rows:
        if isinstance(self.memory, Runtime):
            return read_queries(queries, self.memory.dimensions, self.memory.columns, name)
        from ahop._core.inputs import as_queries

        return to_numpy(as_queries(queries, self.memory.patterns, name, self.memory.columns))


def _checked(memory: "AssociativeMemory") -> "AssociativeMemory":
    from ahop.memory.memory import AssociativeMemory

    return check_kind("memory", memory, AssociativeMemory)


@final
class _Searched(_Watched):
    """A search: statistics of its lists are watched, beside nothing."""

    def __init__(self, search: "AttachedSearch") -> None:
        self.search, self.is_checked = search, search.is_checked
        self.names, self.rate = search.levels, search.learned.detector.rate
        self.pairs = search.report.pairs if self.is_checked else None
        self.calibration = f"probabilities that were calibrated on {search.report.pairs} pairs"

    def answered(self, queries: Any, groups: Sequence[object] | None, name: str = "queries") -> _Answered:
        if groups is not None:
            raise UnsupportedError(
                "`groups` are for memories: a search knows of none. Watch the queries of each alone."
            )
        levels, posterior, unknown = map(to_numpy, self.search.levels_of(queries))
        return _Answered(_beside_nothing(levels, posterior * (1 - unknown)), posterior, unknown)

    def kept(self) -> tuple[_Answered | None, Sequence[str] | None]:
        then = to_numpy(self.search.learned.reference)
        levels, sure = then[:, : len(self.names)], then[:, len(self.names)]
        return _Answered(_beside_nothing(levels, sure), sure, None), None


def _beside_nothing(levels: Rows, sure: Rows) -> Seen:
    return Seen(levels, np.zeros_like(levels), np.maximum(sure, LEAST_WEIGHT))


class _Watcher:
    """One that answers, and what it answered to the queries of then."""

    def __init__(
        self, watched: _Watched, then: _Answered | None, groups: Sequence[str] | None, confidence: float
    ) -> None:
        self.watched, self.then, self.groups = watched, then, groups
        self.side = NormalDist().inv_cdf(0.5 + 0.5 * confidence)

    def report(self, now: _Answered, false_alarms: float, group: str | None = None) -> WatchReport:
        accuracy, unknown = self._shares(now) if self.watched.is_checked else (None, None)
        then = self._then(group)
        drift = () if then is None else drift_between(then, now.seen, self.watched.names, false_alarms)
        count = 0 if then is None else len(then)
        return WatchReport(len(now.seen), accuracy, unknown, drift, false_alarms, count, self.watched.calibration)

    def _then(self, group: str | None) -> Seen | None:
        if self.then is None or group is None:
            return None if self.then is None else self.then.seen
        rows = [row for row, name in enumerate(self.groups or []) if name == group]
        return self.then.seen.rows(rows) if rows else None

    def _shares(self, now: _Answered) -> tuple[Share, Share | None]:
        of_known = self._around(float(now.posterior.mean()), now.posterior, ())
        if now.unknown is None or self.watched.rate is None:
            return of_known, None
        mixture = Mixture(now.unknown, self.watched.rate)
        if not mixture.is_told:
            return of_known, None
        share = mixture.share(self.side)
        of_share = [now.posterior * (1 - mixture.unknown(rate)) for rate in (share.value, share.high, share.low)]
        value, *ends = (float(each.mean()) for each in of_share)
        told = self._around(value, of_share[0], ends)
        if self.watched.pairs is not None and self.watched.pairs < TELLING_PAIRS:
            told = replace(told, high=max(told.high, of_known.high))
        return told, share

    def _around(self, value: float, confidence: Rows, ends: Sequence[float]) -> Share:
        """The value with the chance of these queries, of the pairs of the calibration and of groups, and its ends."""
        doubt, pairs = float((confidence * (1 - confidence)).mean()), self.watched.pairs
        chance = self.side**2 * (doubt * (1 / len(confidence) + (1 / pairs if pairs else 0.0)) + self.watched.spread**2)
        low, high = ((chance + (value - end) ** 2) ** 0.5 for end in (ends or (value, value)))
        return Share(value, max(0.0, value - low), min(1.0, value + high))


def _then(
    watched: _Watched,
    reference: "RowsLike | None",
    groups: Sequence[object] | None,
    reference_groups: Sequence[object] | None,
) -> tuple[_Answered | None, Sequence[str] | None]:
    """Answers to the queries of then, and their groups."""
    if reference is None:
        if reference_groups is not None:
            raise InvalidTypeError("`reference_groups` go with `reference`: give both, or leave both out.")
        return watched.kept()
    if groups is not None and reference_groups is None:
        raise InvalidTypeError(
            "`reference` needs `reference_groups` where `groups` are named: one for each of its rows."
        )
    names = None if reference_groups is None else as_group_names(reference_groups, len(reference))
    then = watched.answered(reference, names, "reference")
    if not len(then.seen):
        raise InvalidValueError(
            "`reference` must hold at least one query; got none. Leave it out for those of the fit."
        )
    return then, names


def _calibration(memory: "AssociativeMemory | Runtime") -> tuple[int | None, str]:
    """Number of pairs that probabilities were calibrated on, and that in words."""
    report: Any = memory.report
    if not isinstance(report, FitReport) or memory.detector is None:
        return None, "probabilities that were never calibrated on held-out pairs"
    if report.repeats is not None and report.is_checked:
        return report.repeats.checked, f"probabilities that were calibrated on {report.repeats.checked} rows left out"
    if report.adapted is not None and report.adapted.repeated:
        return None, "probabilities of known groups, which repeat no query value by value, as these do"
    if report.adapted is not None and report.adapted.is_kept:
        return None, "probabilities that were carried over when the memory was adapted"
    if report.unlabeled is not None and not report.unlabeled.is_checked:
        return None, "probabilities that were calibrated on simulated copies, which no label has checked"
    return report.pairs, f"probabilities that were calibrated on {report.pairs} pairs"
