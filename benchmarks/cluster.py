"""Four shards on two nodes beside four shards in one process; a shard is killed, a node lost, a job interrupted."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import ray
import torch
from ray.cluster_utils import Cluster as Nodes
from torch import Tensor

import ahop
from ahop.errors import UnavailableError
from ahop.scale.cluster import Cluster, LocalCluster, Matched, ShardOptions, Timeouts, connect, recall_dataset
from ahop.scale.stores import Store, create_store, open_store
from benchmarks.measuring import medians

COUNT, DIMENSIONS, QUERIES, SHARDS, REPLICAS = 100_000, 32, 4096, 4, 2
SMALL, NARROW, MANY = 10_000, 16, 1_000_000
# One load: a few queries at a time, as people ask.
ASKED = 64
# How long to look for the end of a disturbance, in seconds.
LONGEST = 180.0
# How soon a node that is gone is noticed, in milliseconds: the same as a production cluster would set.
HEALTH = {"health_check_period_ms": 1000, "health_check_timeout_ms": 1000, "health_check_failure_threshold": 3}


def measure(full: bool) -> dict[str, object]:
    """In a process of its own: Ray reads its switches when it is imported."""
    code = f"import json; from benchmarks.cluster import measured; print(json.dumps(measured({full})))"
    # All on the loopback, and shards as urgent as the one process that they are compared with.
    switches = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    alone = {**os.environ, **switches, "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=alone, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


def measured(full: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            "patterns": COUNT,
            "dimensions": DIMENSIONS,
            "shards": SHARDS,
            "replicas": REPLICAS,
            "nodes": 2,
            **of_nodes(Path(folder), repeats=9 if full else 5),
            "batch": of_batch(Path(folder)),
        }


def of_nodes(folder: Path, repeats: int) -> dict[str, object]:
    two = two_nodes()
    head, other = two
    try:
        store, queries = stored(folder)
        with LocalCluster(store, SHARDS, threads=SHARDS) as shards, connected(store, 1) as cluster:
            expected = shards.recall(queries, k=3)
            identical = is_same(cluster.recall(queries, k=3), expected)
            seconds = medians(
                {"one": lambda: shards.recall(queries, k=3), "cluster": lambda: cluster.recall(queries, k=3)}, repeats
            )
            restart = disturb(cluster, queries[:ASKED], killing(cluster))
        with connected(store, REPLICAS) as cluster:
            shard_kill = disturb(cluster, queries[:ASKED], killing(cluster))
            node_loss = disturb(cluster, queries[:ASKED], lambda: head.remove_node(other, allow_graceful=False))
    finally:
        ray.shutdown()
        head.shutdown()
    return {
        "identical": identical,
        "queries_a_second_one_process": round(QUERIES / seconds["one"]),
        "queries_a_second_cluster": round(QUERIES / seconds["cluster"]),
        "throughput_ratio": round(seconds["one"] / seconds["cluster"], 3),
        "shard_kill": shard_kill,
        "shard_kill_without_replicas": restart,
        "node_loss": node_loss,
    }


def two_nodes() -> tuple[Any, Any]:
    """Two nodes of Ray on this machine; this process is connected to the first."""
    # CPUs are counted, not measured: all shards find room on one node if the other is lost.
    room = {"num_cpus": 8, "object_store_memory": 2 * 10**8}
    head = Nodes(initialize_head=True, head_node_args={**room, "include_dashboard": False, "_system_config": HEALTH})
    other = head.add_node(wait=True, **room)
    ray.init(address=head.address, log_to_driver=False, configure_logging=False)
    return head, other


def stored(folder: Path) -> tuple[Store, Tensor]:
    generator = torch.Generator().manual_seed(0)
    patterns = 2 * torch.rand(COUNT, DIMENSIONS, generator=generator) - 1
    variant = ahop.MixedVariant(0.2, 0.2, 0.2)
    memory = ahop.fit(patterns, pairs=variant.sample(patterns, 256, seed=1), similarity="mixture", progress=False)
    store = create_store(folder / "patterns.lance", memory, fragment_rows=COUNT // SHARDS)
    return store, variant.sample(patterns, QUERIES, seed=2).queries


def connected(store: Store, replicas: int) -> AbstractContextManager[Cluster]:
    return connect(store, SHARDS, replicas, cpus=0.5, timeouts=Timeouts(answer=30.0, replica=2.0))


def is_same(answer: ahop.Recall[Tensor], expected: ahop.Recall[Tensor]) -> bool:
    return torch.equal(answer.indices, expected.indices) and torch.equal(answer.posterior, expected.posterior)


def killing(cluster: Cluster) -> Callable[[], object]:
    """How to kill the first process of the first shard."""
    process = int(str(cluster.status().replicas[0]["process"]))
    return lambda: os.kill(process, signal.SIGKILL)


def disturb(cluster: Cluster, queries: Tensor, disturbance: Callable[[], object]) -> dict[str, object]:
    """Ask without pause, disturb, and go on until every replica is there again."""
    expected = cluster.recall(queries, k=3)
    asked: list[tuple[float, float, str]] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            started = time.monotonic()
            try:
                outcome = "right" if is_same(cluster.recall(queries, k=3), expected) else "wrong"
            except UnavailableError:
                outcome = "retry"
            except Exception as error:  # anything else is a query without an answer
                outcome = type(error).__name__
            asked.append((started, time.monotonic(), outcome))

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    time.sleep(2)
    moment = time.monotonic()
    disturbance()
    disturbed = time.monotonic()
    time.sleep(2)
    while not cluster.status().is_whole and time.monotonic() - disturbed < LONGEST:
        time.sleep(0.5)
    whole = time.monotonic()
    time.sleep(2)
    is_over.set()
    for thread in asking:
        thread.join()
    outcomes = [outcome for _, _, outcome in asked]
    waited = [ended - max(started, moment) for started, ended, _ in asked if ended > moment]
    return {
        "requests": len(asked),
        "queries_in_each": len(queries),
        "wrong_answers": outcomes.count("wrong"),
        "unanswered": sum(outcome not in ("right", "wrong", "retry") for outcome in outcomes),
        "told_to_retry": outcomes.count("retry"),
        "recovery_seconds": round(max(waited), 2),
        "usual_seconds": round(float(np.median([ended - started for started, ended, _ in asked])), 3),
        "seconds_until_all_replicas": round(whole - disturbed, 1),
    }


def of_batch(folder: Path) -> dict[str, object]:
    """A job in a process that is killed in the middle, and the same job again."""
    generator = torch.Generator().manual_seed(0)
    patterns = 2 * torch.rand(SMALL, NARROW, generator=generator) - 1
    memory = ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity(), ahop.Softmax(beta=50.0))
    create_store(folder / "small.lance", memory)
    origins = torch.randint(SMALL, (MANY,), generator=generator)
    queries = patterns[origins] + 0.02 * torch.randn(MANY, NARROW, generator=generator)
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(queries.numpy().reshape(-1)), NARROW)
    parquet.write_table(arrow.table({"id": np.arange(MANY), "query": lists}), folder / "queries.parquet")
    code = "import sys; from benchmarks.cluster import job; job(sys.argv[1])"
    started = time.monotonic()
    running = subprocess.Popen([sys.executable, "-c", code, str(folder)])
    while len(list((folder / "answers").glob("part-*"))) * 16384 < MANY // 2 and running.poll() is None:
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = job(folder)
    seconds = time.monotonic() - started
    parts = [parquet.read_table(file) for file in sorted((folder / "answers").glob("part-*.parquet"))]
    whole = arrow.concat_tables(parts)
    names = whole["id"].to_numpy()
    numbers = whole["indices"].combine_chunks().flatten().to_numpy()
    return {
        "queries": MANY,
        "patterns": SMALL,
        "dimensions": NARROW,
        "parts": done.parts,
        "parts_before_the_kill": done.kept,
        "lost": MANY - len(np.unique(names)),
        "doubled": len(names) - len(np.unique(names)),
        "found_origins": round(float((numbers == origins.numpy()[names]).mean()), 4),
        "queries_a_second": round(MANY / seconds),
    }


def job(folder: str | Path) -> Matched:
    where = Path(folder)
    options = ShardOptions(candidates=16, gaps=False)
    return recall_dataset(
        open_store(where / "small.lance"), where / "queries.parquet", where / "answers", options=options, progress=False
    )
