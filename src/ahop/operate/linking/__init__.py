"""Whole tables at once: which rows of two tables belong together."""

import ahop._core.with_torch  # noqa: F401
from ahop.operate.linking.comparisons import Comparison
from ahop.operate.linking.links import Links, Unmatched
from ahop.operate.linking.misnamed import Misnamed

__all__ = ["Comparison", "Links", "Misnamed", "Unmatched"]
