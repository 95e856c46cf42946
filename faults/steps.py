"""Steps that the shim wrote down, and a disk that has taken them: what it holds, and what of it would outlive a cut."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# The share of writes that were under way of which a part is there.
TORN = 0.3


@dataclass(frozen=True)
class Step:
    """One line of the shim: what was done to which file.

    Attributes:
        what: create, write, truncate, sync, rename, link, unlink, mkdir, or a mark.
        node: the number of the file on the real disk; numbers come again after a file is gone.
    """

    what: str
    node: int
    path: str
    other: str
    place: int
    content: bytes


def read_steps(path: Path) -> list[Step]:
    return list(_parsed(path.read_bytes()))


def _parsed(text: bytes) -> Iterator[Step]:
    start = 0
    while start < len(text):
        end = text.index(b"\n", start)
        what, node, one, other, place, size = text[start:end].decode().split("\t")
        start = end + 1 + (int(size) if what == "write" else 0)
        yield Step(what, int(node), one, other, int(place), text[end + 1 : start])


@dataclass
class Node:
    """A file or a folder: as it is flushed, and what was done to it since."""

    is_folder: bool
    content: bytearray = field(default_factory=bytearray)
    names: dict[str, "Node"] = field(default_factory=dict)
    flushed: bytes = b""
    flushed_names: dict[str, "Node"] = field(default_factory=dict)
    writes: list[tuple[int, bytes | None]] = field(default_factory=list)  # a place, and bytes; None cuts off there
    renamings: list[dict[str, "Node | None"]] = field(default_factory=list)  # names that came, or went (None)

    def flush(self) -> None:
        self.flushed, self.flushed_names = bytes(self.content), dict(self.names)
        self.writes, self.renamings = [], []

    def write(self, place: int, content: bytes | None) -> None:
        self.writes.append((place, content))
        _apply(self.content, place, content)

    def rename(self, changed: dict[str, "Node | None"]) -> None:
        self.renamings.append(changed)
        _rename(self.names, changed)


class Disk:
    """What steps have made of an empty folder."""

    def __init__(self, root: Path) -> None:
        self._root, self._top, self._by_number = str(root), Node(True), dict[int, Node]()

    def take(self, step: Step) -> None:
        if step.what in ("create", "mkdir"):
            folder, name = self._place(step.path)
            made = Node(step.what == "mkdir")
            self._by_number[step.node] = made
            folder.rename({name: made})
        elif step.what == "write":
            self._by_number[step.node].write(step.place, step.content)
        elif step.what == "truncate":
            self._by_number[step.node].write(step.place, None)
        elif step.what == "sync":
            (self._top if step.path == self._root else self._by_number[step.node]).flush()
        elif step.what == "unlink":
            folder, name = self._place(step.path)
            folder.rename({name: None})
        elif step.what in ("rename", "link"):
            self._move(step)

    def files(self) -> dict[str, bytes]:
        """Everything, as a process sees it."""
        found = _walk(self._top, lambda node: (bytes(node.content), node.names))
        return {name: content for name, content in found if content is not None}

    def after_a_cut(self, chance: random.Random) -> dict[str, bytes | None]:
        """What the disk may hold after the power is cut: what was flushed, and of the rest what chance decides.

        Of each folder the first few changes of names are there, of each file any of its writes, the last of them
        perhaps in part. A file's flush does not flush its name. A folder is None.
        """
        greed = chance.choice((0.0, 0.5, 0.5, 1.0))

        def survivor(node: Node) -> tuple[bytes, dict[str, Node]]:
            content, names = bytearray(node.flushed), dict(node.flushed_names)
            for changed in node.renamings:
                if chance.random() >= greed:
                    break
                _rename(names, changed)
            for place, written in node.writes:
                if chance.random() < greed:
                    if written is not None and chance.random() < TORN:
                        written = written[: chance.randrange(len(written) + 1)]
                    _apply(content, place, written)
            return bytes(content), names

        return dict(_walk(self._top, survivor))

    def _move(self, step: Step) -> None:
        (source, old), (target, new) = self._place(step.path), self._place(step.other)
        moved = source.names[old]
        gone: dict[str, Node | None] = {old: None} if step.what == "rename" else {}
        if source is target:
            source.rename({**gone, new: moved})
        else:
            target.rename({new: moved})
            if gone:
                source.rename(gone)

    def _place(self, path: str) -> tuple[Node, str]:
        *folders, name = Path(path).relative_to(self._root).parts
        node = self._top
        for each in folders:
            node = node.names[each]
        return node, name


def _walk(
    node: Node, look: Callable[[Node], tuple[bytes, dict[str, Node]]], above: str = ""
) -> Iterator[tuple[str, bytes | None]]:
    """Files below a folder with what is in them, folders with None."""
    content, names = look(node)
    if not node.is_folder:
        yield above, content
        return
    if above:
        yield above, None
    for name, child in sorted(names.items()):
        yield from _walk(child, look, f"{above}/{name}" if above else name)


def _apply(content: bytearray, place: int, written: bytes | None) -> None:
    if written is None:
        del content[place:]
    content.extend(bytes(max(0, place - len(content))))
    if written is not None:
        content[place : place + len(written)] = written


def _rename(names: dict[str, Node], changed: dict[str, Node | None]) -> None:
    for name, node in changed.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
