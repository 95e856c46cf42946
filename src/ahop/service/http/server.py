"""Start the service, and let it end without dropping what it has accepted."""

import gc
import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from types import FrameType
from typing import final

import uvicorn
from fastapi import FastAPI

from ahop._core.checks import check_count
from ahop.errors import AhopError, InvalidValueError, UnavailableError
from ahop.service.collections.collection import NAME, created
from ahop.service.http.app import Given, create_app
from ahop.service.http.metrics import counted_together
from ahop.service.http.protocol import protocol_of
from ahop.service.http.workers import Workers
from ahop.service.keys import Key, read_keys, refuse_open
from ahop.service.logs import log, to_stderr
from ahop.service.options import Options

# The connections that the system keeps for us until we take them.
BACKLOG = 2048
# The thread that recalls asks for the interpreter after each step; by default the one that listens keeps it ten times
# as long.
SWITCH_SECONDS = 0.0005
# How often several workers look for what others have written.
FOLLOW_SECONDS = 1.0


@final
class Server(uvicorn.Server):
    """Ends in steps: it says that it is not ready, waits a moment, closes the port, answers what it has, and ends."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, drain_seconds: float) -> None:
        super().__init__(config)
        self._held, self._drain_seconds = app.state.shared.held, drain_seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._held.is_draining:  # a second signal: at once
            self.should_exit = True
            return
        self._held.is_draining = True
        clock = threading.Timer(self._drain_seconds, self._end)
        clock.daemon = True
        clock.start()

    def _end(self) -> None:
        self.should_exit = True


def run(
    paths: Sequence[str | Path] | Mapping[str, Given],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    options: Options | None = None,
    workers: int = 1,
) -> None:
    """Serve memories and stores over HTTP until a signal ends it.

    Args:
        paths: files of memories and folders of stores. Collections are named as these without the ending; `NAME=PATH`,
            or a mapping from names to paths, gives them other names. A mapping may have clusters too.
        host: where to listen. Others than the loopback need a key.
        port: 0 for one that is free; the log says which.
        options: keys and limits. If they have no keys, the variable `AHOP_KEY` may hold the secret of one that may do
            everything.
        workers: processes that answer. Several only read, each with the patterns in its memory; they see within a
            second what is written to the stores, and one that dies is replaced.

    Raises:
        InvalidValueError: the address is public and there is no key, or the port is taken.
    """
    chosen = _with_key(options or Options())
    refuse_open(host, chosen.keys)
    count = check_count("workers", workers)
    if count > 1 and (chosen.review or chosen.watch or chosen.create_in is not None):
        words = "leave `review`, `watch` and `create_in` out, or take one worker."
        raise InvalidValueError(f"Several workers only read, and share nothing: {words}")
    if count > 1 and (chosen.shards or (isinstance(paths, Mapping) and not all(map(_is_path, paths.values())))):
        raise InvalidValueError("Several workers would each start the shards: take one worker, or leave `shards` out.")
    if chosen.index and chosen.create_in is not None:
        raise InvalidValueError("Collections that requests create are stores, which have no index: leave `index` out.")
    found = named(paths, chosen.create_in)
    to_stderr()
    with _bound(host, port) as listening:
        if count == 1:
            _serve(listening, found, chosen)
            return
        follow = chosen.follow_seconds or FOLLOW_SECONDS
        reading = replace(chosen, is_read_only=True, follow_seconds=follow, limits=chosen.limits.shared_by(count))
        with counted_together() as forget:
            code = Workers(count, lambda: _exit_code(listening, found, reading), forget).run()
    if code:
        raise UnavailableError("The workers could not start; the log says why.")


def _serve(listening: socket.socket, paths: Mapping[str, Given], options: Options) -> None:
    """Answer at this socket until a signal comes."""
    sys.setswitchinterval(SWITCH_SECONDS)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    app = create_app(dict(paths), options)
    # What is there now stays: a collector that went through all of it would hold everybody up for a tenth of a second.
    gc.collect()
    gc.freeze()
    limits = options.limits
    config = uvicorn.Config(
        app,
        http=protocol_of(limits, app.state.shared.held, app.state.shared.shedder.answer),
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=ceil(limits.request_seconds),
        lifespan="on",
    )
    address, port = listening.getsockname()[:2]
    log("listening", host=address, port=port, collections=sorted(app.state.shared.collections))
    Server(config, app, options.drain_seconds).run([listening])


def _exit_code(listening: socket.socket, paths: Mapping[str, Given], options: Options) -> int:
    """Serve in a worker; returns its exit code."""
    try:
        _serve(listening, paths, options)
    except AhopError as error:
        log("cannot start", logging.ERROR, reason=str(error))
        return 2
    return 0


def _with_key(options: Options) -> Options:
    """With the key that the environment has, if there is no other."""
    secret = os.environ.get("AHOP_KEY")
    return (
        options if options.keys or not secret else replace(options, keys=(Key.of(secret, "AHOP_KEY", may_write=True),))
    )


def named(paths: Sequence[str | Path] | Mapping[str, Given], create_in: Path | None = None) -> dict[str, Given]:
    """Collections by their names, with those that were created in a folder."""
    found: dict[str, Given]
    if isinstance(paths, Mapping):
        found = {name: str(given) if _is_path(given) else given for name, given in paths.items()}
    else:
        listed = [_with_name(str(path)) for path in paths]
        found = dict(listed)
        if len(found) != len(listed):
            raise InvalidValueError("Two collections have the same name. Name them: `NAME=PATH`.")
    if create_in is not None:
        create_in.mkdir(parents=True, exist_ok=True)
        for name, path in created(create_in).items():
            found.setdefault(name, str(path))
    for name in found:
        if not re.fullmatch(NAME, name):
            raise InvalidValueError(f"{name!r} cannot be the name of a collection. Name it: `NAME=PATH`.")
    if not found and create_in is None:
        raise InvalidValueError("Give at least one file of a memory, or the folder of a store.")
    return found


def _is_path(given: Given) -> bool:
    return isinstance(given, str | Path)


def _with_name(path: str) -> tuple[str, str]:
    """Name of a collection: that of its path, or the one that stands before it."""
    given, equals, rest = path.partition("=")
    if equals and re.fullmatch(NAME, given) and not Path(path).exists():
        return given, rest
    return re.sub(r"\.(ahop|lance)$", "", path.rstrip("/").rsplit("/", 1)[-1]), path


def keys_of(path: str | None) -> tuple[Key, ...]:
    return () if path is None else read_keys(Path(path))


def _bound(host: str, port: int) -> socket.socket:
    """A socket of our own: another process on the same port is refused, not shared with."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its name, or asyncio does not take it for TCP: it would hold back the end of each answer for 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        made.close()
        raise InvalidValueError(f"`port` must be free on `{host}`; got {port} ({error}).") from error
    made.setblocking(False)
    return made
