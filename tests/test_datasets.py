"""Real data: what the loaders say is in the files, and what they say of files and servers that are not as they should.

The network is a server of our own on this machine; nothing here reaches any other.
"""

import gzip
import hashlib
import http.server
import io
import lzma
import os
import re
import shutil
import ssl
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments import datasets
from experiments.datasets import _download, _finding, _sources
from experiments.datasets._delimited import encode, parse_rows
from experiments.datasets._digests import check_content, digest_of_bags
from experiments.datasets._facts import Download, Edition, File, Source
from experiments.datasets._folders import cache_folder
from experiments.datasets._idx import parse_idx
from experiments.datasets._lzw import unpack_z
from experiments.datasets._npz import parse_npz
from experiments.datasets._unpacking import members, read_members, unpack
from experiments.datasets.bags import Bags
from experiments.datasets.cifar import parse_records
from experiments.datasets.fingerprints import WifiSurvey
from experiments.datasets.images import Images
from experiments.datasets.mil import parse_arrays, parse_molecules
from experiments.datasets.table import Table
from experiments.datasets.uji_indoorloc import COLUMNS, parse_fingerprints
from hypothesis import given
from hypothesis import strategies as st

from ahop.errors import (
    AhopError,
    DataNotFoundError,
    DownloadError,
    FileFormatError,
    InvalidValueError,
)

LOADERS: dict[str, Callable[..., Any]] = {
    name.removeprefix("load_"): getattr(datasets, name) for name in datasets.__all__ if name.startswith("load_")
}
NOT_HERE = {"cifar100"}  # no copy of it could be had for the tests


@pytest.fixture(autouse=True)
def _a_cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AHOP_CACHE", str(tmp_path / "cache"))


@cache
def loaded(name: str, folder: Path) -> Any:
    return LOADERS[name](folder, progress=False)


@pytest.fixture
def table(request: pytest.FixtureRequest, data_folder: Path) -> Table:
    found = loaded(request.param, data_folder)
    assert isinstance(found, Table)
    return found


# What is in the files.

TABLES = {
    # rows, columns, columns in words, counts of the classes, rows with a gap
    "adult": (48842, 14, 8, [37155, 11687], 2399 + 1221),
    "bank": (41188, 20, 10, [36548, 4640], 10700),
    "vaccine": (26707, 32, 9, [14272, 12435], None),
    "purchase": (12330, 17, 7, [10422, 1908], 0),
    "heart": (70000, 11, 1, [35021, 34979], 0),
}


@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_a_table_has_the_published_counts(table: Table) -> None:
    rows, columns, words, classes, gaps = TABLES[table.name]
    assert table.features.shape == (rows, columns) == (len(table.target), len(table.names))
    assert table.features.dtype == np.float64
    assert table.target.dtype == np.int64
    assert int(table.categorical.sum()) == words
    assert np.bincount(table.target).tolist() == classes
    assert len(table.class_names) == 2
    assert gaps is None or int(np.isnan(table.features).any(1).sum()) == gaps


@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_the_codes_of_a_column_are_places_among_its_words(table: Table) -> None:
    for values, words in zip(table.features.T, table.categories, strict=True):
        if words:
            assert set(np.unique(values[~np.isnan(values)])) == set(range(len(words)))


def test_adult_keeps_the_official_split(data_folder: Path) -> None:
    adult = loaded("adult", data_folder)
    train, test = adult.rows(~adult.is_test), adult.rows(adult.is_test)
    assert np.bincount(train.target).tolist() == [24720, 7841]
    assert np.bincount(test.target).tolist() == [12435, 3846]
    assert np.isnan(train.features).any(1).sum() == 2399
    assert np.isnan(test.features).any(1).sum() == 1221
    assert adult.class_names == ("<=50K", ">50K")
    assert adult.features[0, [0, 2, 12]].tolist() == [39, 77516, 40]
    assert adult.categories[1][int(adult.features[0, 1])] == "State-gov"
    assert adult.notes == ()


def test_bank_reads_unknown_as_missing_and_says_so(data_folder: Path) -> None:
    bank = loaded("bank", data_folder)
    assert not any("unknown" in words for words in bank.categories)
    assert sum(map(len, bank.categories)) == 53 - 6  # six of its ten columns in words know `unknown`
    assert any("`unknown`" in note for note in bank.notes)
    assert (bank.features[:, bank.names.index("pdays")] == 999).sum() > 39000


def test_vaccine_has_two_targets_and_confesses_its_missing_columns(data_folder: Path) -> None:
    vaccine = loaded("vaccine", data_folder)
    assert vaccine.target_name == "seasonal_vaccine"
    assert "hhs_geo_region" not in vaccine.names
    assert re.match("32 of the 35 official features", vaccine.notes[0])
    other = datasets.load_vaccine(data_folder, target="h1n1_vaccine")
    assert np.bincount(other.target).tolist() == [21033, 5674]
    with pytest.raises(InvalidValueError, match="`target` must be one of seasonal_vaccine, h1n1_vaccine"):
        datasets.load_vaccine(data_folder, target="flu")  # type: ignore[arg-type]


@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_a_frame_says_in_words_what_the_codes_mean(table: Table) -> None:
    few = table.rows(np.arange(200))
    frame = few.frame()
    assert frame.shape == (200, len(table.names) + 1)
    assert list(frame.columns) == [*table.names, table.target_name]
    assert (frame.isna().to_numpy()[:, :-1] == np.isnan(few.features)).all()
    for at, words in enumerate(table.categories):
        if words:
            assert [word for word in frame.iloc[:, at] if isinstance(word, str)] == [
                words[int(code)] for code in few.features[:, at] if not np.isnan(code)
            ]


MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_mnist_has_the_published_counts_mean_and_deviation(data_folder: Path) -> None:
    mnist = loaded("mnist", data_folder)
    assert mnist.train.shape == (60000, 28, 28)
    assert mnist.test.shape == (10000, 28, 28)
    assert mnist.train.dtype == np.uint8
    assert np.bincount(mnist.train_labels).tolist() == MNIST_TRAIN
    assert np.bincount(mnist.test_labels).tolist() == MNIST_TEST
    assert round(float(mnist.train.mean()) / 255, 4) == 0.1307
    assert round(float(mnist.train.std()) / 255, 4) == 0.3081
    assert mnist.notes == ()


def test_fashion_mnist_without_its_training_pictures_says_so(data_folder: Path) -> None:
    fashion = loaded("fashion_mnist", data_folder)
    assert fashion.train.shape == (0, 28, 28)
    assert fashion.train_labels.shape == (0,)
    assert np.bincount(fashion.test_labels).tolist() == [1000] * 10
    assert round(float(fashion.test.mean()) / 255, 4) == 0.2868
    assert re.search("training pictures were not found", fashion.notes[0])


def test_cifar10_has_the_published_counts(data_folder: Path) -> None:
    cifar = loaded("cifar10", data_folder)
    batches = len(cifar.train) // 10000
    assert cifar.train.shape == (10000 * batches, 3, 32, 32)
    assert np.bincount(cifar.test_labels).tolist() == [1000] * 10
    assert np.abs(np.bincount(cifar.train_labels) - 1000 * batches).max() < 100
    assert cifar.class_names[cifar.test_labels[0]] == "cat"  # as every tutorial shows
    assert np.abs(cifar.train.mean((0, 2, 3)) - [125.306918, 122.950394, 113.865383]).max() < 1  # red, green, blue
    assert len(cifar.notes) == (batches < 5)


def test_cifar10_with_two_of_five_batches_says_so(data_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cifar10").mkdir()
    for path in (data_folder / "cifar10").iterdir():
        if path.name.startswith(("data_batch_1", "data_batch_2", "test_batch")):
            (tmp_path / "cifar10" / path.name).symlink_to(path.resolve())
    cifar = datasets.load_cifar10(tmp_path, progress=False)
    assert cifar.train.shape == (20000, 3, 32, 32)
    assert re.match("2 of the 5 training batches", cifar.notes[0])


def test_tiny_imagenet_as_a_subset_says_so(data_folder: Path) -> None:
    tiny = loaded("tiny_imagenet", data_folder)
    assert tiny.train.shape == (5000, 3, 64, 64)
    assert tiny.test.shape == (1000, 3, 64, 64)
    assert np.bincount(tiny.train_labels).tolist() == [25] * 200
    assert np.bincount(tiny.test_labels).tolist() == [5] * 200
    assert len(tiny.class_names) == 200
    assert tiny.class_names[0] == "Egyptian cat"
    every = np.concatenate([tiny.train, tiny.test])
    assert (every == every[:, :1]).all((1, 2, 3)).sum() >= 99  # the gray ones have three channels too
    assert re.match("A subset", tiny.notes[0])


BAGS = {
    # bags by class, instances, features, smallest and largest bag
    "tiger": ([100, 100], 1220, 230, 1, 13),
    "fox": ([100, 100], 1320, 230, 2, 13),
    "elephant": ([100, 100], 1391, 230, 2, 13),
    "ucsb_breast": ([32, 26], 2002, 708, 21, 40),
    "musk1": ([45, 47], 476, 166, 2, 40),
    "musk2": ([63, 39], 6598, 166, 1, 1044),
}


@pytest.mark.parametrize("name", BAGS)
def test_bags_have_the_published_counts(name: str, data_folder: Path) -> None:
    found = loaded(name, data_folder)
    assert isinstance(found, Bags)
    sizes = [len(bag) for bag in found.bags]
    features = {bag.shape[1] for bag in found.bags}
    assert (np.bincount(found.labels).tolist(), sum(sizes), *features, min(sizes), max(sizes)) == BAGS[name]
    assert all(bag.dtype == np.float64 and np.isfinite(bag).all() for bag in found.bags)


def test_uji_has_the_published_counts(data_folder: Path) -> None:
    survey = loaded("uji_indoorloc", data_folder)
    assert isinstance(survey, WifiSurvey)
    train, validation = survey.train, survey.validation
    assert train.rssi.shape == (19937, 520)
    assert validation.rssi.shape == (1111, 520)
    assert len(survey.access_points) == 520
    assert np.bincount(train.building).tolist() == [5249, 5196, 9492]
    assert np.bincount(validation.building).tolist() == [536, 307, 268]
    assert np.bincount(train.floor).tolist() == [4369, 5002, 4416, 5048, 1102]
    assert np.bincount(validation.floor).tolist() == [132, 462, 306, 172, 39]
    assert (~np.isnan(train.rssi)).any(0).sum() == 465
    assert (~np.isnan(validation.rssi)).any(0).sum() == 367
    assert np.isnan(train.rssi).all(1).sum() == 76
    assert [float(np.nanmin(train.rssi)), float(np.nanmax(train.rssi))] == [-104, 0]
    places = np.stack([train.building, train.floor, train.space, train.relative_position], 1)
    assert len(np.unique(places, axis=0)) == 905
    assert not validation.space.any()
    assert not validation.user.any()
    assert train.coordinates.shape == (19937, 2)
    assert (str(train.timestamp.min())[:7], str(train.timestamp.max())[:7]) == ("2013-05", "2013-06")
    assert (str(validation.timestamp.min())[:7], str(validation.timestamp.max())[:7]) == ("2013-09", "2013-10")


@pytest.mark.parametrize("name", sorted(LOADERS.keys() - NOT_HERE))
def test_what_is_loaded_can_be_written_to_and_says_what_it_is(name: str, data_folder: Path) -> None:
    found = loaded(name, data_folder)
    arrays = [value for value in vars(found).values() if isinstance(value, np.ndarray)]
    assert all(array.flags.writeable and array.flags.c_contiguous for array in arrays)
    assert repr(found).startswith(f"{type(found).__name__}({found.name}")
    assert len(repr(found)) < 120
    assert all(note.endswith(".") for note in found.notes)
    with pytest.raises(AttributeError):
        found.notes = ()


@pytest.mark.parametrize(("name", "seconds"), [("adult", 2.0), ("mnist", 4.0)])
def test_loading_is_quick(name: str, seconds: float, data_folder: Path) -> None:
    """Half of this on a machine with nothing else to do, and the quickest of three counts."""

    def load() -> float:
        started = time.process_time()
        LOADERS[name](data_folder, progress=False)
        return time.process_time() - started

    assert min(load() for _ in range(3)) < seconds


# The facts.


@pytest.mark.parametrize("source", datasets.SOURCES.values(), ids=lambda source: source.name)
def test_the_facts_of_a_source_are_in_order(source: Source) -> None:
    assert source.title
    assert source.license
    assert source.citation
    fetched = [edition for edition in source.editions if edition.downloads]
    assert bool(fetched) != bool(source.by_hand)
    for edition in source.editions:
        assert edition.complete or edition.notes
        for download in edition.downloads:
            assert download.url.startswith("https://")
            assert download.limit > 0
        names = {download.name for download in edition.downloads}
        for file in edition.files:
            assert file.limit > 0
            # Each file can be told from another by its bytes, its numbers, or the archive it comes in.
            in_known_archive = any(each.digest for each in edition.downloads if each.name in file.inside[:1])
            assert file.digest or source.numbers or in_known_archive
            if names:
                assert names & {file.name, f"{file.name}.gz", *file.inside[:1]}
        digests = [file.digest for file in edition.files] + [each.digest for each in edition.downloads]
        for digest in [source.numbers, *digests]:
            assert digest is None or re.fullmatch(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}|git:[0-9a-f]{40}", digest)


def test_every_loader_has_a_source() -> None:
    assert {name.replace("breast", "breast_cancer") for name in LOADERS} == set(datasets.SOURCES)


def test_git_and_md5_sums_are_computed_as_git_and_md5_do() -> None:
    check_content(b"hello\n", "git:ce013625030ba8dba906f756967f9e9ca394464a", "greeting")
    check_content(b"hello\n", "md5:b1946ac92492d2347c6235b4d2611184", "greeting")
    with pytest.raises(FileFormatError, match=r"`greeting` is not the published file.*expected git:ce01"):
        check_content(b"hello", "git:ce013625030ba8dba906f756967f9e9ca394464a", "greeting")


# Which folder.


def small(content: bytes = b"hello\n", url: str = "https://127.0.0.1:9/small.zip") -> Source:
    """A dataset of one file, which comes in an archive, and of which a part may be had instead."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Source(
        "small",
        "Small",
        "",
        "none",
        "none",
        (
            Edition(
                "small",
                (File("all.txt", len(content), digest, ("small.zip", "all.txt")),),
                (Download(url, 10_000),),
            ),
            Edition("small", (File("part.txt", 100),), complete=False, notes=("A part.",)),
        ),
    )


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def zipped(**contents: bytes) -> bytes:
    return zipped_as({name.replace("_", "."): content for name, content in contents.items()})


def zipped_as(contents: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in contents.items():
            info = zipfile.ZipInfo(name)  # with no date, so that every run has the same bytes
            info.compress_type = method
            archive.writestr(info, content)
    return buffer.getvalue()


def tarred_as(contents: dict[str, bytes], kind: str = "gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzipped(buffer.getvalue()) if kind == "gz" else lzma.compress(buffer.getvalue(), preset=0)


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, 1, mtime=0)


FORMS = {
    "all.txt": b"hello\n",
    "all.txt.gz": gzipped(b"hello\n"),
    "all.txt.xz": lzma.compress(b"hello\n"),
    "small.zip": zipped(all_txt=b"hello\n", other_txt=b"else"),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_file_may_lie_in_any_form(name: str, tmp_path: Path) -> None:
    put(tmp_path / "small" / name, FORMS[name])
    found = _finding.find(small(), tmp_path, False, False)
    assert found.read() == {"all.txt": b"hello\n"}


@pytest.mark.parametrize("name", FORMS)
def test_another_file_of_the_same_name_is_refused(name: str, tmp_path: Path) -> None:
    put(tmp_path / "small" / name, FORMS[name])
    with pytest.raises(
        FileFormatError, match=rf"{re.escape(name)}.*is not the published file.*sha256:.*expected sha256:"
    ):
        _finding.find(small(b"hallo\n"), tmp_path, False, False).read()


def test_the_folder_that_is_passed_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "shared" / "small" / "all.txt", b"hello\n")
    monkeypatch.setenv("AHOP_DATA", str(tmp_path / "shared"))
    assert _finding.find(small(), None, False, False).read()
    with pytest.raises(DataNotFoundError, match=r"here.small"):
        _finding.find(small(), tmp_path / "here", False, False)


def test_then_the_shared_folder_and_then_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AHOP_DATA", str(tmp_path / "shared"))
    kept = put(tmp_path / "cache" / "small" / "all.txt", b"hello\n")
    assert _finding.find(small(), None, False, False).places["all.txt"].path == kept
    shared = put(tmp_path / "shared" / "small" / "all.txt", b"hello\n")
    assert _finding.find(small(), None, False, False).places["all.txt"].path == shared
    monkeypatch.setenv("AHOP_DATA", "")
    assert _finding.find(small(), None, False, False).places["all.txt"].path == kept


def test_all_of_the_data_in_a_later_folder_is_better_than_a_part_in_an_earlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AHOP_DATA", str(tmp_path / "shared"))
    put(tmp_path / "shared" / "small" / "part.txt", b"he")
    assert _finding.find(small(), None, False, False).edition.notes == ("A part.",)
    put(tmp_path / "cache" / "small" / "all.txt", b"hello\n")
    assert _finding.find(small(), None, False, False).edition.notes == ()


def test_the_cache_is_where_each_system_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("AHOP_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == tmp_path / ".cache" / "ahop"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "ahop"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "ahop"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "ahop" / "Cache"


@pytest.mark.parametrize("name", LOADERS)
def test_what_is_not_there_is_asked_for_with_a_way_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AHOP_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"was not found: .*AHOP_DATA") as caught:
        LOADERS[name]()
    said = str(caught.value)
    source = datasets.SOURCES[name.replace("breast", "breast_cancer")]
    best = source.editions[0]
    assert isinstance(caught.value, (AhopError, FileNotFoundError))
    assert all(file.name in said for file in best.files)
    assert str(tmp_path / "cache" / best.folder) in said
    assert "download=True" in said or source.by_hand in said
    for download in best.downloads:
        assert f"{download.url} as `{tmp_path / 'cache' / best.folder / download.name}`" in said


def test_what_no_server_offers_is_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="free account"):
        datasets.load_heart(tmp_path, download=True)


# The network.


@dataclass
class Site:
    """What a server has, and how it misbehaves."""

    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)  # what it answers at first, before it comes to its senses
    cuts: list[int] = field(
        default_factory=list
    )  # after how many bytes each connection breaks, as long as there are any
    ranges: bool = True
    wrong_range: bool = False
    always_a_part: bool = False
    says_length: bool = True
    stalls: bool = False
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    port: int = 0

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        name, site = self.path.removeprefix("/"), self.site
        asked = self.headers.get("Range")
        site.asked.append((name, asked))
        if site.stalls:
            time.sleep(1)
        if site.failures:
            return self.say(site.failures.pop(0))
        if name in site.redirects:
            return self.say(302, Location=site.redirects[name])
        if name not in site.files:
            return self.say(404)
        whole = site.files[name]
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and site.ranges else 0
        if start and start >= len(whole):
            return self.say(416, **{"Content-Range": f"bytes */{len(whole)}"})
        body = whole[start:]
        self.send_response(206 if start or site.always_a_part else 200)
        if start:
            first = start + 1 if site.wrong_range else start
            self.send_header("Content-Range", f"bytes {first}-{len(whole) - 1}/{len(whole)}")
        if site.says_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: site.cuts.pop(0)] if site.cuts else body)
        return None

    def say(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        pass


class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(_download, "SCHEMES", ("http",))
    monkeypatch.setattr(_download, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setenv("no_proxy", "*")
    site = Site()
    server = Quiet(("127.0.0.1", 0), type("ItsHandler", (Handler,), {"site": site}))
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


BODY = bytes(range(256)) * 4000


def fetch(site: Site, target: Path, limit: int = len(BODY), name: str = "body", body: bytes = BODY) -> None:
    def check(path: Path) -> None:
        if path.read_bytes() != body:
            raise FileFormatError("it is another file")

    _download.fetch(site.url(name), target, limit, check, progress=False)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_a_file_is_fetched_whole_and_gets_its_name_last(site: Site, tmp_path: Path) -> None:
    site.files["body"] = BODY
    fetch(site, tmp_path / "new" / "body")
    assert (tmp_path / "new" / "body").read_bytes() == BODY
    assert names_in(tmp_path / "new") == ["body"]
    assert site.asked == [("body", None)]


def test_a_broken_connection_is_taken_up_where_it_broke(site: Site, tmp_path: Path) -> None:
    site.files["body"] = BODY
    site.cuts = [300_000, 500_000]
    fetch(site, tmp_path / "body")
    assert (tmp_path / "body").read_bytes() == BODY
    assert site.asked == [("body", None), ("body", "bytes=300000-"), ("body", "bytes=800000-")]


def test_what_broke_too_often_is_kept_for_the_next_call(site: Site, tmp_path: Path) -> None:
    site.files["body"] = BODY
    site.cuts = [1000, 0, 0, 0]
    with pytest.raises(DownloadError, match=r"could not be fetched: the connection broke after 1000 of 1024000 bytes"):
        fetch(site, tmp_path / "body")
    assert names_in(tmp_path) == ["body.part"]
    fetch(site, tmp_path / "body")
    assert site.asked[-1] == ("body", "bytes=1000-")
    assert (tmp_path / "body").read_bytes() == BODY


def test_a_server_that_knows_no_ranges_sends_all_again(site: Site, tmp_path: Path) -> None:
    site.files["body"], site.ranges, site.cuts = BODY, False, [1000]
    fetch(site, tmp_path / "body")
    assert (tmp_path / "body").read_bytes() == BODY


def test_a_server_that_sends_another_range_is_asked_for_all(site: Site, tmp_path: Path) -> None:
    site.files["body"], site.wrong_range, site.cuts = BODY, True, [1000]
    fetch(site, tmp_path / "body")
    assert (tmp_path / "body").read_bytes() == BODY
    assert [asked for _, asked in site.asked] == [None, "bytes=1000-", None]


def test_a_server_that_sends_parts_unasked_is_not_believed(site: Site, tmp_path: Path) -> None:
    site.files["body"], site.always_a_part = BODY, True
    with pytest.raises(DownloadError, match="the server sent another part than was asked for"):
        fetch(site, tmp_path / "body")
    assert names_in(tmp_path) == []


def test_a_part_that_was_complete_needs_nothing_more(site: Site, tmp_path: Path) -> None:
    site.files["body"] = BODY
    put(tmp_path / "body.part", BODY)
    fetch(site, tmp_path / "body")
    assert site.asked == [("body", f"bytes={len(BODY)}-")]
    assert names_in(tmp_path) == ["body"]


@pytest.mark.parametrize("left", [b"of another file", BODY + b"and more"])
def test_a_part_of_another_file_is_thrown_away(left: bytes, site: Site, tmp_path: Path) -> None:
    site.files["body"] = BODY
    put(tmp_path / "body.part", left)
    fetch(site, tmp_path / "body")
    assert (tmp_path / "body").read_bytes() == BODY
    assert names_in(tmp_path) == ["body"]


def test_a_file_with_another_sum_is_thrown_away(site: Site, tmp_path: Path) -> None:
    site.files["body"] = BODY[::-1]
    with pytest.raises(FileFormatError, match=r"What http://127.0.0.1:\d+/body sent was thrown away. it is another"):
        fetch(site, tmp_path / "body")
    assert names_in(tmp_path) == []
    assert len(site.asked) == 1


def test_a_file_that_says_it_is_too_large_is_not_fetched(site: Site, tmp_path: Path) -> None:
    site.files["body"] = BODY
    with pytest.raises(DownloadError, match=r"sends more than the 1000 bytes that were expected"):
        fetch(site, tmp_path / "body", limit=1000)
    assert names_in(tmp_path) == []
    assert len(site.asked) == 1


def test_a_file_that_grows_too_large_is_dropped(site: Site, tmp_path: Path) -> None:
    site.files["body"], site.says_length = BODY, False
    with pytest.raises(DownloadError, match=r"sends more than the 500000 bytes that were expected"):
        fetch(site, tmp_path / "body", limit=500_000)
    assert names_in(tmp_path) == []
    assert len(site.asked) == 1


def test_a_server_that_says_no_length_is_believed_by_the_sum_alone(site: Site, tmp_path: Path) -> None:
    site.files["body"], site.says_length = BODY, False
    fetch(site, tmp_path / "body")
    site.cuts = [1000]
    with pytest.raises(FileFormatError, match="thrown away"):
        fetch(site, tmp_path / "other")


def test_a_file_that_is_not_there_is_asked_for_once(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"body could not be fetched: 404 Not Found.*save it as `.*body`") as caught:
        fetch(site, tmp_path / "body")
    assert isinstance(caught.value, (AhopError, ConnectionError))
    assert len(site.asked) == 1


def test_a_server_that_is_busy_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.files["body"], site.failures = BODY, [503, 429, 500]
    fetch(site, tmp_path / "body")
    assert len(site.asked) == 4
    site.failures = [503] * 4
    with pytest.raises(DownloadError, match=r"503 Service Unavailable"):
        fetch(site, tmp_path / "other")


def test_a_server_that_says_nothing_is_left(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_download, "TIMEOUT", 0.05)
    monkeypatch.setattr(_download, "PAUSES", (0.0,))
    site.files["body"], site.stalls = BODY, True
    with pytest.raises(DownloadError, match="timed out"):
        fetch(site, tmp_path / "body")


def test_each_pause_is_longer_than_the_last(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.undo()
    monkeypatch.setattr(_download, "SCHEMES", ("http",))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("time.sleep", slept.append)
    site.failures = [503] * 4
    with pytest.raises(DownloadError):
        fetch(site, tmp_path / "body")
    assert slept == [1, 2, 4]


def closed_port() -> int:
    """One that nobody listens at."""
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        return int(server.server_address[1])


def test_without_a_network_the_error_says_what_to_put_where(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{closed_port()}/small.zip"
    with pytest.raises(DownloadError) as caught:
        _finding.find(small(url=url), tmp_path, True, False)
    assert f"{url} could not be fetched" in str(caught.value)
    assert f"save it as `{tmp_path / 'small' / 'small.zip'}`" in str(caught.value)
    put(tmp_path / "small" / "part.txt", b"he")
    with pytest.raises(DownloadError, match="A part of the data is here: `download=False` takes it"):
        _finding.find(small(url=url), tmp_path, True, False)


@pytest.mark.parametrize("place", ["ftp://127.0.0.1/body", "file:///etc/hostname", "data:,hello", "gopher://x/"])
def test_a_redirect_to_another_kind_of_address_is_refused(place: str, site: Site, tmp_path: Path) -> None:
    site.redirects["body"] = place
    with pytest.raises(DownloadError):
        fetch(site, tmp_path / "body", body=b"hello")
    assert names_in(tmp_path) == []
    assert len(site.asked) == 1


def test_a_redirect_to_the_same_kind_is_followed_with_its_range(site: Site, tmp_path: Path) -> None:
    site.files["there"], site.redirects["body"], site.cuts = BODY, site.url("there"), [1000]
    fetch(site, tmp_path / "body")
    assert (tmp_path / "body").read_bytes() == BODY
    assert site.asked[-1] == ("there", "bytes=1000-")


@pytest.mark.parametrize("scheme", ["http", "ftp", "file"])
def test_only_https_is_fetched(scheme: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="only https addresses are"):
        _download.fetch(f"{scheme}://127.0.0.1/body", tmp_path / "body", 10, lambda path: None, progress=False)


def test_two_at_once_fetch_a_file_once(site: Site, tmp_path: Path) -> None:
    site.files["body"] = BODY
    threads = [threading.Thread(target=fetch, args=(site, tmp_path / "body")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "body").read_bytes() == BODY
    assert len(site.asked) == 1


def test_a_bar_is_drawn_unless_it_is_not_wanted(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.files["small.zip"] = FORMS["small.zip"]
    _finding.find(small(url=site.url("small.zip")), tmp_path / "a", True, False)
    assert capsys.readouterr().err == ""
    _finding.find(small(url=site.url("small.zip")), tmp_path / "b", True, True)
    assert "small.zip" in capsys.readouterr().err


def test_what_is_fetched_goes_into_the_cache_and_never_into_the_shared_folder(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "shared" / "small" / "part.txt", b"he")
    monkeypatch.setenv("AHOP_DATA", str(tmp_path / "shared"))
    site.files["small.zip"] = FORMS["small.zip"]
    found = _finding.find(small(url=site.url("small.zip")), None, True, False)
    assert found.read() == {"all.txt": b"hello\n"}
    assert names_in(tmp_path / "cache" / "small") == ["small.zip"]
    assert names_in(tmp_path / "shared" / "small") == ["part.txt"]
    assert _finding.find(small(url=site.url("gone.zip")), None, False, False).read()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (zipped(all_txt=b"hallo\n"), "is not the published file"),
        (zipped(some_txt=b"hello\n"), "holds no `all.txt`"),
        (zipped_as({"../all.txt": b"hello\n"}), "leads out of its folder"),
        (b"<html>Sorry</html>", "is damaged or cut short"),
        (FORMS["small.zip"][:-30], "is damaged or cut short"),
    ],
    ids=["changed", "without the file", "leading out", "a page", "cut"],
)
def test_an_archive_without_a_sum_is_judged_by_what_it_holds(
    content: bytes, complaint: str, site: Site, tmp_path: Path
) -> None:
    site.files["small.zip"] = content
    with pytest.raises(FileFormatError, match=rf"sent was thrown away\. .*{complaint}"):
        _finding.find(small(url=site.url("small.zip")), tmp_path, True, False)
    assert names_in(tmp_path / "small") == []


@pytest.fixture
def safe_site(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The same behind https, with a certificate made for the day."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-keyout", str(key), "-out", str(certificate)),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    monkeypatch.setattr(_download, "SCHEMES", ("https",))
    safe = replace(site)
    server = Quiet(("127.0.0.1", 0), type("ItsHandler", (Handler,), {"site": safe}))
    safe.port = server.server_address[1]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield safe
    server.shutdown()
    thread.join()
    server.server_close()


def test_https_is_fetched_if_its_certificate_is_trusted(
    safe_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = safe_site.url("body").replace("http:", "https:")
    safe_site.files["body"] = BODY

    def go() -> None:
        _download.fetch(url, tmp_path / "new" / "body", len(BODY), lambda path: None, progress=False)

    with pytest.raises(DownloadError, match="certificate verify failed"):
        go()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    go()
    assert (tmp_path / "new" / "body").read_bytes() == BODY


def test_https_is_never_left_for_http(
    site: Site, safe_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    safe_site.redirects["body"] = site.url("there")
    asked = len(site.asked)
    with pytest.raises(DownloadError, match=r"`http://127.0.0.1:\d+/there` is not fetched: only https"):
        _download.fetch(
            safe_site.url("body").replace("http:", "https:"), tmp_path / "new" / "body", 9, lambda path: None, False
        )
    assert ("there", None) not in site.asked[asked:]


# Official forms, made anew from what is here.


def offered(source: Source, site: Site) -> Source:
    """The same dataset, fetched from our own server."""
    first = source.editions[0]
    downloads = tuple(replace(each, url=site.url(each.name), digest=None) for each in first.downloads)
    return replace(source, editions=(replace(first, downloads=downloads), *source.editions[1:]))


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def test_adult_is_fetched_from_an_archive(
    site: Site, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: unpacked(data_folder / "adult" / f"{name}.gz") for name in ("adult.data", "adult.test")}
    site.files["adult.zip"] = zipped_as({"Index": b"", **dict(reversed(files.items()))})
    monkeypatch.setattr("experiments.datasets.adult.ADULT", offered(_sources.ADULT, site))
    fetched = datasets.load_adult(tmp_path, download=True, progress=False)
    here = loaded("adult", data_folder)
    np.testing.assert_array_equal(fetched.features, here.features)
    np.testing.assert_array_equal(fetched.is_test, here.is_test)
    again = datasets.load_adult(tmp_path)
    np.testing.assert_array_equal(again.target, here.target)
    assert len(site.asked) == 1


def test_bank_is_fetched_from_an_archive_inside_an_archive(
    site: Site, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = unpacked(data_folder / "bank" / "bank-additional-full.csv.gz")
    inner = zipped_as({"bank-additional/bank-additional-full.csv": table, "__MACOSX/._bank-additional": b"?"})
    site.files["bank+marketing.zip"] = zipped_as({"bank.zip": b"?", "bank-additional.zip": inner})
    monkeypatch.setattr("experiments.datasets.bank.BANK", offered(_sources.BANK, site))
    fetched = datasets.load_bank(tmp_path, download=True, progress=False)
    np.testing.assert_array_equal(fetched.features, loaded("bank", data_folder).features)


def test_mnist_is_fetched_file_by_file(
    site: Site, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files here were packed anew, so they are not the official ones byte by byte: their sums are ours."""
    for path in (data_folder / "mnist").iterdir():
        site.files[path.name] = path.read_bytes()
    source = offered(_sources.MNIST, site)
    downloads = tuple(
        replace(each, digest=f"sha256:{hashlib.sha256(site.files[each.name]).hexdigest()}")
        for each in source.editions[0].downloads
    )
    source = replace(source, editions=(replace(source.editions[0], downloads=downloads),))
    monkeypatch.setattr("experiments.datasets.mnist.MNIST", source)
    fetched = datasets.load_mnist(tmp_path, download=True, progress=False)
    np.testing.assert_array_equal(fetched.train_labels, loaded("mnist", data_folder).train_labels)
    assert len(site.asked) == 4


def test_the_official_file_is_refused_if_it_is_another(
    site: Site, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is here is packed otherwise than the official file, and a published sum tells them apart."""
    first = _sources.MNIST.editions[0]
    downloads = tuple(replace(each, url=site.url(each.name)) for each in first.downloads)
    monkeypatch.setattr(
        "experiments.datasets.mnist.MNIST", replace(_sources.MNIST, editions=(replace(first, downloads=downloads),))
    )
    for path in (data_folder / "mnist").iterdir():
        site.files[path.name] = path.read_bytes()
    with pytest.raises(FileFormatError, match=r"thrown away.*expected sha256:440fcabf"):
        datasets.load_mnist(tmp_path, download=True, progress=False)


def compressed(content: bytes, widest: int = 16, clear_every: int = 1 << 30) -> bytes:
    """As the `compress` of old Unix wrote it, by its book."""
    packed = bytearray([0x1F, 0x9D, 0x80 | widest])
    codes: list[int] = []
    width, table, following = 9, {bytes([byte]): byte for byte in range(256)}, 257
    since = 0

    def flush(whole_group: bool) -> None:
        if whole_group:
            codes.extend([0] * (-len(codes) % 8))
        bits = sum(code << (at * width) for at, code in enumerate(codes))
        packed.extend(bits.to_bytes((len(codes) * width + 7) // 8, "little"))
        codes.clear()

    def say(code: int) -> None:
        nonlocal width
        codes.append(code)
        if code != 256 and following >= 1 << width and width < widest:
            flush(whole_group=True)
            width += 1
        if len(codes) == 8:
            flush(whole_group=True)

    string = b""
    for byte in content:
        longer = string + bytes([byte])
        if longer in table:
            string = longer
            continue
        say(table[string])
        if following < 1 << widest:
            table[longer] = following
            following += 1
        string = bytes([byte])
        since += 1
        if since >= clear_every:
            say(256)
            flush(whole_group=True)
            width, table, following, since = 9, {bytes([byte]): byte for byte in range(256)}, 257, 0
    if string:
        say(table[string])
    flush(whole_group=False)
    return bytes(packed)


def test_musk_is_fetched_and_unpacked(
    site: Site, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = loaded("musk1", data_folder)
    lines = [
        f"MOLECULE-{at},{at}_{row},{','.join(str(int(number)) for number in numbers)},{label}.\n"
        for at, (bag, label) in enumerate(zip(here.bags, here.labels, strict=True))
        for row, numbers in enumerate(bag)
    ]
    site.files["musk+version+1.zip"] = zipped_as({"clean1.data.Z": compressed("".join(lines).encode())})
    monkeypatch.setattr("experiments.datasets.mil.MUSK1", offered(_sources.MUSK1, site))
    fetched = datasets.load_musk1(tmp_path, download=True, progress=False)
    assert all((ours == theirs).all() for ours, theirs in zip(here.bags, fetched.bags, strict=True))
    assert (here.labels == fetched.labels).all()
    other = "".join(lines).replace("MOLECULE-0,0_0,42", "MOLECULE-0,0_0,43").encode()
    put(tmp_path / "other" / "mil" / "clean1.data", other)
    with pytest.raises(FileFormatError, match=r"clean1.data` has the form of the published data, and other numbers"):
        datasets.load_musk1(tmp_path / "other")


def test_bags_saved_by_others_are_known_by_their_numbers(data_folder: Path, tmp_path: Path) -> None:
    """The same numbers in other types, another order within the bags, and packed otherwise."""
    here = loaded("fox", data_folder)
    (tmp_path / "mil").mkdir()
    np.savez_compressed(
        tmp_path / "mil" / "fox.npz",
        X=np.asfortranarray(np.concatenate([bag[::-1] for bag in here.bags])).astype(">f8"),
        bag_id=np.repeat(np.arange(200.0), [len(bag) for bag in here.bags]),
        y=here.labels.astype(np.uint8),
    )
    assert digest_of_bags(datasets.load_fox(tmp_path).bags, here.labels) == _sources.FOX.numbers
    owner = np.repeat(np.arange(200), [len(bag) for bag in here.bags])
    np.savez(tmp_path / "mil" / "fox.npz", X=np.concatenate(here.bags) + 1e-6, bag_id=owner, y=here.labels)
    with pytest.raises(FileFormatError, match="and other numbers"):
        datasets.load_fox(tmp_path)


def test_vaccine_with_all_its_columns_is_preferred(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (data_folder / "vaccine").iterdir():
        put(tmp_path / "vaccine" / path.name, path.read_bytes())
    lines = unpacked(data_folder / "vaccine" / "training_set_features_32of35.csv.gz").decode().splitlines()
    extra = ["hhs_geo_region,employment_industry,employment_occupation", *["abc,,xyz"] * (len(lines) - 1)]
    whole = "\n".join(f"{line},{more}" for line, more in zip(lines, extra, strict=True)).encode()
    put(tmp_path / "vaccine" / "training_set_features.csv", whole)
    with pytest.raises(
        FileFormatError, match=r"training_set_features.csv` is not the published file.*expected git:29d6"
    ):
        datasets.load_vaccine(tmp_path)
    official, *others = _sources.VACCINE.editions
    known = replace(official, files=(replace(official.files[0], digest=None), official.files[1]))
    monkeypatch.setattr("experiments.datasets.vaccine.VACCINE", replace(_sources.VACCINE, editions=(known, *others)))
    vaccine = datasets.load_vaccine(tmp_path)
    assert vaccine.features.shape == (26707, 35)
    assert vaccine.notes == ()
    assert np.isnan(vaccine.features[:, -2]).all()


def idx(array: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def without_digests(source: Source) -> Source:
    return replace(
        source,
        editions=tuple(
            replace(
                edition,
                files=tuple(replace(file, digest=None) for file in edition.files),
                downloads=tuple(replace(each, digest=None) for each in edition.downloads),
            )
            for edition in source.editions
        ),
    )


def test_fashion_mnist_with_its_training_pictures_has_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.datasets.mnist.FASHION_MNIST", without_digests(_sources.FASHION_MNIST))
    pictures, labels = np.full((4, 28, 28), 7, np.uint8), np.arange(4, dtype=np.uint8)
    for split in ("train", "t10k"):
        put(tmp_path / "fashion_mnist" / f"{split}-images-idx3-ubyte", idx(pictures))
        put(tmp_path / "fashion_mnist" / f"{split}-labels-idx1-ubyte.gz", gzipped(idx(labels)))
    fashion = datasets.load_fashion_mnist(tmp_path)
    assert fashion.train.shape == fashion.test.shape == (4, 28, 28)
    assert fashion.notes == ()
    put(tmp_path / "fashion_mnist" / "train-labels-idx1-ubyte.gz", gzipped(idx(labels + 10)))
    with pytest.raises(FileFormatError, match="must hold a class from 0 to 9 for each picture"):
        datasets.load_fashion_mnist(tmp_path)


@pytest.mark.parametrize("batches", [1, 3, 5])
def test_cifar10_is_read_from_its_archive_or_from_as_many_batches_as_there_are(
    batches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.datasets.cifar.CIFAR10", without_digests(_sources.CIFAR10))
    files = {f"data_batch_{number}.bin": bytes([number] * 3073) * 2 for number in range(1, batches + 1)}
    files["test_batch.bin"] = bytes([9] * 3073)
    folder = tmp_path / "cifar10"
    if batches == 5:
        packed = tarred_as({f"cifar-10-batches-bin/{name}": content for name, content in files.items()})
        put(folder / "cifar-10-binary.tar.gz", packed)
    else:
        for name, content in files.items():
            put(folder / name, content)
    cifar = datasets.load_cifar10(tmp_path)
    assert cifar.train_labels.tolist() == [number for number in range(1, batches + 1) for _ in range(2)]
    assert (cifar.train == cifar.train_labels[:, None, None, None]).all()
    assert cifar.test_labels.tolist() == [9]
    assert bool(cifar.notes) == (batches < 5)


def test_cifar100_is_read_from_its_archive_with_fine_or_coarse_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def records(each: int) -> bytes:
        found = np.zeros((100 * each, 3074), np.uint8)
        found[:, 1] = np.tile(np.arange(100), each)
        found[:, 0] = found[:, 1] // 5
        return found.tobytes()

    files = {
        "train.bin": records(500),
        "test.bin": records(100),
        "fine_label_names.txt": "\n".join(f"fine_{at}" for at in range(100)).encode(),
        "coarse_label_names.txt": "\n".join(f"coarse_{at}" for at in range(20)).encode() + b"\n\n",
    }
    packed = tarred_as({f"cifar-100-binary/{name}": content for name, content in files.items()})
    put(tmp_path / "cifar100" / "cifar-100-binary.tar.gz", packed)
    with pytest.raises(FileFormatError, match=r"cifar-100-binary.tar.gz` is not the published file"):
        datasets.load_cifar100(tmp_path)
    monkeypatch.setattr("experiments.datasets.cifar.CIFAR100", without_digests(_sources.CIFAR100))
    fine, coarse = datasets.load_cifar100(tmp_path), datasets.load_cifar100(tmp_path, labels="coarse")
    assert fine.train.shape == (50000, 3, 32, 32)
    assert np.bincount(fine.test_labels).tolist() == [100] * 100
    assert np.bincount(coarse.train_labels).tolist() == [2500] * 20
    assert fine.class_names[7] == "fine_7"
    assert coarse.class_names == tuple(f"coarse_{at}" for at in range(20))
    files["test.bin"] = records(100)[: 3074 * 9999]
    for name, content in files.items():
        put(tmp_path / "loose" / "cifar100" / name, content)
    with pytest.raises(FileFormatError, match=r"test.bin` must hold 100 pictures of each of the 100 classes"):
        datasets.load_cifar100(tmp_path / "loose")


def jpeg(color: tuple[int, int, int] | int, side: int = 64) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("L" if isinstance(color, int) else "RGB", (side, side), color).save(buffer, "JPEG")
    return buffer.getvalue()


def tiny_files() -> dict[str, bytes]:
    files = {
        "wnids.txt": b"n02\nn01\n",
        "words.txt": b"n01\tcat, tabby\nn02\tdog\nn03\tcow\n",
        "val/val_annotations.txt": b"val_1.JPEG\tn01\t0\t0\t63\t63\nval_0.JPEG\tn02\t0\t0\t63\t63\n",
        "val/images/val_0.JPEG": jpeg((250, 0, 0)),
        "val/images/val_1.JPEG": jpeg(100),
        "test/images/test_0.JPEG": b"never read",
        "train/n01/n01_boxes.txt": b"",
    }
    for wnid in ("n01", "n02"):
        files |= {f"train/{wnid}/images/{wnid}_{at}.JPEG": jpeg(20 * at) for at in (0, 2, 10)}
    return {f"tiny-imagenet-200/{name}": content for name, content in files.items()}


def test_tiny_imagenet_is_read_from_its_official_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "tiny_imagenet" / "tiny-imagenet-200.zip", zipped_as(tiny_files()))
    with pytest.raises(FileFormatError, match=r"tiny-imagenet-200.zip` is not the published file.*expected md5:9052"):
        datasets.load_tiny_imagenet(tmp_path)
    monkeypatch.setattr("experiments.datasets.tiny_imagenet.TINY_IMAGENET", without_digests(_sources.TINY_IMAGENET))
    tiny = datasets.load_tiny_imagenet(tmp_path, progress=False)
    assert isinstance(tiny, Images)
    assert tiny.class_names == ("dog", "cat, tabby")
    assert tiny.train_labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert tiny.train[:, 0, 0, 0].tolist() == [0, 40, 200] * 2  # numbers by size: 2 before 10
    assert tiny.test_labels.tolist() == [1, 0]
    assert np.abs(tiny.test[:, :, 9, 9].astype(int) - [[100, 100, 100], [250, 0, 0]]).max() < 9
    assert len(tiny.notes) == 1


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("val/images/val_0.JPEG", jpeg(0)[:200], "no picture that can be read"),
        ("val/images/val_0.JPEG", jpeg(0, side=65), r"must be 64x64; got \(65, 65\)"),
        ("val/images/val_0.JPEG", b"GIF89a", "no picture that can be read"),
        ("val/images/val_1.JPEG", None, "is listed and is not there"),
        ("wnids.txt", None, "holds no `wnids.txt`"),
        ("wnids.txt", b"", r"val_annotations.txt`, line 1: a picture and its class"),
        ("val/val_annotations.txt", b"val_1.JPEG\tn01\nval_0.JPEG\n", r"val_annotations.txt`, line 2: a picture"),
        ("val/val_annotations.txt", b"", "holds no pictures where Tiny ImageNet has them"),
        ("words.txt", bytes(5_000_000), "larger than anything in Tiny ImageNet"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_a_broken_tiny_imagenet_is_refused(
    name: str, content: bytes | None, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tiny_files()
    del files[f"tiny-imagenet-200/{name}"]
    if content is not None:
        files[f"tiny-imagenet-200/{name}"] = content
    put(tmp_path / "tiny_imagenet" / "tiny-imagenet-200.zip", zipped_as(files))
    monkeypatch.setattr("experiments.datasets.tiny_imagenet.TINY_IMAGENET", without_digests(_sources.TINY_IMAGENET))
    with pytest.raises(FileFormatError, match=complaint):
        datasets.load_tiny_imagenet(tmp_path, progress=False)


# Archives that are not to be trusted.


@pytest.mark.parametrize(
    "name", ["../all.txt", "/all.txt", "a/../../all.txt", "..\\all.txt", "C:\\all.txt", "C:/all.txt"]
)
@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tar.xz"])
def test_an_archive_that_leads_out_of_its_folder_is_not_read(name: str, kind: str, tmp_path: Path) -> None:
    contents = {"all.txt": b"hello", name: b"harm"}
    packed = zipped_as(contents) if kind == "zip" else tarred_as(contents, kind[-2:])
    path = put(tmp_path / f"archive.{kind}", packed)
    with pytest.raises(FileFormatError, match=r"archive\..*` holds the name .*, which leads out of its folder"):
        read_members(path, path.name, {("all.txt",): 100}, str(path))
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", ["gz", "xz", "zip", "tar.gz", "tar.xz", "Z"])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_file_that_was_cut_is_refused_by_name(suffix: str, kept: float, tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(0, 99, 20000, np.uint8).tobytes()
    whole = {
        "gz": gzipped(content),
        "xz": lzma.compress(content),
        "zip": zipped(all_txt=content),
        "tar.gz": tarred_as({"all.txt": content}),
        "tar.xz": tarred_as({"all.txt": content}, "xz"),
        "Z": compressed(content),
    }[suffix]
    path = put(tmp_path / f"cut.{suffix}", whole[: int(kept * len(whole))])

    def read() -> None:
        if suffix not in ("gz", "xz", "Z"):
            read_members(path, path.name, {("all.txt",): len(content)}, str(path))
        # A `.Z` file does not say where it ends, so that a cut is seen by the sum alone.
        check_content(unpack(path, len(content), str(path)), f"md5:{hashlib.md5(content).hexdigest()}", str(path))

    with pytest.raises(FileFormatError, match=r"cut\."):
        read()


def test_a_cut_file_says_how_far_it_could_be_read(tmp_path: Path) -> None:
    path = put(tmp_path / "adult" / "adult.data.gz", gzipped(os.urandom(3_000_000))[:2_000_000])
    put(tmp_path / "adult" / "adult.test", b"")
    with pytest.raises(FileFormatError, match=r"adult.data.gz` is damaged or cut short, after \d{6,7} unpacked bytes"):
        datasets.load_adult(tmp_path)
    assert path.exists()


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".Z"])
def test_no_more_is_unpacked_than_was_expected(suffix: str, tmp_path: Path) -> None:
    packs: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        ".gz": gzipped,
        ".xz": lzma.compress,
        ".Z": compressed,
    }
    path = put(tmp_path / f"bomb{suffix}", packs[suffix](bytes(1_000_000)))
    assert len(unpack(path, 1_000_000, "bomb")) == 1_000_000
    with pytest.raises(FileFormatError, match="`bomb` unpacks to more than"):
        unpack(path, 999_999, "bomb")


def test_a_member_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    for name, packed in (("a.zip", zipped(all_txt=bytes(10**6))), ("a.tar.gz", tarred_as({"all.txt": bytes(10**6)}))):
        path = put(tmp_path / name, packed)
        with pytest.raises(FileFormatError, match=r"all.txt` has 1000000 bytes; no more than 99 were expected"):
            read_members(path, name, {("all.txt",): 99}, name)


def test_a_zip_that_lies_about_a_size_is_found_out(tmp_path: Path) -> None:
    """It says 50 bytes and holds a million; what is read is bounded by what it says, and its sum is then wrong."""
    packed = zipped(all_txt=bytes(10**6)).replace(struct.pack("<I", 10**6), struct.pack("<I", 50))
    path = put(tmp_path / "a.zip", packed)
    with pytest.raises(FileFormatError, match=r"all.txt` is damaged"):
        read_members(path, "a.zip", {("all.txt",): 99}, "a.zip")


def test_a_tar_whose_header_asks_for_all_memory_is_stopped(tmp_path: Path) -> None:
    info = tarfile.TarInfo("long")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    header = info.tobuf(tarfile.USTAR_FORMAT)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        file.write(header)
        for _ in range(64):
            file.write(bytes(1 << 20))
    path = put(tmp_path / "a.tar.gz", packed.getvalue())
    with pytest.raises(FileFormatError, match=r"a.tar.gz` unpacks to more than \d+ bytes"):
        read_members(path, "a.tar.gz", {("all.txt",): 99}, "a.tar.gz")


def test_ways_of_packing_that_cannot_be_bounded_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "a.zip", zipped_as({"all.txt": bytes(99)}, zipfile.ZIP_LZMA))
    with pytest.raises(FileFormatError, match="size cannot be bounded"):
        read_members(path, "a.zip", {("all.txt",): 99}, "a.zip")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    packed = bytearray(zipped(all_txt=b"hello"))
    packed[6] |= 1
    packed[packed.index(b"PK\x01\x02") + 8] |= 1
    path = put(tmp_path / "a.zip", bytes(packed))
    with pytest.raises(FileFormatError, match="encrypted"):
        read_members(path, "a.zip", {("all.txt",): 99}, "a.zip")


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "a.zip", zipped_as({"a/all.txt": b"1", "b/all.txt": b"2"}))
    with pytest.raises(FileFormatError, match=r"holds two files called `all.txt`"):
        read_members(path, "a.zip", {("all.txt",): 99}, "a.zip")


def test_links_and_folders_in_a_tar_are_passed_over(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, kind in (("folder", tarfile.DIRTYPE), ("all.txt", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    path = put(tmp_path / "a.tar.gz", buffer.getvalue())
    with pytest.raises(FileFormatError, match=r"holds no `all.txt`"):
        read_members(path, "a.tar.gz", {("all.txt",): 99}, "a.tar.gz")


@st.composite
def spoiled(draw: st.DrawFn, whole: bytes) -> bytes:
    """Some bytes changed, and perhaps the end cut off."""
    content = bytearray(whole[: draw(st.integers(0, len(whole)))] if draw(st.booleans()) else whole)
    for at, byte in draw(
        st.lists(st.tuples(st.integers(0, max(0, len(content) - 1)), st.integers(0, 255)), max_size=8)
    ):
        if at < len(content):
            content[at] = byte
    return bytes(content)


ZIP = zipped_as({"folder/all.txt": b"hello " * 30, "other.txt": b"?"})
TAR = tarred_as({"folder/all.txt": b"hello " * 30, "other.txt": b"?"})


@given(packed=spoiled(ZIP) | st.binary(max_size=200))
def test_a_spoiled_zip_is_read_or_refused(packed: bytes) -> None:
    with suppress(FileFormatError):
        for member in members(io.BytesIO(packed), "a.zip", 10_000, "a.zip"):
            if member.size < 10_000:
                assert len(member.read()) == member.size


@given(packed=spoiled(TAR) | spoiled(gzip.decompress(TAR)).map(gzipped) | st.binary(max_size=200))
def test_a_spoiled_tar_is_read_or_refused(packed: bytes) -> None:
    with suppress(FileFormatError):
        for member in members(io.BytesIO(packed), "a.tar.gz", 100_000, "a.tar.gz"):
            if member.size < 10_000:
                assert len(member.read()) == member.size


@given(content=st.binary(max_size=600) | st.binary(max_size=6).map(lambda few: few * 500), widest=st.integers(10, 16))
def test_old_compression_is_read_back(content: bytes, widest: int) -> None:
    for clear_every in (5, 300, 1 << 30):
        assert unpack_z(compressed(content, widest, clear_every), len(content), "a.Z") == content


@pytest.mark.skipif(shutil.which("gzip") is None, reason="needs gzip, which reads this format too")
@pytest.mark.parametrize(("widest", "clear_every"), [(10, 1 << 30), (12, 1 << 30), (16, 1 << 30), (16, 1000), (13, 7)])
def test_old_compression_is_what_gzip_takes_it_for(widest: int, clear_every: int) -> None:
    content = np.random.default_rng(0).integers(40, 60, min(200_000, 2000 * clear_every), np.uint8).tobytes()
    packed = compressed(content, widest, clear_every)
    assert subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True).stdout == content
    assert unpack_z(packed, len(content), "a.Z") == content


@given(
    packed=spoiled(compressed(b"hello hello hello" * 20))
    | st.binary(max_size=50).map(lambda end: b"\x1f\x9d\x90" + end)
)
def test_spoiled_old_compression_is_read_or_refused(packed: bytes) -> None:
    with suppress(FileFormatError):
        assert len(unpack_z(packed, 1000, "a.Z")) <= 1000


# Text and numbers that are not as they should be.

CELLS = st.text(st.characters(codec="ascii"), max_size=6)


@given(text=st.text(st.sampled_from('ab1,;"\n\r\x00 .-\u00e9'), max_size=60))
def test_any_text_is_rows_or_refused(text: str) -> None:
    with suppress(FileFormatError):
        rows = parse_rows(text.encode(), "a.csv")
        assert {len(cells) for cells in rows.columns.values()} == {len(rows.lines)}
        for name in rows.columns:
            with suppress(FileFormatError):
                assert np.isfinite(rows.numbers(name)).all()


@given(rows=st.integers(1, 6), data=st.data())
def test_a_row_with_a_cell_too_many_or_too_few_is_named_by_its_line(rows: int, data: st.DataObject) -> None:
    lines = ["a,b,c", *["1,2,3"] * rows]
    at = data.draw(st.integers(1, rows))
    lines[at] = data.draw(st.sampled_from(["1,2", "1,2,3,4", "1", "1,2,3,"]))
    cells = lines[at].count(",") + 1
    with pytest.raises(FileFormatError, match=rf"^`a.csv`, line {at + 1}: 3 cells were expected; got {cells}\.$"):
        parse_rows("\n".join(lines).encode(), "a.csv")


@given(rows=st.integers(1, 6), cell=CELLS, data=st.data())
def test_a_cell_that_is_no_number_is_named_by_its_line(rows: int, cell: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, rows - 1))
    table = parse_rows(b"a,b\n" + b"1,-2.5e3\n" * rows, "a.csv")
    table.columns["b"][at] = cell
    if re.fullmatch(r"[ \t-\r]*[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?[ \t-\r]*", cell, re.IGNORECASE) and isfinite(
        float(cell)
    ):
        assert table.numbers("b")[at] == float(cell)
    else:
        with pytest.raises(FileFormatError, match=rf"^`a.csv`, line {at + 2}: `b` must be a number; got "):
            table.numbers("b")
        assert np.isnan(table.numbers("b", missing=(cell,))[at])


@pytest.mark.parametrize("cell", ["nan", "inf", "-Infinity", "1_000", "0x10", "", "1e999", "?" * 1000])
def test_what_python_would_take_for_a_number_is_none(cell: str) -> None:
    with pytest.raises(FileFormatError, match=r"line 2: `a` must be a number") as caught:
        parse_rows(f'a\n"{cell}"'.encode(), "a.csv").numbers("a")
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "`a.csv` holds no rows"),
        (b"a,b\n", "`a.csv` holds no rows"),
        (b'a,b\n1,"2\n3,4', "line 3: unexpected end of data"),
        (b'a,b\n1,"2"3', "line 2: "),
        (b"a,b\n1,2\n\xff,4", "line 3: byte 8 is no plain text"),
        (b"a,a\n1,2", "line 1: two columns have the same name"),
        (b"a,b\n1," + b"9" * 200_000, "line 2: field larger than field limit"),
    ],
)
def test_text_that_cannot_be_rows_is_refused_with_its_line(content: bytes, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        parse_rows(content, "a.csv")


def test_a_column_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "heart" / "cardio_train.csv", b"id;age;gender\n1;2;3\n")
    with pytest.raises(FileFormatError, match=r"cardio_train.csv` has no column `height`, `weight`"):
        datasets.load_heart(tmp_path)


@given(cells=st.lists(CELLS, min_size=1, max_size=20))
def test_codes_lead_back_to_the_words(cells: list[str]) -> None:
    codes, words = encode(cells, missing=("?",))
    assert [words[int(code)] if code == code else "?" for code in codes] == cells
    assert len(set(words)) == len(words)


def test_words_that_are_numbers_are_in_the_order_of_their_size() -> None:
    assert encode(["10", "9", "b", "1", "a"])[1] == ("1", "9", "10", "a", "b")


@given(content=spoiled(idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))) | st.binary(max_size=30))
def test_a_spoiled_idx_file_is_read_or_refused(content: bytes) -> None:
    with suppress(FileFormatError):
        assert parse_idx(content, "a", axes=3).nbytes == len(content) - 16


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\x00\x00\x08", "ends inside its header, at byte 3"),
        (
            b"\x00\x00\x08\x01\xff\xff\xff\xff",
            r"shape \(4294967295,\), which takes 4294967295 bytes from byte 8 on; it has 0",
        ),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x00", "it begins with 00000d01"),
    ],
)
def test_an_idx_file_that_promises_too_much_is_refused_before_memory_is_taken(content: bytes, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        parse_idx(content, "a", axes=1)


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


GOOD = {"X": np.ones((3, 2)), "bag_id": np.array([0, 0, 1]), "y": np.array([0, 1])}


@given(content=spoiled(npz(**GOOD)))
def test_spoiled_arrays_are_read_or_refused(content: bytes) -> None:
    with suppress(FileFormatError):
        bags, labels = parse_arrays(content, "a.npz")
        assert len(bags) == len(labels)


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"X": np.ones((3, 2))}, "must hold the arrays X, bag_id, y; got X"),
        ({**GOOD, "X": np.ones(3)}, r"got \(3,\), \(3,\) and \(2,\)"),
        ({**GOOD, "X": np.full((3, 2), np.nan)}, "finite numbers"),
        ({**GOOD, "X": np.array([[len, 1]] * 3)}, "must hold plain numbers"),
        ({**GOOD, "y": np.array([0, 2])}, "0 or 1 in `y`"),
        ({**GOOD, "bag_id": np.array([0, 1, 0])}, "must count the bags from 0 to 1, in order"),
        ({**GOOD, "bag_id": np.array([0, 0, 2])}, "must count the bags from 0 to 1, in order"),
        ({**GOOD, "X": np.ones((0, 2)), "bag_id": np.ones(0)}, r"got \(0, 2\)"),
    ],
)
def test_arrays_that_are_no_bags_are_refused(arrays: dict[str, Any], complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        parse_arrays(npz(**arrays), "a.npz")


def test_an_array_that_promises_too_much_is_refused_before_memory_is_taken() -> None:
    small = npz(a=np.ones(3))
    assert parse_npz(small, "a.npz", ("a",), 1000)["a"].tolist() == [1, 1, 1]
    large = io.BytesIO()
    np.save(large, np.ones(3))
    promised = large.getvalue().replace(b"(3,)", b"(3333333333,)").replace(b" " * 10 + b"\n", b"\n")
    promised = promised[:8] + struct.pack("<H", len(promised) - 10 - 24) + promised[10:]
    with pytest.raises(FileFormatError, match=r"\(3333333333,\)"):
        parse_npz(zipped_as({"a.npy": promised}), "a.npz", ("a",), 1000)
    with pytest.raises(FileFormatError, match="at most 100 were expected"):
        parse_npz(small, "a.npz", ("a",), 100)


MOLECULE = "M,c," + ",".join(["1"] * 166)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{MOLECULE},1.\n{MOLECULE},0.\n", "must all be labeled"),
        (f"{MOLECULE},2.\n", "must all be labeled"),
        (f"{MOLECULE},1.\n{MOLECULE}\n", "line 2: 169 cells were expected; got 168"),
        (f"{MOLECULE},1.\n{MOLECULE.replace(',1,1', ',1,x', 1)},1.\n", "line 2: `f2` must be a number; got 'x'"),
    ],
)
def test_molecules_that_are_not_as_they_should_be_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        parse_molecules(text.encode(), "clean1.data")


@given(records=st.integers(1, 4), cut=st.integers(1, 3072))
def test_pictures_that_end_early_are_refused(records: int, cut: int) -> None:
    content = bytes(records * 3073)
    assert len(parse_records([("a.bin", content)], (10,))[0]) == records
    with pytest.raises(FileFormatError, match=rf"`a.bin` must be records of 3073 bytes; .* {len(content) - cut}\."):
        parse_records([("a.bin", content[:-cut])], (10,))


@given(at=st.integers(0, 3), label=st.integers(10, 255))
def test_a_picture_of_no_class_is_named_by_its_byte(at: int, label: int) -> None:
    content = bytearray(4 * 3073)
    content[at * 3073] = label
    with pytest.raises(FileFormatError, match=rf"`a.bin` has no class for the record at byte {at * 3073}\."):
        parse_records([("a.bin", bytes(content))], (10,))


HEADER = ",".join(COLUMNS)
HEARD = ",".join(
    [*["-50"] * 260, *["100"] * 260, "-7541.26", "4864920.8", "2", "1", "106", "2", "2", "23", "1371713733"]
)


def test_fingerprints_are_read_with_gaps_for_what_was_not_heard() -> None:
    found = parse_fingerprints(f"{HEADER}\n{HEARD}\n{HEARD}\n".encode(), "a.csv")
    assert (found.rssi[:, :260] == -50).all()
    assert np.isnan(found.rssi[:, 260:]).all()
    assert found.coordinates[1].tolist() == [-7541.26, 4864920.8]
    assert (found.floor[0], found.building[0], found.space[0], found.phone[0]) == (2, 1, 106, 23)
    assert str(found.timestamp[0]) == "2013-06-20T07:35:33"


@given(rows=st.integers(1, 3), column=st.integers(0, 528), cell=CELLS, data=st.data())
def test_a_fingerprint_with_a_broken_cell_is_named_by_its_line(
    rows: int, column: int, cell: str, data: st.DataObject
) -> None:
    lines = [HEARD] * rows
    at = data.draw(st.integers(0, rows - 1))
    cells = HEARD.split(",")
    cells[column] = cell
    lines[at] = ",".join(cells)
    if re.fullmatch(r"\s*[+-]?\d+\s*", cell):
        return  # a number, which may be a good one
    with suppress(ValueError):
        float(cell)
        return
    with pytest.raises(FileFormatError, match=r"^`a.csv`, line \d+: "):
        parse_fingerprints("\n".join([HEADER, *lines]).encode(), "a.csv")


@pytest.mark.parametrize("cell", ["nan", "inf", "1e400", "1e30", "7.5", "x", "", " ", "\x00"])
@pytest.mark.parametrize("column", [0, 528])
def test_a_strength_or_a_time_that_cannot_be_is_refused(cell: str, column: int) -> None:
    cells = HEARD.split(",")
    cells[column] = cell
    with pytest.raises(FileFormatError, match=r"`a.csv`, line 3: "):
        parse_fingerprints("\n".join([HEADER, HEARD, ",".join(cells)]).encode(), "a.csv")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: the 529 official columns"),
        (HEADER, "holds no rows"),
        (f"{HEADER}\n{HEARD},1", "line 2: 529 cells were expected; got 530"),
        (f"{HEADER}\n{HEARD}\n\n{HEARD}", "line 3: 529 cells were expected; got 1"),
        (f"{HEADER.lower()}\n{HEARD}", "line 1: the 529 official columns"),
    ],
)
def test_fingerprints_of_another_form_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        parse_fingerprints(text.encode(), "a.csv")
