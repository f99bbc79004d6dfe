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
    name: Annotated[str, typer.Argument(metavar="SET", help="TSP100, CVRP100, or a synthetic set: cvrp_cluster_100.")],
    count: Annotated[int, typer.Option(min=1, help="Only the first instances.")] = 1000,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.01, help="CPU time for each instance.", show_default="TSP 0.05, CVRP 1, for each 100 nodes"),
    ] = None,
    data: DataOption = None,
) -> None:
    """Make reference costs of a generated set, TSP by fast_tsp, CVRP by HGS; goes on where it was interrupted."""
    from elgo.bench.catalogue import load_group
    from elgo.bench.references import make_references
    from elgo.bench.sets import data_folder

    folder = data_folder(data)
    instances = load_group(name, folder, count)

    def report(done: int, mean: float) -> None:
        print(f"{done}/{len(instances)}  mean cost {mean:.5f}", flush=True)

    print(f"wrote {make_references(name, instances, folder, seconds, report)}")
