"""Operation: policies, watching, labels to ask for, linking of tables."""

__all__ = ["linking", "watching"]
