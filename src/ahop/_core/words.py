"""Words for errors and reports."""

from collections.abc import Sequence

# So many names are told in an error.
TOLD = 5


def told(names: Sequence[object]) -> str:
    """A few of the names, and how many more there are."""
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return ", ".join(repr(each) for each in names[:TOLD]) + more
