"""Blocks of a transformer around an association."""

from typing import final

from torch import Tensor, nn

from ahop._core.checks import check_choice, check_count, check_kind, check_rate
from ahop.errors import ShapeError
from ahop.nn.base import Layer
from ahop.nn.hopfield import Hopfield

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}


@final
class HopfieldEncoderLayer(Layer):
    r"""$x \leftarrow x + \mathrm{Hopfield}(x)$, then $x \leftarrow x + \mathrm{MLP}(\mathrm{LayerNorm}(x))$.

    The norm comes first, here and in `Hopfield`, so that deep stacks train; `ahop.nn.compat.hflayers` has it last.

    Args:
        hopfield: used as it is, not copied; its output must be as wide as its input.
        hidden_size: of the MLP; default four times the input.
    """

    def __init__(
        self, hopfield: Hopfield, hidden_size: int | None = None, dropout: float = 0.1, activation: str = "relu"
    ) -> None:
        super().__init__()
        self.hopfield = _residual("hopfield", hopfield)
        self.feedforward = FeedForward(hopfield.input_size, hidden_size, dropout, activation)
        self.dropout = nn.Dropout(dropout)

    def configuration(self) -> dict[str, object]:
        return {"hopfield": self.hopfield} | _without_size(self.feedforward)

    def forward(
        self,
        queries: Tensor,
        *,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Tensor:
        found = self.hopfield(queries, present=present, allowed=allowed, log_prior=log_prior)
        states = queries + self.dropout(found)
        added: Tensor = states + self.feedforward(states)
        return added


@final
class HopfieldDecoderLayer(Layer):
    r"""Encoder layer with a look at `patterns` between the two: $x \leftarrow x + \mathrm{Hopfield}_2(x, \Xi)$.

    Args:
        within: associates the queries among themselves.
        across: associates them with the patterns.
        hidden_size: of the MLP; default four times the input.
    """

    def __init__(
        self,
        within: Hopfield,
        across: Hopfield,
        hidden_size: int | None = None,
        dropout: float = 0.1,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.within, self.across = _residual("within", within), _residual("across", across)
        if within.input_size != across.input_size:
            raise ShapeError(
                f"`within` and `across` must have one `input_size`; got {within.input_size} and {across.input_size}."
            )
        self.feedforward = FeedForward(within.input_size, hidden_size, dropout, activation)
        self.dropout = nn.Dropout(dropout)

    def configuration(self) -> dict[str, object]:
        return {"within": self.within, "across": self.across} | _without_size(self.feedforward)

    def forward(
        self,
        queries: Tensor,
        patterns: Tensor,
        *,
        queries_present: Tensor | None = None,
        queries_allowed: Tensor | None = None,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> Tensor:
        """Args:
        queries_present: which queries are there, for the association among them.
        queries_allowed: which query may see which other; a lower triangle of ones for "only what came before".
        present: which patterns are there.
        allowed: which query may see which pattern.
        """
        states = queries + self.dropout(self.within(queries, present=queries_present, allowed=queries_allowed))
        states = states + self.dropout(self.across(states, patterns, present=present, allowed=allowed))
        added: Tensor = states + self.feedforward(states)
        return added


@final
class FeedForward(Layer):
    """LayerNorm, a hidden layer, and back."""

    def __init__(self, size: int, hidden_size: int | None, dropout: float, activation: str) -> None:
        super().__init__()
        self.size = check_count("size", size)
        self.hidden_size = 4 * size if hidden_size is None else check_count("hidden_size", hidden_size)
        self.rate = check_rate("dropout", dropout)
        self.activation = check_choice("activation", activation, list(ACTIVATIONS))
        self.layers = nn.Sequential(
            nn.LayerNorm(size),
            nn.Linear(size, self.hidden_size),
            ACTIVATIONS[activation](),
            nn.Dropout(dropout),
            nn.Linear(self.hidden_size, size),
            nn.Dropout(dropout),
        )

    def configuration(self) -> dict[str, object]:
        return {
            "size": self.size,
            "hidden_size": self.hidden_size,
            "dropout": self.rate,
            "activation": self.activation,
        }

    def forward(self, states: Tensor) -> Tensor:
        result: Tensor = self.layers(states)
        return result


def _residual(name: str, hopfield: Hopfield) -> Hopfield:
    check_kind(name, hopfield, Hopfield)
    if hopfield.output_size != hopfield.input_size:
        raise ShapeError(
            f"`{name}` must have an output as wide as its input, as both are added; got {hopfield.output_size} and "
            f"{hopfield.input_size}. Leave `output_size` out."
        )
    return hopfield


def _without_size(feedforward: FeedForward) -> dict[str, object]:
    return {name: value for name, value in feedforward.configuration().items() if name != "size"}
