"""Loaders of the experiments: counts of the real files, and files and servers that hold something else."""

import gzip
import hashlib
import http.server
import io
import lzma
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import numpy as np
import pytest
from experiments import datasets
from experiments.datasets import SOURCES, File, find, read

from ahop.errors import DataNotFoundError, FileFormatError

CONTENT = b"one,two\n1,2\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


# The real files.


@pytest.mark.parametrize(
    ("load", "said", "classes"),
    [
        (datasets.load_adult, "48842 rows, 14 columns of which 8 in words", [37155, 11687]),
        (datasets.load_bank, "41188 rows, 20 columns of which 10 in words", [36548, 4640]),
        (datasets.load_vaccine, "26707 rows, 32 columns of which 9 in words", [14272, 12435]),
        (datasets.load_purchase, "12330 rows, 17 columns of which 7 in words", [10422, 1908]),
        (datasets.load_heart, "70000 rows, 11 columns of which 1 in words", [35021, 34979]),
    ],
    ids=["adult", "bank", "vaccine", "purchase", "heart"],
)
def test_a_table_has_the_published_counts(
    load: Callable[..., datasets.Table], said: str, classes: list[int], data_folder: Path
) -> None:
    table = load(data_folder)
    assert repr(table) == f"Table({table.name}: {said})"
    assert np.bincount(table.target).tolist() == classes
    for column, words in zip(table.features.T, table.categories, strict=True):
        assert not words or set(column[~np.isnan(column)]) == set(range(len(words)))


def test_adult_keeps_the_official_split_and_its_gaps(data_folder: Path) -> None:
    adult = datasets.load_adult(data_folder)
    assert adult.is_test.sum() == 16281
    with_gaps = np.asarray(np.isnan(adult.features).any(1))
    assert [with_gaps[~adult.is_test].sum(), with_gaps[adult.is_test].sum()] == [2399, 1221]
    assert adult.class_names == ("<=50K", ">50K")


def test_vaccine_has_a_second_target(data_folder: Path) -> None:
    assert np.bincount(datasets.load_vaccine(data_folder, target="h1n1_vaccine").target).tolist() == [21033, 5674]


@pytest.mark.parametrize(
    ("load", "said", "mean"),
    [
        (datasets.load_mnist, "Images(mnist: 60000 + 10000 of 28x28, 10 classes)", 0.1307 * 255),
        (datasets.load_cifar10, "Images(cifar10: 50000 + 10000 of 3x32x32, 10 classes)", 120.707),
        (datasets.load_tiny_imagenet, "Images(tiny_imagenet: 5000 + 1000 of 3x64x64, 200 classes)", None),
    ],
    ids=["mnist", "cifar10", "tiny_imagenet"],
)
def test_pictures_have_the_published_counts_and_mean(
    load: Callable[..., datasets.Images], said: str, mean: float | None, data_folder: Path
) -> None:
    images = load(data_folder)
    assert repr(images) == said
    # Of the subset of Tiny ImageNet no mean was published.
    assert mean is None or images.train.mean() == pytest.approx(mean, abs=0.02)
    for labels in (images.train_labels, images.test_labels):
        assert set(labels) == set(range(len(images.class_names)))


@pytest.mark.parametrize(
    ("name", "said", "positive"),
    [
        ("tiger", "200 bags, 1220 instances of 230 features", 100),
        ("fox", "200 bags, 1320 instances of 230 features", 100),
        ("elephant", "200 bags, 1391 instances of 230 features", 100),
        ("ucsb_breast_cancer", "58 bags, 2002 instances of 708 features", 26),
    ],
)
def test_bags_have_the_published_counts(name: str, said: str, positive: int, data_folder: Path) -> None:
    found = datasets.load_bags(name, data_folder)
    assert repr(found) == f"Bags({name}: {said})"
    assert found.labels.sum() == positive


def test_uji_has_the_published_counts(data_folder: Path) -> None:
    uji = datasets.load_uji_indoorloc(data_folder)
    assert repr(uji) == "WifiSurvey(uji_indoorloc: 19937 + 1111 of 520 access points)"
    assert np.bincount(uji.train.building).tolist() == [5249, 5196, 9492]
    assert np.bincount(uji.validation.floor).tolist() == [132, 462, 306, 172, 39]
    assert np.isnan(uji.train.rssi).all(1).sum() == 76
    assert np.nanmax(uji.train.rssi) <= 0
    assert str(uji.train.timestamp.min()).startswith("2013-05")


def test_massbank_has_the_counts_of_its_records(data_folder: Path) -> None:
    library = datasets.load_massbank_eawag(data_folder)
    assert repr(library) == "SpectraLibrary(massbank_eawag: 7530 spectra of 737 compounds, 237710 peaks)"
    assert [library.intensity.min(), library.intensity.max()] == [1, 999]
    every = [library.peaks(at) for at in range(len(library))]
    assert np.array_equal(np.concatenate([mz for mz, _ in every]), library.mz)
    # A precursor is a proton heavier than its molecule, but for the records that the notes name.
    off = np.abs(library.precursor_mz - library.exact_mass - 1.00728) > 0.01
    assert set(library.compound_name[off]) == {"Losartan", "Metribuzin-desamino"}


def test_sugarcane_has_sixty_samples_on_every_instrument(data_folder: Path) -> None:
    survey = datasets.load_sugarcane_nir(data_folder)
    assert survey.samples.tolist() == list(range(100, 160))
    assert {name: len(each.wavelengths) for name, each in survey.instruments.items()} == {
        "F750": 231,
        "Micronir1700rep1": 125,
        "Micronir1700rep2": 125,
        "Micronir1700rep3": 125,
        "Micronir2200": 125,
        "Nirone22": 201,
        "Nirscan_nano": 228,
        "Scio": 331,
        "Tellspec": 256,
    }
    for each in survey.instruments.values():
        assert each.absorbance.shape == (60, len(each.wavelengths))
        assert np.isfinite(each.absorbance).all()
        assert (np.diff(each.wavelengths) > 0).all()
    assert survey.references[:2].tolist() == [[4.76, 7.03, 40.69, 36.77], [48.40, 2.37, 29.45, 57.98]]
    assert np.argwhere(np.isnan(survey.references)).tolist() == [[3, 0], [5, 0], [11, 0]]


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_names_its_license_and_its_citation(name: str) -> None:
    source = SOURCES[name]
    assert source.license
    assert source.citation
    for file in source.files:
        assert len(file.sha256) == 64
        assert not file.url or file.url.startswith("https://")


# Files in any form, and other files of the same name.


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def tarred(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "table.csv": bytes,
    "table.csv.gz": gzip.compress,
    "table.csv.xz": lzma.compress,
    "all.zip": lambda content: zipped("folder/table.csv", content),
    "both.zip": lambda content: zipped("inner.zip", zipped("table.csv", content)),
    "all.tar.gz": lambda content: tarred("folder/table.csv", content),
}


def known(form: str) -> File:
    return File("small/table.csv", SHA256, f"https://127.0.0.1/{form}" if form.startswith(("all", "both")) else "")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_file_may_lie_in_any_form(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / form).write_bytes(FORMS[form](CONTENT))
    assert read(known(form), tmp_path) == CONTENT
    monkeypatch.setenv("AHOP_DATA", str(tmp_path))
    assert read(known(form)) == CONTENT


def test_another_file_of_the_same_name_is_refused(form: str, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / form).write_bytes(FORMS[form](CONTENT + b"3,4\n"))
    with pytest.raises(FileFormatError, match=rf"{form}` does not hold the known `table.csv`: .* expected {SHA256}"):
        read(known(form), tmp_path)


def test_a_file_that_was_cut_is_refused(form: str, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    packed = FORMS[form](CONTENT)
    (tmp_path / "small" / form).write_bytes(packed[: len(packed) // 2])
    with pytest.raises(FileFormatError, match="Delete it and get another copy"):
        read(known(form), tmp_path)


def test_an_archive_without_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    for form, packed in {"all.zip": zipped("other", b""), "all.tar.gz": tarred("other", b"")}.items():
        (tmp_path / "small" / form).write_bytes(packed)
        with pytest.raises(FileFormatError, match=rf"{form}` cannot be unpacked: .*there is no `table.csv` in it"):
            read(known(form), tmp_path)


def test_a_missing_file_is_asked_for_with_a_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataNotFoundError, match=r"table.csv` was not found. `SOURCES` says where it is from"):
        find(known("table.csv"), tmp_path)
    with pytest.raises(
        DataNotFoundError, match=r"Pass `download=True`, or save https://127.0.0.1/all.zip as `.*all.zip`"
    ):
        find(known("all.zip"), tmp_path)
    monkeypatch.delenv("AHOP_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match="set AHOP_DATA"):
        read(known("all.zip"), download=True)


# Downloads, from a server on this machine.


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address under which a server offers it."""
    folder = tmp_path / "site"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *arguments: Quiet(*arguments, directory=str(folder))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("form", ["table.csv.gz", "all.zip", "all.tar.gz"])
def test_a_download_is_checked_and_kept(form: str, site: tuple[Path, str], tmp_path: Path) -> None:
    (site[0] / form).write_bytes(FORMS[form](CONTENT))
    file = File("small/table.csv", SHA256, f"{site[1]}/{form}")
    with pytest.raises(DataNotFoundError):
        read(file, tmp_path)
    assert read(file, tmp_path, download=True) == CONTENT
    assert [path.name for path in (tmp_path / "small").iterdir()] == [form]
    (site[0] / form).unlink()
    assert read(file, tmp_path, download=True) == CONTENT


def test_a_download_of_something_else_is_not_kept(site: tuple[Path, str], tmp_path: Path) -> None:
    (site[0] / "all.zip").write_bytes(FORMS["all.zip"](CONTENT + b"3,4\n"))
    file = File("small/table.csv", SHA256, f"{site[1]}/all.zip")
    with pytest.raises(FileFormatError, match="does not hold the known"):
        read(file, tmp_path, download=True)
    with pytest.raises(HTTPError, match="404"):
        read(File("small/table.csv", SHA256, f"{site[1]}/gone.zip"), tmp_path, download=True)
    assert not (tmp_path / "small").exists()
