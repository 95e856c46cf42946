"""Similarities as inner products: what each kind makes of a pattern, and of a query."""

from ahop.liftings.base import Lifting
from ahop.liftings.cosine import CosineLifting
from ahop.liftings.dot import DotLifting
from ahop.liftings.factored import FactoredLifting
from ahop.liftings.lift import LiftRequest, lifting_of
from ahop.liftings.moved import MovedLifting
from ahop.liftings.nuisance import NuisanceLifting
from ahop.liftings.quadratic import QuadraticLifting
from ahop.liftings.sum import SumLifting
from ahop.liftings.transformed import TransformedLifting

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
