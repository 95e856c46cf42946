"""Convex quadratics over a cone: some coordinates must not be negative."""

from dataclasses import dataclass

import torch
from torch import Tensor

# Steps of the projected Newton method, and how often a step is halved before it is given up.
CONE_STEPS, HALVINGS = 200, 40


@dataclass(frozen=True)
class Cone:
    r"""Coefficients $c = w D$ with $w_i \ge 0$ where bounded.

    Attributes:
        directions: (p, p), the rows of $D$; they span all coefficients.
        bounded: (p,), which of the mixture's weights must not be negative.
    """

    directions: Tensor
    bounded: Tensor

    def mixture(self, coefficients: Tensor) -> Tensor:
        """The weights of the directions, those that must not be negative cut off at zero."""
        weights: Tensor = torch.linalg.solve(self.directions.mT, coefficients)
        return torch.where(self.bounded, weights.clamp_min(0), weights)

    def nearest(self, coefficients: Tensor) -> Tensor:
        """Coefficients inside the cone; those that are inside already stay as they are."""
        return self.mixture(coefficients) @ self.directions

    def step(self, coefficients: Tensor, gradient: Tensor, hessian: Tensor) -> Tensor:
        r"""$\arg\min_\Delta g^\top \Delta + \tfrac12 \Delta^\top H \Delta$ over the $\Delta$ that stay inside."""
        start = self.mixture(coefficients)
        slope, bend = self.directions @ gradient, self.directions @ hessian @ self.directions.mT
        return (_minimum(bend, slope - bend @ start, start, self.bounded) - start) @ self.directions


def _minimum(hessian: Tensor, linear: Tensor, start: Tensor, bounded: Tensor) -> Tensor:
    r"""$\arg\min_z \tfrac12 z^\top H z + b^\top z$, $z_i \ge 0$ where bounded: Newton on what is free, projected.

    Converges in finitely many steps, as the quadratic is strictly convex: the set of active bounds settles.
    """
    place, scale = start.clone(), hessian.diagonal().clamp_min(1e-300).sqrt()
    for _ in range(CONE_STEPS):
        gradient = hessian @ place + linear
        free = ~(bounded & (place <= 0) & (gradient >= 0))
        if not bool(free.any()) or float((gradient / scale)[free].abs().max()) < 1e-12 * (
            1 + float(linear.abs().max())
        ):
            break
        part = hessian[free][:, free]
        move = torch.zeros_like(place)
        move[free] = -torch.linalg.solve(part + 1e-14 * torch.diag(part.diagonal()), gradient[free])
        length, value = 1.0, _value(hessian, linear, place)
        for _ in range(HALVINGS):
            moved = place + length * move
            moved = torch.where(bounded, moved.clamp_min(0), moved)
            if _value(hessian, linear, moved) < value:
                break
            length /= 2
        else:
            break
        place = moved
    return place


def _value(hessian: Tensor, linear: Tensor, place: Tensor) -> float:
    return float(place @ (0.5 * (hessian @ place) + linear))
