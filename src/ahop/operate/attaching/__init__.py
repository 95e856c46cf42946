"""In front of a search that somebody already runs: probabilities, "none of these", policies."""

import ahop._core.with_torch  # noqa: F401
from ahop.operate.attaching.attach_report import AttachReport
from ahop.operate.attaching.attached import AttachedSearch
from ahop.operate.attaching.lists import Search

__all__ = ["AttachReport", "AttachedSearch", "Search"]
