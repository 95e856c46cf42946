"""Share of queries of no stored pattern, told by the queries themselves."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahop.memory.decisions import Share

Row: TypeAlias = NDArray[np.float64]

# Halvings of the interval that a share lies in, and the largest odds that count.
BISECTIONS_OF_WATCH, MOST_ODDS = 50, 1e12
# A detector tells unknown queries if its odds, even before the query is seen, explain so much of the variance.
LEAST_TOLD = 0.1


class Mixture:
    """Queries of stored patterns and of no stored pattern, in a share that is told by the queries themselves."""

    def __init__(self, unknown: Row, rate: float) -> None:
        self.given, self.is_set = unknown, not 0 < rate < 1
        prior = 1.0 if self.is_set else rate / (1 - rate)
        with np.errstate(divide="ignore"):  # what is certainly unknown
            self.ratio = np.clip(unknown / (1 - unknown) / prior, 1 / MOST_ODDS, MOST_ODDS)

    @property
    def is_told(self) -> bool:
        """True if the unknown rate can be estimated from these queries; a rate of 0 or 1 was set by the caller."""
        return self.is_set or float(np.square(2 * self.unknown(0.5) - 1).mean()) >= LEAST_TOLD

    def unknown(self, share: float) -> Row:
        """Probability that each query is unknown, given this share of unknown ones."""
        return self.given if self.is_set else share * self.ratio / (1 - share + share * self.ratio)

    def share(self, side: float) -> Share:
        """The most likely one, and those that are less likely by no more than so many standard errors would be."""
        if self.is_set:
            value = float(self.given.mean())
            return Share(value, value, value)
        value = _crossing(lambda share: float(((self.ratio - 1) / (1 - share + share * self.ratio)).sum()), 0.0, 1.0)
        least = self._log_likelihood(value) - 0.5 * side**2
        low = _crossing(lambda share: least - self._log_likelihood(share), 0.0, value)
        high = _crossing(lambda share: self._log_likelihood(share) - least, value, 1.0)
        return Share(value, low, high)

    def _log_likelihood(self, share: float) -> float:
        return float(np.log(1 - share + share * self.ratio).sum())


def _crossing(falling: Callable[[float], float], low: float, high: float) -> float:
    """Find the zero of a falling function; the end that is nearer to it, if there is none."""
    if falling(low) <= 0:
        return low
    if falling(high) >= 0:
        return high
    for _ in range(BISECTIONS_OF_WATCH):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return 0.5 * (low + high)
