"""The names that the dimensions of stored patterns have, kept in the words of their table."""

import json
from collections.abc import Sequence
from typing import Any

from ahop._core.frames import as_names
from ahop._core.json import parse_json
from ahop.errors import FileFormatError, InvalidValueError
from ahop.scale.stores.location import Location

WORDS = "ahop_dimensions"


def describe_names(names: Sequence[str] | None) -> dict[str, str]:
    """The words of a table that carry the names; none if there are none."""
    return {} if names is None else {WORDS: json.dumps(list(names))}


def read_names(schema: Any, count: int, location: Location) -> tuple[str, ...] | None:
    """Read what `describe_names` wrote, `count` names."""
    words = (schema.metadata or {}).get(WORDS.encode())
    try:
        return as_names(None if words is None else parse_json(words), count)
    except (ValueError, InvalidValueError) as error:
        raise FileFormatError(
            f"The names of the dimensions of `{location.address}` cannot be read: {error} Open an older version."
        ) from error
