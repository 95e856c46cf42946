"""Recall without torch."""

__all__ = ["scorer"]
