"""Patterns to store: random vectors, and digits."""

import gzip
import os
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

MNIST = "mnist/train-images-idx3-ubyte.gz"


def uniform_patterns(count: int, dimensions: int, seed: int) -> Tensor:
    """Uniform in [-1, 1]^d, as the paper draws them."""
    return 2 * torch.rand(count, dimensions, generator=Generator().manual_seed(seed)) - 1


def mnist_patterns(count: int, seed: int) -> Tensor:
    """MNIST training images drawn without replacement, pixels scaled to [-1, 1], (count, 784)."""
    folder = os.environ.get("AHOP_DATA")
    if folder is None or not (Path(folder) / MNIST).exists():
        raise FileNotFoundError(
            f"MNIST is read from $AHOP_DATA/{MNIST}. Download that file from an official copy of MNIST "
            "and set AHOP_DATA to the folder above `mnist`."
        )
    raw = gzip.decompress((Path(folder) / MNIST).read_bytes())
    images = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784)
    chosen = np.random.default_rng(seed).permutation(len(images))[:count]
    return torch.from_numpy(images[chosen].astype(np.float32) / 127.5 - 1)
