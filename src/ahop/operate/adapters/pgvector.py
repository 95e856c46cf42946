"""A table of PostgreSQL with pgvector as a search."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

from ahop._core import optional
from ahop._core.checks import check_choice

Distance: TypeAlias = Literal["cosine", "euclidean", "inner product", "manhattan"]
OPERATORS: dict[Distance, str] = {"cosine": "<=>", "euclidean": "<->", "inner product": "<#>", "manhattan": "<+>"}


@final
@dataclass(frozen=True)
class PgVectorSearch:
    """Ids and distances of the nearest rows of any table that has a column of vectors.

    Args:
        connection: of psycopg; how widely its indexes look, such as `hnsw.ef_search`, is set there.
        table: its name, with that of a schema before a dot if need be.
        column: with the vectors.
        id: the column with the ids.
        distance: the one that the index of the table was made for.
    """

    connection: Any
    table: str
    column: str = "embedding"
    id: str = "id"
    distance: Distance = "cosine"

    def __post_init__(self) -> None:
        check_choice("distance", self.distance, tuple(OPERATORS))

    def __call__(self, queries: Any, k: int) -> tuple[Any, Any]:
        sql = optional.psycopg().sql
        asked = sql.SQL("SELECT {id}, {column} {operator} %s::vector AS far FROM {table} ORDER BY far LIMIT %s").format(
            id=sql.Identifier(self.id),
            column=sql.Identifier(self.column),
            operator=sql.SQL(OPERATORS[self.distance]),
            table=sql.Identifier(*self.table.split(".")),
        )
        found = []
        with self.connection.cursor() as cursor:
            for query in queries:
                words = "[" + ",".join(map(repr, map(float, query))) + "]"
                found.append(cursor.execute(asked, (words, k)).fetchall())
        return [[row[0] for row in rows] for rows in found], [[row[1] for row in rows] for rows in found]
