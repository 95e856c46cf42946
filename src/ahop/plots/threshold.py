"""Picture of how a threshold was chosen, and what any other would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ahop._checks import check_count, check_kind
from ahop._optional import pyplot
from ahop._typing import Entries, RowsLike
from ahop.decisions import Policy, Share, bounds_of
from ahop.errors import UnsupportedError
from ahop.policies import HeldOut
from ahop.recaller import Recaller
from ahop.variants.base import Pairs

MEASURED, ACCEPTED, CHOSEN, PROMISED = "#1b5e8c", "#c8702a", "#222222", "#b3423a"
TITLES = {
    "precision": "Accepted answers that are right",
    "false_accept": "Strangers that are accepted",
    "costs": "Mean cost of a query",
}


@dataclass(frozen=True)
class ThresholdDisplay:
    """What each threshold would do on held-out pairs: what was asked for, and how many answers are accepted.

    Attributes:
        policy: whose threshold is marked.
        thresholds: of the confidence, falling.
        measured: at each of them, what the policy is about: precision, false accepts, or the mean cost of a query.
        accepted: how many of all held-out queries are accepted, those of no stored pattern too.

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
        places = torch.linspace(0, len(held_out.sure) - 1, check_count("steps", steps)).long()
        looked_at = held_out.sure.sort(descending=True).values[places].tolist()
        thresholds = sorted({*looked_at, policy.accept_from}, reverse=True)
        each = [_at(held_out, threshold, policy) for threshold in thresholds]
        shown = [found for found in each if found is not None]
        return cls(policy, *(tuple(column) for column in zip(*shown, strict=True)))

    def plot(self, figure: Any = None) -> Any:
        """Draw on a matplotlib figure, a new one if None; the figure is answered."""
        figure = figure or pyplot().figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2, sharex=True)
        _curve(left, self.thresholds, self.measured, MEASURED)
        _curve(right, self.thresholds, self.accepted, ACCEPTED)
        left.set_title(TITLES[self.policy.rule], loc="left")
        right.set_title("Queries that are accepted", loc="left")
        right.set_ylim(0, 1.02)
        if self.policy.rule == "costs":
            left.set_ylim(bottom=0)
        else:
            left.axhline(self.policy.promised[0], color=PROMISED, linewidth=1, linestyle="--")
            left.annotate(
                f"promised: {100 * self.policy.promised[0]:g} %",
                (0.02, self.policy.promised[0]),
                xycoords=("axes fraction", "data"),
                xytext=(0, 4),
                textcoords="offset points",
                color=PROMISED,
            )
        place = self.thresholds.index(self.policy.accept_from) if self.policy.accept_from in self.thresholds else None
        for ax, shares in ((left, self.measured), (right, self.accepted)):
            ax.axvline(self.policy.accept_from, color=CHOSEN, linewidth=1, linestyle=":")
            if place is not None:
                ax.plot(self.policy.accept_from, shares[place].value, "o", color=CHOSEN, zorder=3)
                ax.annotate(
                    _said(shares[place].value, is_cost=ax is left and self.policy.rule == "costs"),
                    (self.policy.accept_from, shares[place].value),
                    xytext=(-8, -14),
                    textcoords="offset points",
                    ha="right",
                )
            ax.set_xlabel("accepted from this confidence on")
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
        return figure


def _at(held_out: HeldOut, threshold: float, policy: Policy) -> tuple[float, Share, Share] | None:
    """What happens at this threshold; None where nothing is accepted of which a share could be taken."""
    errors, accepted = held_out.errors_from(threshold)
    count, rate = len(held_out.sure), held_out.confidence
    if policy.rule == "precision":
        if not accepted:
            return None
        measured = bounds_of(accepted - errors, accepted, rate)
    elif policy.rule == "false_accept":
        strange = held_out.sure[held_out.strange]
        measured = bounds_of(int((strange >= threshold).sum()), len(strange), rate)
    else:
        wrong, ask = policy.promised
        wrongs = bounds_of(errors, count, rate)
        asked = ask * (count - accepted) / max(1, count)
        measured = Share(*(asked + wrong * each for each in (wrongs.value, wrongs.low, wrongs.high)))
    return threshold, measured, bounds_of(accepted, count, rate)


def _curve(ax: Any, thresholds: Sequence[float], shares: Sequence[Share], color: str) -> None:
    low, high = [share.low for share in shares], [share.high for share in shares]
    ax.fill_between(thresholds, low, high, color=color, alpha=0.2, linewidth=0, step="post")
    ax.step(thresholds, [share.value for share in shares], color=color, linewidth=1.6, where="post")


def _said(value: float, is_cost: bool) -> str:
    return f"{value:.2f}" if is_cost else f"{100 * value:.1f} %"
