"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Patterns = Annotated[
    Path, typer.Argument(metavar="PATTERNS", help="What is stored: CSV, Parquet, Feather, NPY or NPZ, one row each.")
]
Memory = Annotated[
    Path, typer.Argument(metavar="MEMORY", help="A memory that `ahop fit` wrote, or a store that `ahop index` made.")
]
Queries = Annotated[
    Path,
    typer.Argument(metavar="QUERIES", help="What is asked, - for a pipe: one row each; empty cells were not observed."),
]
Id = Annotated[str | None, typer.Option(help="The column that names the rows. Decided if not given.", metavar="COLUMN")]
Origin = Annotated[
    str | None,
    typer.Option(help="The column of the pairs that names the origin; default `origin`.", metavar="COLUMN"),
]
Group = Annotated[
    str | None, typer.Option(help="The column that names where a row comes from, such as its device.", metavar="COLUMN")
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns of numbers, with commas between; `ap*` is all that begin so.", metavar="NAMES"),
]
Ignore = Annotated[str | None, typer.Option(help="Columns to leave out, written the same way.", metavar="NAMES")]
Categorical = Annotated[
    str | None, typer.Option(help="Columns of categories, words or codes, written the same way.", metavar="NAMES")
]
Errors = Annotated[
    str | None,
    typer.Option(help="End of the names of columns that hold the standard deviations of others.", metavar="ENDING"),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Write over a file that is there already.")]
Answers = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write all to this file: .csv, .parquet, .feather, .json, .npz or .npy."),
]
Picture = Annotated[
    Path | None, typer.Option(help="Draw a picture into this file; needs `ahop[plots]`.", metavar="FILE")
]
