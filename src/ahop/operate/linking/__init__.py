"""Whole tables at once: which rows of two tables belong together."""

from ahop.operate.linking.links import Links, Unmatched

__all__ = ["Links", "Unmatched"]
