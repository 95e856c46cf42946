"""`ahop recall`: answer queries."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ahop.cli import arguments
from ahop.cli.answer_table import SHOWN, Answers
from ahop.cli.running import RequestError
from ahop.cli.sources import group_names, labels_of, load_asked, read_pairs, read_queries
from ahop.cli.tables.choosing import Wanted
from ahop.cli.tables.saving import check_table, write_table
from ahop.cli.tables.table import Table
from ahop.cli.talk import Talk

if TYPE_CHECKING:
    from ahop.memory.recall import Recall

# Queries that are answered under one step of the bar.
BLOCK = 512
UNCHECKED = "Unchecked: no label has shown whether these probabilities are right."


def recall(
    talk: Talk,
    memory: arguments.Memory,
    queries: arguments.Queries,
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers for each query.")] = 3,
    output: arguments.Answers = None,
    precision: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Accept so many answers that this share of the accepted ones is right."),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(
            help="Pairs that the memory was not fitted to: with them `--precision` is a promise.", metavar="FILE"
        ),
    ] = None,
    id: arguments.Id = None,
    origin: arguments.Origin = None,
    group: arguments.Group = None,
    same: Annotated[
        str | None,
        typer.Option(help="A column that is equal where queries have their origin in common.", metavar="COLUMN"),
    ] = None,
    columns: arguments.Columns = None,
    ignore: arguments.Ignore = None,
    force: arguments.Force = False,
) -> None:
    """Answer queries, and say how sure that is.

    The stored patterns that each query most likely came from, best first.
    """
    if output is not None:
        check_table(output, force)
    if held_out is not None and precision is None:
        raise RequestError("`--held-out` goes with `--precision`, such as `--precision 0.95`.")
    asker = load_asked(memory, talk)
    wanted = Wanted.by(id, columns, ignore, group=group, same=same)
    table = read_queries(queries, asker, talk, wanted)
    groups, together = table.role("group"), table.role("same")
    _check_groups(asker, groups, talk)
    names = table.names if together is None else list(dict.fromkeys(together))
    found = _recall(asker, table, k, groups, together, talk)
    actions, promise = _decide(asker, found, precision, held_out, origin, group, talk)
    unknown = None if found.unknown is None else np.asarray(found.unknown)
    called = _name_answers(asker, found)
    answers = Answers(names, called, np.asarray(found.posterior), unknown, np.asarray(found.confidence), actions)
    if output is not None:
        write_table(output, answers.columns(), force)
    more = len(names) - SHOWN
    rest = [f"... and {more} more; `-o answers.csv` writes them all."] if more > 0 and output is None else []
    unchecked = [] if found.is_checked else [UNCHECKED]
    talk.say(answers.shown(), *rest, *_count_actions(answers), *([promise] if promise else []), *unchecked)
    talk.say(*([f"Written to {output}."] if output is not None else []))
    written = output and str(output)
    talk.document(
        command="recall", answers=answers.documents(), checked=found.is_checked, promise=promise, output=written
    )


def _recall(
    asker: Any, table: Table, k: int, groups: list[str] | None, same: list[str] | None, talk: Talk
) -> "Recall[Any]":
    """In blocks, under a bar; whole if queries speak together."""
    if same is not None:
        with talk.phase("recalling"):
            found: Recall[Any] = asker.recall(table.values, k, groups=groups, same=same)
            return found
    from ahop.memory.recall import joined

    parts = []
    starts = range(0, len(table), BLOCK)
    for start in talk.tracked(starts, "recalling"):
        rows = slice(start, start + BLOCK)
        block = np.ascontiguousarray(table.values[rows])
        parts.append(asker.recall(block, k, groups=None if groups is None else groups[rows]))
    return joined(parts)


def _name_answers(asker: Any, found: "Recall[Any]") -> Any:
    """Names of the answers, (b, k): their labels, or their numbers."""
    if found.labels is not None:
        return found.labels
    indices = np.asarray(found.indices)
    names = indices.astype(object)
    label_of = labels_of(asker)
    if label_of is not None:
        names = np.array([[label_of.get(each) for each in row] for row in indices.tolist()], dtype=object)
    names[indices < 0] = None
    return names.reshape(indices.shape)


def _decide(
    asker: Any,
    found: "Recall[Any]",
    precision: float | None,
    held_out: Path | None,
    origin: str | None,
    group: str | None,
    talk: Talk,
) -> tuple[Any, str | None]:
    """Action for each answer, and the promise of the policy."""
    if precision is None:
        return None, None
    from ahop.memory.decisions import Policy

    if held_out is not None:
        from ahop.operate.policies import policy

        if not hasattr(asker, "labels"):
            raise RequestError("`--held-out` needs a memory, whose rows have names; a store has none.")
        origins, copies = read_pairs(held_out, asker, talk, origin, group)
        with talk.phase("finding the threshold"):
            rule = policy(asker, (origins, copies.values), precision=precision, groups=copies.role("group"))
        return found.decide(rule).actions, str(rule)
    if not 0 < precision < 1:
        raise RequestError(f"`--precision` must lie between 0 and 1, such as 0.95; got {precision}.")
    if not found.is_checked:
        raise RequestError(
            "`--precision` cannot be kept: no label has checked the probabilities of this memory, and without labels "
            "they are often too high. Label 30 or more queries that it was not fitted to, and pass them as "
            "`--held-out pairs.csv`; or fit it with `--pairs`."
        )
    expected = np.asarray(found.q_values())
    accepted = np.asarray(found.confidence)[expected <= 1 - precision]
    threshold = float(accepted.min()) if len(accepted) else 2.0
    words = (
        f"Of the accepted answers {100 * precision:g} % are expected to be right, if probabilities are taken at their "
        "word. With `--held-out pairs.csv` it is a promise."
    )
    return found.decide(Policy(threshold)).actions, words


def _count_actions(answers: Answers) -> list[str]:
    if answers.actions is None:
        return []
    kinds, counts = np.unique(answers.actions, return_counts=True)
    return [", ".join(f"{count} {kind}" for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)) + "."]


def _check_groups(asker: Any, groups: list[str] | None, talk: Talk) -> None:
    known = group_names(asker)
    if known and groups is None:
        talk.note(f"The memory knows {len(known)} groups: `--group COLUMN` says where each query comes from.")
    strange = sorted({each for each in groups or () if each not in set(known)})
    if strange:
        from ahop._core.words import told

        talk.note(f"Groups that the memory has not learned by themselves: {told(strange)}.")
