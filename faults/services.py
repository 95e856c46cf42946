"""A real service over a memory's file and a store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import ahop
from ahop.scale.stores import create_store
from ahop.service import testing
from ahop.service.testing import Running
from faults import forks

DIMENSIONS, ROWS = 4, 60
QUESTION = {"queries": [[0.1, None, 0.3, 0.9]], "k": 2}


def answers(service: Running) -> bool:
    """Whether a right question gets a right answer."""
    try:
        status, said, _ = service.ask("POST", "/collections/rooms/recall", QUESTION)
        return status == 200 and len(said["ids"][0]) == 2
    except (OSError, ValueError):
        return False


def prepare(folder: Path) -> None:
    """A memory's file and a store, if they are not there."""
    if not (folder / "rooms.ahop").exists():
        forks.run(lambda say: _prepare(folder))


def _prepare(folder: Path) -> None:
    patterns = torch.rand(ROWS, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    pairs = ahop.MixedVariant(0.05, 0.05, 0.05).sample(patterns, ROWS, seed=0)
    memory = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)
    create_store(folder / "phones.lance", memory, metadata={"floor": [row % 4 for row in range(ROWS)]})
    memory.save(folder / "rooms.ahop")


@contextmanager
def running(folder: Path, *arguments: str, key: str | None = None) -> Iterator[Running]:
    """`python -m ahop.service` over both."""
    prepare(folder)
    with testing.running(folder, str(folder / "rooms.ahop"), str(folder / "phones.lance"), *arguments, key=key) as made:
        yield made


def shown(value: Any) -> str:
    return repr(value)[:300]
