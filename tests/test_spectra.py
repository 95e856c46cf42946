"""Spectra of masses and of light: what the loaders say is in the files, and what they say of broken ones."""

import gzip
import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments import datasets
from experiments.datasets.massbank import COLUMNS, parse_library, parse_peaks
from experiments.datasets.spectra import SpectraLibrary
from experiments.datasets.sugarcane import check_samples, parse_instrument, parse_references
from hypothesis import given
from hypothesis import strategies as st

from ahop.errors import DataNotFoundError, FileFormatError


@pytest.fixture(scope="module")
def massbank(data_folder: Path) -> SpectraLibrary:
    return datasets.load_massbank_eawag(data_folder)


@pytest.fixture(scope="module")
def sugarcane(data_folder: Path) -> datasets.NirSurvey:
    return datasets.load_sugarcane_nir(data_folder)


# What is in the files.


def test_massbank_has_the_counts_of_its_records(massbank: SpectraLibrary) -> None:
    assert len(massbank) == len(np.unique(massbank.accession)) == 7530
    assert len(massbank.mz) == len(massbank.intensity) == 237710
    assert len(np.unique(massbank.compound)) == 737
    assert len(np.unique(massbank.collision_energy)) == 16
    assert len(np.unique(massbank.instrument)) == 3
    assert set(massbank.resolution) == {7500, 15000, 30000, 35000, 70000}
    assert set(massbank.precursor_type) == {"[M+H]+"}
    assert set(massbank.license) == {"CC BY"}
    assert [massbank.intensity.min(), massbank.intensity.max()] == [1, 999]


def test_massbank_has_an_entry_of_every_kind_for_each_spectrum(massbank: SpectraLibrary) -> None:
    fields = {name: value for name, value in vars(massbank).items() if isinstance(value, np.ndarray)}
    assert {name: len(value) for name, value in fields.items() if len(value) != len(massbank)} == {
        "mz": 237710,
        "intensity": 237710,
        "indptr": 7531,
    }


def test_a_precursor_is_a_proton_heavier_than_its_molecule_but_where_the_notes_say(massbank: SpectraLibrary) -> None:
    off = np.abs(massbank.precursor_mz - massbank.exact_mass - 1.00728) > 0.01
    assert off.sum() == 18
    assert set(massbank.compound_name[off]) == {"Losartan", "Metribuzin-desamino"}
    assert any(note.startswith("18 records of losartan") for note in massbank.notes)


def test_the_peaks_of_all_spectra_are_all_peaks(massbank: SpectraLibrary) -> None:
    every = [massbank.peaks(at) for at in range(len(massbank))]
    assert np.array_equal(np.concatenate([mz for mz, _ in every]), massbank.mz)
    assert np.array_equal(np.concatenate([intensity for _, intensity in every]), massbank.intensity)
    assert np.array_equal(massbank.peaks(-1)[0], massbank.peaks(len(massbank) - 1)[0])
    with pytest.raises(IndexError):
        massbank.peaks(len(massbank))


INSTRUMENTS = {
    # how many wavelengths, the first, the last
    "F750": (231, 450, 1140),
    "Micronir1700rep1": (125, 908.1, 1676.2),
    "Micronir1700rep2": (125, 908.1, 1676.2),
    "Micronir1700rep3": (125, 908.1, 1676.2),
    "Micronir2200": (125, 1158.8, 2169.4),
    "Nirone22": (201, 1750, 2150),
    "Nirscan_nano": (228, 901.028503, 1700.838339),
    "Scio": (331, 740, 1070),
    "Tellspec": (256, 900.878296, 1700.416504),
}


def test_sugarcane_has_sixty_samples_on_every_instrument(sugarcane: datasets.NirSurvey) -> None:
    assert sugarcane.samples.tolist() == list(range(100, 160))
    found = {name: (len(each.wavelengths), *each.wavelengths[[0, -1]]) for name, each in sugarcane.instruments.items()}
    assert found == INSTRUMENTS
    for each in sugarcane.instruments.values():
        assert each.absorbance.shape == (60, len(each.wavelengths))
        assert np.isfinite(each.absorbance).all()
        assert repr(each).startswith("NirSpectra(60 samples, ")


def test_sugarcane_has_gaps_where_the_laboratory_found_nothing(sugarcane: datasets.NirSurvey) -> None:
    assert sugarcane.reference_names == ("TS", "CP", "ADF", "IVOMD")
    assert sugarcane.references[:2].tolist() == [[4.76, 7.03, 40.69, 36.77], [48.40, 2.37, 29.45, 57.98]]
    assert np.argwhere(np.isnan(sugarcane.references)).tolist() == [[3, 0], [5, 0], [11, 0]]


def test_repeats_on_one_instrument_are_alike_and_not_the_same(sugarcane: datasets.NirSurvey) -> None:
    first, second = (sugarcane.instruments[f"Micronir1700rep{number}"].absorbance for number in (1, 2))
    assert 0 < np.abs(first - second).mean() < 0.02


# How the files may lie, and what is said of the source.


@pytest.mark.parametrize("name", ["massbank_eawag", "sugarcane_nir"])
def test_what_has_no_address_says_where_it_is_from_and_never_fetches(name: str, tmp_path: Path) -> None:
    source = datasets.SOURCES[name]
    origin = {
        "massbank_eawag": "MassBank-data release 2025.05.1",
        "sugarcane_nir": "Mendeley Data rnvvftvmh7, version 1",
    }
    assert not source.page
    assert not any(edition.downloads for edition in source.editions)
    assert source.license.startswith(f"To be read at the source: {origin[name]}")
    with pytest.raises(DataNotFoundError, match=origin[name]):
        getattr(datasets, f"load_{name}")(tmp_path, download=True)


def test_files_may_lie_unpacked(sugarcane: datasets.NirSurvey, data_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sugarcane_nir").mkdir()
    for path in (data_folder / "sugarcane_nir").iterdir():
        (tmp_path / "sugarcane_nir" / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    found = datasets.load_sugarcane_nir(tmp_path)
    assert np.array_equal(found.references, sugarcane.references, equal_nan=True)


def test_spectra_with_other_numbers_are_refused(massbank: SpectraLibrary, data_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(data_folder / "massbank_eawag", tmp_path / "massbank_eawag")
    target = tmp_path / "massbank_eawag" / "spectra.npz"
    target.chmod(0o600)
    target.parent.chmod(0o700)
    peaks = {"mz": massbank.mz, "intensity": massbank.intensity, "indptr": massbank.indptr}
    target.write_bytes(npz(**peaks))
    assert np.array_equal(datasets.load_massbank_eawag(tmp_path).mz, massbank.mz)  # saved anew, and the same numbers
    target.write_bytes(npz(**peaks | {"mz": massbank.mz + 1e-6}))
    with pytest.raises(FileFormatError, match=r"spectra.npz` has the form of the published data, and other numbers"):
        datasets.load_massbank_eawag(tmp_path)


# Mass spectra in made-up files.


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


GOOD = {
    "mz": np.array([50.5, 60, 50]),
    "intensity": np.array([999, 1, 5], dtype=np.int16),
    "indptr": np.array([0, 2, 3]),
}
HEADER = ",".join(COLUMNS)
FIRST = {
    "accession": "A1",
    "name": '"1,2-Thing"',
    "formula": "C1",
    "exact_mass": "100.5",
    "smiles": "C",
    "inchikey": "ABCDEFGHIJKLMN-UHFFFAOYSA-N",
    "instrument": "Trap",
    "instrument_type": "LC",
    "collision_energy": "30 % (nominal)",
    "resolution": "7500",
    "precursor_mz": "101.5",
    "precursor_type": "[M+H]+",
    "splash": "s",
    "n_peaks": "2",
    "authors": '"A, B"',
    "license": "CC BY",
}


def row(**cells: str) -> str:
    return ",".join((FIRST | cells).values())


def read(*lines: str, header: str = HEADER) -> SpectraLibrary:
    return parse_library("\n".join([header, *lines]).encode(), npz(**GOOD), ("a.csv", "a.npz"))


def test_a_library_is_read_with_the_peaks_of_each_spectrum() -> None:
    library = read(row(), row(accession="A2", n_peaks="1", inchikey="ZBCDEFGHIJKLMN-UHFFFAOYSA-N"))
    assert [each.tolist() for each in library.peaks(0)] == [[50.5, 60], [999, 1]]
    assert [each.tolist() for each in library.peaks(1)] == [[50], [5]]
    assert library.compound.tolist() == ["ABCDEFGHIJKLMN", "ZBCDEFGHIJKLMN"]
    assert library.compound_name[0] == "1,2-Thing"
    assert library.authors[0] == "A, B"
    assert library.collision_energy[0] == "30 % (nominal)"
    assert (library.exact_mass[0], library.precursor_mz[0], library.resolution[0]) == (100.5, 101.5, 7500)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "`a.csv` holds no rows"),
        ([row(), f"{row()},1"], "`a.csv`, line 3: 16 cells were expected; got 17"),
        ([row(), row(precursor_mz="x")], "`a.npz` holds 2 spectra and `a.csv` 2 rows"),
        ([row(), row(n_peaks="1", precursor_mz="x")], "`a.csv`, line 3: `precursor_mz` must be a number; got 'x'"),
        ([row(n_peaks="two"), row()], "`a.csv`, line 2: `n_peaks` must be a number; got 'two'"),
        ([row()], "`a.npz` holds 2 spectra and `a.csv` 1 rows"),
        ([row(), row(n_peaks="1", inchikey="ABC")], "`a.csv`, line 3: `inchikey` must be .* got 'ABC'"),
    ],
)
def test_a_library_of_another_form_is_refused_with_its_line(lines: list[str], complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        read(*lines)


@pytest.mark.parametrize("header", [HEADER.upper(), HEADER.replace("name", "title"), ",".join(COLUMNS[::-1])])
def test_a_library_with_other_columns_is_refused(header: str) -> None:
    with pytest.raises(FileFormatError, match=r"`a.csv`, line 1: the columns accession, name, .* were expected"):
        read(row(), row(n_peaks="1"), header=header)


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"mz": GOOD["mz"]}, "must hold the arrays mz, intensity, indptr; got mz"),
        (GOOD | {"intensity": np.ones(2)}, r"got \(3,\), \(2,\) and \(3,\)"),
        (GOOD | {"mz": np.array([len, 1, 2])}, "must hold plain numbers"),
        (GOOD | {"mz": np.array([50, 50, 50])}, "rise in each spectrum"),
        (GOOD | {"mz": np.array([-1, 50, 50])}, "must be above 0"),
        (GOOD | {"mz": np.array([50, np.inf, 50])}, "must be above 0"),
        (GOOD | {"mz": np.array([50, np.nan, 50])}, "must be above 0"),
        (GOOD | {"intensity": np.array([1, 0, 1])}, "`intensity` be above 0"),
        (GOOD | {"intensity": np.array([1, np.nan, 1])}, "`intensity` be above 0"),
        (GOOD | {"indptr": np.array([0, 2, 4])}, "`indptr` must rise"),
        (GOOD | {"indptr": np.array([1, 2, 3])}, "`indptr` must rise"),
        (GOOD | {"indptr": np.array([0, 4, 3])}, "`indptr` must rise"),
        (GOOD | {"indptr": np.array([0, 0, 3])}, "`indptr` must rise"),
        (GOOD | {"indptr": np.array([0, 1.5, 3])}, "`indptr` must rise"),
        (GOOD | {"indptr": np.array([0, np.nan, 3])}, "`indptr` must rise"),
        (GOOD | {"indptr": np.array([0, 1e300, 3])}, "`indptr` must rise"),
        (GOOD | {"indptr": np.array([0])}, r"got \(3,\), \(3,\) and \(1,\)"),
    ],
)
def test_arrays_that_are_no_peaks_are_refused(arrays: dict[str, Any], complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        parse_peaks(npz(**arrays), "a.npz")


@given(cut=st.integers(1, len(npz(**GOOD))))
def test_peaks_that_end_early_are_refused(cut: int) -> None:
    with pytest.raises(FileFormatError, match=r"`a.npz"):
        parse_peaks(npz(**GOOD)[:-cut], "a.npz")


# Near infrared in made-up files.


def test_an_instrument_is_read_with_its_blanks_and_line_ends() -> None:
    samples, found = parse_instrument(b"  ;    908.1; 914.5\r\n100   ;-0.5 ;0.25 \r\n101;1e-3;2\r\n", "a.csv")
    assert samples.tolist() == [100, 101]
    assert found.wavelengths.tolist() == [908.1, 914.5]
    assert found.absorbance.tolist() == [[-0.5, 0.25], [0.001, 2]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "`a.csv` holds no rows"),
        (" ;900;901\n", "`a.csv` holds no rows"),
        ("sample;900;901\n1;2;3", "line 1: an empty cell was expected"),
        (" ;900;x\n1;2;3", "rising wavelengths"),
        (" ;900;nan\n1;2;3", "rising wavelengths"),
        (" ;900;inf\n1;2;3", "rising wavelengths"),
        (" ;901;900\n1;2;3", "rising wavelengths"),
        (" ;900;900.0\n1;2;3", "rising wavelengths"),
        (" ;-1;900\n1;2;3", "rising wavelengths"),
        (" \n1", "rising wavelengths"),
        (" ;900;901\n1;2;3\n2;3", "line 3: 3 cells were expected; got 2"),
        (" ;900;901\n1;2;3;4", "line 2: 3 cells were expected; got 4"),
        (" ;900;901\n1;2;3\n2;x;3", "line 3: `900` must be a number; got 'x'"),
        (" ;900;901\n1;2;NA", "line 2: `901` must be a number; got 'NA'"),
        (" ;900;901\nx;2;3", "line 2: `sample` must be a number; got 'x'"),
        (" ;900;901\n1.5;2;3", "whole number of a sample"),
        (" ;900;901\n1e300;2;3", "whole number of a sample"),
        (" ;900;901\n1;2;3\n1;2;3", "each once"),
    ],
)
def test_an_instrument_of_another_form_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        parse_instrument(text.encode(), "a.csv")


def test_references_are_read_with_gaps() -> None:
    samples, found = parse_references(b"Sample;TS;CP;ADF;IVOMD\n7;NA;1;2;3\n8;NA ;1.5;2;3\n", "a.csv")
    assert samples.tolist() == [7, 8]
    assert np.isnan(found[:, 0]).all()
    assert found[:, 1:].tolist() == [[1, 2, 3], [1.5, 2, 3]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Sample;TS;CP;ADF\n7;1;2;3", "line 1: Sample;TS;CP;ADF;IVOMD was expected"),
        ("Sample;TS;CP;ADF;IVOMD\n7;1;2;3", "line 2: 5 cells were expected; got 4"),
        ("Sample;TS;CP;ADF;IVOMD\n7;1;2;3;none", "line 2: `IVOMD` must be a number; got 'none'"),
        ("Sample;TS;CP;ADF;IVOMD\nNA;1;2;3;4", "line 2: `Sample` must be a number; got 'NA'"),
    ],
)
def test_references_of_another_form_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        parse_references(text.encode(), "a.csv")


@pytest.mark.parametrize("numbers", [[1, 3], [2, 1], [1]])
def test_instruments_with_other_samples_are_refused(numbers: list[int]) -> None:
    with pytest.raises(FileFormatError, match=r"`a.csv` must have the 2 samples of `References.csv` in the same order"):
        check_samples(np.array(numbers), np.array([1, 2]), "a.csv")
