"""What is to be known of a dataset before any of it is read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file as its makers wrote it, whatever it comes packed in.

    Attributes:
        name: Its name in the folder; `.gz` or `.xz` may follow.
        limit: No more bytes than this are ever unpacked. Where the size is known, this is it.
        digest: Of the unpacked bytes, as `sha256:...`; none where nobody published one.
        inside: Where the official download keeps it: the archive, and what to open in it, one within the other.
            Folders inside an archive are left out, for a name is in it once.
    """

    name: str
    limit: int
    digest: str | None = None
    inside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Download:
    """One file as the official source sends it.

    Attributes:
        limit: More bytes than this are refused. Where the size is known, this is it.
        digest: Of the bytes as sent; where there is none, what is inside is checked instead.
    """

    url: str
    limit: int
    digest: str | None = None

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Edition:
    """One form in which a dataset can lie in a folder.

    Attributes:
        folder: Below the folder of all datasets.
        notes: What it lacks.
    """

    folder: str
    files: tuple[File, ...]
    downloads: tuple[Download, ...] = ()
    complete: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A dataset: whose it is, where it comes from, and the forms it is known in, the best first.

    Attributes:
        page: For people; empty where no lasting one is known.
        by_hand: What to do where no file can be fetched without an account, or none lies behind https.
        numbers: Digest of what was parsed, where copies differ in bytes and not in numbers.
    """

    name: str
    title: str
    page: str
    license: str
    citation: str
    editions: tuple[Edition, ...]
    by_hand: str = ""
    numbers: str | None = None
