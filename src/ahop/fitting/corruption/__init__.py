"""Estimates of how queries are corrupted."""
