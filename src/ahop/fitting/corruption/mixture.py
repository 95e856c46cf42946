"""Fit a mixture corruption to pairs; the other patterns are never looked at."""

from dataclasses import dataclass, replace
from math import log

import torch
from torch import Tensor

from ahop.errors import InvalidValueError
from ahop.fitting.corruption.em import Expectation, Start
from ahop.fitting.corruption.paired_rows import PairedRows
from ahop.fitting.settings import DEFAULT, MixtureSettings
from ahop.variants.mixture import MixtureVariant

EM_STEPS = 50
# To find out which form the corruption has, some of the pairs, dimensions and steps are enough.
TRIAL_PAIRS, MIXTURE_TRIAL_ENTRIES, MIXTURE_TRIAL_STEPS = 256, 1 << 15, 24


@dataclass(frozen=True)
class Form:
    """Form of the mixture: signs of the bias drawn for each query; units of each dimension of its own."""

    signs: bool = False
    own_units: bool = False

    @property
    def name(self) -> str:
        bias = "bias of either sign" if self.signs else "one bias"
        return f"{bias}, {'own units' if self.own_units else 'common units'}"


FORMS = tuple(Form(signs, own_units) for signs in (False, True) for own_units in (False, True))


@dataclass(frozen=True)
class MixtureFit:
    """A fitted mixture, and what the fit learned about the pairs.

    Attributes:
        trust: (m,) how sure it is that each pair is one, and not a copy beside the wrong origin.
        wrong: the share of the pairs that are not.
        log_likelihood: mean over the observed entries.
    """

    variant: MixtureVariant
    form: Form
    trust: Tensor
    wrong: float
    log_likelihood: float


# Values up to this share of the largest number of their precision have differences, and up to this value have squares
# in double precision, whose sums are numbers.
LARGEST_SHARE, LARGEST = 1e-6, 1e150


def fit_mixture(
    originals: Tensor,
    copies: Tensor,
    weights: Tensor | None = None,
    form: Form | None = None,
    start: MixtureFit | None = None,
    is_trusted: bool = False,
    steps: int = EM_STEPS,
    settings: MixtureSettings = DEFAULT.mixture,
) -> MixtureFit:
    """The most likely mixture for pairs of rows (m, d); of all forms, unless one is asked for.

    Args:
        start: a fit to much the same pairs, whose form is kept; a few steps lead from it to this one.
        is_trusted: the weights know already which pairs look wrong.
        steps: at most so many.
    """
    dtype = copies.dtype
    _check_differences(originals, copies)
    pairs = _pairs(originals, copies, weights, settings)
    if start is not None:
        fitted = _fit(pairs, start.form, steps, is_trusted, start)
    else:
        fitted = _best(pairs, is_trusted) if form is None else _fit(pairs, form, steps, is_trusted)
    return replace(fitted, variant=fitted.variant.to(dtype))


def _check_differences(originals: Tensor, copies: Tensor) -> None:
    """Refuse differences whose squares overflow: the fit takes their means, in units of their own."""
    for rows in (originals, copies):
        known = rows[~rows.isnan()]
        largest = float(known.abs().max()) if len(known) else 0.0
        if largest > min(LARGEST, LARGEST_SHARE * torch.finfo(rows.dtype).max):
            raise InvalidValueError(
                f"The values are too large for {rows.dtype}: some are {largest:.2g}, and their differences overflow. "
                "Write NaN where that stands for a value that was not observed, or divide by a common scale."
            )


def _best(pairs: PairedRows, is_trusted: bool) -> MixtureFit:
    return max((_fit(pairs, form, EM_STEPS, is_trusted) for form in _likely_forms(pairs, is_trusted)), key=_worth)


def _likely_forms(pairs: PairedRows, is_trusted: bool) -> list[Form]:
    """Those that a part of the pairs cannot tell from the best."""
    part = pairs.part(TRIAL_PAIRS, MIXTURE_TRIAL_ENTRIES)
    trials = [_fit(part, form, MIXTURE_TRIAL_STEPS, is_trusted) for form in FORMS]
    best = max(_worth(trial) for trial in trials)
    return [trial.form for trial in trials if _worth(trial) > best - pairs.settings.tied_form_nats]


def _worth(trial: MixtureFit) -> float:
    """Log-likelihood of an entry, less what units of each dimension cost: two numbers each, by Schwarz's criterion."""
    pairs = len(trial.trust)
    return trial.log_likelihood - (log(pairs) / pairs if trial.form.own_units and pairs else 0.0)


def _pairs(originals: Tensor, copies: Tensor, weights: Tensor | None, settings: MixtureSettings) -> PairedRows:
    weights = torch.ones(len(copies), dtype=torch.float64) if weights is None else weights.double()
    return PairedRows(originals.double(), copies.double(), weights, settings)


def _fit(pairs: PairedRows, form: Form, steps: int, is_trusted: bool, start: MixtureFit | None = None) -> MixtureFit:
    given = None if start is None else Start(start.variant, start.trust, start.wrong)
    problem = Expectation(pairs, form.signs, form.own_units, given, is_trusted)
    state, trust, likelihood = problem.solve(steps, is_trial=steps == MIXTURE_TRIAL_STEPS)
    middle, scale = problem.middle, problem.scale
    variant = MixtureVariant(pairs.copies.shape[1], form.signs).double()
    shift = 0 if form.signs else state.bias
    variant.gain.copy_(state.gain)
    variant.bias.copy_(state.bias * scale + middle * (1 - state.gain))
    variant.std.copy_(state.std * scale)
    variant.outlier_rate.copy_(state.rate)
    variant.center.copy_((shift + problem.center) * scale + middle)
    variant.scale.copy_(scale)
    variant.population.copy_(pairs.population)
    variant.outliers.ends.copy_(problem.outliers.ends)
    variant.outliers.log_density.copy_(problem.outliers.log_density)
    pairs.gaps.fit(variant.missingness, pairs.weights * trust)
    counts = problem.entries.sums_by_dimension(problem.entries.of_pairs(torch.ones_like(trust)))
    per_entry = likelihood - float((counts * scale.log()).sum() / counts.sum().clamp_min(1))
    return MixtureFit(variant, form, trust, float(state.wrong), per_entry)
