"""The location of a table, a local folder or an object store, and files of our own beside those of Lance."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ahop._core import optional

Address = str | os.PathLike[str]


@dataclass(frozen=True)
class Location:
    """The address of a table.

    Attributes:
        address: as Lance wants it.
        folder: the same on a local disk, where what is durable is ours to see to; None for object stores, where what
            was acknowledged is durable.
        options: what the object store asks for: keys, regions, endpoints.
    """

    address: str
    folder: Path | None
    options: dict[str, str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, address: Address, options: Mapping[str, str] | None = None) -> "Location":
        words = os.fspath(address)
        given = None if options is None else dict(options)
        if words.startswith("file://"):
            words = unquote(urlsplit(words).path)
        if "://" in words:
            return cls(words, None, given)
        folder = Path(words).absolute()  # the process may go elsewhere later
        return cls(str(folder), folder, given)

    @property
    def is_in_memory(self) -> bool:
        return self.address.startswith("memory://")


def files_of(location: Location) -> Any:
    """Reads, writes, lists and removes files by their paths in the table."""
    return optional.lance().file.LanceFileSession(location.address, storage_options=location.options)
