"""Settings of the fits: the statistical choices that are not learned, one dataclass a stage.

The last word of a name is its unit: `nats` of log-loss, `std_errors`, `pairs`, a `share` of all. What halving and
doubling each of them moves on real data is measured by `python -m experiments settings`. Numeric tolerances and bounds
of work are no settings: they stand beside their algorithms.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, final

from ahop._core.checks import check_count, check_positive
from ahop.errors import InvalidTypeError, InvalidValueError

LEAST_FOLDS = 2


def _checked(name: str, value: Any, is_whole: bool) -> int | float:
    if is_whole:
        return check_count(name, value, LEAST_FOLDS if ".folds" in name else 1)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidValueError(f"`{name}` must be a number; got {value!r}.")
    if name.endswith("_share") and value > 1:
        raise InvalidValueError(f"`{name}` is a share and must be above 0 and at most 1; got {value!r}.")
    return check_positive(name, value)


@dataclass(frozen=True)
class Stage:
    """Settings of one stage. Whole numbers are at least one, shares at most one, and all are above zero."""

    def __post_init__(self) -> None:
        for each in fields(self):
            name, value = f"settings.{self.stage()}.{each.name}", getattr(self, each.name)
            try:
                object.__setattr__(self, each.name, _checked(name, value, isinstance(each.default, int)))
            except InvalidValueError as error:
                raise type(error)(f"{error} Leave it out for {each.default!r}, the default.") from None

    @classmethod
    def stage(cls) -> str:
        return cls.__name__.removesuffix("Settings").lower()


@final
@dataclass(frozen=True)
class MixtureSettings(Stage):
    """Corruption of pairs as a mixture of kept, outlying and missing entries.

    Attributes:
        tied_form_nats: forms that come so close to the best on a part of the pairs, in log-likelihood of an entry, are
            fitted in full; more takes longer.
        outlier_grains: where values lie on a grid, a step of the density of outliers holds so many of its places.
        most_pseudo_entries: a dimension is never drawn to the others more than by so many entries.
        gap_pseudo_entries: half a gap and half a value that each dimension has shown beforehand: the prior of Jeffreys.
        gap_std_errors: gaps say something about the origin if their rates differ by more between stored values.
        most_wrong_share: of the pairs, that may stand beside another's original.
    """

    tied_form_nats: float = 0.01
    outlier_grains: float = 3.0
    most_pseudo_entries: float = 2000.0
    gap_pseudo_entries: float = 0.5
    gap_std_errors: float = 2.0
    most_wrong_share: float = 0.5


@final
@dataclass(frozen=True)
class CandidatesSettings(Stage):
    """Candidates that are worth trying, and the strength of what holds them back.

    Attributes:
        table_pairs: tables of each dimension need so many observed values in it, on average.
        footprint_pairs: footprints have weights for at most so many dimensions for each pair.
        most_missing_share: where more is missing, a nuisance is not tried: how dimensions move together is not seen.
        least_missing_share: from here on, metrics are tried that take gaps for what was not heard.
        curve_step_share: rows whose neighboring values differ by less, of the differences of all values, are curves.
        nuisance_pseudo_pairs: trust in what all dimensions have in common, for the noise of each.
        nuisance_likelihood_share: weight of the likelihood of a dimension beside held-out retrieval.
    """

    table_pairs: float = 30.0
    footprint_pairs: float = 2.0
    most_missing_share: float = 0.5
    least_missing_share: float = 0.01
    curve_step_share: float = 0.05
    nuisance_pseudo_pairs: float = 5.0
    nuisance_likelihood_share: float = 0.01


@final
@dataclass(frozen=True)
class SelectionSettings(Stage):
    """Choice among candidates, by their log-loss on held-out origins.

    Attributes:
        folds: of the pairs; more leave more to learn from, and take longer.
        folds_of_many: of so many pairs that a third of them can be spared.
        many_pairs: from so many on.
        tie_std_errors: a candidate that is behind the best by no more is as good, and the first of these is taken.
        tie_nats: as `tie_std_errors`, in mean log-loss.
        hopeless_std_errors: a candidate that is behind by more after one fold is left out of the others; more takes
            longer.
        hopeless_nats: as `hopeless_std_errors`, in mean log-loss; both must be exceeded.
        promising_nats: unless a pool with the best promises to lower the log-loss of all pairs of the fold by more.
    """

    folds: int = 5
    folds_of_many: int = 3
    many_pairs: int = 200
    tie_std_errors: float = 2.0
    tie_nats: float = 0.01
    hopeless_std_errors: float = 2.0
    hopeless_nats: float = 0.05
    promising_nats: float = 1.0


@final
@dataclass(frozen=True)
class PoolSettings(Stage):
    """Pool of several similarities.

    Attributes:
        weight_nats: price of a unit of weight, in log-loss of all pairs; more makes pools smaller.
        within_nats: candidates farther behind the best, in mean log-loss, are no members.
        least_gain_nats: by how much a member must lower the log-loss of all pairs, times the root of their number, as
            chance would: a member costs time at every recall.
        least_pool_gain_nats: and a pool that of the best alone.
        most_members: of a pool.
    """

    weight_nats: float = 1.0
    within_nats: float = 1.0
    least_gain_nats: float = 0.08
    least_pool_gain_nats: float = 0.5
    most_members: int = 5


@final
@dataclass(frozen=True)
class PosteriorSettings(Stage):
    """Calibration: inverse temperature, floor, and the detector of unknown queries.

    Attributes:
        missed_pairs: that scores say nothing about, seen beforehand. Half a pair, the prior of Jeffreys: twenty pairs
            that are all found give a floor of 2 %; 1.5 gave 7 %, and probabilities that were too low.
        met_pairs: that scores speak of, seen beforehand.
        most_floor_share: of the queries that scores may say nothing about.
        doubt_pairs: as if so much of one more had shown the runner-up to be right: nothing is ever certain.
        detector_pull: towards no slope, in units of a squared slope; more makes unknown queries harder to tell.
    """

    missed_pairs: float = 0.5
    met_pairs: float = 1.0
    most_floor_share: float = 0.5
    doubt_pairs: float = 0.25
    detector_pull: float = 1.0


@final
@dataclass(frozen=True)
class GroupsSettings(Stage):
    """Groups of pairs, such as devices.

    Attributes:
        own_pairs: that a group needs for a fit of its own.
        borrowed_share: weight of the pairs of other groups in it.
        own_std_errors: by which fits of their own must be better on held-out pairs.
        most_spreads: residuals farther off count as these, when the offset of a group is found.
    """

    own_pairs: int = 20
    borrowed_share: float = 0.1
    own_std_errors: float = 2.0
    most_spreads: float = 3.0


@final
@dataclass(frozen=True)
class UnlabeledSettings(Stage):
    """Learning from queries whose origins nobody knows.

    Attributes:
        clear_std_errors: by which a similarity must beat the plain one, in split-half information.
        gap_std_errors: by which queries must have gaps where patterns have theirs, for gaps to mean "not heard".
        simulated_pairs: copies that probabilities are made of, where no labels are.
        calibrating_pairs: from so many labels on, probabilities are calibrated on them.
        checking_pairs: and from so many on only if they then are clearly better.
        ahead_nats: in mean log-loss, by which what labels teach must beat what queries teach, to take its place.
        unknown_share: of the queries, that come from no stored pattern, to begin with.
        unknown_queries: that come from none, seen beforehand,
        known_queries: and that come from some.
        most_unknown_share: of the queries.
        lead_share: of the mean lead of the best, by which a distance tells origins apart at the start.
        least_responsible_share: less likely origins of a query are left out.
    """

    clear_std_errors: float = 2.0
    gap_std_errors: float = 3.0
    simulated_pairs: int = 512
    calibrating_pairs: int = 20
    checking_pairs: int = 48
    ahead_nats: float = 0.1
    unknown_share: float = 0.05
    unknown_queries: float = 1.0
    known_queries: float = 9.0
    most_unknown_share: float = 0.8
    lead_share: float = 0.5
    least_responsible_share: float = 0.02


@final
@dataclass(frozen=True)
class AdaptSettings(Stage):
    """Following later queries, as `adapt` does.

    Attributes:
        rounds: of answers, and of what is learned from them.
        clear_std_errors: by which held-out queries must tell more, or be likelier.
        worse_std_errors: by which they may tell less, if they are clearly likelier.
        simulated_pairs: copies that show what a query of no stored pattern looks like.
    """

    rounds: int = 4
    clear_std_errors: float = 2.0
    worse_std_errors: float = 1.0
    simulated_pairs: int = 512


@final
@dataclass(frozen=True)
class Settings:
    """All settings of a fit, by stage; `fit` and `adapt` take them, and `report.settings` tells them.

    Write those that differ, such as `Settings(pool=PoolSettings(most_members=2))`.
    """

    mixture: MixtureSettings = field(default_factory=MixtureSettings)
    candidates: CandidatesSettings = field(default_factory=CandidatesSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    pool: PoolSettings = field(default_factory=PoolSettings)
    posterior: PosteriorSettings = field(default_factory=PosteriorSettings)
    groups: GroupsSettings = field(default_factory=GroupsSettings)
    unlabeled: UnlabeledSettings = field(default_factory=UnlabeledSettings)
    adapt: AdaptSettings = field(default_factory=AdaptSettings)

    def __post_init__(self) -> None:
        for each in fields(self):
            kind: Any = each.default_factory
            given = getattr(self, each.name)
            if not isinstance(given, kind):
                raise InvalidTypeError(
                    f"`settings.{each.name}` must be `ahop.fitting.{kind.__name__}`; got {given!r}. Write the settings "
                    f"that differ: `ahop.fitting.Settings({each.name}=ahop.fitting.{kind.__name__}(...))`."
                )

    @classmethod
    def told(cls, report: Mapping[str, Mapping[str, Any]]) -> "Settings":
        """The settings of `report.settings`; the default of those that it does not tell, as an older file may not."""
        found = cls()
        for each in fields(cls):
            of_stage = getattr(found, each.name)
            known = {part.name for part in fields(of_stage)}
            given = {name: value for name, value in report.get(each.name, {}).items() if name in known}
            found = replace(found, **{each.name: replace(of_stage, **given)})
        return found


DEFAULT = Settings()
