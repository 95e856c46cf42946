"""A search with probabilities in front of it."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.html import facts
from ahop._core.inputs import as_query
from ahop._core.label_tensors import as_text, from_text
from ahop._core.labels import Label, as_label, as_labels
from ahop._core.typing import Entries, Queries, RowsLike
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.memory.explanation import Bar, Explanation
from ahop.memory.reasons import LEAST, LEAST_POSTERIOR, MARGIN, OTHER_ANSWERS, PRIOR, UNKNOWN
from ahop.memory.recall import Recall
from ahop.memory.recaller import BaseRecaller
from ahop.memory.saving.archive import read_archive, write_archive
from ahop.memory.saving.registry import FAILURES
from ahop.memory.unknown import Evidence, UnknownDetector
from ahop.operate.attaching.attach_report import AttachReport
from ahop.operate.attaching.levels import LEVELS, Calibration, Levels, watched
from ahop.operate.attaching.lists import Lists, Search, ask

# Bars of an explanation: of an answer against another, and of a list against no right answer.
SCORE, HUBNESS = "score", "answered often"
FEATURES_OF_LIST = ("all scores together", "lead of the first", "mean of the list", "spread of the list")


@dataclass(frozen=True)
class Judged:
    """Lists in the order of their probability; the last answers may not be there.

    Attributes:
        lists: (b, k).
        hubs: (b, k) how often each id is answered, in logarithms.
        log_odds: (b, k).
        posterior: (b, k).
        unknown: (b,) that none of them is right.
        places: (b, k) where each stood in the list of the search.
    """

    lists: Lists
    hubs: Tensor
    log_odds: Tensor
    posterior: Tensor
    unknown: Tensor
    places: Tensor


@final
class AttachedSearch(BaseRecaller[Entries]):
    """A search that says how sure it is: what `ahop.attach` makes.

    No pattern passes through it: it learns from ids and scores alone, and its answers have none. Answers are in the
    order of their probability. Whole numbers as ids are `indices`; of other ids `labels` are the ids, and `indices` the
    places that they had in the list of the search.

    Args:
        search: (queries, k) -> ids and scores, best first.
        learned: about it.
        report: what was found.
        width: columns of the queries; 0 where they are no rows of numbers, such as texts.

    Attributes:
        levels: names of the statistics of lists that `ahop.watch` compares.
    """

    levels = LEVELS

    def __init__(self, search: Search, learned: Calibration, report: AttachReport, width: int) -> None:
        self.search, self.learned, self.report, self.width = search, learned, report, width

    @property
    @override
    def columns(self) -> None:
        """Queries have no names for their columns."""

    @property
    @override
    def dimensions(self) -> int:
        return self.width

    @property
    def candidates(self) -> int:
        """The number of answers of the search that are looked at; no more can be recalled."""
        return self.report.candidates

    @property
    def is_checked(self) -> bool:
        """True if probabilities were compared with known answers."""
        return self.report.is_checked

    def _repr_html_(self) -> str:
        known = {"search": repr(self.search), "candidates": self.candidates, "columns of queries": self.width or "any"}
        return facts("AttachedSearch", known, str(self.report))

    def explain(self, query: Any, *, against: object = None) -> Explanation:
        """Why this query is answered as it is: what score and hubness say for the answer, and against its rival.

        Args:
            query: one row, or whatever the search takes as one query.
            against: the id of the rival, among the candidates; or "unknown" for what tells the answer from none.
                Default: the second answer.
        """
        asked: Any = [query] if not self.width else as_query(query, self._like())
        judged = self._judged(asked)
        ids = judged.lists.ids[0].tolist()
        if ids[0] is None:
            raise UnsupportedError("The search answers nothing to this query; there is nothing to explain.")
        sure = float(judged.posterior[0, 0])
        if against == UNKNOWN:
            bars = self._against_none(judged, sure)
            return _explanation(ids[0], UNKNOWN, sure, bars)
        place = 1 if against is None else _place(ids, as_label(against))
        if place >= len(ids) or ids[place] is None:
            raise UnsupportedError('One answer has no rival to tell it from; ask for `against="unknown"`.')
        return _explanation(ids[0], ids[place], sure, self._against_rival(judged, place))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned to one file, without the search: `ahop.attach(search, learned=path)` reads it."""
        learned, levels = self.learned, self.learned.levels
        names = as_labels(list(levels.totals), len(levels.totals))
        numbers = {name: getattr(levels, name) for name in ("center", "scale", "closeness", "hubness")}
        told = {**numbers, "floor": learned.floor, "rate": learned.detector.rate, "width": self.width}
        tensors = {f"detector.{name}": each for name, each in learned.detector.state_dict().items()}
        tensors |= {"reference": learned.reference, "totals": torch.tensor(list(levels.totals.values())).double()}
        tensors |= {} if learned.relevance is None else {"relevance": learned.relevance}
        tensors |= {"labels": as_text(names)} if len(names) else {}
        write_archive(path, {"attached": told, "report": asdict(self.report)}, tensors)

    @override
    def _checked(self, queries: RowsLike) -> Any:
        if self.width:
            return super()._checked(queries)
        if isinstance(queries, str | bytes) or not hasattr(queries, "__len__"):
            raise InvalidTypeError(
                f"`queries` must be a list of queries; got {type(queries).__name__}. Pass `[query]`."
            )
        return queries

    @override
    def _recalled(self, queries: Any, k: int, where: Entries | None, groups: Sequence[object] | None) -> Recall[Tensor]:
        for name, value in (("where", where), ("groups", groups)):
            if value is not None:
                raise UnsupportedError(f"`{name}` is for the search itself: attach to a function that heeds it.")
        judged, k = self._judged(queries), min(k, self.candidates)
        ids = judged.lists.ids[:, :k]
        is_whole = all(type(each) is int for each in ids.reshape(-1).tolist() if each is not None)
        indices, labels = judged.places[:, :k], None if is_whole else ids
        if is_whole:
            rows = [-1 if each is None else each for each in ids.reshape(-1).tolist()]
            indices = torch.tensor(rows, dtype=torch.long).view(ids.shape)
        relevance = self.learned.relevances(judged.posterior, judged.unknown)[:, :k].float()
        return Recall(
            indices.masked_fill(torch.isneginf(judged.log_odds[:, :k]), -1),
            judged.posterior[:, :k].float(),
            torch.empty(*ids.shape, 0),
            judged.unknown.float(),
            labels,
            self.is_checked,
            relevance,
        )

    @override
    def _recalled_together(
        self, queries: Queries, k: int, where: Entries | None, groups: Sequence[object] | None, same: Entries
    ) -> Recall[Tensor]:
        raise UnsupportedError("`same` adds what queries say about every pattern, and a search answers a few only.")

    def levels_of(self, queries: RowsLike) -> tuple[Tensor, Tensor, Tensor]:
        """Statistics of lists that `ahop.watch` compares (b, c), the posterior of the first (b,), and unknown (b,)."""
        judged = self._judged(self._checked(queries))
        return watched(judged.lists, judged.hubs), judged.posterior[:, 0], judged.unknown

    def _lists(self, queries: Any) -> Lists:
        asked = queries.detach().cpu().numpy() if isinstance(queries, Tensor) else queries
        return ask(self.search, asked, self.candidates, -1 if self.report.distances else 1)[0]

    def _judged(self, queries: Any) -> Judged:
        lists, learned = self._lists(queries), self.learned
        hubs = learned.levels.hubs(lists)
        log_odds = learned.levels.log_odds(lists, hubs)
        unknown = learned.unknown(log_odds)
        order = log_odds.argsort(dim=-1, descending=True, stable=True)
        hubs, log_odds = hubs.gather(1, order), log_odds.gather(1, order)
        return Judged(lists.at(order), hubs, log_odds, learned.posterior(log_odds), unknown, order)

    def _against_rival(self, judged: Judged, place: int) -> list[Bar]:
        levels, pair = self.learned.levels, torch.tensor([0, place])
        scores, near = judged.lists.scores[0, pair], levels.closenesses(judged.lists)[0, pair]
        hubs, posterior = judged.hubs[0, pair], judged.posterior[0, pair]
        sizes = (levels.closeness * float(near[0] - near[1]), -levels.hubness * float(hubs[0] - hubs[1]))
        bars = [
            Bar(SCORE, sizes[0], _side(sizes[0]), None, *scores.tolist()),
            Bar(HUBNESS, sizes[1], _side(sizes[1]), None, *hubs.tolist()),
        ]
        margin = float(posterior[0].log() - posterior[1].log()) - sum(sizes)
        return bars if abs(margin) < LEAST else [*bars, Bar(MARGIN, margin, "in case scores mislead")]

    def _against_none(self, judged: Judged, sure: float) -> list[Bar]:
        detector = self.learned.detector
        values = Evidence.of(judged.log_odds).features()[0]
        sizes = (detector.slopes * (values - detector.center) / detector.scale).tolist()
        bars = [
            Bar(name, size, _side(size), value)
            for name, size, value in zip(FEATURES_OF_LIST, sizes, values.tolist(), strict=True)
        ]
        usual = float(detector.offset) - detector.log_prior_odds
        other = float(np.log(max(sure, LEAST_POSTERIOR)))
        return [*bars, Bar(PRIOR, usual, _side(usual)), Bar(OTHER_ANSWERS, other, "may be right")]


def restored(search: Search, path: str | os.PathLike[str]) -> AttachedSearch:
    """A search with what `AttachedSearch.save` wrote in front of it."""
    manifest, tensors = read_archive(path)
    try:
        told, report = dict(manifest["attached"]), AttachReport(**manifest["report"])
        width, floor, rate = int(told.pop("width")), float(told.pop("floor")), float(told.pop("rate"))
        totals = tensors["totals"].tolist()
        names: Iterable[Label] = from_text(tensors["labels"], len(totals)).tolist() if totals else []
        detector = UnknownDetector(rate).double()
        detector.load_state_dict({name: tensors[f"detector.{name}"] for name in detector.state_dict()})
        levels = Levels(**told, totals=dict(zip(names, totals, strict=True)))
        learned = Calibration(levels, floor, detector, tensors.get("relevance"), tensors["reference"])
        str(report)
    except FAILURES as error:
        raise FileFormatError(f"`{path}` does not describe what was learned about a search: {error}") from error
    return AttachedSearch(search, learned, report, width)


def _place(ids: list[Label | None], wanted: Label) -> int:
    if wanted not in ids:
        raise InvalidValueError(f"`against` must be one of the candidates, such as {ids[0]!r}; {wanted!r} is none.")
    return ids.index(wanted)


def _explanation(answer: object, rival: object, sure: float, bars: list[Bar]) -> Explanation:
    ordered = tuple(sorted(bars, key=lambda bar: -abs(bar.log_odds)))
    return Explanation(answer, rival, sure, sum(bar.log_odds for bar in bars), ordered)


def _side(size: float) -> str:
    return "speaks for" if size > 0 else "speaks against" if size < 0 else "says nothing"
