"""`elgo data`: benchmark files."""

from pathlib import Path
from typing import Annotated

import typer

_DEFAULT = "$ELGO_DATA, or the user's cache"
DataOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where the benchmark files are.", show_default=_DEFAULT)
]


def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="SET", help="tsplib, cvrplib-x, cvrplib-xxl.", show_default="all of them"),
    ] = None,
    data: DataOption = None,
) -> None:
    """Download what is missing of TSPLIB and CVRPLIB."""
    from elgo.bench.fetch import fetch as fetch_set
    from elgo.bench.sets import FILE_SETS, data_folder

    for name in names or list(FILE_SETS):
        fetch_set(name, data_folder(data), lambda line: print(line, flush=True))
