"""The best of very many stored patterns: exhaustive, or by engines whose settings were calibrated."""
