"""Near-infrared spectra of the same samples on two spectrometers."""

import numpy as np
import torch
from experiments.datasets import load_sugarcane_nir

import ahop


def spectra_and_copies() -> tuple[torch.Tensor, ahop.Pairs]:
    """The spectra of the instrument with the finest grid, and those of another one on that grid."""
    by_grid = sorted(load_sugarcane_nir().instruments.values(), key=lambda each: len(each.wavelengths))
    stored, other = by_grid[-1], by_grid[-2]
    shared = (stored.wavelengths >= other.wavelengths[0]) & (stored.wavelengths <= other.wavelengths[-1])
    grid = stored.wavelengths[shared]
    copies = np.stack([np.interp(grid, other.wavelengths, row) for row in other.absorbance])
    rows = torch.from_numpy(np.random.default_rng(0).permutation(len(copies)))
    asked = torch.from_numpy(copies.astype(np.float32))
    return torch.from_numpy(stored.absorbance[:, shared].astype(np.float32)), ahop.Pairs(rows, asked[rows])
