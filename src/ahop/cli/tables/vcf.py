"""VCF, plain or gzipped: a row for each sample, a column of categories for each site of two alleles."""

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ahop._core.free_memory import check_free_memory
from ahop.cli.tables.sheet import Column, Sheet
from ahop.errors import FileFormatError

GENOTYPES = ("0/0", "0/1", "1/1")
SAMPLE = "sample"
# Columns before those of the samples.
FIXED = ("CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT")
# Lines that are read before the room for all is known; a longer line is no VCF of ours.
LONGEST_LINE = 2**28
CALLS = {"0": 0, "1": 2, "0/0": 0, "0/1": 1, "1/0": 1, "1/1": 2}
NO_CALL = -1
# Bytes of a genotype in single precision, once in its column and once in the table.
GROWTH = 8


def read_vcf(path: Path, keep: Iterable[str]) -> Sheet:
    """Genotypes of samples. Sites of more than two alleles, and those that are listed again, are left out."""
    check_free_memory(path.stat().st_size, f"`{path}`, as genotypes,")
    is_packed = path.suffix == ".gz"
    try:
        with path.open("rb") as packed, gzip.open(packed) if is_packed else packed as file:
            return _read(path, file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(f"`{path}` cannot be unpacked: {error}.") from error


def _read(path: Path, file: io.BufferedIOBase) -> Sheet:
    samples, number = _samples(path, file)
    sites: dict[str, NDArray[np.int8]] = {}
    skipped = again = 0
    while line := _line(path, file, number := number + 1):
        cells = line.split("\t")
        if len(cells) != len(FIXED) + len(samples):
            raise FileFormatError(
                f"`{path}`: line {number} must have {len(FIXED) + len(samples)} cells with tabs between, as the header "
                f"has; it has {len(cells)}."
            )
        chromosome, position, _, reference, alternative = cells[:5]
        name = f"{chromosome.removeprefix('chr')}:{position}:{reference.upper()}:{alternative.upper()}"
        if not re.fullmatch(r"[ACGTN]+", alternative.upper()) or "GT" not in cells[8].split(":"):
            skipped += 1
        elif name in sites:
            again += 1
        else:
            sites[name] = _calls(cells[len(FIXED) :], cells[8].split(":").index("GT"))
    if not sites:
        raise FileFormatError(f"`{path}` has no site of two alleles with genotypes (GT).")
    check_free_memory(GROWTH * len(sites) * len(samples), f"`{path}`, as a table,")
    columns = {name: _column(name, calls) for name, calls in sites.items()}
    notes = [
        f"{path.name}: {count} sites {why}."
        for count, why in ((skipped, "left out, without two alleles or genotypes"), (again, "left out, listed again"))
        if count
    ]
    return Sheet(path, {SAMPLE: Column(SAMPLE, None, samples), **columns}, len(samples), True, tuple(notes))


def _samples(path: Path, file: io.BufferedIOBase) -> tuple[list[str], int]:
    """Names of the samples, and the number of the line that has them."""
    number = 0
    while line := _line(path, file, number := number + 1):
        if line.startswith("##"):
            continue
        cells = line.removeprefix("#").split("\t")
        if not line.startswith("#CHROM") or tuple(cells[: len(FIXED)]) != FIXED or len(cells) == len(FIXED):
            break
        samples = cells[len(FIXED) :]
        if len(set(samples)) < len(samples):
            raise FileFormatError(f"`{path}`: samples must have different names.")
        return samples, number
    raise FileFormatError(
        f"`{path}` is no VCF with genotypes: line {number} must be `#CHROM`, the other names of columns up to "
        "`FORMAT`, and a name for each sample, with tabs between."
    )


def _line(path: Path, file: io.BufferedIOBase, number: int) -> str:
    """The next line that is not empty; nothing at the end."""
    for line in iter(lambda: file.readline(LONGEST_LINE), b""):
        if len(line) == LONGEST_LINE:
            raise FileFormatError(f"`{path}`: line {number} is longer than {LONGEST_LINE} bytes.")
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise FileFormatError(f"`{path}`: line {number} is no text: {error.reason}.") from error
        if text:
            return text
    return ""


def _calls(cells: Sequence[str], place: int) -> NDArray[np.int8]:
    """Copies of the second allele, -1 where it was not read."""
    if place == 0:
        texts = (cell.partition(":")[0] for cell in cells)
    else:
        texts = (next(islice(cell.split(":"), place, None), ".") for cell in cells)
    return np.array([CALLS.get(text.replace("|", "/"), NO_CALL) for text in texts], dtype=np.int8)


def _column(name: str, calls: NDArray[np.int8]) -> Column:
    numbers = calls.astype(np.float32)
    numbers[calls == NO_CALL] = np.nan
    return Column(name, numbers, categories=GENOTYPES)
