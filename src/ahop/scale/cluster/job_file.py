"""The file that describes a batch job, so that a resumed job is the same job."""

import json
from pathlib import Path
from typing import Any

from ahop._core.files import replacing
from ahop._core.json import parse_json
from ahop.errors import FileFormatError, InvalidValueError

FORMAT = 1
# Readers of folders of Parquet pass over names that begin so.
JOB = "_job.json"


def read_job(path: Path) -> dict[str, Any] | None:
    """The job that this file describes; None if there is none."""
    if not path.exists():
        return None
    try:
        job: dict[str, Any] = parse_json(path.read_text())
        written, job["version"], job["queries_version"] = job["format"], int(job["version"]), job["queries_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"`{path}` does not describe a job: {error}. Begin in another folder.") from error
    if written != FORMAT:
        raise FileFormatError(f"`{path}` has format {written!r}; this release reads format {FORMAT}. Update ahop.")
    return job


def begin_job(path: Path, begun: dict[str, Any] | None, job: dict[str, Any]) -> None:
    """Write the job down, or see that it is the one that was begun."""
    if begun is not None:
        differs = sorted(name for name in job if job[name] != begun.get(name))
        if differs:
            raise InvalidValueError(
                f"`out` holds another job, which differs in {', '.join(differs)}: "
                f"{ {name: begun.get(name) for name in differs} }; got { {name: job[name] for name in differs} }. "
                "Choose another folder, or the same arguments."
            )
        return
    with replacing(path) as beside:
        beside.write_text(json.dumps(job, indent=1) + "\n")
