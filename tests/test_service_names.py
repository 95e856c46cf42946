"""Rows over HTTP may name their columns: the answers are those of rows in the stored order."""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
import torch

import ahop

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("lance")

from ahop.service import Limits
from ahop.service.request import RecallBody, TooLargeError, bound_of, read_body, recall_request
from ahop.service.testing import Running, running

NAMES = ["ap01", "ap02", "RSSI [dBm], hall", "ap07"]
COUNT = 30
HERE = "/collections/scans"


def frame() -> pd.DataFrame:
    numbers = torch.randn(COUNT, len(NAMES), generator=torch.Generator().manual_seed(0))
    return pd.DataFrame(numbers.double().numpy().round(3), columns=NAMES)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = tmp_path_factory.mktemp("names")
    memory = ahop.AssociativeMemory(frame(), ahop.EuclideanSimilarity())
    ahop.create_store(made / "scans", memory)
    ahop.AssociativeMemory(memory.patterns, model=memory.model).save(made / "plain.ahop")
    options = ("--watch", "50", "--create-in", str(made / "made"))
    with running(made, str(made / "scans"), str(made / "plain.ahop"), *options) as started:
        yield started


def named(row: int, *gone: str) -> dict[str, float]:
    """A stored row as an object, backwards."""
    values = frame().iloc[row].to_dict()
    return {str(name): values[name] for name in reversed(NAMES) if name not in gone}


def listed(row: int, *gone: str) -> list[float | None]:
    return [named(row, *gone).get(name) for name in NAMES]


def ask(service: Running, path: str, status: int = 200, **fields: Any) -> Any:
    got, said, _ = service.ask("POST", f"{HERE}{path}", fields)
    assert got == status, said
    return said


def test_rows_by_names_are_answered_as_rows_in_order(service: Running) -> None:
    gone = "ap02"
    wanted = ask(service, "/recall", queries=[listed(3), listed(5, gone)], k=4, patterns=True, explain=True)
    objects = [{**named(3), "ap07": named(3)["ap07"]}, {**named(5), gone: None}]
    for queries in (objects, [named(3), named(5, gone)], [named(3), listed(5, gone)]):
        assert ask(service, "/recall", queries=queries, k=4, patterns=True, explain=True) == wanted
    assert wanted["ids"][0][0] == 3
    rows, lists = [named(row) for row in range(9)], [listed(row) for row in range(9)]
    assert ask(service, "/link", queries=rows) == ask(service, "/link", queries=lists)


def test_a_row_that_names_nothing_was_not_observed(service: Running) -> None:
    assert ask(service, "/recall", queries=[{}], k=3) == ask(service, "/recall", queries=[[None] * 4], k=3)


def test_feedback_fits_and_the_watch_read_names(service: Running) -> None:
    before = service.ask("GET", HERE)[1]["pairs"]
    assert ask(service, "/pairs", 201, queries=[named(1), named(2, "ap01")], ids=[1, 2]) == {"pairs": before + 2}
    for _ in range(5):
        ask(service, "/recall", queries=[named(row) for row in range(10)])
    assert service.ask("GET", f"{HERE}/watch")[1]["queries"] == 50
    assert ask(service, "/fit", 202, queries=[named(row) for row in range(COUNT)], similarity="mixture")["job"]
    assert "'nothing'" in ask(service, "/fit", 400, queries=[{"nothing": 1}])["error"]


def test_patterns_are_added_by_their_names(service: Running) -> None:
    new = {"ap07": 40.0, "ap01": -40.0}
    (number,) = ask(service, "/add", 201, patterns=[new])["ids"]
    found = ask(service, "/recall", queries=[new], patterns=True)
    assert found["ids"] == [[number]]
    assert found["patterns"] == [[[-40, None, None, 40]]]
    ask(service, "/delete", ids=[number])


def test_names_that_do_not_exist_are_refused_with_those_that_do(service: Running) -> None:
    for path, field in (("/recall", "queries"), ("/link", "queries"), ("/add", "patterns"), ("/pairs", "queries")):
        more = {"ids": [1]} if path == "/pairs" else {}
        said = ask(service, path, 400, **{field: [{"ap01": 1.0, "ap99": 2.0}]}, **more)["error"]
        assert said.startswith(f"`{field}` must name columns of the collection: 'ap01', 'ap02'")
        assert said.endswith("got 'ap99'.")
    said = ask(service, "/recall", 400, queries=[{"ap01": "loud"}])["error"]
    assert "null where nothing was observed" in said
    assert said.endswith("got a word at `queries[0][...]`.")


def test_a_collection_without_names_says_so(service: Running) -> None:
    status, said, _ = service.ask("POST", "/collections/plain/recall", {"queries": [{"ap01": 1.0}]})
    assert status == 400
    assert "the columns of this collection have no names" in said["error"]
    assert service.recall("plain", queries=[listed(3)])["ids"] == [[3]]


def test_a_collection_is_created_with_the_names_of_its_first_row(service: Running) -> None:
    body = {"patterns": [{"north": 1.0, "east": None}, {"east": 2.0}]}
    assert service.ask("PUT", "/collections/winds", body)[0] == 201
    assert service.ask("GET", "/collections/winds")[1]["columns"] == ["north", "east"]
    assert service.recall("winds", queries=[{"east": 2.1, "north": None}])["ids"] == [[1]]
    body["patterns"].append({"west": 1.0})
    status, said, _ = service.ask("PUT", "/collections/others", body)
    assert (status, "'west'" in said["error"]) == (400, True)


def test_the_routes_describe_rows_by_names_and_the_version_of_the_package(service: Running) -> None:
    schema = service.ask("GET", "/openapi.json")[1]
    assert schema["info"]["version"] == ahop.__version__
    asked = schema["paths"]["/collections/{name}/recall"]["post"]["requestBody"]["content"]["application/json"]
    kinds = [each["type"] for each in asked["schema"]["properties"]["queries"]["items"]["anyOf"]]
    assert sorted(kinds) == ["array", "object"]
    assert asked["schema"]["properties"]["k"]["minimum"] == 1


def test_the_values_of_named_rows_are_counted_before_they_are_read() -> None:
    limits = Limits()
    full = json.dumps({"queries": [dict.fromkeys(NAMES, 0.25)] * limits.queries}).encode()
    read = recall_request(read_body(RecallBody, full, bound_of(limits, NAMES, 1)), 4, limits, NAMES)
    assert read.queries.shape == (limits.queries, 4), "commas and brackets in names are no reason to refuse"
    many = b'{"queries":[{' + b",".join(b'"%d":1' % each for each in range(600_000)) + b"}]}"
    with pytest.raises(TooLargeError, match="The body may have"):
        read_body(RecallBody, many, bound_of(limits, NAMES, 1))
