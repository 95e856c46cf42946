"""Base classes of variants: distributions of corrupted copies."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ahop._core.checks import check_count
from ahop._core.component import Component
from ahop._core.typing import Origins, Patterns, PerDimension, PerPattern, Queries, Scores
from ahop.errors import InvalidValueError, ShapeError, UnsupportedError


@dataclass(frozen=True)
class Pairs:
    """Corrupted copies, and the rows of the patterns that they came from."""

    origins: Origins
    queries: Queries

    def __post_init__(self) -> None:
        if len(self.origins) != len(self.queries):
            raise ShapeError(
                f"`origins` and `queries` must have the same length; got {len(self.origins)} and {len(self.queries)}."
            )

    def __len__(self) -> int:
        return len(self.origins)


class Variant(Component, ABC):
    r"""$\mathcal V(\Xi)$: draws pairs (origin, query) and knows, where it can, $\log p(x \mid \xi)$.

    Paper:
        [def:var-dis].
    """

    # Whether `log_likelihood` knows what to make of NaN, a value that was not observed.
    handles_missing: bool = False

    @abstractmethod
    def corrupt(self, originals: Queries, generator: Generator) -> Queries:
        """One damaged copy of each row."""

    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        r"""$\log p(x_b \mid \xi_n)$, (b, n)."""
        raise UnsupportedError(f"{self!r} has no closed-form likelihood. Learn one from its samples: `ahop.fit`.")

    def evidence(self, patterns: Patterns, queries: Queries) -> Scores:
        r"""$\log p(x_b \mid \xi_n)$ up to a number for each query; fitted variants count from no stored pattern."""
        return self.log_likelihood(patterns, queries)

    def sample(
        self, patterns: Patterns, count: int, seed: int | Generator = 0, log_prior: PerPattern | None = None
    ) -> Pairs:
        """Draw `count` pairs: origins by the prior (uniform if None), each corrupted once."""
        check_count("count", count)
        generator = seed if isinstance(seed, Generator) else Generator().manual_seed(seed)
        if log_prior is None:
            origins = torch.randint(len(patterns), (count,), generator=generator)
        else:
            rates = torch.softmax(log_prior.detach().cpu().double(), dim=0)
            origins = torch.multinomial(rates, count, replacement=True, generator=generator)
        originals = patterns.detach().cpu()[origins]
        return Pairs(origins.to(patterns.device), self.corrupt(originals, generator).to(patterns))


class FactorizedVariant(Variant):
    """A variant that corrupts each dimension alone and knows what a query of no stored pattern looks like."""

    @abstractmethod
    def evidence_per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        r"""$\log p(x_i \mid \xi_i) - \log p_0(x_i)$, (b, n, d): above zero where a dimension speaks for the pattern."""

    def paired_evidence(self, patterns: Tensor, rows: Tensor, queries: Tensor) -> Tensor:
        """The evidence (b, c) of queries (b, d) for patterns of their own, rows (b, c) of (n, d)."""
        return self.evidence_per_dimension(patterns[rows], queries.unsqueeze(-2)).sum(-1).squeeze(-2)


def as_parameter(name: str, value: float | Tensor | list[float]) -> Tensor:
    """A number for all dimensions or one for each, as a tensor of at most one axis."""
    device = value.device if isinstance(value, Tensor) else "cpu"
    tensor = torch.as_tensor(value, dtype=torch.get_default_dtype(), device=device)
    if tensor.ndim > 1:
        raise ShapeError(f"`{name}` must be a number or a vector of them; got shape {tuple(tensor.shape)}.")
    if not bool(torch.isfinite(tensor).all()):
        raise InvalidValueError(f"`{name}` must be finite; got {as_plain(tensor)}.")
    return tensor


def as_plain(value: Tensor) -> object:
    """The opposite of `as_parameter`, for names and files."""
    return value.tolist()
