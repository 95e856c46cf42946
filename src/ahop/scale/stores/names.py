"""The names that the dimensions of stored patterns have, kept in the words of their table."""

import json
from collections.abc import Sequence
from typing import Any

from ahop._core.columns import Columns, as_columns, described
from ahop._core.json import parse_json
from ahop.errors import FileFormatError, InvalidValueError
from ahop.scale.stores.location import Location

# Before each word of a table that tells of its dimensions.
PREFIX = "ahop_"
KEYS = ("dimensions", "categories", "errors")


def describe_names(names: Sequence[str] | None) -> dict[str, str]:
    """The words of a table that carry the names; none if there are none."""
    return {} if names is None else {f"{PREFIX}{key}": json.dumps(each) for key, each in described(names).items()}


def read_names(schema: Any, count: int, location: Location) -> Columns | None:
    """Read what `describe_names` wrote, `count` names."""
    words = {key: (schema.metadata or {}).get(f"{PREFIX}{key}".encode()) for key in KEYS}
    try:
        return as_columns({key: parse_json(each) for key, each in words.items() if each is not None}, count)
    except (ValueError, InvalidValueError) as error:
        raise FileFormatError(
            f"The names of the dimensions of `{location.address}` cannot be read: {error} Open an older version."
        ) from error
