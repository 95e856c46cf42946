"""S8: owners of narrow keys ask for what is not theirs, by every route and by many tricks."""

import json
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

import ahop
from ahop.scale.stores import create_store
from ahop.service import testing
from ahop.service.testing import Running
from faults import forks
from faults.campaign import CRASHES, LEAKED, SERVER_ERRORS, UNANSWERED, WRITTEN, Campaign, Tally

DIMENSIONS, ROWS, TRIALS, THREADS = 4, 40, 300, 3
# Rows that must not be seen have numbers and words that nothing else has, so that one look at an answer finds them.
FOREIGN, SECRET = 7_000_000, "MARKED"
KEYS: dict[str, dict[str, Any]] = {
    "admin": {"may_write": True},
    "reader": {"collections": ["ours"]},
    "writer": {"collections": ["ours"], "may_write": True},
    "narrow": {"collections": ["shared"], "where": {"tenant": "a"}},
}
NAMES = (
    *(
        "theirs",
        "Theirs",
        "THEIRS",
        "%74heirs",
        "%54heirs",
        "%2574heirs",
        "theirs%00",
        "theirs%20",
        "%20theirs",
        "theirs.",
    ),
    *("theirs/", "./theirs", "../theirs", "ours/../theirs", "ours%2f..%2ftheirs", "ours%2Ftheirs", "ours/theirs"),
    *(
        "ours;theirs",
        "ours%00theirs",
        "ours%0d%0atheirs",
        "ours,theirs",
        "theirs.lance",
        "..%5ctheirs",
        "ours%23theirs",
    ),
    *(
        "%EF%BD%94heirs",
        "%D1%82heirs",
        "their%C5%BF",
        "*",
        "%25",
        "ours%7Ctheirs",
        "shared",
        "ours",
        "theirs;",
        "//theirs",
    ),
)
WHERES = (
    *(
        '{"tenant": "b"}',
        '{"tenant": ["a", "b"]}',
        '{"tenant": ["b", null]}',
        '{"TENANT": "b"}',
        '{"tenant ": "b"}',
        "null",
        "{}",
    ),
    *("[]", '{"tenant": {"$ne": "a"}}', "{\"tenant\": \"a' OR '1'='1\"}", '{"tenant": "b\\u0000"}', '{"tenant": true}'),
    *(
        '{"id": [7000000, 7000001, 7000002]}',
        '{"tenant": "a", "tenant": "b"}',
        '{"ten\\u0061nt": "b"}',
        '{"tenant": []}',
    ),
    *('{"word": ["MARKED 1", "MARKED 2"]}', '{"1=1 OR tenant": "b"}', '{"tenant": 1e0}', '{"id": 7000003}'),
)
HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"X-Original-URL": "/collections/theirs"},
    {"X-Rewrite-URL": "/collections/theirs/recall"},
    {"X-HTTP-Method-Override": "GET"},
    {"X-Forwarded-User": "admin", "X-Forwarded-Prefix": "/collections/theirs"},
    {"X-Collection": "theirs", "Cookie": "key=admin; collection=theirs"},
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ASKED = "/collections/{name}/recall"


@contextmanager
def served(folder: Path) -> Iterator[Running]:
    forks.run(lambda say: _prepare(folder))
    keys = [{"name": name, "sha256": sha256(secret(name).encode()).hexdigest(), **more} for name, more in KEYS.items()]
    (folder / "keys.json").write_text(json.dumps(keys))
    paths = [str(folder / f"{name}.lance") for name in ("ours", "theirs", "shared")]
    more = ("--keys", str(folder / "keys.json"), "--review", "20", "--watch", "50", "--no-compaction")
    with testing.running(folder, *paths, *more) as service:
        yield service


def secret(name: str) -> str:
    return f"the secret of {name}, which is long enough"


def _prepare(folder: Path) -> None:
    patterns = torch.rand(3 * ROWS, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    pairs = ahop.MixedVariant(0.05, 0.05, 0.05).sample(patterns, ROWS, seed=0)
    model = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False).model
    for name, tenants in (("ours", "a"), ("theirs", "b"), ("shared", "ab")):
        rows = {"a": patterns[:ROWS], "b": patterns[ROWS : 2 * ROWS]}
        # A store begins with rows that anybody may see; what belongs to others is added with numbers of its own.
        first = "a" if "a" in tenants else "none"
        some = rows["a"] if first == "a" else patterns[2 * ROWS :][:1]
        columns = {"tenant": [first] * len(some), "word": [f"open {row}" for row in range(len(some))]}
        store = create_store(folder / f"{name}.lance", ahop.AssociativeMemory(some, model=model), metadata=columns)
        if "b" in tenants:
            numbers = torch.arange(FOREIGN, FOREIGN + ROWS)
            words = {"tenant": ["b"] * ROWS, "word": [f"{SECRET} {row}" for row in range(ROWS)]}
            store.add(rows["b"], numbers, words)


def chunk(number: int, folder: Path) -> Tally:
    tally, lock = Tally(), threading.Lock()
    with served(folder) as service:
        admin = {"Authorization": f"Bearer {secret('admin')}"}
        paths = service.ask("GET", "/openapi.json", headers=admin)[1]["paths"]
        routes = [(path, method.upper()) for path, methods in paths.items() for method in methods]
        before = [service.ask("GET", f"/collections/{name}", headers=admin)[1] for name in ("theirs", "shared")]

        def ask(thread: int) -> None:
            chance = random.Random(f"{number}-{thread}")
            for _ in range(TRIALS // THREADS):
                found = _trial(service, chance, routes)
                with lock:
                    tally.add(found)

        threads = [threading.Thread(target=ask, args=(each,)) for each in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        after = [service.ask("GET", f"/collections/{name}", headers=admin)[1] for name in ("theirs", "shared")]
        if before != after:
            tally.bad(WRITTEN, f"chunk {number}: {before} became {after}"[:600])
        # Without this the rest would say nothing: what is looked for is there, for those who may see it.
        seen = service.ask(
            "POST", "/collections/theirs/recall", {**_question(random.Random(0)), "columns": ["word"]}, admin
        )
        if not _leaks(json.dumps(seen[1])):
            tally.bad(UNANSWERED, f"chunk {number}: the marks are not in {seen[1]}"[:600])
        if service.process.poll() is not None or service.failures():
            tally.bad(CRASHES, f"chunk {number}: {service.failures()[:1]}")
    return tally


def _trial(service: Running, chance: random.Random, routes: list[tuple[str, str]]) -> Tally:
    """One request of a key that must see nothing foreign."""
    tally, key = Tally(trials=1), chance.choice(("reader", "writer", "narrow"))
    route, method = chance.choice(routes) if chance.random() < 0.6 else (ASKED, "POST")
    name = chance.choice(("shared", "shared", *NAMES)) if key == "narrow" else chance.choice(NAMES)
    path = route.replace("{name}", name).replace("{version}", chance.choice(("1", "2", "3")))
    path += chance.choice(("", "", "", "?name=theirs", "?where=", "?collection=theirs&k=9"))
    method = chance.choice(METHODS) if chance.random() < 0.1 else method
    body = _body(route, chance)
    headers = {"Authorization": f"Bearer {secret(key)}", **chance.choice(HEADERS)}
    status, said, _ = service.ask(method, path, None if method == "GET" else body.encode(), headers)
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else json.dumps(said)
    trial = f"{key} {method} {path} {body[:200]}"
    tally.counts["answered" if status < 300 else "refused"] += 1
    # An error may repeat what was sent to it; an answer may not.
    if _leaks(text, but=body if status >= 400 else ""):
        tally.bad(LEAKED, f"{trial}: {text[:200]}")
    if status >= 500:
        tally.bad(SERVER_ERRORS, f"{trial}: {status}")
    return tally


def _leaks(text: str, but: str = "") -> bool:
    """True if a mark is there: as a number of its own, as the digits of other numbers may be anything."""
    marks = re.findall(rf'{SECRET}|"theirs"|(?<![\d.]){FOREIGN // 100}\d\d(?![\d.])', text)
    return any(mark not in but for mark in marks)


def _question(chance: random.Random) -> dict[str, Any]:
    return {"queries": [[round(chance.random(), 3) for _ in range(DIMENSIONS)]], "k": chance.choice((1, 5, 80))}


def _body(route: str, chance: random.Random) -> str:
    """Body that the route takes, or nearly; filters are pasted in as text, as JSON may name a field twice."""
    if route.endswith(("/add", "{name}")):
        return json.dumps({"patterns": [[0.5] * DIMENSIONS], "metadata": {"tenant": ["a"], "word": ["added"]}})
    if route.endswith("/delete"):
        return json.dumps({"ids": [FOREIGN]})
    fields = _question(chance)
    if route.endswith("/pairs"):
        return json.dumps({"queries": fields["queries"], "ids": [FOREIGN]})
    if route.endswith("/link"):
        fields.pop("k")
    else:
        fields |= chance.choice(
            ({}, {"columns": ["word", "tenant"]}, {"explain": True}, {"patterns": True}, {"same": [1]})
        )
    fields |= chance.choice(({}, {}, {}, {"collection": "theirs"}, {"name": "theirs"}))
    wheres = "".join(f', "where": {chance.choice(WHERES)}' for _ in range(chance.choice((0, 1, 1, 2))))
    return json.dumps(fields)[:-1] + wheres + "}"


CAMPAIGN = Campaign(
    id="S8",
    name="others",
    goal="keys of some collections, or of some rows, ask for others, by every route and many tricks: none is seen",
    counted=(LEAKED, WRITTEN, SERVER_ERRORS, UNANSWERED, CRASHES),
    wanted=10_000,
    quick=TRIALS,
    chunk=chunk,
)
