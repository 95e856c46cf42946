"""Many patterns: liftings, indexes, stores, clusters."""

__all__ = ["cluster", "indexes", "liftings", "stores"]
