"""The paper: its networks, dynamics, capacity and criteria."""

__all__ = ["capacity", "criteria", "dynamics", "zoo"]
