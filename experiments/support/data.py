"""Patterns to store: random vectors, digits, and tables of measurements."""

import gzip
import os
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Generator, Tensor
from torch.nn.functional import normalize

MNIST = "mnist/train-images-idx3-ubyte.gz"
MUSK = "mil/musk1.npz"


def uniform_patterns(count: int, dimensions: int, seed: int) -> Tensor:
    """Uniform in [-1, 1]^d, as the paper draws them."""
    return 2 * torch.rand(count, dimensions, generator=Generator().manual_seed(seed)) - 1


def mnist_patterns(count: int, seed: int) -> Tensor:
    """MNIST training images drawn without replacement, pixels scaled to [-1, 1], (count, 784)."""
    path = _in_data_folder(MNIST, "MNIST", "Download that file from an official copy of MNIST")
    images = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16).reshape(-1, 784)
    chosen = np.random.default_rng(seed).permutation(len(images))[:count]
    return torch.from_numpy(images[chosen].astype(np.float32) / 127.5 - 1)


def digits_table() -> Tensor:
    """The small digits of scikit-learn, pixels scaled to [-1, 1], (1797, 64)."""
    return torch.from_numpy(load_digits().data / 8 - 1).float()


def breast_cancer_table() -> Tensor:
    """Shapes of cell nuclei, from scikit-learn, columns scaled to a standard deviation of one, (569, 30)."""
    return _scaled(load_breast_cancer().data)


def musk_table() -> Tensor:
    """Shapes of molecules, the first Musk table of UCI, columns scaled to a standard deviation of one, (476, 166)."""
    path = _in_data_folder(MUSK, "Musk", "Save the 166 features of UCI's `Musk (Version 1)` there as the array `X`")
    with np.load(path) as file:
        return _scaled(np.unique(file["X"].astype(float), axis=0))


def debian_texts(model: str) -> tuple[Tensor, Tensor]:
    """Short and long descriptions of Debian packages as unit vectors of a text model, row by row of the same package.

    Args:
        model: "wl256", WordLlama, 20,000 packages; or "minilm384", all-MiniLM-L6-v2, 3,500 others.
    """
    short, long = (_embedded(f"debian_text/{model}_{length}.npy") for length in ("short", "long"))
    return short, long


def _embedded(name: str) -> Tensor:
    path = _in_data_folder(name, "A text model's view of Debian packages", "Save the embeddings there, a row each")
    return normalize(torch.from_numpy(np.load(path).astype(np.float32)), dim=-1)


def _scaled(table: np.ndarray) -> Tensor:
    spread = table.std(0)
    return torch.from_numpy((table - table.mean(0)) / np.where(spread > 0, spread, 1)).float()


def _in_data_folder(name: str, what: str, mend: str) -> Path:
    folder = os.environ.get("AHOP_DATA")
    if folder is None or not (Path(folder) / name).exists():
        raise FileNotFoundError(
            f"{what} is read from $AHOP_DATA/{name}. {mend}, "
            f"and set AHOP_DATA to the folder above `{Path(name).parent}`."
        )
    return Path(folder) / name
