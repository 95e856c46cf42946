"""Whole tables at once: which rows of two tables belong together."""

import ahop._core.with_torch  # noqa: F401
from ahop.operate.linking.links import Links, Unmatched

__all__ = ["Links", "Unmatched"]
