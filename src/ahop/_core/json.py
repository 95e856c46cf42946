"""JSON that others wrote."""

import json
from typing import Any


def parse_json(content: str | bytes, **options: Any) -> Any:
    """`json.loads`, which raises ValueError and nothing else: also where lists lie in lists too deeply to be read."""
    try:
        return json.loads(content, **options)
    except RecursionError:
        raise ValueError("its lists and objects lie too deep in each other") from None
