"""Files to deploy a service with: what they start, ask and measure is what there is."""

import json
import re
import shlex
from pathlib import Path

import pytest
import torch
import yaml

import ahop

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

from ahop.service import create_app
from ahop.service.__main__ import parser
from ahop.service.http.metrics import Metrics

DEPLOY = Path(__file__).parent.parent / "deploy"


def read(name: str) -> str:
    return (DEPLOY / name).read_text()


def started() -> dict[str, list[str]]:
    """What each file gives to `python -m ahop.service`."""
    command = re.search(r"^CMD (\[.*\])$", read("Dockerfile"), re.MULTILINE)
    unit = re.search(r"^ExecStart=\S+ -m ahop.service (.*)$", read("ahop.service"), re.MULTILINE)
    assert command is not None
    assert unit is not None
    parts = list(yaml.safe_load_all(read("kubernetes.yaml")))
    pod = next(each for each in parts if each["kind"] == "Deployment")["spec"]["template"]["spec"]
    return {
        "Dockerfile": json.loads(command[1]),
        "ahop.service": shlex.split(unit[1]),
        "compose.yaml": yaml.safe_load(read("compose.yaml"))["services"]["ahop"]["command"],
        "kubernetes.yaml": pod["containers"][0]["args"],
    }


@pytest.mark.parametrize("name", ["Dockerfile", "ahop.service", "compose.yaml", "kubernetes.yaml"])
def test_what_is_started_is_a_service(name: str) -> None:
    chosen = parser().parse_args(started()[name])
    assert chosen.paths[0].endswith("memory.ahop")
    assert (chosen.host != "127.0.0.1") <= ("AHOP_KEY" in read(name)), "others can reach it, so that there is a key"


def test_the_chart_says_what_the_manifest_says() -> None:
    """Templates hold nothing but names of values, which can be filled in without Helm."""
    values = yaml.safe_load(read("chart/values.yaml"))

    def filled(found: re.Match[str]) -> str:
        if found[1] == ".Release.Name":
            return "ahop"
        simple = re.fullmatch(r"(toJson )?\.Values\.(\w+)", found[1])
        assert simple is not None, found[0]
        return json.dumps(values[simple[2]]) if simple[1] else str(values[simple[2]])

    made = re.sub(r"\{\{ (.*?) \}\}", filled, read("chart/templates/ahop.yaml"))
    assert "{{" not in made
    assert list(yaml.safe_load_all(made)) == list(yaml.safe_load_all(read("kubernetes.yaml")))
    assert yaml.safe_load(read("chart/Chart.yaml"))["appVersion"] == ahop.__version__


def test_probes_ask_for_what_there_is(tmp_path: Path) -> None:
    ahop.AssociativeMemory(torch.eye(3), ahop.EuclideanSimilarity()).save(tmp_path / "memory.ahop")
    app = create_app({"memory": tmp_path / "memory.ahop"})
    known = set(app.openapi()["paths"])
    app.state.shared.close()
    asked = set(re.findall(r"path: (/\w+)", read("kubernetes.yaml"))) | {"/readyz"}
    assert asked <= known


def test_every_figure_that_is_watched_is_measured() -> None:
    metrics = Metrics()
    metrics.answered("memory", 1, 0.5, 0.5)
    metrics.state("memory", 1, 3, 0, {"fragments": 1.0, "tombstones": 0.0})
    metrics.requests.labels("/livez", "200").inc()
    metrics.seconds.labels("/livez").observe(0.1)
    known = set(re.findall(r"^(ahop_\w+)", metrics.text().decode(), re.MULTILINE))
    alerts = yaml.safe_load(read("alerts.yaml"))
    rules = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    shown = [target["expr"] for panel in json.loads(read("grafana.json"))["panels"] for target in panel["targets"]]
    for expression in (*rules, *shown):
        named = set(re.findall(r"\bahop_\w+", expression))
        assert named <= known, expression
        assert expression.count("(") == expression.count(")")
