"""The Open Inference Protocol, version 2: for who speaks that already. A collection is a model."""

from importlib.metadata import version
from typing import Any, final

from fastapi import Request
from starlette.responses import Response

from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.memory.recall import cut
from ahop.service import request as asking
from ahop.service.collections.collection import Collection
from ahop.service.collections.snapshot import Snapshot
from ahop.service.http.answers import json_response, numbers_of
from ahop.service.http.reading import Reading
from ahop.service.http.shared import LARGE, Shared
from ahop.service.http.sizes import recall_bytes
from ahop.service.request import RecallRequest

REQUEST = ("inputs", "parameters", "id", "outputs")
INPUT, OUTPUTS = "queries", {"ids": "INT64", "posterior": "FP32", "unknown": "FP32"}


@final
class Inference:
    """A thin adapter: what it answers is what `recall` answers."""

    def __init__(self, shared: Shared, reading: Reading) -> None:
        self.shared, self.reading = shared, reading

    async def server(self) -> Response:
        """What this is."""
        return json_response({"name": "ahop", "version": version("ahop"), "extensions": []})

    async def live(self) -> Response:
        """Whether the process runs."""
        return json_response({"live": True})

    async def ready(self) -> Response:
        """Whether it takes requests."""
        await self.reading.readyz()
        return json_response({"ready": True})

    async def model(self, name: str, request: Request) -> Response:
        """What a model takes and gives."""
        collection = self.shared.collection(name, request)
        words = {
            "name": name,
            "versions": [str(collection.snapshot.version)],
            "platform": "ahop",
            "inputs": [{"name": INPUT, "datatype": "FP32", "shape": [-1, collection.snapshot.dimensions]}],
            "outputs": [
                {"name": each, "datatype": kind, "shape": [-1] if each == "unknown" else [-1, -1]}
                for each, kind in self._outputs(collection).items()
            ],
        }
        return json_response(words)

    async def model_ready(self, name: str, request: Request) -> Response:
        """Whether it answers."""
        self.shared.collection(name, request)
        await self.reading.readyz()
        return json_response({"name": name, "ready": True})

    async def infer(self, name: str, request: Request) -> Response:
        """The k stored patterns that each query most likely came from; `k` and `where` are parameters."""
        collection, body = await self.shared.admitted(name, request)
        snapshot, known = collection.snapshot, self._outputs(collection)
        given, asked = await self.shared.maybe_beside(len(body) > LARGE, lambda: self._read(body, snapshot))
        wanted = _wanted(given.get("outputs"), list(known))
        size = recall_bytes(asked, snapshot)
        found, among = await self.reading.found(collection, snapshot, asked, request, size)
        found = cut(found, slice(None), min(asked.k, len(snapshot) if among is None else len(among)))
        of_name = {"ids": numbers_of(snapshot, found.indices), "posterior": found.posterior.tolist()}
        if found.unknown is not None:
            of_name["unknown"] = [found.unknown.tolist()]
        shape = list(found.indices.shape)
        outputs = [
            {
                "name": each,
                "datatype": known[each],
                "shape": shape[:1] if each == "unknown" else shape,
                "data": [number for row in of_name[each] for number in row],
            }
            for each in wanted
        ]
        words = {"model_name": name, "model_version": str(snapshot.version), "outputs": outputs}
        return json_response(words | ({"id": str(given["id"])[:100]} if "id" in given else {}))

    def _read(self, body: bytes, snapshot: Snapshot) -> tuple[dict[str, Any], RecallRequest]:
        given = asking.read_json(body, REQUEST, self.shared.most_values(snapshot))
        parameters = given.get("parameters") or {}
        if not isinstance(parameters, dict) or not set(parameters) <= {"k", "where"}:
            raise InvalidTypeError('`parameters` must be such as {"k": 3, "where": {...}}.')
        rows = _rows(given.get("inputs"), snapshot.dimensions)
        asked = asking.recall_request({**parameters, "queries": rows}, snapshot.dimensions, self.shared.limits)
        return given, asked

    def _outputs(self, collection: Collection) -> dict[str, str]:
        tells = collection.snapshot.memory.detector is not None
        return {name: kind for name, kind in OUTPUTS.items() if tells or name != "unknown"}


def _rows(inputs: Any, dimensions: int) -> list[Any]:
    """The rows of the only input; its data may lie flat, as the protocol prefers."""
    first = inputs[0] if isinstance(inputs, list) and len(inputs) == 1 else None
    if not isinstance(first, dict) or first.get("name") != INPUT or not isinstance(first.get("data"), list):
        raise InvalidTypeError(f"`inputs` must be one tensor with the name {INPUT!r} and its `data`.")
    if first.get("datatype") not in ("FP32", "FP64"):
        raise InvalidValueError("`datatype` must be FP32 or FP64.")
    shape: Any = first.get("shape")
    data: list[Any] = first["data"]
    is_shape = isinstance(shape, list) and len(shape) == 2 and all(type(each) is int and each >= 0 for each in shape)
    if not is_shape or shape[1] != dimensions:
        raise ShapeError(f"`shape` must be [rows, {dimensions}].")
    count = len(data)
    if data and not isinstance(data[0], list):
        if count != shape[0] * dimensions:
            raise ShapeError(f"`data` must have {shape[0]} x {dimensions} numbers; got {count}.")
        data = [data[start : start + dimensions] for start in range(0, count, dimensions)]
    if len(data) != shape[0]:
        raise ShapeError(f"`data` must have {shape[0]} rows, as `shape` says; got {len(data)}.")
    return data


def _wanted(outputs: Any, known: list[str]) -> list[str]:
    if outputs is None:
        return known
    listed = outputs if isinstance(outputs, list) else []
    names = [str(each.get("name")) for each in listed if isinstance(each, dict)]
    if not names or not all(each in known for each in names) or len(names) != len(listed):
        raise InvalidValueError(f"`outputs` must name some of {known}.")
    return names
