"""Faults and attacks on real processes and real files, counted: `python -m faults`."""
