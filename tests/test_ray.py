"""A cluster answers as one process does, also while its processes are killed, stopped and replaced."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import numpy as np
import psutil
import pytest
import torch

import ahop
from ahop._core import optional
from ahop.client import Client
from ahop.errors import InvalidValueError, ShapeError, UnavailableError, UnsupportedError
from ahop.scale.cluster import Cluster, LocalCluster, Timeouts, connect, recall_dataset
from ahop.scale.stores import Store, create_store
from ahop.service.testing import Running, running
from tests.test_cluster import DIMENSIONS, a_store, parts_of, patterns, write_queries

pytest.importorskip("lance")
pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,  # processes that import torch are started
    pytest.mark.filterwarnings("ignore:lance is not fork-safe"),  # Ray forks to start its own, where lance is not used
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves files and sockets to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]
SHARDS, REPLICAS = 2, 2


@pytest.fixture(scope="module")
def a_ray() -> Iterator[None]:
    """One Ray for the module, on the loopback."""
    os.environ |= {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # as the tests themselves
    }
    ray = optional.ray()
    for trial in range(3):  # Ray gives itself half a minute to start, which is short where others take the cores
        try:
            ray.init("local", num_cpus=4, include_dashboard=False, object_store_memory=2 * 10**8, log_to_driver=False)
            break
        except Exception:
            ray.shutdown()
            if trial == 2:
                raise
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return a_store(tmp_path_factory.mktemp("store"), "unknown")


@pytest.fixture(scope="module")
def cluster(store: Store, a_ray: None) -> Iterator[Cluster]:
    with connect(store, SHARDS, REPLICAS, cpus=0.25, timeouts=Timeouts(replica=1.0, answer=60.0)) as connected:
        yield connected


@pytest.fixture(scope="module")
def queries() -> torch.Tensor:
    return ahop.NoisyVariant(0.02).sample(patterns(), 1500, seed=3).queries


@pytest.fixture(scope="module")
def expected(store: Store, queries: torch.Tensor) -> ahop.Recall[torch.Tensor]:
    with LocalCluster(store.at(1), SHARDS) as shards:
        return shards.recall(queries, k=3)


def is_same(answer: ahop.Recall[torch.Tensor], expected: ahop.Recall[torch.Tensor]) -> bool:
    assert answer.unknown is not None
    assert expected.unknown is not None
    return (
        torch.equal(answer.indices, expected.indices)
        and torch.equal(answer.posterior, expected.posterior)
        and torch.equal(answer.patterns, expected.patterns)
        and torch.equal(answer.unknown, expected.unknown)
    )


def processes(cluster: Cluster, shard: int) -> list[int]:
    lines = [line for line in cluster.status().replicas if line["shard"] == shard]
    assert all(line["answers"] for line in lines)
    return [int(str(line["process"])) for line in lines]


@contextmanager
def halted(process: int) -> Iterator[None]:
    """A process that hangs: it is there, and does nothing."""
    os.kill(process, signal.SIGSTOP)
    try:
        until = time.monotonic() + 30
        while psutil.Process(process).status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < until
            time.sleep(0.01)
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def wait_until_whole(cluster: Cluster, seconds: float = 90) -> None:
    until = time.monotonic() + seconds
    while not cluster.status().is_whole:
        assert time.monotonic() < until
        time.sleep(0.2)


def test_a_cluster_answers_as_one_process_to_the_last_digit(
    cluster: Cluster, queries: torch.Tensor, expected: ahop.Recall[torch.Tensor]
) -> None:
    assert len(cluster) == 600
    assert is_same(cluster.recall(queries, k=3), expected)
    some = cluster.recall(queries[:9].numpy(), k=2, where={"floor": 1})
    assert isinstance(some.indices, np.ndarray)
    assert set((599 - some.indices.reshape(-1) // 7) % 3) == {1}
    assert cluster.recall(queries[:0]).indices.shape == (0, 1)
    with pytest.raises(InvalidValueError, match="`where` names 'door'"):
        cluster.recall(queries, where={"door": 1})
    with pytest.raises(ShapeError):
        cluster.recall(queries[:, :3])


def test_killed_shards_are_started_anew_and_no_answer_is_wrong_or_missing(
    cluster: Cluster, queries: torch.Tensor, expected: ahop.Recall[torch.Tensor]
) -> None:
    wait_until_whole(cluster)
    is_over = Event()

    def ask() -> list[bool]:
        answers = []
        while not is_over.is_set():
            answers.append(is_same(cluster.recall(queries, k=3), expected))
        return answers

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        time.sleep(0.5)
        os.kill(processes(cluster, 0)[0], signal.SIGKILL)
        time.sleep(0.5)
        for process in processes(cluster, 1):  # now nobody has this shard
            os.kill(process, signal.SIGKILL)
        assert is_same(cluster.recall(queries, k=3), expected)
        is_over.set()
        answers = [answer for each in asking for answer in each.result()]
    assert answers
    assert all(answers)
    wait_until_whole(cluster)


def test_a_replica_that_hangs_is_not_waited_for_if_there_is_another(
    cluster: Cluster, queries: torch.Tensor, expected: ahop.Recall[torch.Tensor]
) -> None:
    wait_until_whole(cluster)
    stopped = processes(cluster, 1)[0]
    with halted(stopped):
        started = time.monotonic()
        for _ in range(3):
            assert is_same(cluster.recall(queries, k=3), expected)
        assert time.monotonic() - started < 30
        assert not cluster.status().is_whole


def test_a_job_asks_a_cluster(
    cluster: Cluster, queries: torch.Tensor, expected: ahop.Recall[torch.Tensor], tmp_path: Path
) -> None:
    write_queries(tmp_path / "q.parquet", queries)
    done = recall_dataset(cluster, tmp_path / "q.parquet", tmp_path / "out", k=3, batch_size=400, progress=False)
    names, numbers, _ = parts_of(done.folder)
    assert names == list(range(1500))
    assert np.array_equal(numbers, expected.indices.numpy())


def test_a_cluster_moves_to_a_new_version_while_it_answers(
    cluster: Cluster, store: Store, queries: torch.Tensor, expected: ahop.Recall[torch.Tensor]
) -> None:
    wait_until_whole(cluster)
    old = [process for shard in range(SHARDS) for process in processes(cluster, shard)]
    assert cluster.refresh() == 1  # nothing is new, and nothing is done
    assert processes(cluster, 0) == old[:REPLICAS]
    new = ahop.NoisyVariant(0.02).sample(patterns(), 5, seed=9).queries
    ids = store.add(new, metadata={"floor": [5] * 5, "name": ["new"] * 5})
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(cluster.refresh)
        while not moving.done():
            answer = cluster.recall(queries, k=3)
            assert is_same(answer, expected) or cluster.version == 2
        assert moving.result() == 2
    assert len(cluster) == 605
    assert torch.equal(cluster.recall(new).indices[:, 0], ids)
    assert set(processes(cluster, 0)).isdisjoint(old)


def test_who_waits_too_long_is_told_to_ask_again(a_ray: None, cluster: Cluster, store: Store) -> None:
    with connect(store.at(1), 1, 1, cpus=0.25, timeouts=Timeouts(answer=1.0)) as alone:
        asked = patterns(3)
        assert alone.recall(asked).indices.shape == (3, 1)
        (process,) = processes(alone, 0)
        with halted(process), pytest.raises(UnavailableError, match="retry in a moment"):
            alone.recall(asked)
        assert alone.recall(asked).indices.shape == (3, 1)
    with pytest.raises(UnsupportedError, match="closed"):
        alone.recall(asked)


def test_a_store_that_cannot_be_read_is_said_at_once(a_ray: None, cluster: Cluster, tmp_path: Path) -> None:
    store = create_store(tmp_path / "gone.lance", ahop.AssociativeMemory(patterns(9)))
    for file in (tmp_path / "gone.lance" / "data").iterdir():
        file.unlink()
    with pytest.raises(UnavailableError, match="cannot be read"):
        connect(store, 1, cpus=0.25)


# A service before the shards.


@pytest.fixture(scope="module")
def service(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    ahop.AssociativeMemory(patterns()).save(folder / "rooms.ahop")
    with running(folder, store.location.address, str(folder / "rooms.ahop"), "--shards", "2") as started:
        yield started


ZEROS = {"queries": [[0.0] * DIMENSIONS]}


def test_a_service_answers_from_shards(service: Running, store: Store, queries: torch.Tensor) -> None:
    with Client(service.url, "patterns") as client:
        found, known = (
            client.recall(queries[:20], 2, where={"floor": [0, 1]}),
            store.recall(queries[:20], 2, where={"floor": [0, 1]}),
        )
    assert torch.equal(found.indices, known.indices)
    assert found.posterior.numpy() == pytest.approx(known.posterior.numpy(), abs=1e-2)
    kinds = {each["name"]: each["kind"] for each in service.ask("GET", "/collections")[1]["collections"]}
    assert kinds == {"patterns": "cluster", "rooms": "file"}


def test_shards_that_hang_hold_up_nobody_else(service: Running) -> None:
    shards = [each for each in psutil.Process(service.process.pid).children(True) if "ShardActor" in each.name()]
    if not shards:  # the name of a process is cut off
        shards = [each for each in psutil.process_iter() if each.cmdline()[:1] == ["ray::ShardActor"]]
    with ThreadPoolExecutor(1) as pool, halted(shards[0].pid):
        asked = pool.submit(service.ask, "POST", "/collections/patterns/recall", ZEROS)
        time.sleep(0.5)
        for _ in range(5):
            started = time.monotonic()
            assert service.recall("rooms", **ZEROS)["ids"]
            assert time.monotonic() - started < 5
        assert not asked.done()
        status, answer, headers = asked.result()
        assert (status, headers.get("retry-after")) == (503, "1"), answer
        assert "retry" in answer["error"]
    assert service.ask("POST", "/collections/patterns/recall", ZEROS)[0] == 200


def test_a_service_moves_to_a_new_version_and_ends_with_its_shards(service: Running, store: Store) -> None:
    store.add(patterns(2), metadata={"floor": [6] * 2, "name": ["newest"] * 2})
    assert service.ask("POST", "/collections/patterns/refresh")[1]["version"] == store.version
    assert service.recall("patterns", **ZEROS)["version"] == store.version
    left = psutil.Process(service.process.pid).children(True)
    assert service.end() == 0
    psutil.wait_procs(left, 30)
    assert not [each for each in left if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    assert not service.failures()
