"""Whole tables at once: which rows of two tables belong together, and which rows of one are the same."""

from ahop.linking.duplicates import Duplicates
from ahop.linking.links import Links, Unmatched

__all__ = ["Duplicates", "Links", "Unmatched"]
