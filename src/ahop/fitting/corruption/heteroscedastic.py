"""Fit a mixture to values whose standard deviations are known, up to a factor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, pi
from typing import final

import torch
from torch import Tensor

from ahop._core.columns import place_of
from ahop._core.missing import midpoints, quantiles
from ahop._core.typing import Patterns
from ahop._core.words import told
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.corruption.mixture import Form, MixtureFit, fit_mixture
from ahop.fitting.settings import DEFAULT, MixtureSettings
from ahop.variants.heteroscedastic import NO_ERROR, HeteroscedasticVariant
from ahop.variants.mixture import POPULATION, MixtureVariant

# The steps move each variance by the square root of what it lacks: after so many the log-likelihood stands still.
STEPS = 60
# Entries of each column that are taken for granted, with the noise of the mixture less what all columns have lost.
EXPECTED_FOR_NOISE = 4.0
# Entries of each column that are taken for granted, with the outliers of all columns.
EXPECTED_FOR_RATE = 10.0
# Noise of a column is never below this share of that of its mixture, nor zero.
LEAST_NOISE = 1e-3


@final
@dataclass(frozen=True)
class ErrorColumns:
    """Columns of values, and those of their standard deviations.

    Attributes:
        values: places of the columns of values.
        errors: of each of these the place of the column of its standard deviations; -1 if there is none.
    """

    values: tuple[int, ...]
    errors: tuple[int, ...]

    @property
    def pairs(self) -> dict[int, int]:
        """The places of the columns of standard deviations, by those of their values."""
        return {value: error for value, error in zip(self.values, self.errors, strict=True) if error != NO_ERROR}

    def check(self, name: str, rows: Tensor) -> None:
        """Refuse standard deviations below zero."""
        if bool((rows[:, list(self.pairs.values())] < 0).any()):
            raise InvalidValueError(
                f"`{name}` hold standard deviations below zero. Write NaN where one is not known, and zero where a "
                "value is exact."
            )


def fit_heteroscedastic(
    patterns: Patterns,
    originals: Tensor,
    copies: Tensor,
    weights: Tensor,
    columns: ErrorColumns,
    mixture: MixtureFit,
    settings: MixtureSettings = DEFAULT.mixture,
) -> HeteroscedasticVariant:
    """The most likely noise beyond the standard deviations, and their factor, from what a mixture has found.

    Args:
        patterns: (p, d) whose standard deviations stand for those of all stored rows.
        originals: (m, d).
        copies: (m, d).
        weights: (m,) how much each pair counts.
        mixture: of the values alone.
    """
    dtype = copies.dtype
    if mixture.form.signs:
        form = Form(False, mixture.form.own_units)
        values = list(columns.values)
        mixture = fit_mixture(originals[:, values], copies[:, values], weights, form, settings=settings)
    base = MixtureVariant(len(columns.values)).double()
    base.load_state_dict(mixture.variant.state_dict())
    variant = HeteroscedasticVariant(base, columns.values, columns.errors).double()
    stored, asked = variant.split(originals.double()), variant.split(copies.double())
    of_patterns = variant.split(patterns.double())
    of_stored = of_patterns.errors.masked_fill(~of_patterns.known, torch.nan)
    variant.stored_errors.copy_(of_stored.nanmedian(0).values.nan_to_num())
    of_asked = asked.errors.masked_fill(~asked.known, torch.nan)
    variant.asked_errors.copy_(quantiles(of_asked, midpoints(POPULATION)).nan_to_num())
    known = stored.known & asked.known
    given = (asked.errors.square() + (base.gain * stored.errors).square()).where(known, 0)
    if bool(((given > 0) & (weights.unsqueeze(-1) > 0)).any()):
        _solve(variant, stored.values, asked.values, given, known * weights.double().unsqueeze(-1))
    return variant.to(dtype)


def _solve(variant: HeteroscedasticVariant, stored: Tensor, asked: Tensor, given: Tensor, weights: Tensor) -> None:
    """Maximize the likelihood, a step for each block of numbers after the other.

    Variances move by the minorization of Zhou and others (2019): each is multiplied by the square root of the ratio of
    its part of the squared residuals to its part of the variance, which never lowers the likelihood.
    """
    base = variant.base
    first, first_bias, entries = base.std.square().clone(), base.bias.clone(), weights.sum(0)
    outliers = base.log_outliers(asked) - base.outlier_rate.log()
    noise, rate, bias = first / 2, base.outlier_rate.clone(), first_bias.clone()
    has_error = (given > 0) & (weights > 0)
    factor = (first / (2 * given))[has_error].median()  # half of the noise, to begin with
    residuals = asked - base.gain * stored
    for _ in range(STEPS):
        variance = noise + factor * given
        rest = residuals - bias
        kept = torch.log1p(-rate) - 0.5 * (rest.square() / variance + variance.log()) - 0.5 * log(2 * pi)
        share = weights * torch.sigmoid(kept - outliers - rate.log())
        precise = share / variance
        bias = ((precise * residuals).sum(0) + EXPECTED_FOR_NOISE / noise * first_bias) / (
            precise.sum(0) + EXPECTED_FOR_NOISE / noise
        )
        rest = (residuals - bias).square()
        seen, there = (precise / variance * rest).sum(0), precise.sum(0)
        expected = first * ((entries * (noise / first).log()).sum() / entries.sum()).exp()
        ratio = (seen + EXPECTED_FOR_NOISE * expected / noise.square()) / (there + EXPECTED_FOR_NOISE / noise)
        noise = torch.maximum(noise * ratio.sqrt(), LEAST_NOISE**2 * first)
        variance = noise + factor * given
        precise = share / variance
        above, below = (precise / variance * rest * given).sum(), (precise * given).sum()
        factor = factor * (above / below.clamp_min(1e-300)).sqrt()
        lost = entries - share.sum(0)
        overall = lost.sum() / entries.sum().clamp_min(1e-300)
        rate = ((lost + EXPECTED_FOR_RATE * overall) / (entries + EXPECTED_FOR_RATE)).clamp(1e-6, 1 - 1e-6)
    base.std.copy_(noise.sqrt())
    base.bias.copy_(bias)
    base.outlier_rate.copy_(rate)
    variant.factor.copy_(factor.sqrt())


def error_columns(given: object, dimensions: int, columns: Sequence[str] | None) -> ErrorColumns | None:
    """Columns of values and of their standard deviations, as they are named, or end, or stand."""

    def place(each: str | int) -> int:
        return place_of("errors", each, dimensions, columns)

    if isinstance(given, bool):
        pairs = _halves(dimensions) if given else {}
    elif isinstance(given, str):
        pairs = _by_ending(given, columns or ())
    elif isinstance(given, Mapping):
        pairs = {place(value): place(error) for value, error in given.items()}
    else:
        raise InvalidTypeError(
            "`errors` must say which columns hold standard deviations: `errors={'mass': 'mass_std'}`, "
            f"`errors='_std'` for names that end so, or True for the second half of the columns; got {given!r}."
        )
    if not pairs:
        return None
    of_errors = set(pairs.values())
    if len(of_errors) < len(pairs) or of_errors & pairs.keys():
        raise InvalidValueError(
            "`errors` must name a column of standard deviations for each column once, and none that holds values."
        )
    values = tuple(place for place in range(dimensions) if place not in of_errors)
    return ErrorColumns(values, tuple(pairs.get(place, NO_ERROR) for place in values))


def _halves(dimensions: int) -> dict[int, int]:
    if dimensions % 2:
        raise InvalidValueError(
            f"`errors=True` means that the second half of the columns are standard deviations; there are {dimensions}. "
            "Write rows as `ahop.with_errors(values, errors)`."
        )
    return {place: place + dimensions // 2 for place in range(dimensions // 2)}


def _by_ending(ending: str, columns: Sequence[str]) -> dict[int, int]:
    place = {name: where for where, name in enumerate(columns)}
    alone = [name for name in columns if ending and name.endswith(ending) and name.removesuffix(ending) not in place]
    if alone:
        raise InvalidValueError(
            f"`errors={ending!r}` finds no column of values beside {told(alone)}. Leave it out, or name the others: "
            "`errors={'mass': 'mass_std'}`."
        )
    found = {
        place[name.removesuffix(ending)]: where for name, where in place.items() if name.removesuffix(ending) in place
    }
    found = {value: error for value, error in found.items() if value != error}
    if not ending or not found:
        known = "none has a name" if not columns else f"there are {told(list(columns))}"
        raise InvalidValueError(
            f"`errors={ending!r}` means columns whose name is that of another and ends so; of columns {known}."
        )
    return found
