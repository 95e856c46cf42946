"""A transformer block that walks down one energy."""

from math import sqrt
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from ahop._core.checks import check_count, check_positive
from ahop.errors import ShapeError
from ahop.nn.base import Layer
from ahop.nn.masks import mask_of

# What keeps a token without spread finite.
LEAST_VARIANCE = 1e-5


@final
class EnergyTransformerBlock(Layer):
    r"""$x \leftarrow x - \alpha\,\partial E / \partial g$, a few times, with $g = \mathrm{LayerNorm}(x)$.

    The energy of all tokens together is that of attention, each token drawn to those that it sees, and of a dense
    associative memory with stored patterns $\xi$ (Hoover et al., 2023, arXiv:2302.07253):

    $E = -\beta^{-1} \sum_{h, c} \mathrm{lse}_b(\beta k_{hb}^\top q_{hc}) - \tfrac12 \sum_{c, m} [\xi_m^\top g_c]_+^2$,
    $q = W_q g$, $k = W_k g$.

    One set of weights does for both directions of attention, and there are no values: what moves a token is the
    gradient. The norm has one gain, so that it is itself the gradient of a convex function, and small steps lower $E$.

    Args:
        input_size: of a token.
        num_heads: of the attention.
        head_size: of queries and keys; default the input over the heads, rounded up.
        quantity: how many patterns are stored; default four times the input.
        steps: how often the tokens move.
        step_size: $\alpha$.
        sees_itself: whether a token is drawn to itself.

    Example:
        >>> EnergyTransformerBlock(16, num_heads=2)(torch.rand(4, 10, 16)).shape
        torch.Size([4, 10, 16])
    """

    def __init__(
        self,
        input_size: int,
        num_heads: int = 1,
        head_size: int | None = None,
        quantity: int | None = None,
        steps: int = 12,
        step_size: float = 0.1,
        sees_itself: bool = False,
    ) -> None:
        super().__init__()
        self.input_size, self.num_heads = check_count("input_size", input_size), check_count("num_heads", num_heads)
        self.head_size = check_count("head_size", -(-input_size // num_heads) if head_size is None else head_size)
        self.quantity = check_count("quantity", 4 * input_size if quantity is None else quantity)
        self.steps, self.step_size = check_count("steps", steps), check_positive("step_size", step_size)
        self.sees_itself, self.beta = sees_itself, 1 / sqrt(self.head_size)
        self.gain, self.shift = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(input_size))
        self.queries = nn.Parameter(torch.empty(num_heads, self.head_size, input_size))
        self.keys = nn.Parameter(torch.empty(num_heads, self.head_size, input_size))
        self.patterns = nn.Parameter(torch.empty(self.quantity, input_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for table in (self.queries, self.keys, self.patterns):
            nn.init.normal_(table, std=1 / sqrt(self.input_size))
        nn.init.ones_(self.gain)
        nn.init.zeros_(self.shift)

    def configuration(self) -> dict[str, object]:
        names = ("input_size", "num_heads", "head_size", "quantity", "steps", "step_size", "sees_itself")
        return {name: getattr(self, name) for name in names}

    def forward(self, tokens: Tensor, *, present: Tensor | None = None, allowed: Tensor | None = None) -> Tensor:
        """(batch, t, input_size) from the same; `batch` may be missing.

        Args:
            present: (t,) or (batch, t), which tokens are there; the others draw nobody and stay as they are.
            allowed: (t, t) or (batch, t, t), who may be drawn to whom.
        """
        states = self._add_batch(tokens)
        mask = self._mask(states, present, allowed)
        there = None if present is None else present.view(-1, states.shape[1], 1)
        for _ in range(self.steps):
            slope = self._slope(self._norm(states), mask)
            states = states - self.step_size * (slope if there is None else slope.where(there, 0))
        return states if tokens.ndim == 3 else states[0]

    def energy(self, tokens: Tensor, *, present: Tensor | None = None, allowed: Tensor | None = None) -> Tensor:
        """(batch,), of all tokens that are present together."""
        states = self._add_batch(tokens)
        mask, normed = self._mask(states, present, allowed), self._norm(states)
        queries, keys = self._project(normed)
        scores, seen = self.beta * queries @ keys.mT, mask.any(-1)
        reached = torch.logsumexp(scores.masked_fill(~mask & seen.unsqueeze(-1), -torch.inf), -1)
        drawn = reached.where(seen, 0).sum((1, 2)) / self.beta
        matched = functional.relu(normed @ self.patterns.mT).square()
        if present is not None:
            matched = matched.where(present.view(-1, states.shape[1], 1), 0)
        found = -drawn - 0.5 * matched.sum((1, 2))
        return found if tokens.ndim == 3 else found[0]

    def _add_batch(self, tokens: Tensor) -> Tensor:
        if tokens.ndim not in (2, 3) or tokens.shape[-1] != self.input_size:
            raise ShapeError(
                f"`tokens` must have shape (batch, t, {self.input_size}) or (t, {self.input_size}); got "
                f"{tuple(tokens.shape)}."
            )
        return tokens if tokens.ndim == 3 else tokens.unsqueeze(0)

    def _norm(self, states: Tensor) -> Tensor:
        centered = states - states.mean(-1, keepdim=True)
        return self.gain * centered / (centered.square().mean(-1, keepdim=True) + LEAST_VARIANCE).sqrt() + self.shift

    def _mask(self, states: Tensor, present: Tensor | None, allowed: Tensor | None) -> Tensor:
        """Attention mask (batch or 1, heads or 1, t, t); absent tokens take no part on either side."""
        size = states.shape[1]
        mask = torch.ones(1, 1, size, size, dtype=torch.bool, device=states.device)
        if not self.sees_itself:
            mask = ~torch.eye(size, dtype=torch.bool, device=states.device).view(1, 1, size, size)
        given = mask_of(present, allowed)
        if given is not None:
            mask = mask & given
        return mask if present is None else mask & present.view(-1, 1, size, 1)

    def _project(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys, (batch, heads, t, head_size)."""
        queries = torch.einsum("bti,hei->bhte", normed, self.queries)
        return queries, torch.einsum("bti,hei->bhte", normed, self.keys)

    def _slope(self, normed: Tensor, mask: Tensor) -> Tensor:
        r"""$\partial E / \partial g$, in closed form."""
        queries, keys = self._project(normed)
        # Who sees nobody gets equal weights, and then none.
        scores = (self.beta * queries @ keys.mT).masked_fill(~mask & mask.any(-1, keepdim=True), -torch.inf)
        weights = torch.softmax(scores, -1) * mask
        drawn = torch.einsum("bhte,hei->bti", weights @ keys, self.queries)
        drawing = torch.einsum("bhte,hei->bti", weights.mT @ queries, self.keys)
        return -(drawn + drawing + functional.relu(normed @ self.patterns.mT) @ self.patterns)
