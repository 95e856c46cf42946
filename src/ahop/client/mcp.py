"""A service as tools of an assistant, by the Model Context Protocol: `python -m ahop.client.mcp URL [COLLECTION]`.

It needs `pip install 'ahop[mcp]'`. The secret of a key is read from the variable `AHOP_KEY`.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ahop.client.client import Client
from ahop.errors import AhopError, MissingPackageError

if TYPE_CHECKING:
    from mcp.server import MCPServer

USAGE = "usage: python -m ahop.client.mcp URL [COLLECTION]"
WORDS = (
    "An associative memory: it says which stored pattern a damaged, partial or shifted row came from, how sure that "
    "is, and why. Rows are numbers, null where nothing was observed. Confirm an answer only if a person has said so."
)


def server(client: Client) -> "MCPServer[Any]":
    """The tools recall, explain, confirm and health of one collection."""
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise MissingPackageError("This needs mcp. `pip install 'ahop[mcp]'`.") from error
    made: MCPServer[Any] = MCPServer("ahop", instructions=WORDS)

    def recall(query: list[float | None], k: int = 3) -> dict[str, Any]:
        """The stored patterns that a row most likely came from, best first; `unknown` is how likely it is none."""
        found = client.recall(_row(query), k)
        answers: list[dict[str, Any]] = [
            {"id": int(number), "posterior": float(share)}
            for number, share in zip(found.indices[0], found.posterior[0], strict=True)
            if number >= 0
        ]
        if found.labels is not None:
            for answer, label in zip(answers, found.labels[0], strict=False):
                answer["label"] = label
        unknown = None if found.unknown is None else float(found.unknown[0])
        return {"answers": answers, "unknown": unknown}

    def explain(query: list[float | None]) -> str:
        """Explain an answer: the dimensions of a row that speak for it, and those that speak against it."""
        return str(client.explain(_row(query)[0]))

    def confirm(query: list[float | None], id: int) -> str:  # noqa: A002, it is what answers call it
        """Say that a row came from the stored pattern of this number; the next fit learns from it."""
        return f"Thank you. {client.tell(_row(query), np.array([id]))} such pairs are kept for the next fit."

    def health() -> dict[str, Any]:
        """Describe the collection: patterns, report of the fit, number of confirmed pairs."""
        facts = client.inspect()
        return {
            name: facts[name] for name in ("name", "version", "patterns", "dimensions", "columns", "pairs", "report")
        }

    for each in (recall, explain, confirm, health):
        made.tool()(each)
    return made


def _row(query: list[float | None]) -> NDArray[np.float64]:
    return np.array([query], dtype=np.float64)  # None becomes NaN


def main(arguments: list[str] | None = None) -> int:
    """Serve the tools on standard input and output."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) not in (1, 2) or given[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        made = server(Client(given[0], *given[1:], key=os.environ.get("AHOP_KEY") or None, patterns=False))
    except AhopError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    made.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
