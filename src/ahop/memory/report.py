"""Findings of a fit, in numbers and in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log
from typing import TypeAlias

from ahop._core.html import paragraph, table

# The first line of a report whose probabilities no known origin was compared with.
UNCHECKED = (
    "Unchecked: no label has shown whether these probabilities are right, and damage that a query has all over makes "
    "them too high. Label the queries that `ahop.ask` names, and fit again with `pairs=`."
)
# Queries without labels that anything is learned from: of eight, nothing was ever taken over the plain metric on tables
# and generated rows, of twelve at times.
LEAST_QUERIES = 12
# Columns whose noise differs by more than this factor are of different units: one number would speak for none of them.
UNLIKE = 10.0
# Of held-out pairs, the share that must be found for a map to be worth more than new vectors, and what is hardly any.
LEAST_KEPT, HARDLY_ANY = 0.5, 0.02
# Groups that show how far devices differ, so that they speak for a new one: of four, one in five is beyond them all.
LEAST_GROUPS = 4


@dataclass(frozen=True)
class Trial:
    r"""Result of a candidate on pairs whose origins it had not seen.

    Attributes:
        log_loss: mean of $-\log$ posterior of the origin, among the patterns that it was told apart from.
        accuracy: how often the origin came first.
        beta: the inverse temperature at which its posterior among these is calibrated.
        floor: the share of the pairs that its scores say nothing about.
        is_left_out: it was evaluated on one fold alone, as it was far behind there.
    """

    name: str
    log_loss: float
    accuracy: float
    beta: float
    floor: float = 0.0
    is_left_out: bool = False


@dataclass(frozen=True)
class Member:
    """One similarity of a pool.

    Attributes:
        weight: beside the others, each calibrated by itself.
        worth: by how much the held-out log-loss would rise without it.
    """

    name: str
    weight: float
    worth: float


@dataclass(frozen=True)
class Corruption:
    """Corruption of copies, in numbers; `print` it for words.

    Attributes:
        shifts: of each dimension, from an original of the mean size to its copy.
        shifted: how many of them are shifted by more than chance.
        signs: whether the sign of the shift is drawn anew for every copy.
        gain: median factor between a kept value and its origin.
        noise: median standard deviation of what is kept.
        noises: and that of each dimension; empty in files of older releases.
        columns: names of the dimensions; empty if they have none.
        outlier_rate: share of the observed entries that have nothing to do with their origin.
        missing_rate: share of the entries that are not observed.
        missing_is_informative: whether what is missing says something about the origin.
        wrong_pairs: how many pairs look like they stand beside the wrong origin.
        fits: whether a mixture of kept entries, outliers and gaps describes the copies about as well as the best.
    """

    shifts: tuple[float, ...]
    shifted: int
    signs: bool
    gain: float
    noise: float
    outlier_rate: float
    missing_rate: float
    missing_is_informative: bool
    wrong_pairs: int
    fits: bool
    noises: tuple[float, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def largest_shift(self) -> float:
        return max(map(abs, self.shifts), default=0.0)

    def __str__(self) -> str:
        return ("Corruption: " if self.fits else "Corruption (no simple form fits; the closest): ") + (
            f"{self._shift()}, {self._noise()}{self._gain()}, "
            f"{100 * self.outlier_rate:.0f} % outliers{self._missing()}.{self._wrong()}"
        )

    def _shift(self) -> str:
        if not self.shifted:
            return "no offset"
        sign = ", sign drawn for each copy" if self.signs else ""
        largest = max(range(len(self.shifts)), key=lambda place: abs(self.shifts[place]))
        where = f"{self._name(largest)}; " if self._has_units() else ""
        return f"offset up to {_short(self.largest_shift)} ({where}{self.shifted} of {len(self.shifts)} columns{sign})"

    def _noise(self) -> str:
        if not self._has_units():
            return f"noise {_short(self.noise)}"
        least, most = (pick(range(len(self.noises)), key=self.noises.__getitem__) for pick in (min, max))
        return (
            f"noise {_short(self.noises[least])} ({self._name(least)}) to {_short(self.noises[most])} "
            f"({self._name(most)})"
        )

    def _has_units(self) -> bool:
        """Columns are of different units, so that one number without a name means nothing."""
        return bool(self.noises) and max(self.noises) > UNLIKE * min(self.noises)

    def _name(self, place: int) -> str:
        return self.columns[place] if self.columns else f"dimension {place}"

    def _gain(self) -> str:
        return "" if abs(self.gain - 1) < 0.02 else f", gain {_short(self.gain)}"

    def _missing(self) -> str:
        if not self.missing_rate:
            return ""
        how = "and more often for some patterns" if self.missing_is_informative else "at random"
        return f", {100 * self.missing_rate:.0f} % missing {how}"

    def _wrong(self) -> str:
        return f" {self.wrong_pairs} pairs look mislabeled and hardly count." if self.wrong_pairs else ""


def _short(value: float) -> str:
    """Write two digits, and no exponent where people would write none."""
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.2g}"


def _bits(nats: float) -> str:
    return f"{max(0.0, nats) / log(2):.1f}"


@dataclass(frozen=True)
class AdaptReport:
    """Result of adapting a memory to unlabeled queries; `print` it.

    Attributes:
        queries: how many there were.
        is_kept: whether anything was changed.
        way: "aligned", every dimension was brought back to where it was; or "learned anew" from the queries.
        information: what two halves of held-out queries, asked alone, tell about each other, in nats,
        before: and what they told before.
        rise: by how much the log-likelihood of a held-out query rises, if the corruption is that of now.
        offset: how far the queries of a new group lie above their origins, where known groups speak for it; else None.
        repeated: how many of the queries repeat another one value by value, where rows of known groups do not: no known
            group speaks for a sensor that is stuck.
    """

    queries: int
    is_kept: bool
    way: str
    information: float = 0.0
    before: float = 0.0
    rise: float = 0.0
    offset: float | None = None
    repeated: int = 0

    def __str__(self) -> str:
        if self.repeated:
            return (
                f"{self.queries} unlabeled queries: {self.way}. Unchecked: {self.repeated} of them repeat another one "
                "value by value, which rows of known groups do not. A sensor that is stuck fits a place where it was, "
                "not where it is; look at the device, or take out what the log has twice."
            )
        if self.offset is not None:
            return f"{self.queries} unlabeled queries: {self.way}; calibrated on known groups, each left out in turn."
        end = f"adapted ({self.way})" if self.is_kept else "unchanged, the gain is within chance"
        return (
            f"{self.queries} unlabeled queries: split-half check {_bits(self.information)} bits "
            f"(before {_bits(self.before)}), log-likelihood {self.rise:+.2f} a query; {end}."
        )


def _later(adapted: AdaptReport | None) -> str:
    return "" if adapted is None else f"\nLater: {adapted}"


@dataclass(frozen=True)
class SolverReport:
    """Fit of the coefficients of a memory's own similarity; `print` it.

    Attributes:
        solver: with its settings.
        pairs: how many (origin, copy) pairs were seen in all.
        steps: of the solver.
        loss_before: mean loss of the pairs before the first step.
        loss: and after the last.
        converged: whether the solver met its own stopping rule; None if it has none.
        seconds: wall time.
        adapted: how it followed later queries; None if it never did.
    """

    solver: str
    pairs: int
    steps: int
    loss_before: float
    loss: float
    converged: bool | None = None
    seconds: float = 0.0
    adapted: AdaptReport | None = None

    @property
    def is_checked(self) -> bool:
        """No solver compares its probabilities with held-out origins."""
        return False

    def __str__(self) -> str:
        end = {True: "converged", False: "stopped before it converged", None: "done"}[self.converged]
        seen = f"{self.pairs} pairs" if self.pairs else "the patterns alone"
        return (
            f"{self.solver}: loss {self.loss_before:.3f} -> {self.loss:.3f} from {seen}, "
            f"{end} after {self.steps} steps, {self.seconds:.1f} s.{_later(self.adapted)}"
        )

    def _repr_html_(self) -> str:
        rows = [("before", f"{self.loss_before:.3f}"), (f"after {self.steps} steps", f"{self.loss:.3f}")]
        return paragraph(self) + table(["", "loss"], rows)


@dataclass(frozen=True)
class UnlabeledReport:
    """Result of learning from unlabeled queries; `print` it.

    Attributes:
        queries: how many were learned from; of many, some are enough.
        labels: how many pairs with a known origin there were beside them.
        unknown: about the share of the queries that come from no stored pattern.
        information: what two halves of held-out queries, asked alone, tell about each other, in nats,
        plain: and what under the plain metric.
        is_checked: whether there were enough labels to check probabilities by them.
    """

    queries: int
    labels: int
    unknown: float
    information: float
    plain: float | None
    is_checked: bool

    def __str__(self) -> str:
        seen = f" and {self.labels} labeled pairs" if self.labels else ""
        if self.queries + self.labels < LEAST_QUERIES:
            return f"{self.queries} unlabeled queries{seen} are too few to learn from; the least is {LEAST_QUERIES}."
        unknown = f"; about {100 * self.unknown:.0f} % match no stored pattern" if self.unknown > 0.005 else ""
        return f"Learned from {self.queries} unlabeled queries{seen}{unknown}."

    @property
    def split_half(self) -> str:
        """Information that one half of a query gives about its other half, learned and plain, in words."""
        beside = "" if self.plain is None else f" (plain metric {_bits(self.plain)})"
        return f"Split-half check on held-out queries: {_bits(self.information)} bits{beside}."


@dataclass(frozen=True)
class RepeatsReport:
    """Rows of labels that repeat, answered by patterns that were made without them; `print` it.

    Attributes:
        rows: how many there were,
        labels: of how many labels,
        groups: and of how many groups, such as devices; 0 where nobody has said.
        checked: how many were answered.
        right: the share of these whose first answer is right, and
        said: the mean probability of these answers.
        spread: the standard deviation between groups of what is right and what is said.
    """

    rows: int
    labels: int
    groups: int
    checked: int
    right: float
    said: float
    spread: float

    @property
    def tells_of_groups(self) -> bool:
        """Fewer groups do not show how far a new one may be from them."""
        return self.groups >= LEAST_GROUPS

    def __str__(self) -> str:
        how = f"each of {self.groups} groups" if self.groups else "rows"
        return (
            f"Learned from {self.rows} rows of {self.labels} labels. Leaving out {how} in turn: top-1 accuracy "
            f"{100 * self.right:.0f} % of {self.checked} rows, mean probability {100 * self.said:.0f} %."
        )


@dataclass(frozen=True)
class SpacesReport:
    """Queries of another space, such as those of another model: what becomes of the index that is there; `print` it.

    All shares are of held-out pairs whose first answer among all stored patterns is right.

    Attributes:
        columns: of queries.
        checked: how many pairs there were.
        stored: how many patterns.
        mapped: for queries that are mapped, and compared with what is stored by inner product alone.
        reranked: for those whose `candidates` best are then ranked by the whole similarity.
        exact: for the whole similarity of all patterns.
        candidates: how many.
    """

    columns: int
    checked: int
    stored: int
    mapped: float
    reranked: float
    exact: float
    candidates: int

    @property
    def verdict(self) -> str:
        """One of "map", "map and rerank" and "re-embed": the cheapest that costs hardly any right answer."""
        if max(self.reranked, self.exact) < LEAST_KEPT:
            return "re-embed"
        return "map" if self.mapped >= self.exact - HARDLY_ANY else "map and rerank"

    def __str__(self) -> str:
        found = (
            f"Queries of {self.columns} other columns. Of {self.checked} held-out pairs, the first of {self.stored} "
            f"stored patterns is right for {_percent(self.mapped)} if queries are mapped, for "
            f"{_percent(self.reranked)} if {self.candidates} candidates are reranked, for {_percent(self.exact)} of "
            "all scores."
        )
        most = f"at most {_percent(1 - self.exact)} of right answers"
        if self.verdict == "re-embed":
            return f"{found} Verdict: re-embed what is stored, or give more pairs of the kind that is asked."
        return f"{found} Verdict: {self.verdict}; to re-embed would bring back {most}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


@dataclass(frozen=True)
class CategoriesReport:
    """Columns that hold categories; `print` it.

    Attributes:
        columns: how many.
        agreement: the share of the entries of copies that are those of their originals.
        error: the share that is drawn anew, some of these as they were.
        same_numbers: the share of the entries of the other columns that are copied to the digit; None where these have
            a corruption of their own.
    """

    columns: int
    agreement: float
    error: float
    same_numbers: float | None = None

    def __str__(self) -> str:
        beside = (
            "" if self.same_numbers is None else f" Numbers are copied to the digit in {_percent(self.same_numbers)}."
        )
        columns = "1 column" if self.columns == 1 else f"{self.columns} columns"
        return (
            f"{columns} of categories: copies agree with their originals in "
            f"{_percent(self.agreement)} of the entries.{beside}"
        )


@dataclass(frozen=True)
class ErrorsReport:
    """Columns of standard deviations; `print` it.

    Attributes:
        values: places of the columns of values.
        errors: of each of these the place of the column of its standard deviations; -1 if there is none.
        factor: of the noise that is seen to what they say; None where the similarity that was chosen does without.
        noise: of copies beyond that, the median over columns.
    """

    values: tuple[int, ...]
    errors: tuple[int, ...]
    factor: float | None = None
    noise: float | None = None

    def __str__(self) -> str:
        count = sum(place >= 0 for place in self.errors)
        columns = "1 column" if count == 1 else f"{count} columns"
        if self.factor is None or self.noise is None:
            return f"{columns} of standard deviations: not used."
        return (
            f"{columns} of standard deviations: true noise is {self.factor:.2g} times these, and {self.noise:.2g} more."
        )


@dataclass(frozen=True)
class FitReport:
    """Similarity that was chosen, and the corruption that was found; `print` it.

    Attributes:
        chosen: the similarity, or the members of the pool.
        pairs: how many (origin, copy) pairs there were.
        loss: mean held-out log-loss of what was chosen.
        trials: how each candidate did on pairs whose origins it had not seen, best first.
        corruption: what happens to copies; None if there were too few pairs to learn from.
        groups: how many groups have a corruption of their own.
        accuracy: how often the held-out origins came first, under what was chosen.
        floor: the share of queries that what was chosen says nothing about.
        members: who is in the pool, if several similarities were pooled; else the one that was chosen.
        tie: which similarity was preferred to another that is as good within chance; None if none was.
        seconds: wall time.
        unlabeled: what was learned from queries whose origins nobody knew; None if there were none.
        adapted: how it followed later queries; None if it never did.
        repeats: how rows were answered that were left out of the patterns of their labels; None if none repeats.
        spaces: what becomes of an index where queries have other columns than patterns; None where they have not.
        categories: of columns that hold any; None if there are none.
        errors: of columns that hold standard deviations; None if there are none.
        settings: what was set and not learned, by stage; empty in files of older releases, which had no others than
            the default. `ahop.fitting.Settings.told(report.settings)` sets them again.
    """

    chosen: str
    pairs: int
    loss: float
    trials: tuple[Trial, ...] = ()
    corruption: Corruption | None = None
    groups: int = 0
    accuracy: float | None = None
    floor: float = 0.0
    members: tuple[Member, ...] = ()
    tie: str | None = None
    seconds: float = 0.0
    unlabeled: "UnlabeledReport | None" = None
    adapted: AdaptReport | None = None
    repeats: RepeatsReport | None = None
    spaces: SpacesReport | None = None
    categories: CategoriesReport | None = None
    errors: ErrorsReport | None = None
    settings: Mapping[str, Mapping[str, float]] = field(default_factory=dict, hash=False)

    @property
    def is_checked(self) -> bool:
        """Probabilities were compared with origins that somebody knew, and nothing was carried over since."""
        if self.adapted is not None and self.adapted.is_kept:
            is_alike = self.adapted.offset is not None and not self.adapted.repeated
            return is_alike and self.repeats is not None and self.repeats.tells_of_groups
        learned = bool(self._found)
        return learned if self.unlabeled is None else self.unlabeled.is_checked

    def __str__(self) -> str:
        return f"{self._fitted()}{_later(self.adapted)}"

    def _repr_html_(self) -> str:
        rows = [(trial.name, f"{trial.log_loss:.2f}", f"{100 * trial.accuracy:.0f} %") for trial in self.trials]
        return paragraph(self) + (table(["candidate", "log-loss", "found first"], rows) if rows else "")

    def _fitted(self) -> str:
        if self.unlabeled is not None:
            first = "" if self.unlabeled.is_checked else f"{UNCHECKED}\n"
            parts = [str(self.unlabeled), *self._found, self._chosen_without_labels(), self._calibrated()]
            return first + "\n".join([*parts, f"{self.seconds:.1f} s"])
        if not self._found:
            return f"Model: {self.chosen}, a fixed similarity: {self.pairs} pairs are too few to learn from."
        others = [
            f"{trial.name} {trial.log_loss:.2f} ({trial.accuracy:.2f})"
            for trial in self.trials
            if trial.name != self.chosen
        ]
        beside = f"; others: {', '.join(others)}" if others else ""
        first = "" if self.accuracy is None else f"Top-1 accuracy on held-out pairs: {100 * self.accuracy:.0f} %.\n"
        first = first if self.repeats is None else f"{self.repeats}\n"
        learned = "\n".join(self._found)
        groups = f"\n{self.groups} groups have their own corruption." if self.groups else ""
        tie = f"\n{self.tie[0].upper()}{self.tie[1:]}." if self.tie else ""
        return (
            f"{first}{learned}\nModel: {self.chosen}{self._worth()} "
            f"(held-out log-loss {self.loss:.2f}{beside}).{tie}{groups}\n{self.pairs} pairs, {self.seconds:.1f} s"
        )

    @property
    def _found(self) -> list[str]:
        """Corruption in words; empty where pairs are too few to learn from."""
        return [str(each) for each in (self.spaces, self.corruption, self.categories, self.errors) if each is not None]

    def _chosen_without_labels(self) -> str:
        seen = self.unlabeled
        if seen is None or seen.queries + seen.labels < LEAST_QUERIES:
            return f"Model: {self.chosen}."
        return f"Model: {self.chosen}. {seen.split_half}"

    def _calibrated(self) -> str:
        is_checked = self.unlabeled is not None and self.unlabeled.is_checked
        found = "" if self.accuracy is None else f"; top-1 accuracy there {100 * self.accuracy:.0f} %"
        if is_checked:
            return f"Calibrated on {self.pairs} labeled pairs{found}."
        return f"Calibrated on simulated copies, no labels used{found}."

    def _worth(self) -> str:
        if len(self.members) < 2:
            return ""
        parts = [f"{member.name} is worth {member.worth:.2f}" for member in self.members]
        return f", pooled ({', '.join(parts)} of log-loss)"


Report: TypeAlias = FitReport | SolverReport
