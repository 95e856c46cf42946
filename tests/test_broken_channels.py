"""Pictures are damaged as is said: by the seed alone, within the range of values, in the share that was asked for."""

import torch
from experiments.support.broken_channels import BIAS, DEAD, break_patches, break_pictures
from torch import Generator, Tensor

GRAY = torch.full((2000, 3, 8, 8), 0.5)


def seeded(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def of_patches(pictures: Tensor) -> Tensor:
    """(n, 16): whether anything differs from gray in each of the patches of pictures of 32 x 32."""
    differs = (pictures != 0.5).any(1)
    return differs.view(-1, 4, 8, 4, 8).any(dim=(2, 4)).flatten(1)


def test_damage_is_drawn_by_the_seed() -> None:
    assert torch.equal(break_patches(GRAY, seeded(1)), break_patches(GRAY, seeded(1)))
    assert not torch.equal(break_patches(GRAY, seeded(1)), break_patches(GRAY, seeded(2)))


def test_values_stay_within_their_range_and_what_was_given_stays_as_it_was() -> None:
    patches = torch.rand(500, 3, 8, 8, generator=seeded(0))
    kept = patches.clone()
    damaged = break_patches(patches, seeded(1))
    assert 0 <= damaged.min() <= damaged.max() <= 1
    assert torch.equal(patches, kept)


def test_every_patch_has_one_channel_that_lies_and_another_with_dead_pixels() -> None:
    damaged = break_patches(GRAY, seeded(1)).flatten(2)
    dead, off = (damaged == 0).double().mean(-1), (damaged.median(-1).values - 0.5).abs()
    assert abs(float(dead.max(1).values.mean()) - DEAD) < 0.05
    assert (off.max(1).values > BIAS / 2).all()
    # Now and then something black or white in front looks like either.
    assert (dead.argmax(1) != off.argmax(1)).double().mean() > 0.95


def test_half_of_the_patches_of_a_picture_are_left_as_they_are() -> None:
    pictures = torch.full((500, 3, 32, 32), 0.5)
    damaged = break_pictures(pictures, 8, 0.5, seeded(1))
    assert damaged.shape == pictures.shape
    assert abs(float(of_patches(damaged).double().mean()) - 0.5) < 0.03
    assert torch.equal(break_pictures(pictures, 8, 0.0, seeded(1)), pictures)


def test_a_patch_that_is_left_stays_in_its_place() -> None:
    pictures = torch.rand(50, 3, 32, 32, generator=seeded(0))
    same = (break_pictures(pictures, 8, 0.5, seeded(1)) == pictures).all(1).view(-1, 4, 8, 4, 8).all(dim=2).all(dim=-1)
    assert 0.4 < float(same.double().mean()) < 0.6
