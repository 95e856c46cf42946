"""Options of shards."""

from dataclasses import dataclass

from ahop._core.checks import check_count, check_positive, check_rate


@dataclass(frozen=True)
class ShardOptions:
    """Settings of the search in a shard.

    Attributes:
        candidates: how many are reranked for each query.
        tolerance: of the lifting.
        target: of the calibration, where a shard has more than a million rows.
        gaps: queries may have gaps, which distances must be lifted for.
        cache: a folder on each machine for the files of indexes. If None, one in the folder of the store; and no files
            where that is in none.
    """

    candidates: int = 100
    tolerance: float = 0.05
    target: float = 0.99
    gaps: bool = True
    cache: str | None = None

    def __post_init__(self) -> None:
        check_count("candidates", self.candidates)
        check_positive("tolerance", self.tolerance)
        check_rate("target", self.target)

    def key(self) -> tuple[object, ...]:
        """Key that tells one index from another."""
        return self.candidates, self.tolerance, self.target, self.gaps
