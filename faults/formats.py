"""Every format that ahop reads: what a right input looks like, how it is bent, and who reads it."""

import random
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import torch

import ahop
from ahop._core.files import digest
from ahop.memory.load import model_from_bytes, model_to_bytes
from ahop.scale.stores import integrity
from ahop.scale.stores.location import Location
from ahop.scale.stores.models import WORDS, read_model, words_of
from ahop.scale.stores.names import PREFIX, read_names
from ahop.service import request as reading
from ahop.service.collections.feedback import FILE, Feedback
from ahop.service.keys import read_keys
from ahop.service.options import Limits
from faults.mutations import bent_archive, bent_bytes, bent_json, to_json

DIMENSIONS = 4
LARGEST = 2**16
RECALL: dict[str, Any] = {
    "queries": [[0.1, None, 0.3, 0.9], {"north": 1, "west": None, "east": 3}],
    "k": 2,
    "where": {"floor": [1, 2], "name": "a"},
    "groups": ["a", "b"],
    "same": [1, "x"],
    "patterns": True,
    "columns": ["floor"],
    "explain": False,
    "policy": {"accept_from": 0.9, "unknown_from": 0.5, "set_from": 0.8},
}
PAIRS: dict[str, Any] = {"queries": [[0.1, None, 0.3, 0.9]], "ids": [17], "groups": ["a"]}


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        make: (chance) -> an input that is almost right.
        read: (an input) -> anything, or an error of ahop.
        inputs: of one chunk: what takes long has fewer.
    """

    name: str
    make: Callable[[random.Random], bytes]
    read: Callable[[bytes], object]
    inputs: int


def formats(folder: Path) -> list[Format]:
    """All of them; files are written to the folder."""
    patterns = torch.randn(30, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    pairs = ahop.MixedVariant(0.1, 0.1, 0.1).sample(patterns, 30, seed=1)
    memory = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)
    memory.save(folder / "memory.ahop")
    whole, model = (folder / "memory.ahop").read_bytes(), model_to_bytes(memory.model)
    keys = [{"name": "a", "sha256": "0" * 64, "collections": ["b"], "where": {"c": 1}, "may_write": False}]
    words = {"format": 1, "table": "0" * 32, "digest": digest(model), "model": b64encode(model).decode()}
    lists = {f"data/{each}.lance": "0" * 64 for each in range(3)}
    names, limits = ["north", "east", "south", "west"], Limits()

    def through_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
        def written(content: bytes) -> object:
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            return read(path)

        return written

    def opened(path: Path) -> object:
        runtime = ahop.open_memory(path)
        return runtime.recall(np.zeros((2, runtime.dimensions)), k=2)

    def recall(body: bytes) -> object:
        return reading.recall_request(reading.read_body(reading.RecallBody, body), DIMENSIONS, limits, names)

    def told(body: bytes) -> object:
        asked = reading.read_body(reading.PairsBody, body)
        rows = reading.read_rows("queries", asked.queries, DIMENSIONS, limits.queries, names)
        reading.check_ids(asked.ids, len(rows))
        return reading.read_groups(asked.groups, len(rows))

    def stored(content: bytes) -> object:
        location = Location.of(folder / "table")
        schema = pyarrow.schema([]).with_metadata({WORDS: content})
        return read_model(words_of(schema, location), location)

    def named(content: bytes) -> object:
        schema = pyarrow.schema([]).with_metadata({f"{PREFIX}dimensions": content})
        return read_names(schema, DIMENSIONS, Location.of(folder / "table"))

    def checksums(content: bytes) -> object:
        integrity._lists.clear()
        listed = folder / integrity.CHECKSUMS
        listed.mkdir(exist_ok=True)
        for each in listed.iterdir():
            each.unlink()
        (listed / f"{digest(content)}.json").write_bytes(content)
        return integrity.recorded(folder)

    log = Feedback(folder / "log", DIMENSIONS, limits)
    log.add(patterns[:5], list(range(5)), None)
    lines = (folder / "log" / FILE).read_bytes()
    return [
        Format("memory", lambda chance: bent_archive(whole, chance), through_file("m.ahop", ahop.load), 500),
        Format("memory, bytes", lambda chance: bent_bytes(whole, chance), through_file("m.ahop", ahop.load), 5_000),
        Format("memory without torch", lambda chance: bent_archive(whole, chance), through_file("r.ahop", opened), 500),
        Format("model", lambda chance: bent_archive(model, chance), lambda each: model_from_bytes(each, "it"), 500),
        Format("recall body", lambda chance: _bent(RECALL, chance), recall, 50_000),
        Format("recall body, bytes", lambda chance: bent_bytes(to_json(RECALL), chance), recall, 50_000),
        Format("pairs body", lambda chance: _bent(PAIRS, chance), told, 50_000),
        Format("keys", lambda chance: _bent(keys, chance), through_file("keys.json", read_keys), 10_000),
        Format(
            "keys, bytes", lambda chance: bent_bytes(to_json(keys), chance), through_file("k.json", read_keys), 10_000
        ),
        Format("words of a store", lambda chance: _bent(words, chance), stored, 1_000),
        Format("names of a store", lambda chance: bent_bytes(to_json(names), chance), named, 10_000),
        Format("checksums of a store", lambda chance: bent_bytes(to_json(lists), chance), checksums, 5_000),
        Format(
            "log of pairs",
            lambda chance: bent_bytes(lines, chance),
            through_file(f"bent/{FILE}", lambda path: Feedback(path.parent, DIMENSIONS, limits)),
            5_000,
        ),
    ]


def _bent(value: Any, chance: random.Random) -> bytes:
    """As JSON. Repeats of repeats can become huge: what comes of large bodies is tried where they are sent."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        bent = bent_json(value, chance)
        if len(to_json(bent)) > LARGEST:
            break
        value = bent
    return to_json(value)
