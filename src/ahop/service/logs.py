"""One line of JSON for each request. Neither queries nor patterns nor keys are in it."""

import json
import logging
import sys
import time
from typing import Any, final

LOGGER = logging.getLogger("ahop.service")


@final
class JsonLines(logging.Formatter):
    """The fields of a record that `log` made, or the words of any other."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", None) or {"event": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            # What an exception says may quote what was sent: its kind and its place are told, not its words.
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
            fields = {**fields, "exception": record.exc_info[0].__name__, "at": place}
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        return json.dumps({"time": moment, "level": record.levelname.lower(), **fields})


def log(event: str, level: int = logging.INFO, exception: BaseException | None = None, **fields: Any) -> None:
    LOGGER.log(level, event, exc_info=exception, extra={"fields": {"event": event, **fields}})


def to_stderr() -> None:
    """Let the service and the server beneath it write their lines to the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in (("ahop.service", logging.INFO), ("uvicorn.error", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
