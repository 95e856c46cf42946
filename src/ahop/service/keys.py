"""Keys and their rights. Keys are kept as digests only."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from ahop._core.json import parse_json
from ahop.errors import FileFormatError, InvalidValueError

# A shorter secret could be guessed. Longer ones are not stretched: they are drawn by a machine, not by a person.
LEAST_CHARACTERS = 20
FIELDS = {"name", "sha256", "collections", "where", "may_write"}
DRAW = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"


@dataclass(frozen=True)
class Key:
    """A digest of a secret, and what its owner may do.

    Attributes:
        name: of the owner, for the log.
        digest: SHA-256 of the secret, in hexadecimal digits.
        collections: that it opens; None for all.
        where: a filter that is added to each of its requests. Such a key only reads.
        may_write: add, delete, give feedback, fit, and change versions.
    """

    name: str
    digest: str
    collections: tuple[str, ...] | None = None
    where: Mapping[str, Any] | None = None
    may_write: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{64}", self.digest):
            raise InvalidValueError("`digest` must be 64 hexadecimal digits, the SHA-256 of the secret.")
        if self.where is not None and self.may_write:
            raise InvalidValueError(f"The key {self.name!r} has a filter, so it only reads: leave `may_write` out.")

    @classmethod
    def of(cls, secret: str, name: str = "key", **rights: Any) -> "Key":
        """The key of a secret, which is forgotten."""
        if len(secret) < LEAST_CHARACTERS:
            raise InvalidValueError(f"A secret must have at least {LEAST_CHARACTERS} characters. Draw one: {DRAW}")
        return cls(name, sha256(secret.encode()).hexdigest(), **rights)

    def opens(self, collection: str) -> bool:
        return self.collections is None or collection in self.collections


def key_of(secret: str, keys: Sequence[Key]) -> Key | None:
    """Find the key of a secret. It takes as long whether and whichever fits."""
    digest, found = sha256(secret.encode(errors="surrogateescape")).hexdigest(), None
    for key in keys:
        if compare_digest(key.digest, digest):
            found = key
    return found


def read_keys(path: Path) -> tuple[Key, ...]:
    """Keys from a JSON file: a list of objects with `name`, `sha256`, and maybe `collections`, `where`, `may_write`."""
    try:
        given = parse_json(path.read_text("utf-8"))
        if not isinstance(given, list) or not all(isinstance(each, dict) and set(each) <= FIELDS for each in given):
            raise ValueError(f"it must be a list of objects with the fields {sorted(FIELDS)}")
        return tuple(_key(each) for each in given)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"The keys in `{path}` cannot be read: {error}.") from error


def _key(given: dict[str, Any]) -> Key:
    where, collections, may_write = given.get("where"), given.get("collections"), given.get("may_write", False)
    if not isinstance(given["name"], str) or not isinstance(given["sha256"], str) or not isinstance(may_write, bool):
        raise ValueError("`name` and `sha256` must be words, and `may_write` true or false")
    if where is not None and not isinstance(where, dict):
        raise ValueError("`where` must name columns and the values that they may have")
    if collections is not None and not (
        isinstance(collections, list) and all(isinstance(each, str) for each in collections)
    ):
        raise ValueError("`collections` must be a list of names")
    return Key(
        given["name"], given["sha256"].lower(), None if collections is None else tuple(collections), where, may_write
    )


def is_loopback(host: str) -> bool:
    """True if only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_open(host: str, keys: Sequence[Key]) -> None:
    """A public address needs a key."""
    if not keys and not is_loopback(host):
        raise InvalidValueError(
            f"`host` is {host!r}, which others can reach, and there is no key. Set one, `AHOP_KEY=...` or "
            f"`--keys FILE` (draw a secret: {DRAW}); or leave `host` out, which is 127.0.0.1."
        )
