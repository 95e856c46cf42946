"""Damage that real copies have: pictures shrunk, blurred and covered, spectra on another grid, coarse radios."""

import io
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import Generator, Tensor
from torch.nn.functional import interpolate

from ahop.variants import Variant
from experiments.datasets import load_sugarcane_nir, load_uji_indoorloc
from experiments.support.data import mnist_patterns

Damage: TypeAlias = Callable[[Tensor, Generator], Tensor]
COUNT = 2048


class Real(NamedTuple):
    """What is stored, by seed, and what happens to its copies."""

    patterns: Callable[[int], Tensor]
    damage: Damage


class DamagedVariant(Variant):
    """A damage as a distribution of copies, whose likelihood nobody knows."""

    handles_missing = True

    def __init__(self, name: str, damage: Damage) -> None:
        super().__init__()
        self.name = name
        self.damage = damage

    def configuration(self) -> dict[str, object]:
        return {"name": self.name}

    def corrupt(self, originals: Tensor, generator: Generator) -> Tensor:
        return self.damage(originals, generator)


def jpeg(values: Tensor, generator: Generator) -> Tensor:
    """Shrunk to eight by eight, kept as a JPEG of low quality, and enlarged again."""

    def damaged(image: Image.Image, _: float) -> Image.Image:
        file = io.BytesIO()
        image.resize((8, 8), Image.Resampling.BOX).save(file, "JPEG", quality=25)
        return Image.open(file).resize((28, 28), Image.Resampling.BICUBIC)

    return _by_picture(values, generator, damaged)


def blurred(values: Tensor, generator: Generator) -> Tensor:
    """A camera out of focus, by more or less."""
    return _by_picture(values, generator, lambda image, by: image.filter(ImageFilter.GaussianBlur(1 + 1.5 * by)))


def covered(values: Tensor, generator: Generator) -> Tensor:
    """A rectangle of some gray over a third of the picture."""
    pictures = values.clone().view(-1, 28, 28)
    for picture in pictures:
        high, wide = torch.randint(13, 20, (2,), generator=generator).tolist()
        top = int(torch.randint(0, 29 - high, (), generator=generator))
        left = int(torch.randint(0, 29 - wide, (), generator=generator))
        picture[top : top + high, left : left + wide] = 2 * torch.rand((), generator=generator) - 1
    return pictures.view(values.shape)


def resampled(values: Tensor, generator: Generator) -> Tensor:
    """Seen by an instrument with a coarse grid that is shifted anew each time, and a lamp that drifts."""
    size, found = values.shape[1], []
    for row in values:
        start = torch.rand((), generator=generator) * 24
        places = torch.arange(float(start), size - 1, 24.0)
        left = places.long()
        sampled = torch.lerp(row[left], row[(left + 1).clamp_max(size - 1)], places - left)
        slope = 0.03 * torch.randn((), generator=generator) * torch.linspace(-1, 1, size)
        again = interpolate(sampled.view(1, 1, -1), size=size, mode="linear", align_corners=True).view(-1)
        found.append(again + slope + 0.01 * torch.randn(size, generator=generator))
    return torch.stack(found)


def coarse(values: Tensor, generator: Generator) -> Tensor:
    """A cheap radio: 4 dB of noise, steps of 10 dB, and nothing below -85 dBm."""
    noisy = values + 4 * torch.randn(values.shape, generator=generator)
    heard = 10 * (noisy / 10).round()
    return heard.masked_fill(heard < -85, torch.nan)


def spectra(seed: int) -> Tensor:
    """Near-infrared spectra of sugarcane from the instrument with the finest grid."""
    survey = load_sugarcane_nir()
    finest = max(survey.instruments.values(), key=lambda each: len(each.wavelengths))
    return torch.from_numpy(finest.absorbance).float()


def radio_map(seed: int) -> Tensor:
    """One Wi-Fi scan with at least eight access points for each place."""
    scans = load_uji_indoorloc().train
    usable = np.flatnonzero((~np.isnan(scans.rssi)).sum(1) >= 8)
    usable = np.random.default_rng(seed).permutation(usable)
    places = np.column_stack([scans.building, scans.floor, scans.coordinates.round(1)])[usable]
    return torch.from_numpy(scans.rssi[usable[np.unique(places, axis=0, return_index=True)[1]]])


REAL: dict[str, Real] = {
    "digits, small JPEG": Real(lambda seed: mnist_patterns(COUNT, seed), jpeg),
    "digits, blurred": Real(lambda seed: mnist_patterns(COUNT, seed), blurred),
    "digits, covered": Real(lambda seed: mnist_patterns(COUNT, seed), covered),
    "spectra, resampled": Real(spectra, resampled),
    "Wi-Fi, coarse radio": Real(radio_map, coarse),
}


def _by_picture(values: Tensor, generator: Generator, damaged: Callable[[Image.Image, float], Image.Image]) -> Tensor:
    """Each row as a gray picture of 28 by 28, damaged by more or less."""
    grays = ((values.view(-1, 28, 28) + 1) * 127.5).clamp(0, 255).byte().numpy()
    amounts = torch.rand(len(values), generator=generator).tolist()
    found = [np.asarray(damaged(Image.fromarray(gray), by)) for gray, by in zip(grays, amounts, strict=True)]
    return torch.from_numpy(np.stack(found).astype(np.float32) / 127.5 - 1).view(values.shape)
