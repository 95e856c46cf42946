"""Associative memory: model, recall, ranking, unknown queries, explanation, report, files."""

__all__ = ["likelihood", "posteriors", "reference", "report", "unknown"]
