"""Numbers that stand for "not observed", such as 100 among signal strengths from -100 to -30."""

import warnings

from torch import Tensor

from ahop._core.tensors import distinct

# Entries that share the number at least, as a share of all; fewer are outliers.
LEAST_SHARE = 0.02
# Different numbers that the others have at least: few values have no range to be far from.
LEAST_VALUES = 10
# Entries that are looked at.
MOST_ENTRIES = 2**20


def placeholder_of(values: Tensor) -> float | None:
    """The largest or smallest number, if many entries have it and it is farther from all others than they are wide."""
    seen = values.detach().flatten()[:MOST_ENTRIES]
    seen = seen[~seen.isnan()]
    for extreme in (seen.max(), seen.min()) if len(seen) else ():
        others = seen[seen != extreme]
        if len(others) > (1 - LEAST_SHARE) * len(seen) or len(distinct(others)[0]) < LEAST_VALUES:
            continue
        ordered = others.sort().values
        low, high = ordered[len(ordered) // 100], ordered[-1 - len(ordered) // 100]
        if (extreme - high).maximum(low - extreme) > high - low:
            return float(extreme)
    return None


def warn_of_placeholder(name: str, values: Tensor) -> None:
    number = placeholder_of(values)
    if number is not None:
        warnings.warn(
            f"Many entries of `{name}` are {number:g}, far from all others. If that stands for 'not observed', put NaN "
            f"there: `{name}[{name} == {number:g}] = nan`.",
            stacklevel=3,
        )
