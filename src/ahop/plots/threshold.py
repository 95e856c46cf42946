"""Picture of how a threshold was chosen, and what any other would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ahop._core.checks import check_count, check_kind
from ahop._core.optional import pyplot
from ahop._core.typing import Entries, RowsLike
from ahop.errors import UnsupportedError
from ahop.memory.decisions import Policy, Share, bounds_of
from ahop.memory.recall import Recaller
from ahop.operate.policies import HeldOut
from ahop.variants.base import Pairs

MEASURED, ACCEPTED, CHOSEN, PROMISED = "#1b5e8c", "#c8702a", "#222222", "#b3423a"
TITLES = {
    "precision": "Accepted answers that are right",
    "false_accept": "Strangers that are accepted",
    "costs": "Mean cost of a query",
}


@dataclass(frozen=True)
class ThresholdDisplay:
    """Error rate and share of accepted answers by threshold, on held-out pairs.

    Attributes:
        policy: whose threshold is marked.
        thresholds: of the confidence, falling.
        measured: at each of them, what the policy is about: precision, false accepts, or the mean cost of a query.
        accepted: how many of all held-out queries are accepted, those of no stored pattern too.
        queries: how many there are.
        confidence: of each bound.

    Example:
        >>> memory = ahop.AssociativeMemory(torch.eye(30), separation=ahop.Softmax(9.0))
        >>> pairs = ahop.Pairs(torch.arange(30), torch.eye(30))
        >>> policy = ahop.policy(memory, pairs, precision=0.9)
        >>> ThresholdDisplay.from_pairs(memory, pairs, policy).measured[-1].value
        1.0
    """

    policy: Policy
    thresholds: tuple[float, ...]
    measured: tuple[Share, ...]
    accepted: tuple[Share, ...]
    queries: int
    confidence: float

    @classmethod
    def from_pairs(
        cls,
        memory: Recaller,
        pairs: Pairs | tuple[Entries, RowsLike],
        policy: Policy,
        *,
        strangers: RowsLike | None = None,
        groups: Sequence[object] | None = None,
        confidence: float = 0.95,
        steps: int = 100,
    ) -> "ThresholdDisplay":
        """Args:
        policy: of `ahop.policy`, with the same pairs, strangers and confidence as here.
        steps: how many thresholds are looked at.
        """
        rule = check_kind("policy", policy, Policy).rule
        if rule not in TITLES:
            raise UnsupportedError(
                "A threshold is drawn for a policy by `precision`, `false_accept` or `costs`; this one has "
                f"{rule or 'no rule'!r}."
            )
        held_out = HeldOut(memory, pairs, strangers, groups, confidence)
        places = np.linspace(0, len(held_out.sure) - 1, check_count("steps", steps)).astype(int)
        looked_at = (-np.sort(-held_out.sure))[places].tolist()
        thresholds = sorted({*looked_at, policy.accept_from}, reverse=True)
        each = [_at(held_out, threshold, policy) for threshold in thresholds]
        shown, measured, accepted = zip(*(found for found in each if found is not None), strict=True)
        return cls(policy, shown, measured, accepted, len(held_out.sure), confidence)

    def plot(self, figure: Any = None) -> Any:
        """Draw on a matplotlib figure, a new one if None; the figure is answered."""
        figure = figure or pyplot().figure(figsize=(9, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2, sharex=True)
        is_cost, chosen = self.policy.rule == "costs", self.policy.accept_from
        place = self.thresholds.index(chosen) if chosen in self.thresholds else None
        for ax, shares, color, percent in (
            (left, self.measured, MEASURED, not is_cost),
            (right, self.accepted, ACCEPTED, True),
        ):
            _curve(ax, self.thresholds, shares, color, 100.0 if percent else 1.0)
            ax.axvline(chosen, color=CHOSEN, linewidth=1, linestyle=":")
            ax.set_xlabel("answers are accepted from this confidence on")
            ax.yaxis.set_major_formatter("{x:g} %" if percent else "{x:g}")
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
            if place is not None:
                above = ax is left and not is_cost  # below is the axis, or the line itself
                _mark(ax, chosen, shares[place], percent, 22.0 if above else -16.0)
        left.set_title(TITLES[self.policy.rule], loc="left")
        right.set_title("Queries that are accepted", loc="left")
        right.set_ylim(0, 102)
        if is_cost:
            left.set_ylim(bottom=0)
        else:
            _promise(left, 100 * self.policy.promised[0])
            _limit(left, [100 * share.value for share in self.measured], self.policy)
        figure.supxlabel(
            f"Dotted: the threshold that was chosen, {chosen:.3g}. Bands: bounds from {self.queries} held-out queries, "
            f"{100 * self.confidence:g} % on each side.",
            fontsize="small",
            color="0.35",
        )
        return figure


def _at(held_out: HeldOut, threshold: float, policy: Policy) -> tuple[float, Share, Share] | None:
    """Shares at this threshold; None where nothing is accepted of which a share could be taken."""
    errors, accepted = held_out.errors_from(threshold)
    count, rate = len(held_out.sure), held_out.confidence
    if policy.rule == "precision":
        if not accepted:
            return None
        measured = bounds_of(accepted - errors, accepted, rate)
    elif policy.rule == "false_accept":
        let_in = held_out.accepted_from(threshold)[held_out.strange]
        measured = bounds_of(int(let_in.sum()), len(let_in), rate)
    else:
        wrong, ask = policy.promised
        wrongs = bounds_of(errors, count, rate)
        asked = ask * (count - accepted) / max(1, count)
        measured = Share(*(asked + wrong * each for each in (wrongs.value, wrongs.low, wrongs.high)))
    return threshold, measured, bounds_of(accepted, count, rate)


def _curve(ax: Any, thresholds: Sequence[float], shares: Sequence[Share], color: str, scale: float) -> None:
    low, high = [scale * share.low for share in shares], [scale * share.high for share in shares]
    ax.fill_between(thresholds, low, high, color=color, alpha=0.2, linewidth=0, step="post")
    ax.step(thresholds, [scale * share.value for share in shares], color=color, linewidth=1.6, where="post")


def _mark(ax: Any, threshold: float, share: Share, percent: bool, lift: float) -> None:
    """The threshold that was chosen, and what it does."""
    height = 100 * share.value if percent else share.value
    ax.plot(threshold, height, "o", color=CHOSEN, zorder=3)
    ax.annotate(
        f"{height:.1f} %" if percent else f"{height:.2f}",
        (threshold, height),
        xytext=(-9, lift),
        textcoords="offset points",
        ha="right",
        fontweight="bold",
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
    )


def _promise(ax: Any, height: float) -> None:
    ax.axhline(height, color=PROMISED, linewidth=1, linestyle="--")
    place, shift = (0.98, height), (0, -4)
    ax.annotate(
        f"promised: {height:g} %",
        place,
        shift,
        ("axes fraction", "data"),
        textcoords="offset points",
        color=PROMISED,
        ha="right",
        va="top",
    )


def _limit(ax: Any, heights: Sequence[float], policy: Policy) -> None:
    """Around what is promised: a band of hardly any answers, and all strangers let in, are as high as the picture."""
    low, high = (min(heights) - 4, 102) if policy.rule == "precision" else (0, 600 * policy.promised[0])
    ax.set_ylim(max(0, low), min(102, high))
    ax.set_yticks([tick for tick in ax.get_yticks() if max(0, low) <= tick <= min(100, high)])
