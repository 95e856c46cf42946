"""Similarities as inner products: what each kind makes of a pattern, and of a query."""

import ahop._core.with_torch  # noqa: F401
from ahop.scale.liftings.base import Lifting
from ahop.scale.liftings.factored import FactoredLifting
from ahop.scale.liftings.forward import ForwardLifting
from ahop.scale.liftings.gaussian import NuisanceLifting
from ahop.scale.liftings.lift import LiftRequest, lifting_of
from ahop.scale.liftings.products import CosineLifting, DotLifting, QuadraticLifting
from ahop.scale.liftings.wrapping import MovedLifting, SumLifting, TransformedLifting

__all__ = [
    "CosineLifting",
    "DotLifting",
    "FactoredLifting",
    "ForwardLifting",
    "LiftRequest",
    "Lifting",
    "MovedLifting",
    "NuisanceLifting",
    "QuadraticLifting",
    "SumLifting",
    "TransformedLifting",
    "lifting_of",
]
