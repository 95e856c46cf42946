"""Noise with shared directions and a gain: one Gaussian for each pattern."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.missing import holds_nan
from ahop._core.typing import Patterns, Queries
from ahop.errors import UnsupportedError
from ahop.scale.liftings.base import Lifting
from ahop.variants.nuisance import NuisanceVariant


@final
class NuisanceLifting(Lifting):
    r"""$s = \frac{t}{h} + \frac{\gamma^2}{2h} t^2 - \frac{\lVert u \rVert^2}{2h} - \frac12 \log h$, $t = u^\top v$.

    $u$ and $v$ are pattern and query, whitened by what all patterns have in common, and $h = 1 + \gamma^2 \lVert u
    \rVert^2$ is what the gain adds. Without a gain this is a distance. With one, $t^2$ is an inner product of products
    of coordinates; they are taken along the main directions of the patterns only.

    Args:
        terms: the number of such directions.
    """

    white: Tensor
    place: Tensor
    bias: Tensor
    gain: Tensor
    main: Tensor

    def __init__(self, dimensions: int, terms: int = 0, is_distance: bool = True) -> None:
        super().__init__()
        self.dimensions, self.terms, self.is_distance = check_count("dimensions", dimensions), int(terms), is_distance
        self.size = dimensions + 1 + terms * (terms + 1) // 2
        self.register_buffer("white", torch.eye(dimensions, dtype=torch.float64))
        self.register_buffer("place", torch.zeros(dimensions, dtype=torch.float64))
        self.register_buffer("bias", torch.zeros(dimensions, dtype=torch.float64))
        self.register_buffer("gain", torch.zeros((), dtype=torch.float64))
        self.register_buffer("main", torch.zeros(dimensions, terms, dtype=torch.float64))

    @classmethod
    def of(cls, variant: NuisanceVariant, patterns: Patterns, terms: int) -> "NuisanceLifting":
        _refuse(patterns)
        gain = variant.gain_std.double().square()
        lifting = cls(variant.dimensions, terms, is_distance=not bool(gain))
        std, directions = variant.std.double(), variant.directions.double()
        covariance = torch.diag(std.square()) + directions @ directions.mT
        # x' P x is the square of x' L, if L is the inverse of the upper factor.
        factor = torch.linalg.cholesky(covariance)
        lifting.white.copy_(torch.linalg.solve_triangular(factor, torch.eye(len(std)).double(), upper=False).mT)
        lifting.place.copy_(variant.center)
        lifting.bias.copy_(variant.bias)
        lifting.gain.copy_(gain)
        places = (patterns.double() - lifting.place) @ lifting.white
        weighted = places / (1 + gain * places.square().sum(-1, keepdim=True)).sqrt().sqrt()
        _, vectors = torch.linalg.eigh(weighted.mT @ weighted)
        lifting.main.copy_(vectors.flip(-1)[:, :terms])
        return lifting

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "terms": self.terms, "is_distance": self.is_distance}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        _refuse(patterns)
        places = (patterns - self.place.to(patterns)) @ self.white.to(patterns)
        square = places.square().sum(-1, keepdim=True)
        stretch = 1 + self.gain.to(patterns) * square
        alone = -0.5 * (square / stretch + stretch.log())
        products = self._products(places) * (0.5 * self.gain.to(patterns) / stretch)
        return torch.cat([places / stretch, alone, products], dim=-1)

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        _refuse(queries)
        places = (queries - (self.place + self.bias).to(queries)) @ self.white.to(queries)
        return torch.cat([places, places.new_ones(len(places), 1), self._products(places)], dim=-1)

    def _products(self, places: Tensor) -> Tensor:
        r"""All $\hat u_j \hat u_k$ with $j \le k$; twice the root of two where they differ, as they stand for two."""
        along = places @ self.main.to(places)
        left, right = torch.triu_indices(self.terms, self.terms, device=places.device)
        return along[:, left] * along[:, right] * torch.where(left == right, 1.0, 2**0.5).to(places)


def _refuse(values: Tensor) -> None:
    if holds_nan(values):
        raise UnsupportedError(
            "A low-rank nuisance with values that were not observed (NaN) is a Gaussian for each mask and cannot be "
            "lifted. Fill them, or lift a mixture fitted on the same pairs (`similarity='mixture'`) and rerank with "
            "this one."
        )
