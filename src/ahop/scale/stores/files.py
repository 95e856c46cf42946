"""Files of our own beside those of Lance, on a disk or in an object store."""

from typing import Any

from ahop._core import optional
from ahop.scale.stores.location import Location


def files_of(location: Location) -> Any:
    """Reads, writes, lists and removes files by their paths in the table."""
    return optional.lance().file.LanceFileSession(location.address, storage_options=location.options)
