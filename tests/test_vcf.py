"""VCF on the command line: genotypes of samples, read as they are, linked, and refused where they are bent."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

import ahop
from ahop.cli.tables import vcf
from ahop.errors import FileFormatError
from ahop.operate.linking.misnamed import find_misnamed
from tests.console import run

SITES, PEOPLE = 80, 60
TEXTS = {0: "0/0", 1: "0/1", 2: "1|1"}


def header(samples: Sequence[str]) -> str:
    return "##fileformat=VCFv4.2\n#" + "\t".join([*vcf.FIXED, *samples]) + "\n"


def line(
    position: int, cells: Sequence[str], alternative: str = "G", kind: str = "GT:DP", chromosome: str = "1"
) -> str:
    return "\t".join([chromosome, str(position), ".", "A", alternative, ".", ".", ".", kind, *cells]) + "\n"


def written(path: Path, rows: NDArray[np.float64], samples: Sequence[str], chromosome: str = "1") -> Path:
    sites = [
        line(place, [f"{'./.' if value != value else TEXTS[int(value)]}:9" for value in column], chromosome=chromosome)
        for place, column in enumerate(rows.T)
    ]
    text = header(samples) + "".join(sites)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def genotypes(seed: int = 0) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return rng.binomial(2, rng.uniform(0.2, 0.8, SITES), (PEOPLE, SITES)).astype(float)


def reads(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    rng, found = np.random.default_rng(1), rows.copy()
    found[(found == 1) & (rng.random(rows.shape) < 0.3)] = 0
    found[rng.random(rows.shape) < 0.5] = np.nan
    return found


@pytest.mark.parametrize("ending", ["vcf", "vcf.gz"])
def test_genotypes_are_read(tmp_path: Path, ending: str) -> None:
    rows, samples = reads(genotypes()), [f"S{number}" for number in range(PEOPLE)]
    sheet = vcf.read_vcf(written(tmp_path / f"a.{ending}", rows, samples, "chr1"), ())
    names = [name for name in sheet.columns if name != vcf.SAMPLE]
    assert names == [f"1:{place}:A:G" for place in range(SITES)]
    found = np.stack([np.asarray(sheet.columns[name].numbers) for name in names], 1)
    np.testing.assert_array_equal(found, rows)
    assert sheet.columns[vcf.SAMPLE].words == samples
    assert sheet.columns[names[0]].texts("")[0] == (
        None if rows[0, 0] != rows[0, 0] else vcf.GENOTYPES[int(rows[0, 0])]
    )


def test_what_is_no_site_of_two_alleles_is_left_out(tmp_path: Path) -> None:
    cells = ["0/1", ".", "1"]
    text = header("abc") + line(1, cells) + line(2, cells, "G,T") + line(3, cells, "<DEL>") + line(1, cells)
    text += "\n" + line(4, ["3:0/1", "4:1|0", "5"], kind="DP:GT") + line(5, ["3"] * 3, kind="DP")
    (tmp_path / "a.vcf").write_text(text)
    sheet = vcf.read_vcf(tmp_path / "a.vcf", ())
    assert list(sheet.columns) == [vcf.SAMPLE, "1:1:A:G", "1:4:A:G"]
    np.testing.assert_array_equal(sheet.columns["1:1:A:G"].numbers, [1, np.nan, 2])
    np.testing.assert_array_equal(sheet.columns["1:4:A:G"].numbers, [1, 1, np.nan])
    assert [note.split(" ")[1] for note in sheet.notes] == ["3", "1"]


def test_two_files_are_linked_and_wrong_names_are_told(tmp_path: Path) -> None:
    rows, samples = genotypes(), [f"S{number}" for number in range(PEOPLE)]
    called = samples.copy()
    called[3], called[8] = called[8], called[3]
    left = written(tmp_path / "dna.vcf.gz", rows, samples, "chr1")
    right = written(tmp_path / "rna.vcf", reads(rows), called)
    found = run(f"ahop link {left} {right} --json -o {tmp_path}/links.csv")
    assert found.code == 0, found.stderr
    document = json.loads(found.stdout)
    assert len(document["links"]) == PEOPLE
    assert sum(each["left"] != each["right"] for each in document["links"]) == 2
    assert sorted(zip(document["misnamed"]["rows"], document["misnamed"]["linked"], strict=True)) == [
        ("S3", "S8"),
        ("S8", "S3"),
    ]
    said = run(f"ahop link {left} {right}").stdout
    assert "Wrong names: 2 of the right rows." in said


def test_a_memory_of_one_file_is_asked_another(tmp_path: Path) -> None:
    rows, samples = genotypes(), [f"S{number}" for number in range(PEOPLE)]
    left = written(tmp_path / "dna.vcf", rows, samples)
    right = written(tmp_path / "rna.vcf", reads(rows)[:, :-5], samples)
    memory = tmp_path / "dna.ahop"
    assert run(f"ahop fit {left} --queries {right} -o {memory}").code == 0
    found = run(f"ahop recall {memory} {right} -k 1 -o {tmp_path}/answers.csv")
    assert found.code == 0, found.stderr
    answers = pd.read_csv(tmp_path / "answers.csv", dtype=str)
    assert (answers["answer"] == samples).sum() >= PEOPLE - 2


BENT = {
    "empty": b"",
    "no header": line(1, ["0/1"]).encode(),
    "no samples": b"#" + "\t".join(vcf.FIXED).encode() + b"\n",
    "samples of one name": header(["a", "a"]).encode(),
    "a cell too few": (header(["a", "b"]) + line(1, ["0/1"])).encode(),
    "no genotypes": (header(["a"]) + line(1, ["7"], kind="DP")).encode(),
    "no text": header(["a"]).encode() + b"\xff\xfe\n",
}


@pytest.mark.parametrize("name", BENT)
def test_a_bent_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.vcf").write_bytes(BENT[name])
    (tmp_path / "a.vcf.gz").write_bytes(gzip.compress(BENT[name]))
    for path in (tmp_path / "a.vcf", tmp_path / "a.vcf.gz"):
        with pytest.raises(FileFormatError):
            vcf.read_vcf(path, ())


def test_a_torn_archive_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress((header(["a"]) + line(1, ["0/1"]) * 500).encode())
    for torn in (whole[:-20], b"\x1f\x8b" + b"\0" * 30, whole[:40] + b"x" * 20 + whole[60:]):
        (tmp_path / "a.vcf.gz").write_bytes(torn)
        with pytest.raises(FileFormatError, match="unpacked"):
            vcf.read_vcf(tmp_path / "a.vcf.gz", ())


def test_names_of_other_things_are_not_compared() -> None:
    rows = genotypes()[:20].astype(np.float32)
    memory = ahop.AssociativeMemory(rows, labels=[f"a{number}" for number in range(20)])
    other = np.array([f"b{number}" for number in range(20)], object)
    assert memory.labels is not None
    assert find_misnamed(lambda rows: torch.eye(20)[rows], memory.labels, other, np.arange(20)) is None
    links = ahop.link(memory, rows, labels=memory.labels, progress=False)
    assert links.misnamed is not None
    assert len(links.misnamed) == 0
    assert "fit their names" in str(links)
