"""Pool a bag of instances to one vector."""

from typing import final

from torch import Tensor
from typing_extensions import Unpack

from ahop.nn.association import Associated
from ahop.nn.base import Layer
from ahop.nn.hopfield import Hopfield, Options
from ahop.nn.prototypes import Prototypes


@final
class HopfieldPooling(Layer):
    r"""$y = \mathrm{Hopfield}(P, \Xi)$ with learned queries $P$: what to look for in a bag.

    Args:
        input_size: of the instances, and of the queries.
        quantity: how many queries; their answers are laid side by side.
        trainable: whether the queries are learned.
        **options: those of `Hopfield`.

    Example:
        >>> pool = HopfieldPooling(230, similarity="adaptive", num_heads=4)
        >>> pool(torch.rand(8, 13, 230), present=torch.ones(8, 13, dtype=torch.bool)).shape
        torch.Size([8, 230])
    """

    def __init__(
        self, input_size: int, quantity: int = 1, *, trainable: bool = True, **options: Unpack[Options]
    ) -> None:
        super().__init__()
        self.hopfield = Hopfield(input_size, **options)
        self.queries = Prototypes(quantity, input_size, trainable)

    def reset_parameters(self) -> None:
        self.hopfield.reset_parameters()
        self.queries.reset_parameters()

    def configuration(self) -> dict[str, object]:
        chosen = {"quantity": self.queries.count, "trainable": self.queries.trainable}
        return self.hopfield.configuration() | chosen

    def forward(
        self,
        patterns: Tensor,
        values: Tensor | None = None,
        *,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Tensor:
        """(batch, quantity * output_size) from (batch, n, stored_size); (n, stored_size) is a single bag."""
        asked = self.queries.patterns
        answers = self.hopfield(asked, patterns, values, present=present, allowed=allowed, log_prior=log_prior)
        return answers.flatten(-2)

    def associate(
        self,
        patterns: Tensor,
        values: Tensor | None = None,
        *,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Associated:
        """Association weights of the instances (batch, heads, quantity, n), and the rest of `Associated`."""
        asked = self.queries.patterns
        return self.hopfield.associate(asked, patterns, values, present=present, allowed=allowed, log_prior=log_prior)
