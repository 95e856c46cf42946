"""M1: random sequences of calls to a memory, held against a list of rows."""

import copy
import math
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from torch import Tensor

import ahop
from ahop.memory.memory import AssociativeMemory
from ahop.scale.indexes import Index
from ahop.scale.indexes.build import by_products, candidate_lifting, drawn_pairs
from ahop.similarities.isolated import IsolatedSimilarity
from faults.campaign import CRASHES, HANGS, LOST, PHANTOM, UNANSWERED, UNTYPED, WRONG, Campaign, Tally
from faults.machines import WIDTH, BrokenError, Machine, played, require, some_rows
from faults.models import MODELS, SEPARATIONS
from faults.truth import Truth, check_answer, truth

# Seeds of a chunk.
SEEDS = 3
GROUPS = ("a", "7", "nobody")
# A fit takes half a second, so few of the rules that could fit do.
FITS = 41
Rows = list[list[float]]
numbers = st.integers(0, 63)
choices = st.lists(numbers, max_size=4)


class MemoryMachine(Machine):
    """A memory, and its rows in a list: what was added, less what was removed, in this order."""

    @initialize(
        kind=st.sampled_from(sorted(MODELS)),
        dimensions=st.integers(1, WIDTH),
        first=some_rows(10, 1),
        is_named=st.booleans(),
        is_double=st.booleans(),
        prior=st.none() | st.lists(st.integers(0, 9), min_size=10, max_size=10),
    )
    def create(
        self, kind: str, dimensions: int, first: Rows, is_named: bool, is_double: bool, prior: list[int] | None
    ) -> None:
        self.dtype = torch.float64 if is_double else torch.float32
        self.dimensions, self.named, self.serial = dimensions, is_named, 0
        self.is_whole = kind == "kernel"  # which takes no gaps
        self.rows = [self._stored(row) for row in first]
        self.labels = self._labels(len(first))
        never = 9 if prior is not None and set(prior[: len(first)]) - {9} else -1
        self.prior = None if prior is None else [-math.inf if p == never else -p / 2 for p in prior[: len(first)]]
        model = MODELS[kind](dimensions, len(first))
        self.memory = AssociativeMemory(
            torch.stack(self.rows),
            model=model,
            log_prior=None if self.prior is None else torch.tensor(self.prior),
            labels=self.labels if is_named else None,
        )
        weights = self._weights(self.memory)
        self.weights = None if weights is None else list(weights.unbind(1))

    @rule(more=some_rows(3), way=st.integers(0, 9))
    def add(self, more: Rows, way: int) -> None:
        labels = self._labels(len(more)) if self.named else None
        width, given = self.dimensions, labels
        if way == 9:
            width += 1  # a column too many
        if way == 8:
            given = None if self.named else ["stray"] * len(more)
        is_right = self.prior is None and (way < 8 or (way == 8 and self.named and not more))
        given_rows = torch.tensor([[*row, 0.0][:width] for row in more], dtype=torch.float64).reshape(-1, width)
        given_rows = given_rows.nan_to_num(0.5) if self.is_whole else given_rows
        found = self.attempt("add", lambda: self.memory.add(given_rows, given), is_right)
        if found is None:
            return
        before = len(self.rows)
        require(found.tolist() == list(range(before, before + len(more))), WRONG, f"add returned {found.tolist()}")
        self._grow([self._stored(row) for row in more], labels or [])

    @rule(which=choices, way=st.integers(0, 9))
    def remove(self, which: list[int], way: int) -> None:
        gone = [each % len(self.rows) for each in which]
        if way == 9:
            gone = [*gone, len(self.rows)]
        elif way == 8:
            gone = list(range(len(self.rows)))
        left = set(range(len(self.rows))) - set(gone)
        is_right = way != 9 and any(self.prior is None or self.prior[each] > -math.inf for each in left)
        # An empty list has no kind of number that could be wrong.
        self.attempt("remove", lambda: self.memory.remove(gone), is_right)
        if is_right:
            self._keep([place for place in range(len(self.rows)) if place not in gone])

    @rule(
        queries=some_rows(3),
        k=st.integers(1, 14),
        where=st.none() | choices,
        as_flags=st.booleans(),
        groups=st.none() | st.lists(st.sampled_from(GROUPS), min_size=3, max_size=3),
        same=st.none() | st.lists(st.integers(0, 2), min_size=3, max_size=3),
    )
    def recall(
        self,
        queries: Rows,
        k: int,
        where: list[int] | None,
        as_flags: bool,
        groups: list[str] | None,
        same: list[int] | None,
    ) -> None:
        asked, count = self._asked(queries), len(queries)
        allowed = None if where is None else sorted({each % len(self.rows) for each in where})
        given: Any = allowed
        if allowed is not None and as_flags:
            given = [place in allowed for place in range(len(self.rows))]
        named, together = (None if each is None else each[:count] for each in (groups, same))
        found = self.attempt(
            "recall", lambda: self.memory.recall(asked, k, where=given, groups=named, same=together), True
        )
        assert found is not None
        wanted = self._truth(asked, where=allowed, groups=named, same=together)
        self._check("recall", wanted, k, found)

    @rule(
        query=some_rows(1, 1),
        against=st.none() | numbers | st.just("unknown"),
        group=st.none() | st.sampled_from(GROUPS),
    )
    def explain(self, query: Rows, against: int | str | None, group: str | None) -> None:
        asked = self._asked(query)[0]
        rival: Any = against
        if isinstance(against, int):
            rival = self.labels[against % len(self.rows)] if self.named else against % len(self.rows)
        has_rival = len(self.rows) > 1 or against is not None
        is_right = has_rival and (against != "unknown" or self.memory.detector is not None)
        found = self.attempt("explain", lambda: self.memory.explain(asked, against=rival, group=group), is_right)
        if found is None:
            return
        wanted = self._truth(asked[None], groups=None if group is None else [group])
        answer = self.labels.index(str(found.answer)) if self.named else found.answer
        check_answer("explain", wanted, 1, [[answer]], [[found.posterior]], wanted.unknown)
        require(
            math.isclose(sum(bar.log_odds for bar in found.bars), found.log_odds, abs_tol=1e-6)
            or not math.isfinite(found.log_odds),
            WRONG,
            f"explain: bars of {[bar.log_odds for bar in found.bars]} are not {found.log_odds}",
        )
        str(found)

    @rule(queries=some_rows(2), goes_on=st.booleans())
    def save_and_load(self, queries: Rows, goes_on: bool) -> None:
        path = self.folder / "memory.ahop"
        self.attempt("save", lambda: self.memory.save(path), True)
        loaded = self.attempt("load", lambda: ahop.load(path), True)
        self._check_twin("load", loaded, queries, goes_on)

    @rule(queries=some_rows(2), goes_on=st.booleans(), is_deep=st.booleans())
    def copies(self, queries: Rows, goes_on: bool, is_deep: bool) -> None:
        made = self.attempt("copy", lambda: copy.deepcopy(self.memory) if is_deep else self.memory.copy(), True)
        self._check_twin("deepcopy" if is_deep else "copy", made, queries, goes_on)

    @rule(which=numbers, more=some_rows(2))
    def change_a_copy(self, which: int, more: Rows) -> None:
        """The memory itself stays as it is."""
        made = self.memory.copy()
        is_sure = len(self.rows) > 1 and self.prior is None
        self.succeeds("remove of a copy", lambda: made.remove([which % len(self.rows)]), is_sure or None)
        if self.prior is None:
            made.add(self._asked(more), self._labels(len(more)) if self.named else None)
        made.separation = SEPARATIONS[0]

    @rule(queries=some_rows(2), k=st.integers(1, 5), group=st.none() | st.sampled_from(GROUPS))
    def open_without_torch(self, queries: Rows, k: int, group: str | None) -> None:
        path = self.folder / "memory.ahop"
        self.attempt("save", lambda: self.memory.save(path), True)
        opened = self.attempt("open", lambda: ahop.open_memory(path), None)
        asked, groups = self._asked(queries), None if group is None else [group] * len(queries)
        if opened is None:
            return
        found = self.attempt("recall without torch", lambda: opened.recall(asked.numpy(), k, groups=groups), None)
        wanted = self._truth(asked, groups=groups).in_single_precision()
        # There huge numbers are others.
        if found is not None and not bool((wanted.slack > 1e-3).any()):
            check_answer("open_memory", wanted, min(k, len(self.rows)), found.indices, found.posterior, found.unknown)

    @rule(
        queries=some_rows(3),
        k=st.integers(1, 14),
        candidates=st.sampled_from([1, 3, 100, 100]),
        scanned=st.sampled_from([0, 0, 2, None]),
        more=some_rows(2),
        gone=choices,
        where=st.none() | choices,
        groups=st.none() | st.lists(st.sampled_from(GROUPS), min_size=3, max_size=3),
    )
    def index(
        self,
        queries: Rows,
        k: int,
        candidates: int,
        scanned: int | None,
        more: Rows,
        gone: list[int],
        where: list[int] | None,
        groups: list[str] | None,
    ) -> None:
        """Rows of an index keep their numbers, and those that are removed are never answered."""
        made = self.attempt("index", lambda: _index(self.memory, candidates, by_engine=scanned is not None), None)
        if made is None:
            return
        made.scanned = scanned
        stored, labels = list(self.rows), self._labels(len(more))
        if self.prior is None and more:
            new = self.attempt(
                "index.add", lambda: made.add(self._asked(more), labels=labels if self.named else None), None
            )
            if new is None:  # its lifting may take no gaps
                return
            require(new.tolist() == list(range(len(stored), len(stored) + len(more))), WRONG, f"index.add: {new}")
            stored += [self._stored(row) for row in more]
        removed = {each % len(stored) for each in gone}
        is_right = len(removed) < len(stored)
        # Rows whose prior is zero count as removed.
        is_sure = is_right and self.prior is None
        if not self.succeeds("index.remove", lambda: made.remove(sorted(removed)), is_sure or None):
            removed = set()
        allowed = [row for row in range(len(stored)) if row not in removed]
        asked, given = self._asked(queries), None
        if where is not None:
            given = torch.tensor(sorted({each % len(stored) for each in where}), dtype=torch.long)
            allowed = [row for row in allowed if row in given]
        named = None if groups is None else groups[: len(queries)]
        found = self.attempt("index.recall", lambda: made.recall(asked, k, where=given, groups=named), True)
        assert found is not None
        answered = set(np.asarray(found.indices).flatten().tolist()) - {-1}
        require(answered <= set(allowed), PHANTOM, f"index: {answered} are not all among {allowed}")
        if candidates < len(stored):
            return
        wanted = truth(
            made.memory.model, torch.stack(stored), asked, prior=made.memory.log_prior, where=allowed, groups=named
        )
        check_answer("index", wanted, min(k, len(stored)), found.indices, found.posterior, found.unknown)

    @rule(part=st.integers(0, len(SEPARATIONS) - 1))
    def change_a_part(self, part: int) -> None:
        self.memory.separation = SEPARATIONS[part]

    @rule(
        chance=numbers,
        picked=st.lists(numbers, min_size=8, max_size=12),
        similarity=st.sampled_from(["euclidean", "mixture"]),
    )
    def fit(self, chance: int, picked: list[int], similarity: str) -> None:
        self.is_idle = chance != FITS or self.prior is not None
        if self.is_idle:
            return
        origins = torch.tensor([each % len(self.rows) for each in picked])
        copies = torch.stack([self.rows[int(each)] for each in origins]).nan_to_num(0.5).clamp(-10, 10) + 0.1
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "[0-9]+ pairs of [0-9]+ different origins are too few")
            warnings.filterwarnings("ignore", "Many entries of `patterns` are ")
            fitted = self.attempt(
                "fit",
                lambda: ahop.fit(self.memory, pairs=ahop.Pairs(origins, copies), similarity=similarity, progress=False),
                None,
            )
        if fitted is not None:
            self.memory, self.weights = fitted, None

    @rule(queries=some_rows(2))
    def retrieve(self, queries: Rows) -> None:
        asked = self._asked(queries)
        found = self.attempt("retrieve", lambda: self.memory.retrieve(asked), True)
        weights = self.attempt("weights", lambda: self.memory.weights(asked), True)
        assert found is not None
        assert weights is not None
        require(tuple(found.shape) == tuple(asked.shape), WRONG, f"retrieve: shape {tuple(found.shape)}")
        require(not bool(torch.isinf(found).any()), WRONG, f"retrieve: {found.tolist()}")
        require(bool(torch.isfinite(weights).all()), WRONG, f"weights: {weights.tolist()}")
        if self.memory.energy_function is not None:
            self.attempt("energy", lambda: self.memory.energy(asked), True)

    @rule(way=st.integers(0, 7), queries=some_rows(1, 1))
    def ask_wrongly(self, way: int, queries: Rows) -> None:
        asked, memory, count = self._asked(queries), self.memory, len(self.rows)
        calls: tuple[Callable[[], object], ...] = (
            lambda: memory.recall(asked, 0),
            lambda: memory.recall(asked[0]),
            lambda: memory.recall(torch.full_like(asked, torch.inf)),
            lambda: memory.recall(asked, where=[count]),
            lambda: memory.recall(asked, groups=["a", "b"]),
            lambda: memory.recall(asked, same=[]),
            lambda: memory.explain(asked, against=-5),
            lambda: memory.recall([["a"] * self.dimensions]),
        )
        self.attempt("wrong", calls[way], False)

    @rule(
        more=some_rows(2, 1),
        changes=st.lists(st.booleans(), min_size=2, max_size=6),
        looks=st.lists(st.sampled_from(["save", "copy", "deepcopy", "recall"]), min_size=1, max_size=4),
    )
    def several_threads(self, more: Rows, changes: list[bool], looks: list[str]) -> None:
        """One thread changes the memory, another looks at it: each look is of one state."""
        self.is_idle = self.prior is not None
        if self.is_idle:
            return
        states, labels = [self._state()], self.labels
        added = [self._stored(row) for row in more]
        planned = [self._labels(len(more)) for _ in changes]
        failures: list[BaseException] = []
        seen: list[Any] = []

        def change() -> None:
            for is_more, new in zip(changes, planned, strict=True):
                if is_more:
                    self.memory.add(torch.stack(added), new if self.named else None)
                elif len(self.memory) > 1:
                    self.memory.remove([0])

        def look() -> None:
            seen.extend(self._look(each, place) for place, each in enumerate(looks))

        _together([change, look], failures)
        for failure in failures:
            raise BrokenError(UNTYPED, f"threads: {type(failure).__name__}: {failure}") from failure
        for is_more, new in zip(changes, planned, strict=True):
            if is_more:
                self._grow(list(added), new)
            elif len(self.rows) > 1:
                self._keep(list(range(1, len(self.rows))))
            states.append(self._state())
        for what, found in zip(looks, seen, strict=True):
            opened = self.attempt("load", partial(ahop.load, found), True) if isinstance(found, Path) else found
            if opened is not None:
                require(self._state_of(opened) in states, WRONG, f"threads: {what} is of two states, {labels}")

    @invariant()
    def nothing_is_lost_or_made_up(self) -> None:
        self._check_rows("memory", self.memory)
        left = [each.name for each in self.folder.iterdir() if each.name != "memory.ahop" and "thread" not in each.name]
        require(not left, WRONG, f"files are left: {left}")

    def _look(self, what: str, place: int) -> Any:
        if what == "save":
            path = self.folder / f"thread-{place}.ahop"
            self.memory.save(path)
            return path
        if what == "recall":
            found = self.memory.recall(self.rows[0][None], 3)
            require(bool((found.indices >= 0).any()), WRONG, f"threads: recall answers {found.indices}")
            return None
        return self.memory.copy() if what == "copy" else copy.deepcopy(self.memory)

    def _state(self) -> Any:
        weights = None if self.weights is None else _bits(torch.stack(self.weights, 1))
        return _bits(torch.stack(self.rows)), tuple(self.labels) if self.named else None, weights

    def _state_of(self, memory: AssociativeMemory) -> Any:
        weights = self._weights(memory)
        labels = None if memory.labels is None else tuple(memory.labels.tolist())
        return _bits(memory.patterns), labels, None if weights is None else _bits(weights)

    def _grow(self, more: list[Tensor], labels: list[str]) -> None:
        self.rows += more
        self.labels += labels or [""] * len(more)
        if self.weights is not None:
            fresh = torch.zeros_like(self.weights[0])
            fresh[..., -1] = 1  # as a similarity begins: the whole of each base
            self.weights += [fresh] * len(more)

    def _keep(self, kept: list[int]) -> None:
        self.rows, self.labels = [self.rows[each] for each in kept], [self.labels[each] for each in kept]
        self.prior = None if self.prior is None else [self.prior[each] for each in kept]
        self.weights = None if self.weights is None else [self.weights[each] for each in kept]

    def _stored(self, row: list[float]) -> Tensor:
        """A row as a memory keeps it: huge numbers are the largest of its precision."""
        edge = torch.finfo(self.dtype).max
        found = torch.tensor(row[: self.dimensions], dtype=torch.float64).clamp(-edge, edge).to(self.dtype)
        return found.nan_to_num(0.5) if self.is_whole else found

    def _asked(self, queries: Rows) -> Tensor:
        if not queries:
            return torch.empty(0, self.dimensions, dtype=self.dtype)
        return torch.stack([self._stored(row) for row in queries])

    def _labels(self, count: int) -> list[str]:
        """Names that nothing had before."""
        self.serial += count
        return [f"row {self.serial - count + each} ä" for each in range(count)]

    def _weights(self, memory: AssociativeMemory) -> Tensor | None:
        similarity = memory.similarity
        return similarity.weights.detach() if isinstance(similarity, IsolatedSimilarity) else None

    def _truth(self, asked: Tensor, **given: Any) -> Truth:
        prior = None if self.prior is None else torch.tensor(self.prior).to(self.dtype)
        return truth(self.memory.model, torch.stack(self.rows), asked, prior=prior, **given)

    def _check(self, name: str, wanted: Truth, k: int, found: Any) -> None:
        check_answer(name, wanted, min(k, len(self.rows)), found.indices, found.posterior, found.unknown)
        for numbers_of, patterns in zip(found.indices.tolist(), found.patterns, strict=True):
            for place, number in enumerate(numbers_of):
                right = self.rows[number] if number >= 0 else torch.full_like(self.rows[0], torch.nan)
                require(_bits(patterns[place]) == _bits(right), WRONG, f"{name}: the pattern of {number} is {patterns}")
        if self.named:
            right_labels = [[self.labels[n] if n >= 0 else None for n in some] for some in found.indices.tolist()]
            require(found.labels.tolist() == right_labels, WRONG, f"{name}: labels {found.labels}")

    def _check_rows(self, name: str, memory: AssociativeMemory) -> None:
        found, wanted = memory.patterns, torch.stack(self.rows)
        outcome = LOST if len(found) < len(wanted) else PHANTOM if len(found) > len(wanted) else WRONG
        require(_bits(found) == _bits(wanted), outcome, f"{name} has {found.tolist()}, not {wanted.tolist()}")
        labels = None if memory.labels is None else memory.labels.tolist()
        require(labels == (self.labels if self.named else None), WRONG, f"{name} has the labels {labels}")
        prior = None if memory.log_prior is None else memory.log_prior.tolist()
        require(prior == self.prior, WRONG, f"{name} has the prior {prior}, not {self.prior}")
        weights = self._weights(memory)
        if weights is not None and self.weights is not None:
            require(torch.equal(weights, torch.stack(self.weights, 1)), WRONG, f"{name} has other weights")

    def _check_twin(self, name: str, twin: AssociativeMemory | None, queries: Rows, goes_on: bool) -> None:
        """The same rows, and the same answers to the last bit."""
        assert twin is not None
        self._check_rows(name, twin)
        asked = self._asked(queries)
        ours, theirs = (each.recall(asked, 3) for each in (self.memory, twin))
        same = torch.equal(ours.indices, theirs.indices) and torch.equal(ours.posterior, theirs.posterior)
        if ours.unknown is not None:
            same = same and theirs.unknown is not None and torch.equal(ours.unknown, theirs.unknown)
        require(same, WRONG, f"{name} answers {theirs}, not {ours}")
        if goes_on:
            self.memory = twin


def _index(memory: AssociativeMemory, candidates: int, *, by_engine: bool) -> Index:
    """An index as users make it, which looks at every row where these are few; or one with an engine."""
    if not by_engine:
        return ahop.index(memory, candidates=candidates)
    return by_products(memory, candidate_lifting(memory, drawn_pairs(memory, None, None, 0)), candidates)


def _bits(values: Tensor) -> tuple[tuple[int, ...], str, bytes]:
    return tuple(values.shape), str(values.dtype), values.detach().contiguous().numpy().tobytes()


def _together(work: list[Callable[[], None]], failures: list[BaseException]) -> None:
    """Each in a thread, and as often interrupted as can be."""

    def run(each: Callable[[], None]) -> None:
        try:
            each()
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run, args=(each,), daemon=True) for each in work]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
            require(not each.is_alive(), HANGS, "threads wait for each other")
    finally:
        sys.setswitchinterval(before)


def chunk(number: int, folder: Path) -> Tally:
    return played(MemoryMachine, number, SEEDS)


CAMPAIGN = Campaign(
    id="M1",
    name="memory_machine",
    goal="random sequences of calls to a memory, beside a list of rows: nothing is lost, every copy answers alike",
    counted=(LOST, PHANTOM, WRONG, UNANSWERED, UNTYPED, CRASHES, HANGS),
    wanted=800_000,
    quick=2000,
    chunk=chunk,
)
