"""A cluster answers as one process does, also while its processes are killed, stopped and replaced."""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import psutil
import pytest
import torch

import ahop
from ahop._core import optional
from ahop.errors import InvalidValueError, ShapeError, UnavailableError, UnsupportedError
from ahop.scale.cluster import Cluster, HttpClient, LocalCluster, Timeouts, connect, recall_dataset
from ahop.scale.stores import Store, create_store
from ahop.service.cluster import Service, serve
from tests.postgres import free_port
from tests.test_cluster import BAD, DIMENSIONS, a_store, parts_of, patterns, write_queries

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


# HTTP.


@pytest.fixture(scope="module")
def service(store: Store, a_ray: None, cluster: Cluster) -> Iterator[Service]:
    with serve(store.at(1), 1, cpus=0.25, port=free_port(), timeouts=Timeouts(answer=2.0)) as started:
        yield started


def ask(url: str, body: bytes | None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    try:
        with urlopen(Request(url, body, headers=headers), timeout=60) as answer:
            return answer.status, json.loads(answer.read()), dict(answer.headers)
    except HTTPError as error:
        return error.code, json.loads(error.read()), dict(error.headers)


def test_keys_are_asked_for(store: Store, a_ray: None, cluster: Cluster, queries: torch.Tensor) -> None:
    from ahop.service import Key

    secret, other, port = "s" * 30, "o" * 30, free_port()
    with pytest.raises(InvalidValueError, match="there is no key"):
        serve(store.at(1), 1, cpus=0.25, host="0.0.0.0", port=port)
    with pytest.raises(InvalidValueError, match="filter"):
        serve(store.at(1), 1, cpus=0.25, port=port, keys=[Key.of(secret, where={"floor": 1})])
    keys = [Key.of(secret, collections=("ahop",)), Key.of(other, collections=("elsewhere",))]
    with serve(store.at(1), 1, cpus=0.25, port=port, keys=keys) as started:
        for path, body in (("/recall", b'{"queries": []}'), ("/health", None), ("/nothing", None)):
            assert ask(started.url + path, body)[0] == 401
            assert ask(started.url + path, body, Authorization="Bearer wrong")[0] == 401
            assert ask(started.url + path, body, Authorization=f"Bearer {other}")[0] == 404
        found = HttpClient(started.url, key=secret).recall(queries[:3], 2)
        assert torch.equal(found.indices, store.at(1).recall(queries[:3], 2).indices)


def test_recall_is_answered_over_http(service: Service, store: Store, queries: torch.Tensor) -> None:
    asked = [[*query[:-1], None] for query in queries[:20].tolist()]
    body = {"queries": asked, "k": 2, "where": {"floor": [0, 1]}}
    status, answer, _ = ask(f"{service.url}/recall", json.dumps(body).encode())
    assert status == 200
    gaps = queries[:20].clone()
    gaps[:, -1] = torch.nan
    known = store.at(1).recall(gaps, 2, where={"floor": [0, 1]})
    assert answer["indices"] == known.indices.tolist()
    assert np.array(answer["posterior"]) == pytest.approx(known.posterior.numpy(), abs=1e-2)
    assert len(answer["unknown"]) == 20
    assert answer["version"] == 1
    status, facts, _ = ask(f"{service.url}/health", None)
    assert (status, facts["patterns"], facts["dimensions"]) == (200, 600, DIMENSIONS)


def test_whatever_is_sent_is_answered_by_a_sentence_and_never_by_a_fault(service: Service) -> None:
    url = f"{service.url}/recall"
    worse = [
        b'{"queries": [], "where": {"door": 1}}',
        b'{"queries": [], "where": {"floor": "x"}}',
        b'{"queries": [], "where": {"name": "\\ud800"}}',
        b'{"queries": [[0,0,0,0,0,0,0,0]], "where": {"floor": [' + b"9" * 400 + b"]}}",
        b'{"queries": [[0,0,0,0,0,0,0,0]], "where": {"name": "\'; --"}}',
    ]
    for body in [*BAD, *worse]:
        status, answer, _ = ask(url, body)
        assert status in (200, 400, 413), body[:60]
        assert status == 200 or isinstance(answer["error"], str)
    assert ask(url, b" " * (9 * 2**20))[0] == 413
    assert ask(url, None)[0] == 405
    assert ask(f"{service.url}/other", None)[0] == 404
    assert ask(url, b'{"queries": [[0,0,0,0,0,0,0,0]], "k": 1000}')[0] == 200


def test_a_second_service_takes_nothing_from_the_first(service: Service, store: Store) -> None:
    with pytest.raises(UnsupportedError, match="close that service"):
        serve(store.at(1), 1, cpus=0.25, port=free_port())
    port = int(service.url.rpartition(":")[2])
    for taken in (port, -1, 70_000):
        with pytest.raises(InvalidValueError, match="`port` must be free"):
            serve(store.at(1), 1, cpus=0.25, port=taken)
    assert ask(f"{service.url}/health", None)[0] == 200


def test_who_asks_while_shards_are_away_is_told_when_to_come_back(service: Service) -> None:
    (process,) = processes(service.cluster, 0)
    with halted(process):
        status, answer, headers = ask(f"{service.url}/recall", b'{"queries": [[0,0,0,0,0,0,0,0]]}')
        assert (status, headers.get("retry-after")) == (503, "1"), answer
        assert "retry" in answer["error"]
    assert ask(f"{service.url}/recall", b'{"queries": [[0,0,0,0,0,0,0,0]]}')[0] == 200


def test_a_service_moves_to_a_new_version(service: Service, store: Store) -> None:
    store.add(patterns(2), metadata={"floor": [6] * 2, "name": ["newest"] * 2})
    assert service.refresh() == store.version
    until = time.monotonic() + 60
    while ask(f"{service.url}/health", None)[1]["version"] != store.version:
        assert time.monotonic() < until
    assert ask(f"{service.url}/recall", b'{"queries": [[0,0,0,0,0,0,0,0]]}')[1]["version"] == store.version
