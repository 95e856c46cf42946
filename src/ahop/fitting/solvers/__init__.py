"""Solvers for memories whose similarity or modulation has coefficients of its own."""
