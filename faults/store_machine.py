"""M2: random sequences of changes to a store by two handles and other processes, held against a dict of rows."""

import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from ahop.errors import AhopError
from ahop.memory.memory import AssociativeMemory
from ahop.scale.stores import Store, create_store, examine_store, open_store
from faults.campaign import CRASHES, HANGS, LOST, NOT_OPENED, PHANTOM, UNANSWERED, UNTYPED, WRONG, Campaign, Tally
from faults.machines import BrokenError, Machine, played, require, some_rows
from faults.models import MODELS, SHARED
from faults.tables import (
    COLUMNS,
    IDS,
    KEEPS,
    NAMES,
    State,
    after,
    as_stored,
    changed,
    changed_at,
    found_in,
    framed,
    is_same,
    marks_of,
    metadata_of,
)
from faults.truth import Truth, check_answer, truth
from faults.twin import Twin

SEEDS = 3
LARGEST = 2**63 - 1
GROUPS = ("a", "7", "nobody")
Rows = list[list[float]]
numbers = st.integers(0, 63)
marks = st.lists(numbers, min_size=3, max_size=3)
handles = st.integers(0, 1)
filters = st.none() | st.tuples(st.sampled_from(["id", *COLUMNS]), numbers, st.booleans(), numbers)


class StoreMachine(Machine):
    """A table in a folder, two handles on it, and other processes; and what each version of it holds."""

    twin: ClassVar[Twin]

    @classmethod
    @contextmanager
    def world(cls) -> Iterator[None]:
        cls.twin = Twin(changed_at)
        try:
            yield
        finally:
            cls.twin.close()

    @initialize(
        model=st.sampled_from(SHARED),
        dimensions=st.integers(1, 4),
        first=some_rows(4, 1),
        mark=marks,
        ids=st.none() | st.lists(st.integers(0, len(IDS) - 1), min_size=4, max_size=4, unique=True),
        is_framed=st.booleans(),
        fragment_rows=st.sampled_from([1, 2, 2**20]),
    )
    def create(
        self,
        model: str,
        dimensions: int,
        first: Rows,
        mark: list[int],
        ids: list[int] | None,
        is_framed: bool,
        fragment_rows: int,
    ) -> None:
        self.path, self.dimensions, self.was_killed = self.folder / "rows.lance", dimensions, False
        self.is_whole = model == "kernel"
        rows = self._cut(first)
        chosen = list(range(len(rows))) if ids is None else [IDS[each] for each in ids[: len(rows)]]
        marked = [0, *mark][: len(rows)]  # the first row says of which kind a column is
        memory = AssociativeMemory(
            pd.DataFrame(rows, columns=list(NAMES[:dimensions]))
            if is_framed
            else torch.tensor(rows, dtype=torch.float64),
            model=MODELS[model](dimensions, len(rows)),
        )
        store = create_store(
            self.path,
            memory,
            None if ids is None else torch.tensor(chosen),
            metadata_of(marked),
            fragment_rows=fragment_rows,
        )
        held = {
            number: (as_stored(row), marks_of(each)) for number, row, each in zip(chosen, rows, marked, strict=True)
        }
        self.ever, self.newest = set(chosen), store.version
        self.states, self.kept = {store.version: State(held, model)}, {store.version}
        self.handles = [store, open_store(self.path)]

    @rule(
        handle=handles,
        more=some_rows(3),
        mark=marks,
        ids=st.none() | st.lists(st.integers(0, len(IDS) - 1), min_size=3, max_size=3),
    )
    def add(self, handle: int, more: Rows, mark: list[int], ids: list[int] | None) -> None:
        self._change(handle, self._added(more, mark, ids))

    @rule(
        handle=handles,
        more=some_rows(3),
        mark=marks,
        ids=st.lists(st.integers(0, len(IDS) - 1), min_size=3, max_size=3),
    )
    def upsert(self, handle: int, more: Rows, mark: list[int], ids: list[int]) -> None:
        words = self._added(more, mark, ids)
        self._change(handle, {**words, "kind": "upsert", "ids": words["ids"]})

    @rule(handle=handles, which=st.lists(numbers, max_size=4), way=st.integers(0, 9))
    def remove(self, handle: int, which: list[int], way: int) -> None:
        self._change(handle, self._removed(which, way))

    @rule(handle=handles, model=st.sampled_from(SHARED))
    def learn(self, handle: int, model: str) -> None:
        self.is_idle = self.is_whole or model == "kernel"
        if not self.is_idle:
            self._change(handle, {"kind": "learn", "model": model})

    @rule(handle=handles, keep=st.sampled_from(sorted(KEEPS)), fragment_rows=st.sampled_from([1, 3, 2**20]))
    def compact(self, handle: int, keep: str, fragment_rows: int) -> None:
        self._change(handle, {"kind": "compact", "keep": keep, "fragment_rows": fragment_rows})

    @rule(handle=handles, which=numbers)
    def restore(self, handle: int, which: int) -> None:
        known = sorted(self.kept)
        self._change(handle, {"kind": "restore", "version": known[which % len(known)]})

    @rule(
        kind=st.sampled_from(["add", "upsert", "remove", "learn", "compact", "restore"]),
        more=some_rows(3),
        mark=marks,
        ids=st.none() | st.lists(st.integers(0, len(IDS) - 1), min_size=3, max_size=3),
        which=st.lists(numbers, max_size=3),
        model=st.sampled_from(SHARED),
        keep=st.sampled_from(sorted(KEEPS)),
        life=st.none() | st.integers(0, 60),
    )
    def another_process(
        self,
        kind: str,
        more: Rows,
        mark: list[int],
        ids: list[int] | None,
        which: list[int],
        model: str,
        keep: str,
        life: int | None,
    ) -> None:
        """Makes a change; or is killed on its way to it, and the change is there as a whole or not at all."""
        known = sorted(self.kept)
        words: dict[str, Any] = {
            "add": self._added(more, mark, ids),
            "upsert": {**self._added(more, mark, ids or [0, 1, 2]), "kind": "upsert"},
            "remove": self._removed(which, 0),
            "learn": {"kind": "learn", "model": "dot" if self.is_whole or model == "kernel" else model},
            "compact": {"kind": "compact", "keep": keep, "fragment_rows": 3},
            "restore": {"kind": "restore", "version": known[sum(which) % len(known)]},
        }[kind]
        outcome, said = self.twin.ask({**words, "path": str(self.path)}, None if life is None else life / 1000)
        is_right = self._is_right(words)
        self._count(f"process {outcome}")
        require(outcome != "untyped", UNTYPED, f"another process: {kind}: {said}")
        require(outcome != "refused" or not is_right, UNANSWERED, f"another process: {kind}: {said}")
        require(outcome != "done" or is_right is not False, WRONG, f"another process: {kind} took what it must refuse")
        if outcome == "refused":
            return
        self.was_killed = self.was_killed or outcome == "killed"
        fresh = self._opened()
        if outcome == "done":
            self._learned(fresh, words, said)
            return
        if fresh.version != self.newest:
            self._found_after_kill(fresh, words)
        self.kept &= {each.number for each in fresh.versions()}

    @rule(more=some_rows(2, 1), other=some_rows(2, 1), mark=marks, also=st.sampled_from(["add", "compact", "learn"]))
    def both_at_once(self, more: Rows, other: Rows, mark: list[int], also: str) -> None:
        """Two threads, each by a handle of its own: both changes are there."""
        first, second = self._added(more, mark, None), self._added(other, mark, None)
        if also == "compact":
            second = {"kind": "compact", "keep": "a week", "fragment_rows": 2}
        elif also == "learn":
            second = {"kind": "learn", "model": "dot"}
        self.is_idle = self._is_right(first) is not True or self._is_right(second) is not True
        if self.is_idle:
            return
        with ThreadPoolExecutor(2) as pool:
            ended = [
                pool.submit(changed, store, words) for store, words in zip(self.handles, (first, second), strict=True)
            ]
        said = [self.attempt("both", each.result, True) or [] for each in ended]
        # Writers take turns: who sees the lower version was first.
        turns = sorted(zip(self.handles, (first, second), said, strict=True), key=lambda each: each[0].version)
        for store, words, given in turns:
            self._learned(store, words, given)

    @rule(handle=handles)
    def refresh(self, handle: int) -> None:
        self.attempt("refresh", self.handles[handle].refresh, True)
        require(
            self.handles[handle].version == self.newest,
            LOST,
            f"refresh leads to version {self.handles[handle].version}, not {self.newest}",
        )
        self._check_rows("refresh", self.handles[handle])

    @rule(handle=handles)
    def reopen(self, handle: int) -> None:
        self.handles[handle] = self._opened()
        require(
            self.handles[handle].version == self.newest,
            LOST,
            f"version {self.handles[handle].version} is opened, not {self.newest}",
        )
        self._check_rows("open", self.handles[handle])

    @rule(handle=handles, which=numbers)
    def look_back(self, handle: int, which: int) -> None:
        """Each version that is listed can be opened, and is what it was."""
        listed = self.attempt("versions", self.handles[handle].versions, True)
        assert listed is not None
        held = {each.number: each.rows for each in listed}
        require(self.newest in held, LOST, f"the newest version {self.newest} is not among {sorted(held)}")
        for number in self.kept & held.keys():
            count = len(self.states[number].rows)
            require(held[number] == count, WRONG, f"version {number} is said to have {held[number]} rows, not {count}")
        self.kept &= held.keys()
        number = sorted(self.kept)[which % len(self.kept)]
        old = self.attempt("at", lambda: self.handles[handle].at(number), True)
        assert old is not None
        self._check_rows("at", old)
        self.attempt("a write to an old version", lambda: old.remove(torch.tensor([0])), False)
        again = self.attempt("open a version", lambda: open_store(self.path, version=number), True)
        assert again is not None
        self._check_rows("an old version", again)

    @rule(
        handle=handles,
        queries=some_rows(3),
        k=st.integers(1, 9),
        where=filters,
        groups=st.none() | st.lists(st.sampled_from(GROUPS), min_size=3, max_size=3),
        way=st.sampled_from(["store", "memory", "index"]),
    )
    def recall(self, handle: int, queries: Rows, k: int, where: Any, groups: list[str] | None, way: str) -> None:
        store, rows, named = (
            self.handles[handle],
            self._cut(queries),
            None if groups is None else groups[: len(queries)],
        )
        is_kept = self._is_kept(store)
        asked = torch.tensor([as_stored(row) for row in rows], dtype=torch.float32).reshape(len(rows), self.dimensions)
        condition = None if where is None or way == "memory" else self._filter(where)
        who: Any = store
        if way != "store":
            made: Callable[[], Any] = store.memory if way == "memory" else lambda: store.index(candidates=100)
            who = self.attempt(way, made, True if way == "memory" and is_kept else None)
            if who is None:
                return
        given = framed(asked.tolist(), store.columns, self.dimensions)
        found = self.attempt(
            f"recall by {way}", lambda: who.recall(given, k, where=condition, groups=named), True if is_kept else None
        )
        if found is None:
            return
        state = self.states[store.version]
        ids = list(state.rows)
        if way == "memory":
            ids = store.rows().ids.tolist()
            state = State({number: state.rows[number] for number in ids}, state.model)
        wanted = self._truth(state, asked, state.passing(condition), named)
        indices = torch.as_tensor(found.indices)
        if way == "memory":
            indices = torch.tensor(ids)[indices]
        check_answer(f"recall by {way}", wanted, min(k, len(state.rows)), indices, found.posterior, found.unknown)
        for some, patterns in zip(indices.tolist(), torch.as_tensor(found.patterns), strict=True):
            for number, pattern in zip(some, patterns, strict=True):
                right = (
                    torch.tensor(state.rows[number][0]) if number >= 0 else torch.full((self.dimensions,), torch.nan)
                )
                require(
                    torch.equal(pattern.nan_to_num(7.5), right.nan_to_num(7.5)),
                    WRONG,
                    f"the pattern of {number} is {pattern}, not {right}",
                )

    @rule(handle=handles, query=some_rows(1, 1), against=st.none() | numbers | st.just("unknown"))
    def explain(self, handle: int, query: Rows, against: int | str | None) -> None:
        store = self.handles[handle]
        state, asked = self.states[store.version], torch.tensor([as_stored(self._cut(query)[0])])
        rival = list(state.rows)[against % len(state.rows)] if isinstance(against, int) else against
        given = framed(asked.tolist(), store.columns, self.dimensions)
        found = self.attempt("explain", lambda: store.explain(given, against=rival), None)
        if found is not None:
            wanted = self._truth(state, asked, None, None)
            check_answer("explain", wanted, 1, [[found.answer]], [[found.posterior]], wanted.unknown)

    @rule(is_made_again=st.booleans(), mark=marks)
    def examine(self, is_made_again: bool, mark: list[int]) -> None:
        found = self.attempt("examine", lambda: examine_store(self.path), True)
        assert found is not None
        require(found.is_sound or self.was_killed, WRONG, f"the store is not sound: {found}")
        if is_made_again:
            memory = AssociativeMemory(torch.zeros(3, 1))
            self.attempt("create again", lambda: create_store(self.path, memory, metadata=metadata_of(mark)), False)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[1] is None and hasattr(self, "handles"):
                fresh = self._opened()
                require(
                    fresh.version == self.newest,
                    LOST,
                    f"at the end version {fresh.version} is opened, not {self.newest}",
                )
                self._check_rows("at the end", fresh)
                left = [
                    each for each in self.folder.rglob("*") if each.suffix == ".partial" or each.parent == self.folder
                ]
                require(left == [self.path] or self.was_killed, WRONG, f"files are left: {left}")
        finally:
            super().teardown()

    def _added(self, more: Rows, mark: list[int], ids: list[int] | None) -> dict[str, Any]:
        rows = self._cut(more)
        chosen = None if ids is None else [IDS[each] for each in ids[: len(rows)]]
        return {"kind": "add", "rows": rows, "marks": mark[: len(rows)], "ids": chosen}

    def _removed(self, which: list[int], way: int) -> dict[str, Any]:
        known = list(self.states[self.newest].rows)
        gone = [known[each % len(known)] for each in which]
        if way < 8:
            gone = list(dict.fromkeys(gone))
        if way == 9:
            gone = known
        if way == 7:
            gone = known[1:]
        return {"kind": "remove", "ids": [*gone, 999] if way == 6 else gone}

    def _is_right(self, words: dict[str, Any]) -> bool | None:
        kind, ids, known = words["kind"], words.get("ids"), self.states[self.newest].rows
        if kind in ("add", "upsert") and ids is None:
            return True if max(self.ever) + len(words["rows"]) < LARGEST else None
        if ids is not None and len(set(ids)) != len(ids):
            return False
        if kind == "add":
            return not set(ids or []) & known.keys()
        if kind == "remove":
            return set(ids or []) <= known.keys() and len(ids or []) < len(known)
        return True

    def _change(self, handle: int, words: dict[str, Any]) -> None:
        store = self.handles[handle]
        given = self.attempt(words["kind"], lambda: changed(store, words), self._is_right(words))
        if given is None:
            return
        self._learned(store, words, given)

    def _learned(self, store: Store, words: dict[str, Any], given: list[int]) -> None:
        """A change was acknowledged: what it leads to is there."""
        self._check_given(words, given)
        before = self.states[self.newest]
        state = self.states[words["version"]] if words["kind"] == "restore" else after(before, words, given)
        if words["kind"] == "compact" and words["keep"] != "now":
            kept = {each.number for each in store.versions()}
            require(kept >= self.kept, LOST, f"compact dropped {self.kept - kept}, which are young")
        self._adopt(store, state)
        if words["kind"] == "compact":
            self.kept &= {each.number for each in store.versions()}

    def _check_given(self, words: dict[str, Any], given: list[int]) -> None:
        if words["kind"] == "add" and words["ids"] is None:
            require(len(given) == len(words["rows"]), WRONG, f"add gave the numbers {given}")
            require(
                not set(given) & self.ever, WRONG, f"add gave {given}, which were given before: {sorted(self.ever)}"
            )
        if words["kind"] in ("add", "upsert"):
            self.ever |= set(given)

    def _adopt(self, store: Store, state: State) -> None:
        version = store.version
        require(version >= self.newest, LOST, f"version {version} comes after {self.newest}")
        for each in range(self.newest + 1, version + 1):  # a compaction makes several, which hold the same
            self.states[each] = state
        self.kept |= {version}
        self.newest = version
        require(self.states[version] == state, LOST, "a change made no new version")
        self._check_rows("after a change", store)

    def _found_after_kill(self, fresh: Store, words: dict[str, Any]) -> None:
        """The newest version is the change as a whole, or what was there before it."""
        before, found = self.states[self.newest], found_in(fresh)
        if not is_same(found, before.rows) or words["kind"] == "learn":
            given = words.get("ids") or [number for number in found if number not in before.rows]
            require(
                words["kind"] != "add" or len(given) == len(words["rows"]),
                WRONG,
                f"a part of a change is there: {sorted(found)} after {sorted(before.rows)}",
            )
            self._learned(fresh, words, given)
        else:  # nothing but the order of its parts, or a version on the way
            self._adopt(fresh, before)

    def _check_rows(self, name: str, store: Store) -> None:
        wanted = self.states[store.version]
        found = self.attempt(f"rows {name}", lambda: found_in(store), True)
        assert found is not None
        lost, more = wanted.rows.keys() - found.keys(), found.keys() - wanted.rows.keys()
        require(not lost, LOST, f"{name}: {sorted(lost)} are not in version {store.version}")
        require(not more, PHANTOM, f"{name}: nobody stored {sorted(more)} in version {store.version}")
        require(is_same(found, wanted.rows), WRONG, f"{name}: {found}, not {dict(wanted.rows)}")

    def _is_kept(self, store: Store) -> bool:
        return store.version in self.kept

    def _opened(self) -> Store:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Version [0-9]+ of .* was never finished")
            try:
                return open_store(self.path)
            except AhopError as error:
                raise BrokenError(NOT_OPENED, f"{type(error).__name__}: {error}") from error

    def _cut(self, rows: Rows) -> Rows:
        return [[0.5 if self.is_whole and each != each else each for each in row[: self.dimensions]] for row in rows]

    def _filter(self, drawn: tuple[str, int, bool, int]) -> dict[str, Any]:
        name, first, has_two, second = drawn
        entries = IDS if name == "id" else COLUMNS[name]
        one, two = entries[first % len(entries)], entries[second % len(entries)]
        return {name: [one, two] if has_two else one}

    def _truth(self, state: State, asked: torch.Tensor, where: list[int] | None, groups: list[str] | None) -> Truth:
        model = MODELS[state.model](self.dimensions, 1)
        return truth(model, state.patterns(), asked, list(state.rows), where=where, groups=groups)


def chunk(number: int, folder: Path) -> Tally:
    return played(StoreMachine, number, SEEDS)


CAMPAIGN = Campaign(
    id="M2",
    name="store_machine",
    goal="random changes to a store, by two handles and other processes, some of them killed, beside a dict of rows",
    counted=(LOST, PHANTOM, WRONG, NOT_OPENED, UNANSWERED, UNTYPED, CRASHES, HANGS),
    wanted=100_000,
    quick=2000,
    chunk=chunk,
)
