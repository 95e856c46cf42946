"""Similarities as inner products: what each kind makes of a pattern, and of a query."""

from ahop.scale.liftings.base import Lifting
from ahop.scale.liftings.cosine import CosineLifting
from ahop.scale.liftings.dot import DotLifting
from ahop.scale.liftings.factored import FactoredLifting
from ahop.scale.liftings.lift import LiftRequest, lifting_of
from ahop.scale.liftings.moved import MovedLifting
from ahop.scale.liftings.nuisance import NuisanceLifting
from ahop.scale.liftings.quadratic import QuadraticLifting
from ahop.scale.liftings.sum import SumLifting
from ahop.scale.liftings.transformed import TransformedLifting

__all__ = [
    "CosineLifting",
    "DotLifting",
    "FactoredLifting",
    "LiftRequest",
    "Lifting",
    "MovedLifting",
    "NuisanceLifting",
    "QuadraticLifting",
    "SumLifting",
    "TransformedLifting",
    "lifting_of",
]
