"""Split large work into blocks that fit a memory budget."""

from collections.abc import Iterator

# Above this, a temporary is cut into blocks. Large enough to keep the cores busy, small beside any memory.
TEMPORARY_BYTES = 256 * 2**20

# A block that is written, sorted and summed at once: small enough for the caches, large enough to hide the hand-over
# of rows to the threads.
CACHE_BYTES = 4 * 2**20


def blocks(count: int, bytes_each: int, budget: int = TEMPORARY_BYTES) -> Iterator[slice]:
    """Slices that cover `range(count)`, each of at most `budget` bytes but of at least one item."""
    size = max(1, budget // max(1, bytes_each))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def pair_blocks(queries: int, patterns: int, bytes_each: int, budget: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns that cover all pairs, each of the patterns' blocks once with every query."""
    for columns in blocks(patterns, bytes_each, budget):
        for rows in blocks(queries, bytes_each * (columns.stop - columns.start), budget):
            yield rows, columns
