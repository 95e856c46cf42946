"""Single bits of saved files are flipped: does anybody get a wrong answer, a crash, or fewer rows than were stored?

Flips are made by a process of their own, so that one that ends it is counted and not the end.
"""

import json
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import ahop
from ahop.errors import AhopError
from experiments.support.harness import Experiment, Row

MEMORY, STORE = "memory", "store"
FLIPS, QUICK_FLIPS, CHUNK = 100_000, 400, 2_500
ROWS, DIMENSIONS = 60, 6
# What a flip can come to; the first two are right.
OUTCOMES = ("refused", "same", "different", "lost", "strange_error", "abort")


def cells(seeds: int, quick: bool) -> list[Row]:
    flips, chunk = (QUICK_FLIPS, QUICK_FLIPS) if quick else (FLIPS, CHUNK)
    return [
        {"what": what, "chunk": number, "flips": chunk, "seed": seed}
        for seed in range(seeds)
        for what in (MEMORY, STORE)
        for number in range(flips // chunk)
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    counts, done = Counter[str](), 0
    while done < cell["flips"]:
        command = [sys.executable, "-m", "experiments.claims.bit_flips", cell["what"]]
        numbers = [str(each) for each in (cell["seed"], cell["chunk"], done, cell["flips"])]
        worker = subprocess.run([*command, *numbers], stdout=subprocess.PIPE, text=True, check=False)
        said = [json.loads(line) for line in worker.stdout.splitlines() if line.startswith("{")]
        counts.update(each["outcome"] for each in said)
        done += len(said)
        if worker.returncode != 0 and done < cell["flips"]:
            counts["abort"] += 1
            done += 1
    return [{**cell} | {outcome: counts[outcome] for outcome in OUTCOMES}]


def main(what: str, seed: int, chunk: int, first: int, flips: int) -> None:
    """Flip bits and say what each came to, a line for each."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        look = _memory(root) if what == MEMORY else _store(root)
        generator = np.random.default_rng([seed, chunk])
        for number in range(flips):
            files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
            path = files[int(generator.integers(len(files)))]
            place, bit = int(generator.integers(max(1, path.stat().st_size))), int(generator.integers(8))
            if number < first:
                continue
            print(json.dumps({"outcome": _flipped(root, path, place, bit, look)}), flush=True)


def _flipped(root: Path, path: Path, place: int, bit: int, look: Callable[[], str]) -> str:
    whole = path.read_bytes()
    if not whole:
        return "same"
    before = {each for each in root.rglob("*") if each.is_file()}
    path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
    try:
        outcome = look()
    except AhopError:
        outcome = "refused"
    except Exception:
        outcome = "strange_error"
    if not path.exists():  # an acknowledged file was put aside
        outcome = "lost"
    for new in {each for each in root.rglob("*") if each.is_file()} - before:
        new.unlink()
    path.write_bytes(whole)
    return outcome


def _fitted() -> ahop.AssociativeMemory:
    patterns = torch.randn(ROWS, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    pairs = ahop.MixedVariant(0.1, 0.1, 0.1).sample(patterns, ROWS, seed=1)
    return ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)


def _memory(root: Path) -> Callable[[], str]:
    memory = _fitted()
    memory.save(root / "memory.ahop")
    queries = memory.patterns[:8]
    expected = memory.recall(queries, k=3)

    def look() -> str:
        loaded = ahop.load(root / "memory.ahop")
        return _compared(loaded.recall(queries, k=3), expected, len(loaded) == ROWS)

    return look


def _store(root: Path) -> Callable[[], str]:
    memory = _fitted()
    colors = {"color": ["red", "green"] * (ROWS // 2)}
    store = ahop.create_store(root / "table", memory, metadata=colors, fragment_rows=25)
    store.remove(torch.tensor([3, 30]))
    store.add(memory.patterns[:2] + 1, metadata={"color": ["red", "red"]})
    store.index()
    queries = memory.patterns[:8]
    expected = [store.recall(queries, k=3, where=where) for where in (None, {"color": "red"})]
    by_index = store.index().recall(queries, k=3)

    def look() -> str:
        opened = ahop.open_store(root / "table")
        answers = [opened.recall(queries, k=3, where=where) for where in (None, {"color": "red"})]
        outcomes = [_compared(*each, len(opened) == ROWS) for each in zip(answers, expected, strict=True)]
        outcomes.append(_compared(opened.index().recall(queries, k=3), by_index, len(opened) == ROWS))
        return next((each for each in outcomes if each != "same"), "same")

    return look


def _compared(found: ahop.Recall[torch.Tensor], expected: ahop.Recall[torch.Tensor], has_all_rows: bool) -> str:
    if not has_all_rows:
        return "lost"
    same = torch.equal(found.indices, expected.indices) and torch.equal(found.posterior, expected.posterior)
    return "same" if same and torch.equal(found.patterns, expected.patterns) else "different"


def summarize(rows: list[Row]) -> list[Row]:
    """All flips of a kind together."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        kinds.setdefault(row["what"], []).append(row)
    return [
        {"what": f"{what}, all", "chunk": "", "flips": sum(row["flips"] for row in group)}
        | {outcome: sum(row[outcome] for row in group) for outcome in OUTCOMES}
        for what, group in kinds.items()
    ]


def headline(rows: list[Row]) -> Row:
    totals = [row for row in rows if row["chunk"] == ""]
    return {"flips": sum(row["flips"] for row in totals)} | {
        outcome: sum(row[outcome] for row in totals) for outcome in OUTCOMES
    }


EXPERIMENT = Experiment(
    name="bit_flips",
    title="One flipped bit in a saved memory, or in any file of a store with its index",
    seeds=1,
    cells=cells,
    run=run,
    keys=("what", "chunk"),
    metrics=("flips", *OUTCOMES),
    summarize=summarize,
    headline=headline,
    notes=(
        "After each flip the memory is loaded and asked; the store is opened and asked without and with a filter, and "
        "by its index. `refused`: an error of ahop. `same`: the answers are those before the flip, as the bit says "
        "nothing, or the index was built anew. Wrong would be `different` answers, `lost` rows that were acknowledged, "
        "a `strange_error` that is none of ahop's, or the `abort` of the process. The quick form has 400 flips of each."
    ),
)


if __name__ == "__main__":
    main(sys.argv[1], *(int(each) for each in sys.argv[2:6]))
