"""Start and end of a command: common options, exit codes, and one line for each error."""

import inspect
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any

import typer

from ahop._core.optional import is_of_fit
from ahop.cli.talk import Talk
from ahop.errors import AhopError, MissingPackageError

# Exit codes: 0 is well, and 2 is a wrong flag, which typer says.
WRONG, USAGE, MISSING, ALARM, UNEXPECTED, INTERRUPTED = 1, 2, 3, 4, 5, 130

Json = Annotated[
    bool, typer.Option("--json", envvar="AHOP_JSON", help="One JSON document on stdout, and nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", envvar="AHOP_QUIET", help="No notes and no progress bars.")]
Debug = Annotated[bool, typer.Option("--debug", envvar="AHOP_DEBUG", help="The whole trace of an error.")]
COMMON = {"json": Json, "quiet": Quiet, "debug": Debug}


class RequestError(AhopError, ValueError):
    """The request cannot be met with these files."""


class Ended(Exception):  # noqa: N818
    """A command that has said all and ends with a code of its own."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A function of `talk` and its own options as a command with `--json`, `--quiet` and `--debug` beside them."""
    signature = inspect.signature(function, eval_str=True)
    own = [each for each in signature.parameters.values() if each.name != "talk"]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in COMMON.items()
    ]

    @wraps(function)
    def run(*given: Any, json: bool = False, quiet: bool = False, debug: bool = False, **named: Any) -> None:
        talk = Talk(json, quiet)
        try:
            with _note_warnings(talk):
                function(talk, *given, **named)
                sys.stdout.flush()
        except Ended as end:
            raise typer.Exit(end.code) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BrokenPipeError:  # whoever reads, such as `head`, has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            raise typer.Exit(_print_error("Interrupted; no file is half written.", INTERRUPTED)) from None
        except Exception as error:
            if debug:
                traceback.print_exc()
            raise typer.Exit(_print_error(*_in_words(error, debug))) from None

    run.__signature__ = signature.replace(parameters=[*own, *common])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in [*own, *common]}
    del run.__wrapped__
    return run


def _in_words(error: Exception, is_traced: bool) -> tuple[str, int]:
    said = " ".join(str(error).split())
    if isinstance(error, MissingPackageError):
        return said, MISSING
    if isinstance(error, ModuleNotFoundError) and is_of_fit(error):
        return "This command needs PyTorch: `pip install 'ahop[fit]'`.", MISSING
    if isinstance(error, OSError) and not isinstance(error, AhopError) and error.filename is not None:
        return f"`{error.filename}`: {error.strerror or said}.", WRONG
    if isinstance(error, AhopError | OSError | MemoryError):
        return said or type(error).__name__, WRONG
    mend = "" if is_traced else " `--debug` shows where."
    return f"Something went wrong inside ahop: {type(error).__name__}: {said}.{mend}", UNEXPECTED


def _print_error(text: str, code: int) -> int:
    print(f"ahop: {text}", file=sys.stderr)
    return code


@contextmanager
def _note_warnings(talk: Talk) -> Iterator[None]:
    """Warnings become notes, without the lines of code that Python shows."""
    handler = _Noted(talk)
    logger = logging.getLogger("ahop")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = lambda message, *_, **__: talk.note(f"Note: {message}")
            yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


class _Noted(logging.Handler):
    def __init__(self, talk: Talk) -> None:
        super().__init__(logging.WARNING)
        self._talk = talk

    def emit(self, record: logging.LogRecord) -> None:
        self._talk.note(f"Note: {record.getMessage()}")
