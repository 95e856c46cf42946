"""M3: random sequences of requests to a service by three keys, held against a dict of rows."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import ahop
from ahop.memory.model import Model
from ahop.scale.stores import open_store
from faults.campaign import (
    CRASHES,
    HANGS,
    LEAKED,
    LOST,
    PHANTOM,
    SERVER_ERRORS,
    UNANSWERED,
    UNTYPED,
    WRITTEN,
    WRONG,
    Campaign,
    Tally,
)
from faults.machines import IN_MEMORY, BrokenError, Machine, played, require, some_rows
from faults.service_world import World, world
from faults.tables import IDS, as_stored
from faults.truth import Truth, check_answer, truth

SEEDS = 3
DIMENSIONS = 3
# Rules that take seconds do so only where this was drawn, of so many numbers; hypothesis likes to draw one again.
RARE, FITS, RESTARTS = 37, 60, 250
# What is known of each row; a key sees those of tenant "a" alone.
COLUMNS: dict[str, tuple[Any, ...]] = {
    "tenant": ("a", "b", "a", None),
    "word": ("x", None, "Ä'\"\\", "🜁", ""),
    "count": (0, 1, None, 2**53 + 1, -7),
}
Rows = list[list[float]]
Marks = tuple[Any, ...]
Entry = tuple[tuple[float, ...], Marks]
numbers = st.integers(0, 63)
marks = st.lists(numbers, min_size=3, max_size=3)
keys = st.sampled_from(["admin", "admin", "admin", "reader", "narrow"])
explicit = st.none() | st.lists(st.integers(0, len(IDS) - 1), min_size=3, max_size=3)
filters = st.none() | st.tuples(st.sampled_from(["id", *COLUMNS]), numbers, st.booleans(), numbers)


class ServiceMachine(Machine):
    """A collection of a service that has many; and what each version of it holds."""

    served: ClassVar[World]

    @classmethod
    @contextmanager
    def world(cls) -> Iterator[None]:
        top = Path(tempfile.mkdtemp(prefix="ahop-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
        try:
            with world(top) as cls.served:
                yield
        finally:
            shutil.rmtree(top, ignore_errors=True)

    @initialize(kind=st.sampled_from(["seen", "hidden"]), first=some_rows(6, 1), mark=marks)
    def create(self, kind: str, first: Rows, mark: list[int]) -> None:
        self.name = self.served.name(kind)
        rows, marked = self._cut(first), [0, *mark, *mark][: len(first)]
        body = {"patterns": _null(rows), "metadata": _columns(marked)}
        for key in ("reader", "narrow"):
            status, said = self.served.ask(key, "PUT", f"/collections/{self.name}", body)
            require(status == 403, WRITTEN, f"{key} creates a collection: {status} {said}")
        status, said = self._ask("admin", "PUT", "", body)
        require(status == 201, UNANSWERED, f"create: {status} {said}")
        held = {
            place: (as_stored(row), _marks(each)) for place, (row, each) in enumerate(zip(rows, marked, strict=True))
        }
        self.states: dict[int, tuple[dict[int, Entry], Model]] = {
            said["version"]: (held, Model(ahop.EuclideanSimilarity()))
        }
        self.newest, self.ever, self.pairs_kept, self.kept = said["version"], set(held), 0, {said["version"]}
        self.is_learning = False  # what is learned may become a version at any moment

    @rule(key=keys, more=some_rows(3), mark=marks, ids=explicit)
    def add(self, key: str, more: Rows, mark: list[int], ids: list[int] | None) -> None:
        rows = self._cut(more)
        chosen = None if ids is None else [IDS[each] for each in ids[: len(rows)]]
        is_right: bool | None = chosen is None or (
            len(set(chosen)) == len(chosen) and not set(chosen) & self.rows.keys()
        )
        if chosen is None and (max(self.ever) + len(rows) >= 2**63 or not rows):
            is_right = None
        body = {"patterns": _null(rows), "ids": chosen, "metadata": _columns(mark[: len(rows)])}
        said = self._write(key, "/add", body, is_right)
        if said is None:
            return
        given = said["ids"]
        require(len(given) == len(rows) and (chosen is None or given == chosen), WRONG, f"add gave {given}")
        require(chosen is not None or not set(given) & self.ever, WRONG, f"add gave {given} of {sorted(self.ever)}")
        self.ever |= set(given)
        new = {n: (as_stored(row), _marks(each)) for n, row, each in zip(given, rows, mark, strict=False)}
        self._adopt(said["version"], {**self.rows, **new}, self.model, has_changed=bool(rows))

    @rule(key=keys, which=st.lists(numbers, max_size=3), way=st.integers(0, 9))
    def delete(self, key: str, which: list[int], way: int) -> None:
        known = list(self.rows)
        gone = list(dict.fromkeys(known[each % len(known)] for each in which))
        gone = known if way == 9 else [*gone, 999] if way == 8 else known[1:] if way == 7 else gone
        said = self._write(key, "/delete", {"ids": gone}, way != 8 and len(gone) < len(known))
        if said is not None:
            left = {number: entry for number, entry in self.rows.items() if number not in gone}
            self._adopt(said["version"], left, self.model, has_changed=bool(gone))

    @rule(
        key=keys,
        queries=some_rows(3),
        k=st.integers(1, 9),
        where=filters,
        same=st.none() | st.lists(st.integers(0, 1), min_size=3, max_size=3),
        more=st.sampled_from(
            [
                {},
                {"patterns": True},
                {"columns": ["word", "count", "id"]},
                {"explain": True},
                {"policy": {"accept_from": 0.9}},
            ]
        ),
    )
    def recall(self, key: str, queries: Rows, k: int, where: Any, same: list[int] | None, more: dict[str, Any]) -> None:
        asked = torch.tensor([as_stored(row) for row in self._cut(queries)]).reshape(len(queries), DIMENSIONS)
        condition = None if where is None else self._filter(where)
        together = None if same is None or "explain" in more else same[: len(queries)]
        fields = {
            "k": k,
            **({} if condition is None else {"where": condition}),
            **({} if together is None else {"same": together}),
        }
        status, said = self._ask(key, "POST", "/recall", {"queries": _null(asked.tolist()), **fields, **more})
        if not self._may_read(key):
            require(status == 404, LEAKED, f"{key} recalls: {status} {said}")
            return
        allowed = self._allowed(key, condition)
        is_alone = "explain" in more and len(allowed) < 2 and bool(len(asked))
        if is_alone and status == 400:  # one pattern has no rival
            return
        require(status == 200, UNANSWERED, f"{key} recalls {fields} {more}: {status} {said}")
        self._count("recall")
        wanted = self._truth(asked, allowed, together)
        count = min(k, len(allowed))
        found = np.asarray(said["ids"], dtype=object).reshape(len(wanted.scores), count).tolist()
        visible = {list(self.rows)[place] for place in allowed}
        seen = {each for some in found for each in some} - {-1}
        require(seen <= visible, LEAKED if key == "narrow" else PHANTOM, f"{key} sees {seen - visible}")
        sure = np.asarray(said["posterior"], dtype=float).reshape(len(found), count)
        check_answer("recall", wanted, count, np.asarray(found).reshape(len(found), count), sure, said.get("unknown"))
        require(int(said["version"]) == self.newest, WRONG, f"version {said['version']} answers, not {self.newest}")
        self._check_more(found, said, more, visible)

    @rule(key=keys, queries=some_rows(3), is_single=st.booleans(), unmatched=st.sampled_from([0.0, 0.9, 0.999]))
    def link(self, key: str, queries: Rows, is_single: bool, unmatched: float) -> None:
        body = {"queries": _null(self._cut(queries)), "one_to_one": is_single, "unmatched": unmatched}
        status, said = self._ask(key, "POST", "/link", body)
        if not self._may_read(key):
            require(status == 404, LEAKED, f"{key} links: {status} {said}")
            return
        places = len(self._allowed(key, None))
        is_right = not is_single or (1 - unmatched) * len(queries) <= places
        require((status == 200) == is_right, UNANSWERED, f"{key} links {body}: {status} {said}")
        if not is_right:
            return
        visible = {list(self.rows)[place] for place in self._allowed(key, None)}
        require(set(said["ids"]) <= visible, LEAKED, f"{key} links {said['ids']}, and may see {visible}")
        require(not is_single or len(set(said["ids"])) == len(said["ids"]), WRONG, f"link: {said['ids']} one to one")

    @rule(key=keys, queries=some_rows(2, 1), which=numbers, is_known=st.booleans())
    def pairs(self, key: str, queries: Rows, which: int, is_known: bool) -> None:
        number = list(self.rows)[which % len(self.rows)] if is_known else 999
        body = {"queries": _null(self._cut(queries)), "ids": [number] * len(queries)}
        said = self._write(key, "/pairs", body, is_known)
        if said is not None:
            self.pairs_kept += len(queries)
            require(said["pairs"] == self.pairs_kept, LOST, f"{said['pairs']} pairs are kept, not {self.pairs_kept}")

    @rule(key=keys, chance=st.integers(0, FITS), queries=some_rows(3, 3))
    def fit(self, key: str, chance: int, queries: Rows) -> None:
        """Others ask while it learns."""
        self.is_idle = key == "admin" and chance != RARE
        if self.is_idle:
            return
        said = self._write(key, "/fit", {"queries": _null(self._cut(queries)), "similarity": "euclidean"}, None)
        if said is None:
            return
        until, self.is_learning = time.monotonic() + 120, True
        while True:
            self.look(self._key_that_sees(), 0)
            job = next(each for each in self._asked("/versions")["fits"] if each["job"] == said["job"])
            if job["state"] != "running":
                break
            require(time.monotonic() < until, HANGS, f"a fit goes on: {job}")
            time.sleep(0.2)
        self.is_learning = False
        self._count(f"fit {job['state']}")
        if job["state"] == "done":
            self._adopt(job["version"], self.rows, self._stored(job["version"]))

    @rule(way=st.sampled_from(["activate", "restore"]), key=keys, which=numbers)
    def go_back(self, way: str, key: str, which: int) -> None:
        version = sorted(self.kept)[which % len(self.kept)]
        said = self._write(key, f"/versions/{version}/{way}", None, True)
        if said is not None:
            rows, model = self.states[version]
            self._adopt(said["version"], self.rows if way == "activate" else rows, model)

    @rule(more=some_rows(2, 1), mark=marks, also=some_rows(1))
    def others_write(self, more: Rows, mark: list[int], also: Rows) -> None:
        """Another process adds to the store: the service sees it when it is told to look, or writes itself."""
        rows, own = self._cut(more), self._cut(also)
        self.is_idle = max(self.ever) + len(rows) + len(own) >= 2**63
        if self.is_idle:
            return
        store = open_store(self.served.folder / "created" / f"{self.name}.lance")
        given = store.add(np.array(rows, dtype=np.float64), metadata=_columns(mark[: len(rows)])).tolist()
        body = {"patterns": _null(own), "metadata": _columns(mark[: len(own)])}
        said = self._write("admin", "/add" if own else "/refresh", body if own else None, True)
        given += said.get("ids", [])
        require(not set(given) & self.ever, WRONG, f"{given} were given before: {sorted(self.ever)}")
        self.ever |= set(given)
        new = {
            n: (as_stored(row), _marks(each))
            for n, row, each in zip(given, rows + own, [*mark[: len(rows)], *mark], strict=False)
        }
        self._adopt(said["version"], {**self.rows, **new}, self.model)

    @rule(key=keys, which=numbers)
    def look(self, key: str, which: int) -> None:
        """List the collections that a key may see."""
        status, said = self.served.ask(key, "GET", "/collections")
        names = {each["name"]: each for each in said["collections"]}
        require(status == 200 and (self.name in names) == self._may_read(key), LEAKED, f"{key} lists {sorted(names)}")
        status, said = self._ask(key, "GET", "")
        require(status == (200 if self._may_read(key) else 404), LEAKED, f"{key} inspects: {status} {said}")
        if status == 200:
            require(said["patterns"] == len(self._allowed(key, None)), LOST, f"{key}: {said['patterns']} patterns")
            is_newest = said["version"] == self.newest or (self.is_learning and said["version"] == self.newest + 1)
            require(is_newest, LOST, f"version {said['version']}, not {self.newest}")
            require(
                said["pairs"] == self.pairs_kept or key != "admin",
                LOST,
                f"{said['pairs']} pairs, not {self.pairs_kept}",
            )
        status, said = self._ask(key, "GET", "/versions")
        if key != "admin":
            require(status in (403, 404), LEAKED, f"{key} sees versions: {status} {said}")
            return
        held = {each["version"] for each in said["versions"]}
        require(self.kept <= held, LOST, f"{sorted(self.kept - held)} are not among the versions {sorted(held)}")
        current = [each["version"] for each in said["versions"] if each["current"]]
        require(current == [self.newest], WRONG, f"{current} are current, not {self.newest}")

    @rule(
        key=keys | st.none(),
        way=st.sampled_from(["/metrics", "/livez", "/readyz", "/docs", "/openapi.json", "/"]),
    )
    def look_around(self, key: str | None, way: str) -> None:
        status, said = self.served.ask(key, "GET", way)
        is_open = way in ("/livez", "/readyz", "/")
        wanted = 200 if is_open or key == "admin" or (key and way != "/metrics") else 401 if key is None else 403
        require(
            status == wanted, LEAKED if status < 300 else UNANSWERED, f"{key} GET {way}: {status} {str(said)[:200]}"
        )

    @rule(key=keys, queries=some_rows(2, 1), k=st.integers(1, 5))
    def ask_a_file(self, key: str, queries: Rows, k: int) -> None:
        """A memory's file is served beside the stores: a key for other names does not see it, and nobody adds to it."""
        body = {"queries": _null(self._cut(queries)), "k": k}
        status, said = self.served.ask(key, "POST", "/collections/file/recall", body)
        if key == "admin":
            asked = torch.tensor([as_stored(row) for row in self._cut(queries)])
            wanted = truth(Model(ahop.EuclideanSimilarity()), torch.eye(DIMENSIONS), asked)
            check_answer("a file", wanted, min(k, DIMENSIONS), said["ids"], said["posterior"], None)
            names = [["xyz"[each] for each in some] for some in said["ids"]]
            require(said["labels"] == names, WRONG, f"labels {said['labels']} of {said['ids']}")
        else:  # the file has no column that a narrow key is for
            require(status in (400, 404), LEAKED, f"{key} recalls from a file: {status} {said}")
        status, said = self.served.ask(key, "POST", "/collections/file/add", {"patterns": [[1.0] * DIMENSIONS]})
        require(status in (400, 403, 404), WRITTEN, f"{key} adds to a file: {status} {said}")

    @rule(key=keys, way=st.sampled_from(["/review", "/watch"]))
    def look_after(self, key: str, way: str) -> None:
        status, said = self._ask(key, "GET", way)
        allowed = (200, 409) if key == "admin" else (403, 404)
        require(status in allowed, LEAKED if status < 300 else UNANSWERED, f"{key} GET {way}: {status} {said}")

    @rule(
        key=keys,
        path=st.sampled_from(
            ["/recall", "/link", "/add", "/delete", "/pairs", "/fit", "/versions/999/activate", "/versions/x/restore"]
        ),
        body=st.sampled_from(
            [
                b"",
                b"{",
                b"[]",
                b"{}",
                b'{"queries": 1}',
                b'{"queries": [[1]]}',
                b'{"ids": [-1]}',
                b'{"queries": [], "same": []}',
                b'{"queries": [["a", 1, 1]]}',
                b'{"patterns": [[1, 2, 3]], "ids": [1e3]}',
                b'{"k": 0, "queries": []}',
                b'{"queries": [], "where": {"nothing": 1}}',
                b"\xff\xfe",
            ]
        ),
    )
    def ask_wrongly(self, key: str, path: str, body: bytes) -> None:
        """Nothing is changed by it, and the error says what is wrong."""
        if path == "/delete" or (path == "/fit" and body in (b"", b"{}")):
            body = b'{"ids": [999]}'
        status, said = self._ask(key, "POST", path, body)
        if status != 200:
            require(400 <= status < 500 and "error" in said, UNTYPED, f"{key} {path} {body!r}: {status} {said}")

    @rule(chance=st.integers(0, RESTARTS), is_killed=st.booleans())
    def restart(self, chance: int, is_killed: bool) -> None:
        self.is_idle = chance != RARE
        if not self.is_idle:
            self.served.restart(is_killed)
            self._count("restart")
            self.look("admin", 0)

    @rule(more=some_rows(2, 1), queries=some_rows(2, 1), mark=marks, count=st.integers(2, 4))
    def all_at_once(self, more: Rows, queries: Rows, mark: list[int], count: int) -> None:
        """Several add and several ask: all that is acknowledged is there."""
        rows, asked = self._cut(more), _null(self._cut(queries))
        self.is_idle = max(self.ever) + count * len(rows) >= 2**63
        if self.is_idle:
            return
        body = {"patterns": _null(rows), "metadata": _columns(mark[: len(rows)])}
        with ThreadPoolExecutor(2 * count) as pool:
            adding = [pool.submit(self._ask, "admin", "POST", "/add", body) for _ in range(count)]
            asking = [
                pool.submit(self._ask, "admin", "POST", "/recall", {"queries": asked, "k": 3}) for _ in range(count)
            ]
        held = self.rows
        for status, said in sorted((each.result() for each in adding), key=lambda each: each[1].get("version", 0)):
            require(status == 201, UNANSWERED, f"add: {status} {said}")
            require(not set(said["ids"]) & self.ever, WRONG, f"{said['ids']} were given before")
            self.ever |= set(said["ids"])
            held = {
                **held,
                **{n: (as_stored(row), _marks(each)) for n, row, each in zip(said["ids"], rows, mark, strict=False)},
            }
            self._adopt(said["version"], held, self.model)
        for status, said in (each.result() for each in asking):
            require(status == 200, UNANSWERED, f"recall: {status} {said}")
            known = self.states[said["version"]][0]
            require(
                {each for some in said["ids"] for each in some} <= known.keys(), PHANTOM, f"{said} of {sorted(known)}"
            )

    def teardown(self) -> None:
        try:
            if hasattr(self, "newest"):
                self.served.check_log()
        finally:
            error = sys.exc_info()[1]
            if isinstance(error, BrokenError) and error.outcome in (HANGS, SERVER_ERRORS, UNANSWERED):
                self.served.spoil()
            super().teardown()

    @property
    def rows(self) -> dict[int, Entry]:
        return self.states[self.newest][0]

    @property
    def model(self) -> Model:
        return self.states[self.newest][1]

    def _ask(self, key: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return self.served.ask(key, method, f"/collections/{self.name}{path}", body, **headers)

    def _asked(self, path: str) -> Any:
        status, said = self._ask("admin", "GET", path)
        require(status == 200, UNANSWERED, f"{path}: {status} {said}")
        return said

    def _write(self, key: str, path: str, body: Any, is_right: bool | None) -> Any:
        """Ask for a change; None where it is refused, as it must be to all but one key."""
        status, said = self._ask(key, "POST", path, body)
        self._count(path.split("/")[-1] + ("" if status < 300 else " refused"))
        if key != "admin":
            refusal = 403 if self._may_read(key) else 404
            require(status == refusal, WRITTEN, f"{key} POST {path}: {status} {said}")
            return None
        require(status < 300 or is_right is not True, UNANSWERED, f"POST {path} {body}: {status} {said}")
        require(status >= 300 or is_right is not False, WRONG, f"POST {path} {body} must be refused: {status} {said}")
        return said if status < 300 else None

    def _adopt(self, version: int, rows: dict[int, Entry], model: Model, has_changed: bool = True) -> None:
        require(version > self.newest or not has_changed, LOST, f"version {version} comes after {self.newest}")
        self.states[version], self.newest = (rows, model), version
        self.kept |= {version}

    def _check_more(
        self, found: list[list[int]], said: dict[str, Any], more: dict[str, Any], visible: set[int]
    ) -> None:
        rows = {-1: ((None,) * DIMENSIONS, (None,) * len(COLUMNS)), **self.rows}
        if "patterns" in more:
            right = [[_nulls(rows[each][0]) for each in some] for some in found]
            got = [
                [[None if v is None else float(np.float32(v)) for v in p] for p in some] for some in said["patterns"]
            ]
            require(got == right, WRONG, f"patterns {said['patterns']}, not {right}")
        for place, name in enumerate(COLUMNS) if "columns" in more else ():
            if name in more["columns"]:
                right = [[rows[each][1][place] for each in some] for some in found]
                require(said["columns"][name] == right, WRONG, f"{name}: {said['columns'][name]}, not {right}")
        if "policy" in more:
            require(len(said["actions"]) == len(found), WRONG, f"{said['actions']} for {len(found)} queries")
        if "explain" in more:
            require(len(said["explanations"]) == len(found), WRONG, f"{len(said['explanations'])} explanations")
            named = {each[name] for each in said["explanations"] for name in ("answer", "rival")}
            require(named <= visible, LEAKED, f"explanations name {named}, and {visible} may be seen")

    def _may_read(self, key: str) -> bool:
        return key != "reader" or self.name.startswith("seen")

    def _key_that_sees(self) -> str:
        return "reader" if self._may_read("reader") else "narrow"

    def _allowed(self, key: str, where: dict[str, Any] | None) -> list[int]:
        """Places of the rows that a key sees."""
        forced = {"tenant": "a"} if key == "narrow" else {}
        return [
            place
            for place, (number, entry) in enumerate(self.rows.items())
            if _passes(number, entry[1], where or {}) and _passes(number, entry[1], forced)
        ]

    def _filter(self, drawn: tuple[str, int, bool, int]) -> dict[str, Any]:
        name, first, has_two, second = drawn
        entries: tuple[Any, ...] = IDS if name == "id" else COLUMNS[name]
        one, two = entries[first % len(entries)], entries[second % len(entries)]
        return {name: [one, two] if has_two else one}

    def _truth(self, asked: torch.Tensor, allowed: list[int], same: list[int] | None) -> Truth:
        patterns = torch.tensor([list(entry[0]) for entry in self.rows.values()], dtype=torch.float32)
        return truth(self.model, patterns, asked, list(self.rows), where=allowed, same=same)

    def _stored(self, version: int) -> Model:
        return open_store(self.served.folder / "created" / f"{self.name}.lance", version=version).model()

    def _cut(self, rows: Rows) -> Rows:
        return [row[:DIMENSIONS] for row in rows]


def _null(rows: Rows) -> list[list[float | None]]:
    return [_nulls(row) for row in rows]


def _nulls(row: Any) -> list[float | None]:
    return [None if each is None or each != each else each for each in row]


def _marks(mark: int) -> Marks:
    return tuple(entries[mark % len(entries)] for entries in COLUMNS.values())


def _columns(given: list[int]) -> dict[str, list[Any]]:
    return {name: [entries[mark % len(entries)] for mark in given] for name, entries in COLUMNS.items()}


def _passes(number: int, known: Marks, where: dict[str, Any]) -> bool:
    entry = {"id": number, **dict(zip(COLUMNS, known, strict=True))}
    return all(entry[name] in (wanted if isinstance(wanted, list) else [wanted]) for name, wanted in where.items())


def chunk(number: int, folder: Path) -> Tally:
    return played(ServiceMachine, number, SEEDS)


CAMPAIGN = Campaign(
    id="M3",
    name="service_machine",
    goal="random requests to a service by three keys, with fits, restarts and other writers, beside a dict of rows",
    counted=(LOST, PHANTOM, WRONG, LEAKED, WRITTEN, SERVER_ERRORS, UNANSWERED, UNTYPED, CRASHES, HANGS),
    wanted=100_000,
    quick=2000,
    chunk=chunk,
)
