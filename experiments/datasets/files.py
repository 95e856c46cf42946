"""Files that are known by their SHA-256."""

import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from ahop.errors import DataNotFoundError, FileFormatError

Folder = str | os.PathLike[str]
TIMEOUT = 30.0  # seconds without a byte from the server, after which a download has failed


@dataclass(frozen=True)
class File:
    """One file of a dataset.

    Attributes:
        path: Below the folder of all datasets. The file may lie there plain, with `.gz` or `.xz` behind its name, or
            inside the archive that its source offers.
        sha256: Of the unpacked bytes.
        url: Address of the file or of its archive; empty where none is known, or where an account is needed.
    """

    path: str
    sha256: str
    url: str = ""

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


def find(file: File, folder: Folder | None = None) -> Path:
    """Look for a file, in any of its forms; raise DataNotFoundError where there is none."""
    root = folder if folder is not None else os.environ.get("AHOP_DATA")
    if not root:
        raise DataNotFoundError(
            f"`{file.path}` is needed. Pass `folder`, or set AHOP_DATA to the folder that holds it."
        )
    plain = Path(root) / file.path
    forms = [plain, *(plain.with_name(f"{plain.name}{ending}") for ending in (".gz", ".xz"))]
    if file.url:
        forms.append(_target(file, Path(root)))
    for path in forms:
        if path.is_file():
            return path
    mend = (
        f"Pass `download=True`, or save {file.url} as `{forms[-1]}`."
        if file.url
        else "`SOURCES` says where it is from."
    )
    raise DataNotFoundError(f"`{plain}` was not found. {mend}")


def read(file: File, folder: Folder | None = None, download: bool = False) -> bytes:
    """Read the unpacked bytes of a file; raise FileFormatError where they are not those that are known.

    Args:
        download: Fetch a file that is not there, if it has an address. It is kept only if its bytes are the known ones.
    """
    try:
        path = find(file, folder)
    except DataNotFoundError:
        root = folder if folder is not None else os.environ.get("AHOP_DATA")
        if not (download and file.url and root):
            raise
        with urlopen(file.url, timeout=TIMEOUT) as answer:
            packed: bytes = answer.read()
        path = _target(file, Path(root))
        content = _checked(file, path, packed)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_bytes(packed)
        part.replace(path)
        return content
    return _checked(file, path, path.read_bytes())


def _target(file: File, root: Path) -> Path:
    return (root / file.path).with_name(file.url.rsplit("/", 1)[-1])


def _checked(file: File, path: Path, packed: bytes) -> bytes:
    try:
        content = packed if path.name == file.name else _unpacked(packed, path.name, file.name)
    except (OSError, EOFError, KeyError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise FileFormatError(f"`{path}` cannot be unpacked: {error}. Delete it and get another copy.") from error
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise FileFormatError(
            f"`{path}` does not hold the known `{file.name}`: SHA-256 is {found}, expected {file.sha256}. "
            "Delete it and get another copy."
        )
    return content


def _unpacked(packed: bytes, name: str, wanted: str) -> bytes:
    if name.endswith(".zip"):
        return _from_zip(packed, wanted)
    if name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.name.rsplit("/", 1)[-1] == wanted else None
                if stream is not None:
                    return stream.read()
        raise KeyError(f"there is no `{wanted}` in it")
    return gzip.decompress(packed) if name.endswith(".gz") else lzma.decompress(packed)


def _from_zip(packed: bytes, wanted: str) -> bytes:
    """Read a member, also of a zip inside the zip."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        for name in archive.namelist():
            if name.rsplit("/", 1)[-1] == wanted:
                return archive.read(name)
        for name in archive.namelist():
            if name.endswith(".zip"):
                with suppress(KeyError):
                    return _from_zip(archive.read(name), wanted)
    raise KeyError(f"there is no `{wanted}` in it")
