"""What probabilities without labels are judged on: what is stored, a log of queries, and others to be tested on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import torch
from torch import Generator, Tensor

import ahop
from ahop.variants import Variant
from experiments.support.damages import REAL, DamagedVariant
from experiments.support.data import debian_texts, uniform_patterns
from experiments.support.few_columns import f1_of_nearest, tables
from experiments.support.harness import Row
from experiments.support.measures import f1
from experiments.support.nir_protocol import drawn
from experiments.support.settings import seed_of_test
from experiments.support.unlabelled import seed_of_log
from experiments.support.wifi_peers import offsets_off, sorensen
from experiments.support.wifi_protocol import leave_out_phone, metres, phones, scans_of_others

NONE, FIVE, TWENTY, THIRTY, BOTH = "no label", "5 labels", "20 labels", "30 labels", "20 labels and the log"
DONORS, ASKED = "no label, raw scans of others", "20 labels of ask and the log"
# How many rows of the log are labeled, and whether the others are learned from as well.
VARIANTS = {
    NONE: (0, True),
    DONORS: (0, True),
    FIVE: (5, False),
    TWENTY: (20, False),
    THIRTY: (30, False),
    BOTH: (20, True),
    ASKED: (20, True),
}


@dataclass(frozen=True, eq=False)
class Task:
    """Attributes:
    log: queries to learn from; who labels some says the origins of the first ones, or of those that `ahop.ask` names.
    test: queries of other copies, or of other rows.
    beside: what else this task measures, of a memory that was fitted, or nothing.
    surveyed: a memory of rows whose labels repeat, measured by others; None where there are none.
    """

    patterns: Tensor
    log: ahop.Pairs
    test: ahop.Pairs
    beside: Callable[[ahop.AssociativeMemory], Row] = lambda memory: {}
    surveyed: Callable[[], ahop.AssociativeMemory] | None = None

    def taught(self, variant: str, seed: int) -> tuple[ahop.AssociativeMemory, ahop.Pairs | None]:
        """A memory that has learned as this variant says, and the labels that it had."""
        count, has_log = VARIANTS[variant]
        if variant == DONORS:
            assert self.surveyed is not None
            return ahop.adapt(self.surveyed(), self.log.queries, seed=seed, progress=False), None
        order = torch.arange(len(self.log))
        if not count:
            return _unlabeled(self, seed), None
        if variant == ASKED:
            chosen = ahop.ask(_unlabeled(self, seed), self.log.queries, count)
            order = torch.cat([chosen, order[~torch.isin(order, chosen)]])
        labels = ahop.Pairs(self.log.origins[order[:count]], self.log.queries[order[:count]])
        queries = self.log.queries[order[count:]] if has_log else None
        return ahop.fit(self.patterns, pairs=labels, queries=queries, seed=seed, progress=False), labels


@lru_cache(maxsize=1)
def _unlabeled(task: Task, seed: int) -> ahop.AssociativeMemory:
    """A memory that has learned from the log alone: two variants need it."""
    return ahop.fit(task.patterns, queries=task.log.queries, seed=seed, progress=False)


@dataclass(frozen=True)
class Family:
    """Attributes:
    tasks: their names, in full and in the quick form.
    variants: the same.
    draw: the name of a task and a seed -> the task.
    """

    tasks: Callable[[bool], list[str]]
    variants: tuple[str, ...]
    draw: Callable[[str, int], Task]
    is_quick: bool = True


@cache
def _surveyed(phone: int) -> ahop.AssociativeMemory:
    """The raw scans of the other phones, which no draw changes: a pattern for each place, in the order of the map."""
    scans, places, others = scans_of_others(phone)
    order = torch.tensor(places).argsort(stable=True).tolist()
    labels, groups = ([each[row] for row in order] for each in (places, others))
    return ahop.fit(scans[order], labels=labels, groups=groups, progress=False)


def _wifi(name: str, seed: int) -> Task:
    """A phone that is new to the map."""
    phone = int(name.removeprefix("phone "))
    draw = leave_out_phone(phone, seed)

    def beside(memory: ahop.AssociativeMemory) -> Row:
        found = memory.recall(draw.test.queries).indices[:, 0]
        customary = sorensen(draw.patterns, offsets_off(draw)[1]).argmax(-1)
        return {
            "metres": float(metres(draw.places[found], draw.truth).mean()),
            "metres_customary": float(metres(draw.places[customary], draw.truth).mean()),
        }

    return Task(draw.patterns, draw.pairs, draw.test, beside, lambda: _surveyed(phone))


# The text model, how many are stored, how many are in the log, and how many are tested.
TEXTS = {"WordLlama": ("wl256", 6000, 600, 400), "MiniLM": ("minilm384", 3500, 600, 400)}


def _text(name: str, seed: int) -> Task:
    """Short descriptions ask for long ones."""
    model, stored, logged, tested = TEXTS[name]
    short, long = debian_texts(model)
    rows = torch.randperm(len(long), generator=Generator().manual_seed(seed))[:stored]
    asked = torch.randperm(stored, generator=Generator().manual_seed(seed_of_log(seed)))[: logged + tested]
    copies = short[rows[asked]]
    log, test = (
        ahop.Pairs(asked[part], copies[part]) for part in (slice(None, logged), slice(logged, logged + tested))
    )
    return Task(long[rows], log, test)


# The instrument of the library, and the one that asks.
INSTRUMENTS = (
    ("Micronir1700rep1", "Micronir2200"),
    ("Micronir1700rep1", "Tellspec"),
    ("F750", "Micronir1700rep1"),
    ("Nirscan_nano", "Scio"),
)


def _nir(name: str, seed: int) -> Task:
    library, query = name.split(" to ")
    draw = drawn(library, query, 20, seed)
    return Task(draw.patterns, draw.pairs, draw.test)


LOGGED, TESTED = 512, 1000
DAMAGED = ("spectra, resampled", "digits, covered", "digits, small JPEG", "digits, blurred")


def _sampled(patterns: Tensor, variant: Variant, seed: int) -> Task:
    log, test = (
        variant.sample(patterns, count, start)
        for count, start in ((LOGGED, seed_of_log(seed)), (TESTED, seed_of_test(seed)))
    )
    return Task(patterns, log, test)


def _damaged(name: str, seed: int) -> Task:
    return _sampled(REAL[name].patterns(seed), DamagedVariant(name, REAL[name].damage), seed)


def _generated(name: str, seed: int) -> Task:
    """The paper's generator, of which the truth is known to hold."""
    difficulty = float(name.removeprefix("difficulty "))
    variant = ahop.MixedVariant(difficulty, difficulty, difficulty, seed=seed)
    return _sampled(uniform_patterns(512, 64, seed), variant, seed)


def _table(name: str, seed: int) -> Task:
    """The rows of the right table are the log; all but those that may be labeled are tested."""
    columns = int(name.removesuffix(" columns"))
    drawn = tables(columns, seed)
    log, test = (ahop.Pairs(drawn.origins[part], drawn.right[part]) for part in (slice(None), slice(20, None)))

    def beside(memory: ahop.AssociativeMemory) -> Row:
        links = ahop.link(memory, drawn.right, progress=False)
        linked = torch.full_like(drawn.origins, -1)
        linked[torch.as_tensor(links.right)] = torch.as_tensor(links.left)
        return {
            "link_f1": f1(linked, drawn.origins),
            "link_f1_nearest": f1_of_nearest(columns, seed, seed_of_test(seed)),
        }

    return Task(drawn.left, log, test, beside)


def _named(*names: str) -> Callable[[bool], list[str]]:
    """The quick form has the first."""
    return lambda quick: list(names[:1] if quick else names)


FAMILIES: dict[str, Family] = {
    "paper's generator": Family(
        _named("difficulty 0.4", "difficulty 0.5"), (NONE, TWENTY, ASKED, THIRTY, BOTH), _generated
    ),
    "tables": Family(_named("6 columns", "8 columns", "12 columns"), (NONE, TWENTY), _table),
    "near infrared": Family(_named(*(" to ".join(pair) for pair in INSTRUMENTS)), (NONE, FIVE, TWENTY), _nir),
    "Wi-Fi": Family(
        lambda quick: [f"phone {phone}" for phone in (phones()[:1] if quick else phones())],
        (NONE, DONORS, TWENTY, ASKED, THIRTY),
        _wifi,
    ),
    "text": Family(_named(*TEXTS), (NONE, TWENTY, ASKED, THIRTY, BOTH), _text, is_quick=False),
    "damages": Family(_named(*DAMAGED), (NONE, TWENTY, ASKED, THIRTY, BOTH), _damaged, is_quick=False),
}


@lru_cache(maxsize=1)
def drawn_task(family: str, task: str, seed: int) -> Task:
    """One draw, which all variants share."""
    return FAMILIES[family].draw(task, seed)
