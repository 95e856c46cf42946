"""An engine on PostgreSQL with pgvector."""

import json
from typing import Any, Literal, TypeAlias, final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ahop._core import optional
from ahop._core.checks import check_choice, check_count
from ahop._core.json import parse_json
from ahop.errors import DataNotFoundError, InvalidValueError, ShapeError, UnsupportedError
from ahop.scale.indexes.engines.base import Engine, Found
from ahop.scale.indexes.mips import BLOCK, GEOMETRIES, Geometry, Placing

# Dimensions that pgvector can index: in full, and in halves.
FULL, HALF = 2000, 4000
# The largest number of a half.
LARGEST_HALF = 65504.0
# The widest walk of a graph that pgvector allows; beyond, it walks on from where it stopped.
WIDEST = 1000
# Links of a node of the graph, and how widely they are looked for.
LINKS, BREADTH = 16, 64

Words: TypeAlias = Literal["vector", "halfvec"]


@final
class PgVectorEngine(Engine):
    """A graph of pgvector over rows in a table of PostgreSQL: an engine for `Index`.

    `create` makes the table, in one transaction; another process finds it again by `attach`.

    Args:
        server: a connection.
        table: its name, with that of a schema before a dot if need be.
        placing: where rows lie.
        count: rows in the table.
        effort: how wide a walk.
    """

    def __init__(self, server: Any, table: str, placing: Placing, count: int = 0, effort: int = 128) -> None:
        self.table, self.placing, self.geometry = table, placing, placing.geometry
        self.effort, self.kind = check_count("effort", effort), _kind(placing.size)
        self._server, self._count = server, count

    @classmethod
    def create(
        cls, connection: str, table: str, vectors: Tensor, geometry: Geometry = "augmented", effort: int = 128
    ) -> "PgVectorEngine":
        """A new table with these rows.

        Args:
            connection: where the server is, such as `postgresql://user@host/database`.
            table: must be new.
            vectors: (n, D), the lifted patterns; D is at most 4000, and above 2000 numbers are kept in halves.
            geometry: as in `FaissEngine.build`. A graph for inner products fails without a word where they are lifted
                distances; therefore all rows are made equally long by default.
        """
        placing = Placing.of(vectors, check_choice("geometry", geometry, GEOMETRIES))
        _kind(placing.size)
        server = _connected(connection)
        try:
            engine = cls(server, table, placing, effort=effort)
            with server.transaction():
                engine._make()
                engine._copy(vectors)
                engine._link()
        except optional.psycopg().errors.DuplicateTable as error:
            server.close()
            raise InvalidValueError(
                f"`table` must be new; {table!r} is there already. `PgVectorEngine.attach` opens it, `drop` removes it."
            ) from error
        except BaseException:
            server.close()
            raise
        return engine

    @classmethod
    def attach(cls, connection: str, table: str, effort: int = 128) -> "PgVectorEngine":
        """The index that lies in this table."""
        server = _connected(connection)
        try:
            words, center = server.execute(_sql(table, "SELECT words, center FROM {about}")).fetchone()
            count = int(server.execute(_sql(table, "SELECT count(*) FROM {table}")).fetchone()[0])
            told = parse_json(words)
            center = torch.from_numpy(np.frombuffer(center, "<f4").copy())
            return cls(server, table, Placing(told["geometry"], center, told["radius"]), count, effort)
        except optional.psycopg().errors.UndefinedTable as error:
            server.close()
            raise DataNotFoundError(f"`{table}` is no table of an index. `PgVectorEngine.create` makes one.") from error
        except BaseException:
            server.close()
            raise

    def close(self) -> None:
        self._server.close()

    def drop(self) -> None:
        """Remove the table, and close."""
        self._run("DROP TABLE {table}, {about}")
        self.close()

    def __enter__(self) -> "PgVectorEngine":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @override
    def __len__(self) -> int:
        return self._count

    @override
    def search(self, queries: Tensor, k: int, allowed: Tensor | None = None, beta: float | None = None) -> Found:
        k = min(k, len(self))
        indices = torch.full((len(queries), k), -1)
        numbers = torch.full((len(queries), k), torch.inf)
        if not len(queries) or not k:
            return Found(indices, -numbers)
        asked = [self._vector(each) for each in self.placing.asked(queries).numpy()]
        condition, chosen = _condition(allowed)
        way = "<#>" if self.geometry == "inner" else "<->"
        sql = self._sql(
            f"SELECT row, place {way} %s::{self.kind} FROM {{table}} {condition} "  # nosec B608 # words of our own
            f"ORDER BY place {way} %s::{self.kind} LIMIT {{k}}",
            has_values=True,
            k=optional.psycopg().sql.Literal(k),
        )
        with self._server.transaction(), self._server.cursor(binary=True) as cursor:
            width = min(WIDEST, max(self.effort, k))
            cursor.execute("SELECT set_config('hnsw.ef_search', %s, true)", [str(width)])
            cursor.execute("SELECT set_config('hnsw.iterative_scan', 'strict_order', true)")
            cursor.executemany(sql, [(each, *chosen, each) for each in asked], returning=True)
            for place in range(len(asked)):
                found = cursor.fetchall()
                if found:
                    rows, values = zip(*found, strict=True)
                    indices[place, : len(found)] = torch.tensor(rows)
                    numbers[place, : len(found)] = torch.tensor(values)
                cursor.nextset()
        numbers = -numbers if self.geometry == "inner" else numbers.square()
        return Found(indices, self.placing.scores(numbers, queries).masked_fill(indices < 0, -torch.inf))

    @override
    def add(self, vectors: Tensor) -> None:
        with self._server.transaction():
            self._copy(vectors)

    @override
    def settings(self) -> dict[str, object]:
        return {"kind": "postgres", "table": self.table, "geometry": self.geometry, "effort": self.effort}

    @override
    def tensors(self) -> dict[str, Tensor]:
        raise UnsupportedError(
            "What PostgreSQL holds is durable there and needs no file: open it by `PgVectorEngine.attach`."
        )

    def _make(self) -> None:
        sql = optional.psycopg().sql
        size = sql.SQL(str(self.placing.size))
        kind = sql.SQL(self.kind)
        self._run("CREATE TABLE {table} (row bigint PRIMARY KEY, place {kind}({size}) NOT NULL)", kind=kind, size=size)
        self._run("CREATE TABLE {about} (words text NOT NULL, center bytea NOT NULL)")
        words = json.dumps({"geometry": self.geometry, "kind": self.kind, "radius": self.placing.radius})
        center = self.placing.center.numpy().astype("<f4").tobytes()
        self._run("INSERT INTO {about} VALUES (%s, %s)", [words, center])

    def _link(self) -> None:
        sql = optional.psycopg().sql
        self._run(
            "CREATE INDEX ON {table} USING hnsw (place {way}) WITH (m = {links}, ef_construction = {breadth})",
            way=sql.SQL(f"{self.kind}_{'ip' if self.geometry == 'inner' else 'l2'}_ops"),
            links=sql.Literal(LINKS),
            breadth=sql.Literal(BREADTH),
        )

    def _copy(self, vectors: Tensor) -> None:
        """Rows behind the others."""
        sql = self._sql("COPY {table} (row, place) FROM STDIN WITH (FORMAT BINARY)")
        with self._server.cursor() as cursor, cursor.copy(sql) as copy:
            copy.set_types(["int8", self.kind])
            for start in range(0, len(vectors), BLOCK):
                places = self.placing.places(vectors[start : start + BLOCK]).numpy()
                for row, place in enumerate(places, self._count + start):
                    copy.write_row((row, self._vector(place)))
        self._count += len(vectors)

    def _vector(self, place: Any) -> Any:
        if self.kind == "vector":
            return place
        if np.abs(place).max() > LARGEST_HALF:
            raise InvalidValueError(
                f"`vectors` must lie within {LARGEST_HALF:g}, as more than {FULL} dimensions are kept in halves; got "
                f"{np.abs(place).max():g}. Lift with a larger `tolerance`, to fewer dimensions."
            )
        return optional.pgvector().HalfVector(place)

    def _run(self, words: str, values: list[Any] | None = None, **parts: Any) -> Any:
        return self._server.execute(self._sql(words, values is not None, **parts), values)

    def _sql(self, words: str, has_values: bool = False, **parts: Any) -> Any:
        return _sql(self.table, words, has_values, **parts)


def _sql(table: str, words: str, has_values: bool = False, **parts: Any) -> Any:
    """Names of tables come from outside: they are quoted, never pasted."""
    sql = optional.psycopg().sql
    *schema, name = (table.replace("%", "%%") if has_values else table).split(".")
    tables = {"table": sql.Identifier(*schema, name), "about": sql.Identifier(*schema, f"{name}_about")}
    return sql.SQL(words).format(**tables, **parts)


def _connected(connection: str) -> Any:
    psycopg, pgvector = optional.psycopg(), optional.pgvector()
    server = psycopg.connect(connection, autocommit=True)
    try:
        server.execute("SELECT pg_advisory_lock(hashtext('ahop'))")  # two at once would both try to make it
        server.execute("CREATE EXTENSION IF NOT EXISTS vector")
        server.execute("SELECT pg_advisory_unlock(hashtext('ahop'))")
        pgvector.psycopg.register_vector(server)
    except BaseException:
        server.close()
        raise
    return server


def _kind(size: int) -> Words:
    if size > HALF:
        raise ShapeError(
            f"`vectors` must have at most {HALF} dimensions for pgvector to index them; got {size}. Lift with a larger "
            "`tolerance`, or use a `FaissEngine`."
        )
    return "vector" if size <= FULL else "halfvec"


def _condition(allowed: Tensor | None) -> tuple[str, list[Any]]:
    """Condition for the rows that may be answered, by naming them or the others, whichever are fewer."""
    if allowed is None:
        return "", []
    named = allowed.nonzero().squeeze(-1)
    if 2 * len(named) <= len(allowed):
        return "WHERE row = ANY(%s)", [named.tolist()]
    return "WHERE row <> ALL(%s)", [(~allowed).nonzero().squeeze(-1).tolist()]
