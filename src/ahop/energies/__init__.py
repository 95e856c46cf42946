"""Energies of states, one for each kind of network."""
