"""The training set of a fit, with cached statistics."""

from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from ahop.fitting.corruption.additive import Counts, count_pairs
from ahop.fitting.corruption.alignment import Alignment, fit_alignment
from ahop.fitting.corruption.categories import Categories, CategoryTables
from ahop.fitting.corruption.forward import ForwardChoice, choose_forward
from ahop.fitting.corruption.heteroscedastic import ErrorColumns
from ahop.fitting.corruption.mixture import MixtureFit, fit_mixture
from ahop.fitting.corruption.nuisance import NuisanceChoice, choose_nuisance
from ahop.fitting.settings import DEFAULT, Settings
from ahop.transforms.base import Transform

# From so many pairs on, a fit to a part of them is started from that to all.
PAIRS_FOR_WARM_START = 100


@dataclass(frozen=True)
class TrainingSet:
    """Pairs to learn from, and some stored patterns to tell the origins from.

    Attributes:
        patterns: (p, d) a part of the stored ones that holds every origin.
        origins: (m,) rows of it.
        recorded: (m, d) copies as they came.
        weights: (m,) how much each pair counts.
        groups: (m,) number of the group of each copy; its offset and gain are taken off. None if there are none.
        whole: the training that this is a part of: what it has chosen is kept, and its fits are started from.
        is_trusted: the weights know already which pairs look wrong.
        is_aligned: whether what groups add and multiply is taken off.
        fitted: the mixture that has made the weights, if origins were inferred; else it is fitted to the pairs.
        settings: of all that is learned from it.
        categories: of columns that hold any; None if all hold numbers.
        errors: columns that hold standard deviations of others; None if there are none.
    """

    patterns: Tensor
    origins: Tensor
    recorded: Tensor
    weights: Tensor
    groups: Tensor | None = None
    whole: "TrainingSet | None" = field(default=None, repr=False)
    is_trusted: bool = False
    is_aligned: bool = True
    fitted: MixtureFit | None = field(default=None, repr=False)
    settings: Settings = field(default=DEFAULT, repr=False)
    categories: Categories | None = field(default=None, repr=False)
    errors: ErrorColumns | None = field(default=None, repr=False)
    _transformed: dict[str, "TrainingSet"] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.recorded)

    @property
    def originals(self) -> Tensor:
        return self.patterns[self.origins]

    @cached_property
    def alignment(self) -> Alignment | None:
        if self.groups is None or not self.is_aligned:
            return None
        number = int(self.groups.max()) + 1
        most_spreads = self.settings.groups.most_spreads
        return fit_alignment(self.originals, self.recorded, self.weights, self.groups, number, most_spreads)

    @cached_property
    def copies(self) -> Tensor:
        return self.aligned(self.recorded, self.groups)

    def aligned(self, copies: Tensor, groups: Tensor | None) -> Tensor:
        """Copies with what their groups add and multiply taken off."""
        return copies if self.alignment is None or groups is None else self.alignment(copies, groups)

    @cached_property
    def mixture(self) -> MixtureFit:
        """The mixture that the columns of numbers tell of."""
        if self.numbers is not self:
            return self.numbers.mixture
        if self.fitted is not None:
            return self.fitted
        pairs, settings = (self.originals, self.copies, self.weights), self.settings.mixture
        if self.whole is None:
            return fit_mixture(*pairs, settings=settings)
        if len(self) < PAIRS_FOR_WARM_START:  # what is held out shows in a start from all, and few pairs take few steps
            return fit_mixture(*pairs, form=self.whole.mixture.form, settings=settings)
        return fit_mixture(*pairs, start=self.whole.mixture, settings=settings)

    @cached_property
    def nuisance(self) -> NuisanceChoice:
        """Settings of a nuisance, chosen once for all parts."""
        if self.whole is not None:
            return self.whole.nuisance
        settings = self.settings.candidates
        return choose_nuisance(self.originals, self.copies, weights=self.trusted, settings=settings)

    @property
    def numeric(self) -> list[int]:
        """Places of the columns of numbers."""
        if self.categories is not None:
            return self.categories.numeric
        return list(range(self.patterns.shape[1]) if self.errors is None else self.errors.values)

    @cached_property
    def numbers(self) -> "TrainingSet":
        """The columns of numbers alone, neither categories nor standard deviations."""
        if self.categories is None and self.errors is None:
            return self
        places = self.numeric
        rows = self.patterns[:, places], self.origins, self.recorded[:, places], self.weights
        whole, flags = None if self.whole is None else self.whole.numbers, (self.is_trusted, self.is_aligned)
        return TrainingSet(*rows, None, whole, *flags, self.fitted, settings=self.settings)

    @cached_property
    def tables(self) -> CategoryTables:
        """Tables of the columns of categories."""
        assert self.categories is not None
        places = list(self.categories.places)
        rows = self.originals[:, places], self.recorded[:, places], self.weights
        return CategoryTables(self.categories.alone(), *rows)

    @property
    def has_other_columns(self) -> bool:
        """Copies have other columns than patterns: nothing that compares column with column is known of them."""
        return self.recorded.shape[1] != self.patterns.shape[1]

    @cached_property
    def forward(self) -> ForwardChoice:
        """Settings of a map to the space of the copies, chosen once for all parts."""
        if self.whole is not None:
            return self.whole.forward
        return choose_forward(self.patterns, self.origins, self.copies, self.weights)

    @cached_property
    def trusted(self) -> Tensor:
        """The weights of the pairs, less where a copy looks like it stands beside the wrong origin."""
        return self.weights if self.is_trusted else self.weights * self.mixture.trust.to(self.weights)

    @cached_property
    def counts(self) -> Counts:
        """Counts of pairs of values, from which all additive tables are made."""
        bias = self.mixture.variant.shift
        return count_pairs(self.originals, self.copies, self.trusted, bias, self.settings.mixture)

    @cached_property
    def missing(self) -> float:
        """Share of the entries of the copies and of the patterns that were not observed."""
        return max(float(self.copies.isnan().float().mean()), float(self.patterns.isnan().float().mean()))

    @cached_property
    def are_curves(self) -> bool:
        """True if neighboring dimensions are alike, as in spectra."""
        if self.errors is not None:
            return self.numbers.are_curves
        if self.patterns.shape[1] < 8 or self.missing > 0:
            return False
        rows = self.patterns.double()
        steps = rows.diff(dim=-1).square().mean(-1)
        spread = 2 * (rows - rows.mean(-1, keepdim=True)).square().mean(-1)
        return float((steps / spread.clamp_min(1e-300)).median()) < self.settings.candidates.curve_step_share

    def part(self, rows: Tensor) -> "TrainingSet":
        groups = None if self.groups is None else self.groups[rows]
        chosen = self.origins[rows], self.recorded[rows], self.weights[rows]
        flags = self.is_trusted, self.is_aligned
        return TrainingSet(
            self.patterns,
            *chosen,
            groups,
            self,
            *flags,
            settings=self.settings,
            categories=self.categories,
            errors=self.errors,
        )

    def transformed(self, transform: Transform) -> "TrainingSet":
        """Transform both sides of the pairs."""
        name = repr(transform)
        if name not in self._transformed:
            rows = transform(self.patterns), self.origins, transform(self.copies), self.trusted
            whole = None if self.whole is None else self.whole.transformed(transform)
            self._transformed[name] = TrainingSet(*rows, whole=whole, is_trusted=True, settings=self.settings)
        return self._transformed[name]

    def weighted(self, weights: Tensor) -> "TrainingSet":
        """Reweight the pairs, aligned already, for another candidate, to which another form may fit."""
        return TrainingSet(self.patterns, self.origins, self.copies, weights, settings=self.settings)

    def unaligned(self) -> "TrainingSet":
        rows = self.patterns, self.origins, self.recorded, self.weights, self.groups
        return TrainingSet(*rows, is_aligned=False, settings=self.settings)
