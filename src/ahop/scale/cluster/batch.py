"""Batch jobs over large query tables, which can be killed and resumed."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from ahop._core import optional
from ahop._core.checks import check_count
from ahop._core.files import replacing
from ahop._core.json import parse_json
from ahop.errors import FileFormatError, InvalidValueError, UnavailableError
from ahop.memory.recall import Recall
from ahop.scale.cluster.local import LocalCluster
from ahop.scale.cluster.query_table import Block, QueryTable
from ahop.scale.cluster.spec import ShardOptions, as_store
from ahop.scale.cluster.view import ShardedRecaller
from ahop.scale.stores.location import Address
from ahop.scale.stores.store import Store

FORMAT = 1
# Readers of folders of Parquet pass over names that begin so.
JOB = "_job.json"


def read_job(path: Path) -> dict[str, Any] | None:
    """The job that this file describes; None if there is none."""
    if not path.exists():
        return None
    try:
        job: dict[str, Any] = parse_json(path.read_text())
        written, job["version"], job["queries_version"] = job["format"], int(job["version"]), job["queries_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"`{path}` does not describe a job: {error}. Begin in another folder.") from error
    if written != FORMAT:
        raise FileFormatError(f"`{path}` has format {written!r}; this release reads format {FORMAT}. Update ahop.")
    return job


def begin_job(path: Path, begun: dict[str, Any] | None, job: dict[str, Any]) -> None:
    """Write the job down, or see that it is the one that was begun."""
    if begun is not None:
        differs = sorted(name for name in job if job[name] != begun.get(name))
        if differs:
            raise InvalidValueError(
                f"`out` holds another job, which differs in {', '.join(differs)}: "
                f"{ {name: begun.get(name) for name in differs} }; got { {name: job[name] for name in differs} }. "
                "Choose another folder, or the same arguments."
            )
        return
    with replacing(path) as beside:
        beside.write_text(json.dumps(job, indent=1) + "\n")


# How often a block is asked for where shards do not answer; each trial waits as long as the cluster is patient.
TRIALS = 10


@dataclass(frozen=True)
class Matched:
    """Result of a job.

    Attributes:
        folder: with the parts, one Parquet file each: the query's `id`, and `indices` and `posterior` of the k best.
        version: of the store that answered, the same for all parts.
        queries: how many were answered in all.
        parts: how many files.
        kept: how many of them were there already.
    """

    folder: Path
    version: int
    queries: int
    parts: int
    kept: int


def recall_dataset(
    store: Store | ShardedRecaller | Address,
    queries: Address,
    out: Address,
    k: int = 1,
    *,
    columns: Sequence[str] | None = None,
    id_column: str = "id",
    batch_size: int = 16384,
    shards: int = 1,
    threads: int = 2,
    options: ShardOptions | None = None,
    progress: bool = True,
) -> Matched:
    """Answer a whole table of queries, block by block, into a folder of Parquet files.

    Each block of the input is one file of the output, written beside and moved into place. Called again with the same
    arguments it does what is left: blocks that are there are not asked again, and the store is read in the version that
    the job began with.

    Args:
        store: whose patterns are recalled, in this process; or what `connect` gives, to ask a cluster.
        queries: Parquet files or a Lance table, with a column of lists or one column for each dimension.
        out: a folder for this job alone.
        columns: those with the numbers of a query; None to find them.
        id_column: what names a query; if there is no such column, its row does.
        batch_size: how many queries a block has at most.
        shards: parts of the patterns, if the store is read here, with these `options`.
        threads: that read, ask and write blocks at the same time.

    Raises:
        InvalidValueError: the folder holds another job.
    """
    k, folder = check_count("k", k), Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    begun = read_job(folder / JOB)
    table = QueryTable(queries, columns, id_column, None if begun is None else begun["queries_version"])
    blocks = table.blocks(batch_size)
    rows = sum(map(len, blocks))
    with ExitStack() as closing:
        recaller = _recaller(store, begun, shards, threads, options, closing)
        version = recaller.version
        job = {
            "format": FORMAT,
            "store": recaller.address,
            "queries": table.location.address,
            "queries_bytes": table.sizes(),
            "queries_version": table.version,
            "rows": rows,
            "columns": table.columns,
            "id_column": id_column,
            "batch_size": batch_size,
            "k": k,
            "version": version,
        }
        begin_job(folder / JOB, begun, job)
        left = [block for block in blocks if not _part(folder, block).exists()]
        bar = closing.enter_context(
            tqdm(total=rows, desc="recall", unit="query", unit_scale=True, disable=not progress)
        )
        bar.update(rows - sum(map(len, left)))
        pool = ThreadPoolExecutor(check_count("threads", threads))
        closing.callback(pool.shutdown, cancel_futures=True)  # who interrupts a job need not wait for all of it
        for done in as_completed([pool.submit(_match, recaller, table, block, k, folder, version) for block in left]):
            bar.update(done.result())
    for half in folder.glob(".part-*"):  # of runs that were killed
        half.unlink(missing_ok=True)
    return Matched(folder, version, rows, len(blocks), len(blocks) - len(left))


def _recaller(
    store: Store | ShardedRecaller | Address,
    begun: dict[str, Any] | None,
    shards: int,
    threads: int,
    options: ShardOptions | None,
    closing: ExitStack,
) -> ShardedRecaller:
    if isinstance(store, ShardedRecaller):
        return store
    opened = as_store(store)
    opened = opened if begun is None else opened.at(begun["version"])
    return closing.enter_context(LocalCluster(opened, shards, threads=threads, options=options))


def _match(recaller: ShardedRecaller, table: QueryTable, block: Block, k: int, folder: Path, version: int) -> int:
    names, queries = table.read(block)
    found = _patiently(recaller, queries, k)
    if recaller.version != version:
        raise InvalidValueError(
            f"The cluster moved from version {version} of the store to {recaller.version} while the job ran. Do not "
            "`refresh` it meanwhile; to go on, `connect` to the store `.at` the version that the job began with."
        )
    _write_part(_part(folder, block), names, found)
    return len(block)


def _patiently(recaller: ShardedRecaller, queries: NDArray[Any], k: int) -> Recall[NDArray[Any]]:
    """A job of hours outlives a machine that takes minutes to come back."""
    for _ in range(TRIALS - 1):
        with suppress(UnavailableError):
            return recaller.recall(queries, k)
    return recaller.recall(queries, k)


def _part(folder: Path, block: Block) -> Path:
    return folder / f"part-{block.number:08d}.parquet"


def _write_part(path: Path, names: Any, found: Recall[Any]) -> None:
    arrow, parquet = optional.pyarrow(), optional.parquet()
    columns = {"id": names, "indices": _as_lists(found.indices), "posterior": _as_lists(found.posterior)}
    if found.unknown is not None:
        columns["unknown"] = arrow.array(found.unknown)
    with replacing(path) as beside:
        parquet.write_table(arrow.table(columns), beside)


def _as_lists(matrix: Any) -> Any:
    arrow = optional.pyarrow()
    return arrow.FixedSizeListArray.from_arrays(arrow.array(np.ascontiguousarray(matrix).reshape(-1)), matrix.shape[1])
