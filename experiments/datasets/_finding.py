"""From a dataset's name to the bytes of its files."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ahop.errors import DataNotFoundError, DownloadError
from experiments.datasets._digests import check_content, check_file
from experiments.datasets._download import fetch
from experiments.datasets._facts import Download, Edition, File, Source
from experiments.datasets._folders import Folder, folder_to_fill, folders_to_read
from experiments.datasets._unpacking import read_members, unpack

PACKED = (".zip", ".npz", ".xz", ".gz")


@dataclass(frozen=True)
class Location:
    """A file on disk, and the way to what is wanted inside it, if it is an archive."""

    path: Path
    way: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """An edition of which every file is in one folder."""

    edition: Edition
    places: dict[str, Location]

    def read(self) -> dict[str, bytes]:
        """The unpacked content of each file, by its name, and each the one that was published."""
        contents: dict[str, bytes] = {}
        archives: dict[Path, dict[str, File]] = defaultdict(dict)
        for file in self.edition.files:
            place = self.places[file.name]
            if place.way:
                archives[place.path][place.way[-1]] = file
            else:
                contents[file.name] = unpack(place.path, file.limit, str(place.path))
        for path, files in archives.items():
            check_file(path, _published(self.edition, path.name), str(path))
            wanted = {self.places[file.name].way: file.limit for file in files.values()}
            read = read_members(path, path.name, wanted, str(path))
            contents |= {file.name: read[base] for base, file in files.items()}
        for file in self.edition.files:
            check_content(contents[file.name], file.digest, self.where(file.name))
        return {file.name: contents[file.name] for file in self.edition.files}

    def where(self, name: str) -> str:
        """A file of the edition, as an error names it."""
        place = self.places[name]
        return ": ".join((str(place.path), *place.way))

    def verified_path(self) -> Path:
        """Of an edition that is one large file, which is better read piece by piece."""
        (file,) = self.edition.files
        path = self.places[file.name].path
        check_file(path, file.digest, str(path))
        return path


def find(source: Source, folder: Folder | None, download: bool, progress: bool) -> Found:
    """The most complete form of a dataset that can be had.

    The complete forms are looked for first, in every folder; then, if that is allowed and possible, one is fetched;
    an incomplete form is the last resort, and is never taken in silence: its notes say what it lacks.
    """
    folders = folders_to_read(folder)
    for found in _present(source, folders, complete=True):
        return found
    fetched = next((edition for edition in source.editions if edition.downloads), None)
    if download and fetched:
        try:
            _fetch(fetched, folder_to_fill(folder), progress)
        except DownloadError as error:
            if any(_present(source, folders, complete=False)):
                raise DownloadError(f"{error} A part of the data is here: `download=False` takes it.") from error
            raise
        folders = [folder_to_fill(folder)]
    for found in _present(source, folders, complete=bool(download and fetched)):
        return found
    raise DataNotFoundError(_where_to_put(source, folders, folder_to_fill(folder)))


def _fetch(edition: Edition, target: Path, progress: bool) -> None:
    for each in edition.downloads:
        path = target / edition.folder / each.name
        if not path.exists():
            fetch(each.url, path, each.limit, partial(_check_fetched, edition, each), progress)


def _present(source: Source, folders: list[Path], complete: bool) -> Iterator[Found]:
    for edition in source.editions:
        if edition.complete or not complete:
            for folder in folders:
                places = {file.name: _place(file, folder / edition.folder) for file in edition.files}
                if None not in places.values():
                    yield Found(edition, {name: place for name, place in places.items() if place})


def _place(file: File, folder: Path) -> Location | None:
    """The least packed form first."""
    alone = [file.name] if file.name.endswith(PACKED) else [file.name, f"{file.name}.gz", f"{file.name}.xz"]
    ways = [Location(folder / name) for name in alone]
    ways += [Location(folder / file.inside[at], file.inside[at + 1 :]) for at in reversed(range(len(file.inside)))]
    return next((place for place in ways if place.path.is_file()), None)


def _check_fetched(edition: Edition, download: Download, part: Path) -> None:
    """By its own digest where one was published, else by what it holds."""
    check_file(part, download.digest, str(part))
    if download.digest is None:
        files = [file for file in edition.files if file.inside[0] == download.name]
        read = read_members(part, download.name, {file.inside[1:]: file.limit for file in files}, str(part))
        for file in files:
            check_content(read[file.inside[-1]], file.digest, f"{part}: {file.inside[-1]}")


def _published(edition: Edition, name: str) -> str | None:
    return next((download.digest for download in edition.downloads if download.name == name), None)


def _where_to_put(source: Source, folders: list[Path], target: Path) -> str:
    best = source.editions[0]
    names = ", ".join(f"`{file.name}`" for file in best.files)
    looked = " and ".join(f"`{folder / best.folder}`" for folder in folders)
    opening = f"{source.title} was not found: {names} must be in {looked}."
    if best.downloads:
        addresses = ", ".join(f"{each.url} as `{target / best.folder / each.name}`" for each in best.downloads)
        mend = f"Pass `download=True`, or save {addresses}."
    else:
        mend = source.by_hand
    return f"{opening} {mend} Pass `folder`, or set AHOP_DATA, to look in another folder with `{best.folder}` in it."
