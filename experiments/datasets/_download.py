"""Fetching a file over a network that may break, from a server that may be wrong.

The bytes go to `name.part` and are kept when a connection breaks, so that the next try goes on where the last one
ended. Only what has passed its check gets its name.
"""

import os
import re
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from ssl import SSLError
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from filelock import FileLock
from tqdm import tqdm
from typing_extensions import override

from ahop.errors import DownloadError, FileFormatError

SCHEMES = ("https",)
TIMEOUT = 30.0
PAUSES = (1.0, 2.0, 4.0)  # seconds before the second, third and fourth try
BLOCK = 1 << 18
PASSING = (408, 425, 429, 500, 502, 503, 504)
PART, NO_SUCH_RANGE = 206, 416


def fetch(url: str, target: Path, limit: int, check: Callable[[Path], None], progress: bool) -> None:
    """Bring `url` to `target`, or raise and leave `target` absent.

    Args:
        limit: More bytes than this are refused, before they come if the server says so, else when they do.
        check: Raises FileFormatError on a file that is not the one that was asked for.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with _alone(target):
        if target.exists():  # another process was quicker
            return
        # What an earlier call left may be the beginning of another file: if so, once more from the start.
        for begun in (True, False) if part.exists() else (False,):
            _try_often(url, part, target, limit, progress)
            try:
                check(part)
                break
            except FileFormatError as error:
                part.unlink()
                if not begun:
                    raise FileFormatError(f"What {url} sent was thrown away. {error}") from error
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(target)


def _try_often(url: str, part: Path, target: Path, limit: int, progress: bool) -> None:
    for pause in (*PAUSES, None):
        try:
            return _go_on(url, part, limit, progress)
        except DownloadError:  # no other try would end otherwise
            raise
        except (URLError, HTTPException, TimeoutError, ConnectionError, SSLError) as error:
            if isinstance(error, HTTPError):
                error.close()
            if pause is None or (isinstance(error, HTTPError) and error.code not in PASSING):
                reason = error.reason if isinstance(error, URLError) else error
                number = f" {error.code}" if isinstance(error, HTTPError) else ""
                raise DownloadError(
                    f"{url} could not be fetched:{number} {reason}. Where there is no network, fetch that address "
                    f"elsewhere and save it as `{target}`."
                ) from error
        time.sleep(pause)
    return None


def _go_on(url: str, part: Path, limit: int, progress: bool) -> None:
    """Append what is still missing; start afresh where the server sends all of it again."""
    have = part.stat().st_size if part.exists() else 0
    _check_scheme(url)
    # Without this, a server may send the file packed, and its size and its ranges would be those of the packing.
    headers = {"User-Agent": "ahop", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer: HTTPResponse = _opener().open(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        if error.code != NO_SUCH_RANGE or not have:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{have}":  # all of it was there
            return
        part.unlink()
        raise ConnectionError("the server has less than was already fetched") from error
    with answer:
        start = _first_byte(answer)
        if start not in (0, have):
            part.unlink(missing_ok=True)
            raise ConnectionError("the server sent another part than was asked for")
        total = start + answer.length if answer.length is not None else None
        _check_size(total or 0, limit, url)
        try:
            with part.open("ab" if start else "wb") as file, _bar(part.stem, start, total, progress) as bar:
                while block := answer.read(BLOCK):
                    start += len(block)
                    _check_size(start, limit, url)
                    file.write(block)
                    bar.update(len(block))
        except DownloadError:  # nothing that could be gone on with
            part.unlink()
            raise
    if total is not None and start != total:
        raise ConnectionError(f"the connection broke after {start} of {total} bytes")


def _first_byte(answer: HTTPResponse) -> int:
    """Where in the file the answer begins; -1 if it does not say."""
    if answer.status != PART:
        return 0
    said = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range") or "")
    return int(said[1]) if said else -1


def _bar(name: str, start: int, total: int | None, progress: bool) -> "tqdm[NoReturn]":
    return tqdm(desc=name, initial=start, total=total, unit="B", unit_scale=True, leave=False, disable=not progress)


def _check_size(size: int, limit: int, url: str) -> None:
    if size > limit:
        raise DownloadError(f"{url} sends more than the {limit} bytes that were expected; it is not fetched.")


def _check_scheme(url: str) -> None:
    if urlsplit(url).scheme not in SCHEMES:
        raise DownloadError(f"`{url}` is not fetched: only {' and '.join(SCHEMES)} addresses are.")


class _OnlyToSafePlaces(HTTPRedirectHandler):
    @override
    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> OpenerDirector:
    return build_opener(_OnlyToSafePlaces)


def _alone(target: Path) -> FileLock:
    """One process at a time fetches a file; the others wait, and find it there."""
    return FileLock(target.with_name(f".{target.name}.lock"), thread_local=False)
