"""Words for errors and reports."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

# So many names are told in an error.
TOLD = 5


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question for a name that is nearly one of those that are known; else nothing."""
    small = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), small, 1, 0.8)
    return f" Did you mean {small[near[0]]!r}?" if near else ""


def told(names: Sequence[object]) -> str:
    """A few of the names, and how many more there are."""
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return ", ".join(repr(each) for each in names[:TOLD]) + more
