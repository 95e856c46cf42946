"""Estimates of many dimensions drawn together, by as much as their errors explain their spread."""

from torch import Tensor, full_like


def shrunk(raw: Tensor, error: Tensor) -> Tensor:
    """Estimates drawn towards their common mean by as much as their errors explain their spread."""
    precision = 1 / error.clamp_min(1e-18)
    mean = (raw * precision).sum() / precision.sum()
    between = ((raw - mean).square() - error)[error <= error.median() * 100].mean().clamp_min(1e-12)
    return mean + between / (between + error) * (raw - mean)


def shrunk_variance(squares: Tensor, count: Tensor, most: float) -> Tensor:
    """Means of squares, their logarithms drawn together, by at most so many entries."""
    pooled = squares.sum() / count.sum().clamp_min(1e-9)
    known = count > 2
    if not bool(known.any()):
        return full_like(squares, float(pooled))
    logs = (squares[known] / count[known]).clamp_min(1e-18).log()
    excess = ((logs - logs.mean()).square() - 2 / count[known]).mean()
    pseudo = 2 / excess.clamp_min(2 / most)
    return (squares + pseudo * pooled) / (count + pseudo)


def shrunk_rate(hits: Tensor, count: Tensor, most: float) -> Tensor:
    """Shares of hits, strictly between none and all, drawn together by at most so many entries."""
    pooled = (hits.sum() / count.sum().clamp_min(1e-9)).clamp(1e-4, 1 - 1e-4)
    spread = pooled * (1 - pooled)
    known = count > 2
    if not bool(known.any()):
        return full_like(hits, float(pooled))
    excess = ((hits[known] / count[known] - pooled).square() - spread / count[known]).mean()
    pseudo = spread / excess.clamp_min(spread / most)
    return ((hits + pseudo * pooled) / (count + pseudo)).clamp(1e-4, 1 - 1e-4)
