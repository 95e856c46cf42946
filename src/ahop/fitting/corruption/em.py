"""Expectation-maximization for the mixture corruption."""

from dataclasses import dataclass, replace
from math import log, pi

import torch
from torch import Tensor

from ahop.fitting.corruption.empirical_bayes import shrunk, shrunk_rate, shrunk_variance
from ahop.fitting.corruption.entries import Entries
from ahop.fitting.corruption.paired_rows import PairedRows
from ahop.fitting.corruption.trust import Doubts
from ahop.fitting.corruption.units import ends, grain, units
from ahop.variants.density import StepDensity
from ahop.variants.mixture import MixtureVariant, log_two_bumps

EM_TOLERANCE = 1e-5
# Where outliers are shifted too, the edges of their density tell the bias better than the mean of what was kept.
EDGE_STEPS = (20, 28, 36)
EDGE_GRID = 15
# Whether a pair is one is asked now and then: is its copy more like its origin than like others?
TRUST_STEPS = (10, 18, 26, 34)
# Sums are taken about what was found so far, which spares them digits.
CENTERING_STEPS = (2, 6)
# What starts from another fit has so many steps behind it.
STARTED = 26
# Where the numbers stand still, the next step that does something else is taken at once.
EVENTS = sorted(EDGE_STEPS + TRUST_STEPS)
# The sharpest noise, beside the spread of the dimension.
LEAST_STD = 1e-3
# Nothing is kept as far off as this, and its square is still a number in float32.
BEYOND = 1e9
# Steps beyond its ends from which on an entry is certainly an outlier.
FAR_OUTLIERS = 20
# Of the entries: they are told from the middle of their dimension, and noise is never so sharp that more digits show.
DTYPE = torch.float32


@dataclass(frozen=True)
class State:
    """Numbers of the dimensions, (d,) each, in units of the problem; and the share of wrong pairs."""

    gain: Tensor
    bias: Tensor
    std: Tensor
    rate: Tensor
    wrong: Tensor


@dataclass(frozen=True)
class Start:
    """A fit to begin from: the mixture, how sure each pair was one, (m,), and the share of wrong ones."""

    variant: MixtureVariant
    trust: Tensor
    wrong: float


@dataclass(frozen=True)
class _Parts:
    """Responsibilities of entries under the present state.

    Attributes:
        kept: log density of what is kept, with its rate.
        odds: logarithm of how much likelier an entry is an outlier.
        sign: how sure the sign of the bias is, from -1 to 1; None where it has none of its own.
    """

    kept: Tensor
    odds: Tensor
    sign: Tensor | None

    def either(self) -> Tensor:
        """Log density of an entry, kept or outlier."""
        return self.odds.abs().neg_().exp_().add_(1).log_().add_(self.kept).add_(self.odds.clamp_min(0))


class Expectation:
    """Pairs in units of their own, and the density of outliers that is learned beside the numbers of each dimension.

    Attributes:
        middle: of all copies: from there, as a large common offset would cost digits,
        scale: (d,) and in these units are the numbers of the dimensions told.
        center: (d,) of the outliers, the bias left out.
    """

    def __init__(
        self, pairs: PairedRows, signs: bool, own_units: bool, start: Start | None = None, is_trusted: bool = False
    ) -> None:
        self.weights, self.signs, self.is_trusted, self.settings = pairs.weights, signs, is_trusted, pairs.settings
        self.middle, self.scale, among_copies = units(pairs.copies, own_units)
        if start is not None:
            self.scale = start.variant.scale.double()
        # Entries are told from a place of each dimension: then few digits are enough.
        place = pairs.originals.nanmean(0)
        # Originals that lie beyond all copies would leave no digits to these.
        is_near = (place - self.middle).abs() <= BEYOND * self.scale
        place = torch.where(is_near, place, self.middle)
        originals, copies = (
            ((values - place) / self.scale).clamp(-BEYOND, BEYOND).to(DTYPE)
            for values in (pairs.originals, pairs.copies)
        )
        self.place = (place - self.middle) / self.scale
        population = (pairs.population - place.unsqueeze(-1)) / self.scale.unsqueeze(-1)
        self.population = population.clamp(-BEYOND, BEYOND)
        self.originals, self.copies = originals.mT.contiguous(), copies.mT.contiguous()
        self.entries = Entries(self.originals, self.copies)
        self.outliers = StepDensity().double()
        self.least_step = self.settings.outlier_grains * grain(pairs.copies) / float(self.scale.median())
        self.trust = torch.ones_like(pairs.weights)
        if start is None:
            self.first, self.state = 0, self._guess()
            # Where dimensions have units of their own, outliers are told by their place among the copies.
            center = among_copies / self.scale - self._shift(self.state)
            self.center = center if own_units else torch.zeros_like(center)
            self._start_outliers()
        else:
            self.first, self.state = STARTED, self._taken_over(start)
        self.step, self.beyond = self._steps(self.state)
        self._center_sums(self.state)
        self.doubts = Doubts(originals, self._told(originals, copies), pairs.weights, pairs.gaps, pairs.settings)

    def _told(self, originals: Tensor, copies: Tensor) -> Tensor:
        """Copies by which originals can be told apart: not where none was observed, nor by how far outliers are off."""
        low, high = self.outliers.ends
        room, origin = FAR_OUTLIERS * (high - low) / self.outliers.steps, self._origin_of_outliers(self.state)
        held = copies.clamp((origin + low - room).to(copies), (origin + high + room).to(copies))
        return held.masked_fill(torch.isnan(originals).all(0), torch.nan)

    def _guess(self) -> State:
        difference = self.copies - self.originals
        ones = torch.ones(len(difference), dtype=torch.float64)
        if self.signs:
            bias = 0.7 * difference.abs().nanmedian().nan_to_num(0.1) * ones
            spread = difference.abs().nanmedian()
        else:
            bias = difference.nanmedian(1).values.nan_to_num(0).double()
            spread = (difference - bias.to(DTYPE).unsqueeze(-1)).abs().nanmedian()
        std = (1.2 * spread.double().nan_to_num(1.0)).clamp_min(LEAST_STD) * ones
        return State(ones, bias, std, 0.3 * ones, torch.tensor(0.02, dtype=torch.float64))

    def _taken_over(self, start: Start) -> State:
        variant = start.variant
        gain = variant.gain.double()
        bias = (variant.bias.double() - self.middle * (1 - gain)) / self.scale
        std, rate = variant.std.double() / self.scale, variant.outlier_rate.double()
        state = State(gain, bias, std, rate, torch.tensor(start.wrong, dtype=torch.float64))
        self.center = (variant.center.double() - self.middle) / self.scale - self._shift(state)
        self.outliers.ends.copy_(variant.outliers.ends)
        self.outliers.log_density.copy_(variant.outliers.log_density)
        if len(start.trust) == len(self.trust):
            self.trust = start.trust.double()
        return state

    def _shift(self, state: State) -> Tensor:
        """Shift of outliers along with the rest."""
        return torch.zeros_like(state.bias) if self.signs else state.bias

    def _start_outliers(self) -> None:
        places = self.entries.copies - self.entries.of_dimensions(self._origin_of_outliers(self.state))
        shown = places if self.entries.shared is None else places[self.entries.shared > 0]
        self.outliers.ends.copy_(ends(shown.flatten().double()))
        self.step, self.beyond = self._steps(self.state)
        self._fit_outliers(self.entries.of_pairs(self.trust))

    def _origin_of_outliers(self, state: State) -> Tensor:
        return self.center + self._shift(state) - self.place

    @torch.no_grad()
    def solve(self, steps: int, is_trial: bool = False) -> tuple[State, Tensor, float]:
        """The numbers of the dimensions, the trust in each pair, and the log-likelihood of an entry."""
        state, before, step = self.state, -float("inf"), self.first
        while step < steps:
            if step in CENTERING_STEPS or step in TRUST_STEPS:
                self._center_sums(state)
            parts = self._parts(state, self.step, self.beyond)
            if step in TRUST_STEPS and not self.is_trusted:
                state = self._ask_trust(state)
            share = self.entries.of_pairs(self.trust * self.weights)
            total = self.entries.sums_by_dimension(share)
            likelihood = float(
                self.entries.sums_by_dimension(parts.either().mul_(share)).sum() / total.sum().clamp_min(1e-12)
            )
            kept = parts.odds.neg_().sigmoid_().mul_(share)
            moved = self._maximize(state, kept, total, parts.sign)
            if step >= EDGE_STEPS[0] and not self.signs:
                moved = replace(moved, bias=state.bias)
                moved = self._sharpen(moved, share, total) if step in EDGE_STEPS else moved
            state = moved
            self.step, self.beyond = self._steps(state)
            self._fit_outliers(share.sub(kept))
            settled = abs(likelihood - before) < EM_TOLERANCE
            before = likelihood
            step = min((each for each in EVENTS if each > step), default=steps) if settled else step + 1
        if not is_trial and not self.is_trusted:
            state = self._ask_trust(state, at_end=True)
        return state, self.trust, likelihood

    def _center_sums(self, state: State) -> None:
        """Deviations from what the state expects, and what sums over the pairs are taken of."""
        gain = torch.ones_like(state.gain) if self.signs else state.gain
        bias = torch.zeros_like(state.bias) if self.signs else state.bias
        self.about = replace(state, gain=gain, bias=bias)
        expected = self.entries.of_dimensions(self._constant(self.about))
        self.apart = self.entries.copies - self.entries.of_dimensions(gain) * self.entries.originals - expected
        known = self.entries.originals
        products = [torch.ones_like(known), self.apart, self.apart.square(), known, known.square(), known * self.apart]
        self.products = torch.stack(products, dim=-1)

    def _constant(self, state: State) -> Tensor:
        """The bias, for values that are told from the place of their dimension."""
        return state.bias + (state.gain - 1) * self.place

    def _steps(self, state: State) -> tuple[Tensor, Tensor]:
        """The step of the density of outliers that each copy falls on, and how many steps it is beyond the ends."""
        low, high = self.outliers.ends
        width = (high - low) / self.outliers.steps
        origin = self.entries.of_dimensions(self._origin_of_outliers(state) + low)
        place = (self.entries.copies - origin).mul_(float(1 / width))
        step = place.clamp(0, self.outliers.steps - 1).int()
        return step, (place - place.clamp(0, self.outliers.steps)).abs_()

    def _fit_outliers(self, weights: Tensor) -> None:
        counts = torch.bincount(self.step.flatten(), weights.flatten().double(), self.outliers.steps)
        self.outliers.fit_counts(counts, self.least_step)

    def _parts(self, state: State, step: Tensor, beyond: Tensor) -> _Parts:
        entries, apart = self.entries, self.apart
        outliers = self.outliers.log_density.to(DTYPE)[step].sub_(beyond).add_(entries.of_dimensions(state.rate.log()))
        constant = torch.log1p(-state.rate) - state.std.log() - 0.5 * log(2 * pi)
        inverse = entries.of_dimensions(1 / state.std)
        if self.signs:
            deviation, shift = apart * inverse, entries.of_dimensions(state.bias / state.std)
            kept = log_two_bumps(deviation, shift) + entries.of_dimensions(constant)
            sign = torch.tanh(deviation * shift)
        else:
            tilt = entries.of_dimensions(self.about.gain - state.gain)
            left = entries.of_dimensions(self._constant(self.about) - self._constant(state))
            deviation = torch.addcmul(apart, entries.originals, tilt).add_(left).mul_(inverse)
            kept = torch.addcmul(entries.of_dimensions(constant), deviation, deviation, value=-0.5)
            sign = None
        return _Parts(kept, outliers.sub_(kept), sign)

    def _maximize(self, state: State, kept: Tensor, total: Tensor, sign: Tensor | None) -> State:
        sums = self.entries.product_sums(kept, self.products)
        count = sums[0]
        error = state.std.square() / count.clamp_min(1e-9)
        if sign is not None:
            # One size for all: which sign it had is known too badly for more.
            signed = self.entries.sums_by_dimension(kept * self.apart * sign)
            bias = (signed.sum() / count.sum().clamp_min(1e-9)).abs().expand_as(state.bias)
            gain, squares = state.gain, sums[2] - 2 * signed * bias + count * bias.square()
        else:
            gain = self._gain(state, sums)
            tilt = gain - self.about.gain
            # Of what is left once the gain is off, from what was expected when sums were centered.
            left = sums[1] - tilt * sums[3]
            moved = left / count.clamp_min(1e-9) + self._constant(self.about) - (gain - 1) * self.place
            bias = shrunk(moved, error)
            constant = bias + (gain - 1) * self.place - self._constant(self.about)
            squares = sums[2] + tilt.square() * sums[4] - 2 * tilt * sums[5] - 2 * constant * left
            squares = squares + constant.square() * count
        most = self.settings.most_pseudo_entries
        std = shrunk_variance(squares.clamp_min(0), count, most).sqrt().clamp_min(LEAST_STD)
        return State(gain, bias, std, shrunk_rate(total - count, total, most), state.wrong)

    def _gain(self, state: State, sums: Tensor) -> Tensor:
        """Slopes of the copies over the originals, drawn towards one where the pairs do not ask for another."""
        count, apart, _, known, squares, both = sums
        mean = known / count.clamp_min(1e-9)
        power = (squares - mean * known).clamp_min(1e-12)
        raw = self.about.gain + (both - mean * apart) / power
        error = state.std.square() / power
        clear = error < 1
        excess = ((raw - 1).square() - error)[clear].mean() if bool(clear.any()) else torch.tensor(0.0)
        between = torch.clamp(excess.double(), min=0)
        return torch.where(clear, 1 + between / (between + error) * (raw - 1), 1.0)

    def _sharpen(self, state: State, share: Tensor, total: Tensor) -> State:
        """The posterior mean of each bias on a grid, outliers moving along with it."""
        error = (state.std.square() / total.clamp_min(1)).sqrt()
        grid = torch.linspace(-4, 4, EDGE_GRID, dtype=torch.float64).unsqueeze(-1) * error
        prior_mean = state.bias.mean()
        prior = state.bias.var(correction=0) + 1e-12
        fit = torch.stack([self._bias_fit(replace(state, bias=state.bias + step), share) for step in grid])
        fit = fit - 0.5 * (state.bias + grid - prior_mean).square() / prior
        return replace(state, bias=state.bias + (torch.softmax(fit, 0) * grid).sum(0))

    def _bias_fit(self, state: State, share: Tensor) -> Tensor:
        parts = self._parts(state, *self._steps(state))
        return self.entries.sums_by_dimension(parts.either().mul_(share))

    def _ask_trust(self, state: State, at_end: bool = False) -> State:
        self.trust, wrong = self.doubts.trust(self._variant(state), self.trust, at_end)
        return replace(state, wrong=torch.tensor(wrong, dtype=torch.float64))

    def _variant(self, state: State) -> MixtureVariant:
        """The mixture of the entries as they are told here; without what gaps say."""
        variant = MixtureVariant(len(state.gain), self.signs).double()
        variant.gain.copy_(state.gain)
        variant.bias.copy_(state.bias if self.signs else self._constant(state))
        variant.std.copy_(state.std)
        variant.outlier_rate.copy_(state.rate)
        variant.center.copy_(self._origin_of_outliers(state))
        variant.outliers.ends.copy_(self.outliers.ends)
        variant.outliers.log_density.copy_(self.outliers.log_density)
        variant.population.copy_(self.population)
        return variant
