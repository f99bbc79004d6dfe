"""`elgo data`: benchmark sets, their files and reference costs."""

from __future__ import annotations

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


def list_sets(data: DataOption = None) -> None:
    """List every named set: instances, generator, seed, rounding, reference costs, whether it is here, SHA-256."""
    from elgo.bench.catalogue import catalogue_table
    from elgo.bench.sets import data_folder

    print(catalogue_table(data_folder(data)).text())


def reference(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SET",
            help="TSP100, CVRP100, or synthetic sets such as cvrp_cluster_100.",
            show_default="all whose costs are missing",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Only the first instances.", show_default="1,000; 100 with N = 200")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.01, help="CPU time for each instance.", show_default="TSP 0.05, CVRP 1, for each 100 nodes"),
    ] = None,
    data: DataOption = None,
) -> None:
    """Make reference costs of a generated set, TSP by fast_tsp, CVRP by HGS; goes on where it was interrupted."""
    from elgo.bench.catalogue import load_group, measured_count, without_references
    from elgo.bench.references import make_references
    from elgo.bench.sets import data_folder

    folder = data_folder(data)

    def report(done: int, total: int, mean: float) -> None:
        print(f"{name}: {done}/{total}  mean cost {mean:.5f}", flush=True)

    for name in names or without_references(folder):
        instances = load_group(name, folder, count or measured_count(name))
        print(f"wrote {make_references(name, instances, folder, seconds, report)}")
