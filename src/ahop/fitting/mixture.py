"""Learning a mixture corruption from pairs by expectation and maximisation; the other patterns are never looked at."""

from dataclasses import dataclass, replace
from math import log, pi

import torch
from torch import Tensor

from ahop._observed import midpoints, quantiles
from ahop.fitting.missingness import fit_missingness
from ahop.variants.density import StepDensity
from ahop.variants.mixture import POPULATION, MixtureVariant, log_two_bumps

MAX_STEPS, TOLERANCE = 50, 1e-5
# When garbage is shifted along with the rest, its edges tell the bias better than the mean of what was kept.
EDGE_STEPS = (20, 28, 36)
EDGE_GRID = 15
# Whether a pair is one is asked now and then: is its copy more like its origin than like a few others?
TRUST_STEPS = (10, 18, 26, 34)
OTHERS, OTHERS_AT_END = 3, 16
# To find out which form the corruption has, some of the pairs and some steps are enough.
TRIAL_PAIRS, TRIAL_STEPS = 256, 24
# Forms that come so close to the best, in log-likelihood of an entry, are tried in full.
CLOSE = 0.01
# Values farther from the middle than so many spreads are told apart from the others, and not from each other.
REACH = 8.0
# Where the robust spread is this much smaller than the standard deviation, values far off have made the latter.
FAR_OFF = 0.2
# The sharpest noise, beside the spread of the dimension.
LEAST_STD = 1e-3
# Shrinkage never trusts a dimension less than as if this many others of its kind had been seen.
MOST_PSEUDO_COUNTS = 2000.0


@dataclass(frozen=True)
class Form:
    """What kind of mixture: signs of the bias drawn per query; whether each dimension has units of its own."""

    signs: bool = False
    own_units: bool = False


FORMS = tuple(Form(signs, own_units) for signs in (False, True) for own_units in (False, True))


@dataclass(frozen=True)
class MixtureFit:
    """A fitted mixture, and what the fit learned about the pairs.

    Attributes:
        trust: (m,) how sure it is that each pair is one, and not a copy beside the wrong origin.
        log_likelihood: mean over the observed entries.
    """

    variant: MixtureVariant
    form: Form
    trust: Tensor
    log_likelihood: float


def fit_mixture(
    originals: Tensor, copies: Tensor, weights: Tensor | None = None, form: Form | None = None
) -> MixtureFit:
    """The most likely mixture for pairs of rows (m, d); of all forms, unless one is asked for."""
    dtype = copies.dtype
    originals, copies = originals.double(), copies.double()
    weights = torch.ones(len(copies), dtype=torch.float64) if weights is None else weights.double()
    if form is None:
        form = best_form(originals, copies, weights)
    fitted = _fit(originals, copies, weights, form, MAX_STEPS)
    return replace(fitted, variant=fitted.variant.to(dtype))


def best_form(originals: Tensor, copies: Tensor, weights: Tensor) -> Form:
    """The form under which the pairs are most likely, by a part of them where that is clear."""
    part = slice(0, TRIAL_PAIRS)
    trials = [_fit(originals[part], copies[part], weights[part], form, TRIAL_STEPS) for form in FORMS]
    best = max(_worth(trial) for trial in trials)
    forms = [trial.form for trial in trials if _worth(trial) > best - CLOSE]
    if len(forms) > 1:
        trials = [_fit(originals, copies, weights, form, MAX_STEPS) for form in forms]
    return max(trials, key=_worth).form


def _worth(trial: MixtureFit) -> float:
    """Log-likelihood of an entry, less what units of each dimension cost: two numbers each, by Schwarz's criterion."""
    pairs = len(trial.trust)
    return trial.log_likelihood - (log(pairs) / pairs if trial.form.own_units and pairs else 0.0)


@dataclass(frozen=True)
class _State:
    gain: Tensor
    bias: Tensor
    std: Tensor
    rate: Tensor
    wrong: Tensor


def _fit(originals: Tensor, copies: Tensor, weights: Tensor, form: Form, steps: int) -> MixtureFit:
    middle, scale, centre = _units(copies, form.own_units)
    # From the middle of the copies: a large common offset would cost digits.
    problem = _Problem((originals - middle) / scale, (copies - middle) / scale, weights, form, centre / scale)
    state, trust, likelihood = problem.solve(steps)
    variant = MixtureVariant(copies.shape[1], form.signs).double()
    shift = 0 if form.signs else state.bias
    variant.gain.copy_(state.gain)
    variant.bias.copy_(state.bias * scale + middle * (1 - state.gain))
    variant.std.copy_(state.std * scale)
    variant.garbage_rate.copy_(state.rate)
    variant.centre.copy_((shift + problem.centre) * scale + middle)
    variant.scale.copy_(scale)
    variant.population.copy_(_population(originals, copies))
    variant.garbage.ends.copy_(problem.garbage.ends)
    variant.garbage.log_density.copy_(problem.garbage.log_density)
    fit_missingness(variant.missingness, originals, copies, weights * trust)
    per_entry = likelihood - float((problem.seen * scale.log()).sum() / problem.seen.sum().clamp_min(1))
    return MixtureFit(variant, form, trust, per_entry)


class _Problem:
    """Pairs in units of their own, and the garbage density that is learned beside the numbers of each dimension."""

    def __init__(self, originals: Tensor, copies: Tensor, weights: Tensor, form: Form, centre: Tensor) -> None:
        self.seen_originals = ~torch.isnan(originals)
        self.seen = self.seen_originals & ~torch.isnan(copies)
        self.originals, self.copies = torch.where(self.seen, originals, 0), torch.where(self.seen, copies, 0)
        self.weights, self.form = weights, form
        # Where dimensions have units of their own, garbage is told by its place among the copies.
        self.centre = torch.zeros_like(centre)
        start = self._start()
        if form.own_units:
            self.centre = centre - (0 if form.signs else start.bias)
        self.state = start
        self.garbage = StepDensity().double()
        places = self._places(start.bias)[self.seen]
        self.garbage.ends.copy_(_ends(places))
        self.garbage.fit(places, torch.ones_like(places))

    def solve(self, steps: int) -> tuple[_State, Tensor, float]:
        state, trust, before = self.state, torch.ones_like(self.weights), -float("inf")
        for step in range(steps):
            kept, garbage, sign = self._log_parts(state, self.originals)
            of_entry = _log_add(kept, garbage)
            if step in TRUST_STEPS:
                trust, state = self._trust(state, (of_entry * self.seen).sum(-1), OTHERS)
            share = self.seen * (trust * self.weights).unsqueeze(-1)
            likelihood = float((of_entry * share).sum() / share.sum().clamp_min(1e-12))
            kept_share = torch.sigmoid(kept - garbage) * share
            bias = state.bias
            state = self._maximise(state, kept_share, share, sign)
            if step >= EDGE_STEPS[0] and not self.form.signs:
                state = replace(state, bias=bias)
                state = self._sharpen(state, share) if step in EDGE_STEPS else state
            self.garbage.fit(self._places(state.bias), share - kept_share)
            if step > EDGE_STEPS[-1] and abs(likelihood - before) < TOLERANCE:
                break
            before = likelihood
        trust, state = self._trust(state, (of_entry * self.seen).sum(-1), OTHERS_AT_END)
        return state, trust, likelihood

    def _trust(self, state: _State, likelihood: Tensor, others: int) -> tuple[Tensor, _State]:
        """How sure each pair is one, (m,), and the state with the share of wrong ones that follows."""
        count = len(likelihood)
        if count <= 1:
            return torch.ones_like(likelihood), state
        rivals = []
        for step in range(1, min(others, count - 1) + 1):
            kept, garbage, _ = self._log_parts(state, self.originals.roll(step, 0))
            seen = self.seen & self.seen_originals.roll(step, 0)
            rivals.append((_log_add(kept, garbage) * seen).sum(-1))
        against = likelihood - torch.logsumexp(torch.stack(rivals), 0) + log(len(rivals))
        trust = torch.sigmoid(against + torch.log((1 - state.wrong) / state.wrong))
        wrong = ((1 - trust) * self.weights).sum() / self.weights.sum().clamp_min(1e-9)
        return trust, replace(state, wrong=wrong.clamp(1e-4, 0.5))

    def _start(self) -> _State:
        difference = torch.where(self.seen, self.copies - self.originals, torch.nan)
        size = difference.shape[1]
        ones = torch.ones(size, dtype=torch.float64)
        if self.form.signs:
            bias = 0.7 * difference.abs().nanmedian().nan_to_num(0.1) * ones
            spread = difference.abs().nanmedian()
        else:
            bias = difference.nanmedian(0).values.nan_to_num(0)
            spread = (difference - bias).abs().nanmedian()
        std = (1.2 * spread.nan_to_num(1.0)).clamp_min(LEAST_STD) * ones
        return _State(ones, bias, std, 0.3 * ones, torch.tensor(0.02, dtype=torch.float64))

    def _places(self, bias: Tensor) -> Tensor:
        return self.copies - self.centre - (0 if self.form.signs else bias)

    def _log_parts(self, state: _State, originals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log densities of kept and of garbage with their rates, and how sure the sign of the bias is (-1..1)."""
        residual = self.copies - state.gain * originals
        constant = torch.log1p(-state.rate) - state.std.log() - 0.5 * log(2 * pi)
        garbage = self.garbage.log_prob(self._places(state.bias)) + state.rate.log()
        if not self.form.signs:
            kept = constant - 0.5 * ((residual - state.bias) / state.std).square()
            return kept, garbage, torch.ones_like(kept)
        kept = constant + log_two_bumps(residual / state.std, state.bias / state.std)
        return kept, garbage, torch.tanh(residual * state.bias / state.std.square())

    def _maximise(self, state: _State, kept: Tensor, share: Tensor, sign: Tensor) -> _State:
        count = kept.sum(0)
        gain = state.gain if self.form.signs else self._gain(state, kept, count)
        residual = self.copies - gain * self.originals
        error = state.std.square() / count.clamp_min(1e-9)
        if self.form.signs:
            # One size for all: which sign it had is known too badly for more.
            bias = ((kept * residual * sign).sum() / count.sum().clamp_min(1e-9)).abs().expand_as(state.bias)
        else:
            bias = _shrunk((kept * residual).sum(0) / count.clamp_min(1e-9), error)
        squares = (kept * (residual.square() - 2 * residual * sign * bias + bias.square())).sum(0)
        std = _shrunk_variance(squares.clamp_min(0), count).sqrt().clamp_min(LEAST_STD)
        rate = _shrunk_rate((share - kept).sum(0), share.sum(0))
        return _State(gain, bias, std, rate, state.wrong)

    def _gain(self, state: _State, kept: Tensor, count: Tensor) -> Tensor:
        """Slopes of the copies over the originals, drawn towards one where the pairs do not ask for another."""
        mean = (kept * self.originals).sum(0) / count.clamp_min(1e-9)
        centred = torch.where(self.seen, self.originals - mean, 0)
        power = (kept * centred.square()).sum(0).clamp_min(1e-12)
        raw = (kept * centred * self.copies).sum(0) / power
        error = state.std.square() / power
        known = error < 1
        excess = ((raw - 1).square() - error)[known].mean() if bool(known.any()) else torch.tensor(0.0)
        between = torch.clamp(excess.double(), min=0)
        return torch.where(known, 1 + between / (between + error) * (raw - 1), 1.0)

    def _sharpen(self, state: _State, share: Tensor) -> _State:
        """The posterior mean of each bias on a grid, garbage moving along with it."""
        error = (state.std.square() / share.sum(0).clamp_min(1)).sqrt()
        grid = torch.linspace(-4, 4, EDGE_GRID, dtype=torch.float64).unsqueeze(-1) * error
        prior_mean = state.bias.mean()
        prior = state.bias.var(correction=0) + 1e-12
        fit = torch.stack([self._bias_fit(replace(state, bias=state.bias + step), share) for step in grid])
        fit = fit - 0.5 * (state.bias + grid - prior_mean).square() / prior
        return replace(state, bias=state.bias + (torch.softmax(fit, 0) * grid).sum(0))

    def _bias_fit(self, state: _State, share: Tensor) -> Tensor:
        kept, garbage, _ = self._log_parts(state, self.originals)
        return (_log_add(kept, garbage) * share).sum(0)


def _log_add(first: Tensor, second: Tensor) -> Tensor:
    r"""$\log(e^a + e^b)$; torch's own keeps digits that are not needed here and takes several times as long."""
    return torch.maximum(first, second) + torch.log(1 + torch.exp(-(first - second).abs()))


def _shrunk(raw: Tensor, error: Tensor) -> Tensor:
    """Estimates drawn towards their common mean by as much as their errors explain their spread."""
    precision = 1 / error.clamp_min(1e-18)
    mean = (raw * precision).sum() / precision.sum()
    between = ((raw - mean).square() - error)[error <= error.median() * 100].mean().clamp_min(1e-12)
    return mean + between / (between + error) * (raw - mean)


def _shrunk_variance(squares: Tensor, count: Tensor) -> Tensor:
    pooled = squares.sum() / count.sum().clamp_min(1e-9)
    known = count > 2
    if not bool(known.any()):
        return torch.full_like(squares, float(pooled))
    logs = (squares[known] / count[known]).clamp_min(1e-18).log()
    excess = ((logs - logs.mean()).square() - 2 / count[known]).mean()
    pseudo = 2 / excess.clamp_min(2 / MOST_PSEUDO_COUNTS)
    return (squares + pseudo * pooled) / (count + pseudo)


def _shrunk_rate(hits: Tensor, count: Tensor) -> Tensor:
    pooled = (hits.sum() / count.sum().clamp_min(1e-9)).clamp(1e-4, 1 - 1e-4)
    spread = pooled * (1 - pooled)
    known = count > 2
    if not bool(known.any()):
        return torch.full_like(hits, float(pooled))
    excess = ((hits[known] / count[known] - pooled).square() - spread / count[known]).mean()
    pseudo = spread / excess.clamp_min(spread / MOST_PSEUDO_COUNTS)
    return ((hits + pseudo * pooled) / (count + pseudo)).clamp(1e-4, 1 - 1e-4)


def _units(copies: Tensor, own: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The middle of all copies; the scale of each dimension, and its place from that middle.

    One scale for all, and no place, unless dimensions have units of their own.
    """
    values = copies[~torch.isnan(copies)]
    middle, overall = _middle_and_spread(values) if len(values) else (copies.new_zeros(()), copies.new_ones(()))
    size = copies.shape[1]
    if not own:
        return middle, overall.expand(size).clone(), torch.zeros(size, dtype=torch.float64)
    columns = [column[~torch.isnan(column)] for column in copies.mT]
    known = [_middle_and_spread(column) if len(column) else (middle, overall) for column in columns]
    return middle, torch.stack([spread for _, spread in known]), torch.stack([place for place, _ in known]) - middle


def _middle_and_spread(values: Tensor) -> tuple[Tensor, Tensor]:
    """Median, and the standard deviation; by the median distance where values far off make it meaningless."""
    middle = values.median()
    distance = (values - middle).abs()
    spread, robust = distance.square().mean().sqrt(), 1.4826 * distance.median()
    least = 1e-9 * values.abs().max()
    if least < robust < FAR_OFF * spread:
        spread = robust
    return middle, spread if spread > least else torch.maximum(values.abs().max(), values.new_tensor(1e-30))


def _ends(places: Tensor) -> Tensor:
    """Where the garbage density has steps: all places, but for those far off, and some room."""
    if not len(places):
        return torch.tensor([-1.0, 1.0], dtype=torch.float64)
    middle, spread = _middle_and_spread(places)
    low = torch.maximum(places.min(), middle - REACH * spread)
    high = torch.minimum(places.max(), middle + REACH * spread)
    return torch.stack([low - 0.25 * spread - 1e-3, high + 0.25 * spread + 1e-3])


def _population(originals: Tensor, copies: Tensor) -> Tensor:
    """What stands for the population of origins, (d, POPULATION); of the copies where no origin was observed."""
    known = torch.where(torch.isnan(originals).all(0), copies, originals)
    return quantiles(known, midpoints(POPULATION))
