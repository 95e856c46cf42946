"""Estimates of many dimensions drawn together, by as much as their errors explain their spread."""

from torch import Tensor, full_like

# Shrinkage never trusts a dimension less than as if this many others of its kind had been seen.
MOST_PSEUDO_COUNTS = 2000.0


def shrunk(raw: Tensor, error: Tensor) -> Tensor:
    """Estimates drawn towards their common mean by as much as their errors explain their spread."""
    precision = 1 / error.clamp_min(1e-18)
    mean = (raw * precision).sum() / precision.sum()
    between = ((raw - mean).square() - error)[error <= error.median() * 100].mean().clamp_min(1e-12)
    return mean + between / (between + error) * (raw - mean)


def shrunk_variance(squares: Tensor, count: Tensor) -> Tensor:
    """Means of squares, their logarithms drawn together."""
    pooled = squares.sum() / count.sum().clamp_min(1e-9)
    known = count > 2
    if not bool(known.any()):
        return full_like(squares, float(pooled))
    logs = (squares[known] / count[known]).clamp_min(1e-18).log()
    excess = ((logs - logs.mean()).square() - 2 / count[known]).mean()
    pseudo = 2 / excess.clamp_min(2 / MOST_PSEUDO_COUNTS)
    return (squares + pseudo * pooled) / (count + pseudo)


def shrunk_rate(hits: Tensor, count: Tensor) -> Tensor:
    """Shares of hits, strictly between none and all."""
    pooled = (hits.sum() / count.sum().clamp_min(1e-9)).clamp(1e-4, 1 - 1e-4)
    spread = pooled * (1 - pooled)
    known = count > 2
    if not bool(known.any()):
        return full_like(hits, float(pooled))
    excess = ((hits[known] / count[known] - pooled).square() - spread / count[known]).mean()
    pseudo = spread / excess.clamp_min(spread / MOST_PSEUDO_COUNTS)
    return ((hits + pseudo * pooled) / (count + pseudo)).clamp(1e-4, 1 - 1e-4)
