"""Why a memory answers as it does: what each dimension says for the answer, and against its rival."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from math import exp

import torch
from torch import Tensor

from ahop.likelihood import EvidenceSimilarity
from ahop.model import Model
from ahop.ranking import Ranked, posterior_of
from ahop.scoring import with_prior
from ahop.separations.softmax import Softmax
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.variants.mixture import MixtureVariant

# Bars that are told one by one in words and pictures; the others are lumped.
SHOWN, IN_WORDS = 8, 3
PRIOR, DOUBT = "prior", "doubt"
# Less is rounding.
LEAST = 1e-6
# Beyond so many nats odds are told as certain.
CERTAIN = 25.0


@dataclass(frozen=True)
class Bar:
    """One reason.

    Attributes:
        name: of the dimension; or of what only the whole vector says, of the prior, of doubt in all scores.
        log_odds: by how much it speaks for the answer and against the rival, in nats.
        word: what happened there, such as "agrees", "outlier" or "missing".
        seen: the value of the query; None for what is no dimension.
        answer: the value that the answer has there.
        rival: the value that the rival has there.
    """

    name: str
    log_odds: float
    word: str
    seen: float | None = None
    answer: float | None = None
    rival: float | None = None


@dataclass(frozen=True)
class Explanation:
    """Why one query is answered by one pattern and not by another; `print` it.

    Attributes:
        answer: label of the pattern that was answered; its row, if there are no labels.
        rival: of the one that it is told apart from.
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
        return (
            f"{self.answer} with probability {self.posterior:.2f}, {_odds(self.log_odds)} than {self.rival}. "
            f"For it: {_listed(speak)}. Against it: {_listed(against)}."
        )

    def _repr_html_(self) -> str:
        largest = max((abs(bar.log_odds) for bar in self.bars), default=0.0) or 1.0
        return f"<p>{escape(str(self))}</p><table>{''.join(_html(bar, largest) for bar in self.shown())}</table>"


@torch.no_grad()
def explain(
    model: Model,
    ranked: Ranked,
    rows: Tensor,
    patterns: Tensor,
    query: Tensor,
    log_prior: Tensor | None,
    labels: Sequence[object],
    names: Sequence[str],
) -> Explanation:
    """Why the first of two patterns is answered, and not the second.

    Args:
        ranked: what is known of all patterns.
        rows: (2,) of the two.
        patterns: (2, d) themselves, modulated.
        query: (1, d).
        log_prior: (2,) how often each is the origin.
        labels: what the two are called.
        names: of the dimensions.
    """
    similarity, beta = model.similarity.rows(rows), model.beta
    found = similarity.contributions(patterns, query)
    sizes = beta * (found.dimensions[0, 0] - found.dimensions[0, 1]).double()
    words = _words(similarity, patterns[0], query[0], sizes)
    values = torch.stack([query[0], *patterns]).mT.tolist()
    bars = [
        Bar(name, size, word, *of_dimension)
        for name, size, word, of_dimension in zip(names, sizes.tolist(), words, values, strict=True)
    ]
    wholes = {
        name: beta * float(scores[0, 0].double() - scores[0, 1].double()) for name, scores in found.wholes.items()
    }
    if log_prior is not None:
        wholes[PRIOR] = float(log_prior[0].double() - log_prior[1].double())
    bars += [Bar(name, size, _side(size)) for name, size in wholes.items()]
    scores = found.scores
    weighed = scores if log_prior is None else with_prior(scores, log_prior, model.separation)
    log_odds, posterior = _log_odds(model, ranked, weighed)
    doubt = log_odds - sum(bar.log_odds for bar in bars)
    if abs(doubt) > LEAST * max(1.0, abs(log_odds)):
        bars.append(Bar(DOUBT, doubt, "scores may say nothing"))
    ordered = sorted(bars, key=lambda bar: -abs(bar.log_odds))
    return Explanation(labels[0], labels[1], posterior, sum(bar.log_odds for bar in ordered), tuple(ordered))


def _log_odds(model: Model, ranked: Ranked, scores: Tensor) -> tuple[float, float]:
    """Of the first against the second of two patterns with scores (1, 2), and the posterior of the best of all."""
    posterior = float(posterior_of(ranked, model, 1)[0])
    separation, below = model.separation, model.beta * (scores[0].double() - ranked.scores[0, 0].double())
    if not isinstance(separation, Softmax) or not separation.floor:
        return float(below[0] - below[1]), posterior
    shares = separation.floored((below - ranked.log_mass).exp(), ranked.known)
    return float(shares[0].log() - shares[1].log()), posterior


def _words(similarity: Similarity, original: Tensor, query: Tensor, sizes: Tensor) -> list[str]:
    """What happened to each dimension of the answer (d,): as a mixture sees it, else by whom it speaks for."""
    while isinstance(similarity, AlignedSimilarity):
        query, similarity = similarity.aligned(query), similarity.base
    words = [_side(size) for size in sizes.tolist()]
    if isinstance(similarity, EvidenceSimilarity) and isinstance(similarity.variant, MixtureVariant):
        is_kept = similarity.variant.kept_probability(original.unsqueeze(0), query.unsqueeze(0))[0] > 0.5
        words = ["agrees" if kept else "outlier" for kept in is_kept.tolist()]
    gaps = zip(words, torch.isnan(query).tolist(), torch.isnan(original).tolist(), strict=True)
    return ["missing" if unseen else "not stored" if unstored else word for word, unseen, unstored in gaps]


def _side(size: float) -> str:
    return "speaks for" if size > 0 else "speaks against" if size < 0 else "says nothing"


def _odds(log_odds: float) -> str:
    if log_odds > CERTAIN:
        return "beyond doubt likelier"
    return f"{exp(abs(log_odds)):.3g} times {'likelier' if log_odds >= 0 else 'less likely'}"


def _listed(bars: Sequence[Bar]) -> str:
    return ", ".join(f"{bar.name} ({bar.word}, {bar.log_odds:+.1f})" for bar in bars) or "nothing"


def _html(bar: Bar, largest: float) -> str:
    color = "#2a7f62" if bar.log_odds > 0 else "#b3423a"
    width = 100 * abs(bar.log_odds) / largest
    strip = f'<div style="background:{color};height:.8em;width:{width:.0f}px"></div>'
    cells = (escape(bar.name), strip, f"{bar.log_odds:+.2f}", escape(bar.word))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
