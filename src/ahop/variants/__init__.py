"""Variants: distributions of queries around stored patterns."""

import ahop._core.with_torch  # noqa: F401
from ahop.variants.base import FactorizedVariant, Pairs, Variant
from ahop.variants.biased import BiasedVariant
from ahop.variants.composed import ComposedVariant
from ahop.variants.heteroscedastic import HeteroscedasticVariant
from ahop.variants.masked import MaskedVariant
from ahop.variants.mixed import MixedVariant
from ahop.variants.mixture import MixtureVariant
from ahop.variants.noisy import NoisyVariant
from ahop.variants.nuisance import NuisanceVariant
from ahop.variants.posterior import log_posterior

__all__ = [
    "BiasedVariant",
    "ComposedVariant",
    "FactorizedVariant",
    "HeteroscedasticVariant",
    "MaskedVariant",
    "MixedVariant",
    "MixtureVariant",
    "NoisyVariant",
    "NuisanceVariant",
    "Pairs",
    "Variant",
    "log_posterior",
]
