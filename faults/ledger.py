"""The result file: one row for each goal, written after each chunk, so that a campaign that was cut goes on."""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import ahop
from faults.campaign import Campaign, Tally

PATH = Path(__file__).parents[1] / "docs" / "results" / "reliability.json"
TITLE = "Faults and attacks on real processes and real files"


class Ledger:
    """What was tried so far."""

    def __init__(self, path: Path | None = PATH) -> None:
        """`path`: None keeps nothing."""
        self._path = path
        kept = json.loads(path.read_text())["rows"] if path is not None and path.exists() else []
        self.rows: dict[str, dict[str, Any]] = {row["name"]: row for row in kept}

    def done(self, campaign: Campaign) -> int:
        """Chunks that were finished."""
        return int(self.rows.get(campaign.name, {}).get("chunks", 0))

    def trials(self, campaign: Campaign) -> int:
        return int(self.rows.get(campaign.name, {}).get("trials", 0))

    def forget(self, campaign: Campaign) -> None:
        self.rows.pop(campaign.name, None)

    def add(self, campaign: Campaign, tally: Tally, seconds: float) -> None:
        """One chunk more."""
        before = self.rows.get(campaign.name, {})
        total = Tally(before.get("trials", 0), largest=dict(before.get("largest", {})))
        total.counts.update(before.get("counts", {}))
        total.examples = list(before.get("examples", []))
        total.add(tally)
        self.rows[campaign.name] = {
            "id": campaign.id,
            "name": campaign.name,
            "goal": campaign.goal,
            "wanted": campaign.wanted,
            "trials": total.trials,
            **{name: total.counts[name] for name in campaign.counted},
            "bad": sum(total.counts[name] for name in campaign.counted),
            "counts": dict(total.counts),
            "largest": total.largest,
            "examples": total.examples,
            "chunks": before.get("chunks", 0) + 1,
            "of_chunks": campaign.chunks,
            "seconds": round(before.get("seconds", 0.0) + seconds, 1),
            "environment": environment(),
        }
        self._save()

    def result(self) -> dict[str, Any]:
        rows = sorted(self.rows.values(), key=lambda row: (row["id"], row["name"]))
        return {"title": TITLE, "command": "make faults", "rows": rows}

    def _save(self) -> None:
        if self._path is None:
            return
        beside = self._path.with_suffix(f".{os.getpid()}")
        kept = Ledger(self._path).rows | self.rows if self._path.exists() else self.rows
        rows = sorted(kept.values(), key=lambda row: (row["id"], row["name"]))
        beside.write_text(json.dumps({**self.result(), "rows": rows}, indent=1) + "\n")
        beside.replace(self._path)


def environment() -> dict[str, str]:
    """What a reader needs to try it again."""
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=PATH.parent)
    versions = {"ahop": ahop.__version__, "python": platform.python_version(), "torch": str(torch.__version__)}
    return {**versions, "revision": said.stdout.strip(), "date": datetime.now(UTC).date().isoformat()}
