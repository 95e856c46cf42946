"""Color pictures as broken sensors see them: something in front, a channel that lies, noise and dead pixels.

How strong each fault is was set by looking at fixed metrics alone, on patches that no experiment uses, so that the best
of them still finds between a third and four fifths of the damaged patches.
"""

import torch
from torch import Generator, Tensor

COVERED = (0.25, 0.6)  # the sides of what is in front, in units of the side of a patch
BIAS = 0.2  # of the whole range, up or down
STUCK = 0.3  # the share of patches whose lying channel reads its highest value in the place of a bias
NOISE = 0.05
DEAD = 0.25  # the share of the pixels of a dying channel


def break_patches(patches: Tensor, generator: Generator) -> Tensor:
    """Patches (n, 3, side, side) with values in [0, 1], all of them damaged.

    In each, a rectangle of one color is in front; one channel is shifted, or stuck at its highest value; there is
    noise; and pixels of another channel are dead and read zero.
    """
    count, side = len(patches), patches.shape[-1]
    color = torch.rand(count, 3, 1, 1, generator=generator)
    seen = torch.where(_rectangles(count, side, generator), color, patches)
    # Two channels for each patch: the lying one has rank 0, the dying one rank 1.
    ranks = torch.rand(count, 3, generator=generator).argsort(dim=1)[..., None, None]
    up_or_down = 2 * torch.randint(2, (count, 1, 1, 1), generator=generator) - 1
    is_stuck = torch.rand(count, 1, 1, 1, generator=generator) < STUCK
    shift = torch.where(is_stuck, 1.0, BIAS * up_or_down)
    noise = NOISE * torch.randn(patches.shape, generator=generator)
    read = (seen + shift * (ranks == 0) + noise).clamp(0, 1)
    is_dead = torch.rand(count, 1, side, side, generator=generator) < DEAD
    return read.masked_fill(is_dead & (ranks == 1), 0)


def break_pictures(pictures: Tensor, side: int, share: float, generator: Generator) -> Tensor:
    """Pictures (n, 3, height, width) with values in [0, 1], this share of whose patches is damaged, each by itself.

    Args:
        side: of the patches.
    """
    # (n, 3, down, side, across, side): patches as places, for a while.
    count, colors, height, width = pictures.shape
    cut = pictures.view(count, colors, height // side, side, width // side, side).permute(0, 2, 4, 1, 3, 5)
    patches = cut.flatten(0, 2)
    is_broken = torch.rand(len(patches), generator=generator) < share
    patches[is_broken] = break_patches(patches[is_broken], generator)
    return patches.view(cut.shape).permute(0, 3, 1, 4, 2, 5).reshape(pictures.shape)


def _rectangles(count: int, side: int, generator: Generator) -> Tensor:
    """(count, 1, side, side), True in a rectangle that lies anywhere within the patch."""
    least, most = (round(share * side) for share in COVERED)
    sizes = torch.randint(least, most + 1, (count, 2, 1), generator=generator)
    starts = (torch.rand(count, 2, 1, generator=generator) * (side + 1 - sizes)).long()
    places = torch.arange(side)
    down, across = ((places >= starts) & (places < starts + sizes)).unbind(1)
    return (down[:, :, None] & across[:, None, :]).unsqueeze(1)
