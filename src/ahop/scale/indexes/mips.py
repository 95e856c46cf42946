"""Maximum inner product search by the metrics that engines offer."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

Geometry: TypeAlias = Literal["inner", "augmented", "distance"]
GEOMETRIES: tuple[Geometry, ...] = ("augmented", "inner", "distance")

BLOCK = 65536


@dataclass(frozen=True)
class Placing:
    """Map between vectors and the space of an engine, and the meaning of its numbers.

    Attributes:
        geometry: "inner" for engines that know inner products; "augmented" gives each row one more coordinate that
            makes all of them equally long, so that the nearest is the best; "distance" is for liftings that are
            distances, whose last coordinate is the squared length.
        center: taken off every row, which is the same number for all rows of a query.
        radius: the length that all rows get.
    """

    geometry: Geometry
    center: Tensor
    radius: float = 0.0

    @classmethod
    def of(cls, vectors: Tensor, geometry: Geometry) -> "Placing":
        if geometry == "distance":
            return cls(geometry, torch.zeros(vectors.shape[1]))
        parts = [vectors[at : at + BLOCK] for at in range(0, len(vectors), BLOCK)]
        # Block by block: of all rows at once torch would make a copy in double precision.
        center = (sum((part.double().sum(0) for part in parts), torch.zeros(())) / len(vectors)).float().cpu()
        if geometry == "inner":
            return cls(geometry, center)
        return cls(geometry, center, max(float((part.float().cpu() - center).norm(dim=-1).max()) for part in parts))

    @property
    def size(self) -> int:
        """Dimensions of a row."""
        return len(self.center) + {"inner": 0, "augmented": 1, "distance": -1}[self.geometry]

    def places(self, vectors: Tensor) -> Tensor:
        """Rows as the engine gets them."""
        places = vectors.detach().float().cpu()
        places = places[:, :-1] if self.geometry == "distance" else places - self.center
        if self.geometry == "augmented":
            rest = (self.radius**2 - places.square().sum(-1, keepdim=True)).clamp_min(0).sqrt()
            places = torch.cat([places, rest], dim=-1)
        return places

    def asked(self, queries: Tensor) -> Tensor:
        """Queries as the engine gets them."""
        asked = queries.detach().float().cpu()
        if self.geometry == "distance":
            return asked[:, :-1]
        return pad(asked, (0, 1)) if self.geometry == "augmented" else asked

    def scores(self, numbers: Tensor, queries: Tensor) -> Tensor:
        """Inner products with the rows as they were given, from the engine's inner products or squared distances."""
        squared = self.asked(queries).square().sum(-1, keepdim=True)
        if self.geometry == "distance":
            return 0.5 * (squared - numbers)
        common = (queries.detach().float().cpu() @ self.center).unsqueeze(-1)
        if self.geometry == "inner":
            return numbers + common
        return 0.5 * (squared + self.radius**2 - numbers) + common
