"""Engines: rows of vectors, and those whose inner product with a query is largest."""
