"""Why a memory answers as it does: what each dimension says for the answer, and against its rival."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp

from ahop._core.html import Markup, paragraph, table

# Bars that are told one by one in words and pictures; the others are lumped.
SHOWN, IN_WORDS = 8, 3
# Beyond so many nats odds are told as certain.
CERTAIN = 25.0


@dataclass(frozen=True)
class Bar:
    """One reason.

    Attributes:
        name: of the dimension; or of what is none: what only the whole vector says, the prior, a safety margin;
            against "unknown" that other answers may be right, and how well all other patterns fit.
        log_odds: by how much it speaks for the answer and against the rival, in nats.
        word: what happened there, such as "agrees", "agrees less" (than with the rival), "outlier" or "missing"; of
            categories "agrees", "agrees on a rare value" or "differs".
        seen: the value of the query, of categories the word; None for what is no dimension.
        answer: the value that the answer has there.
        rival: the value that the rival has there; None if that is "unknown".
    """

    name: str
    log_odds: float
    word: str
    seen: float | str | None = None
    answer: float | str | None = None
    rival: float | str | None = None


@dataclass(frozen=True)
class Explanation:
    """Why one query is answered by one pattern and not by another; `print` it.

    Attributes:
        answer: label of the pattern that was answered; its row, if there are no labels.
        rival: of the one that it is told apart from; or "unknown", if that is no stored pattern.
        posterior: how sure the answer is.
        log_odds: of the answer against the rival, in nats: the sum of all bars.
        bars: the largest first, whatever their sign.
    """

    answer: object
    rival: object
    posterior: float
    log_odds: float
    bars: tuple[Bar, ...]

    def rows(self) -> list[dict[str, object]]:
        """One for each bar, for a frame or a file."""
        return [asdict(bar) for bar in self.bars]

    def shown(self, count: int = SHOWN) -> list[Bar]:
        """The largest bars, and all others as one."""
        rest = self.bars[count:]
        if len(rest) <= 1:
            return list(self.bars)
        return [*self.bars[:count], Bar(f"{len(rest)} others", sum(bar.log_odds for bar in rest), "together")]

    def __str__(self) -> str:
        speak = [bar for bar in self.bars if bar.log_odds > 0][:IN_WORDS]
        against = [bar for bar in self.bars if bar.log_odds < 0][:IN_WORDS]
        return f"{self.headline}. For it: {_listed(speak)}. Against it: {_listed(against)}."

    @property
    def headline(self) -> str:
        """The answer, how sure it is, and its odds."""
        return f"{self.answer} with probability {self.posterior:.2f}, {_odds(self.log_odds)} than {self.rival}"

    def _repr_html_(self) -> str:
        largest = max((abs(bar.log_odds) for bar in self.bars), default=0.0) or 1.0
        return paragraph(self) + table([], [_cells(bar, largest) for bar in self.shown()])


def _odds(log_odds: float) -> str:
    size = "beyond doubt" if abs(log_odds) > CERTAIN else f"{exp(abs(log_odds)):.3g} times"
    return f"{size} {'likelier' if log_odds >= 0 else 'less likely'}"


def _listed(bars: Sequence[Bar]) -> str:
    return ", ".join(f"{bar.name} ({bar.word}, {bar.log_odds:+.1f})" for bar in bars) or "nothing"


def _cells(bar: Bar, largest: float) -> list[str]:
    color = "#2a7f62" if bar.log_odds > 0 else "#b3423a"
    width = 100 * abs(bar.log_odds) / largest
    strip = Markup(f'<div style="background:{color};height:.8em;width:{width:.0f}px"></div>')
    return [bar.name, strip, f"{bar.log_odds:+.2f}", bar.word]
