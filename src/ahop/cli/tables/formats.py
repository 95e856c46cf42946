"""Read a table from a file, by the ending of its name."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ahop.cli.running import RequestError
from ahop.cli.tables.arrow import read_feather, read_parquet
from ahop.cli.tables.delimited import read_delimited
from ahop.cli.tables.numpy_files import read_npy, read_npz
from ahop.cli.tables.sheet import Sheet
from ahop.cli.tables.vcf import read_vcf

# Names of a table in CSV that comes through a pipe.
STANDARD_INPUT = ("-", "/dev/stdin")
READERS: dict[str, Callable[[Path, Iterable[str]], Sheet]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".txt": read_delimited,
    ".parquet": read_parquet,
    ".feather": read_feather,
    ".arrow": read_feather,
    ".npy": read_npy,
    ".npz": read_npz,
    ".vcf": read_vcf,
    ".vcf.gz": read_vcf,
}


def read_sheet(path: Path, keep: Iterable[str]) -> Sheet:
    """All columns of a file.

    Args:
        keep: names of columns whose words are wanted, also if they look like numbers.
    """
    if str(path) in STANDARD_INPUT:
        with TemporaryDirectory() as folder:
            kept = Path(folder, "standard input")
            kept.write_bytes(sys.stdin.buffer.read())
            return _not_empty(replace(read_delimited(kept, keep), path=kept.relative_to(folder)))
    name = path.name.lower()
    reader = next((READERS[ending] for ending in READERS if name.endswith(ending)), None)
    if reader is None:
        known = ", ".join(READERS)
        raise RequestError(f"`{path}` must be a table, whose name ends in one of {known}; got {path.suffix!r}.")
    if path.is_dir():
        raise RequestError(f"`{path}` must be a file; it is a folder.")
    return _not_empty(reader(path, keep))


def _not_empty(sheet: Sheet) -> Sheet:
    if not sheet.rows:
        raise RequestError(f"`{sheet.path}` has no rows.")
    return sheet
