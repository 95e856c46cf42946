"""Every experiment runs in its quick form and says what it must."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from experiments.__main__ import NAMES

ROOT = Path(__file__).parent.parent


def quick(package: str, name: str, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", package, name, "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_ends_in_one_line_of_json_with_ceiling_and_paper(name: str) -> None:
    result = quick("experiments", name, "--quick", "--no-progress")
    assert result["rows"]
    for row in result["rows"]:
        assert {"bayes", "paper"} <= row.keys()
        assert row["bayes"] is None or 0 <= row["bayes"] <= 1
    if name == "tab_retrieval":
        _a_hop_leads(result["rows"])


def _a_hop_leads(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        rivals = [
            other
            for other in rows
            if other["difficulty"] == row["difficulty"] and not other["model"].startswith("A-Hop")
        ]
        if row["model"] == "A-Hop":
            assert all(row["accuracy"] > other["accuracy"] for other in rivals)


@pytest.mark.slow
def test_the_convex_fit_takes_a_fifth_of_the_time_of_the_adam_recipe_at_most() -> None:
    result = quick("benchmarks", "fitting")
    assert result["time_ratio"] <= 0.2
    assert result["convex_loss"] <= result["adam_loss"]


def test_tables_in_readme_and_docs_are_those_of_the_result_files() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "experiments.publish", "--check"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout
