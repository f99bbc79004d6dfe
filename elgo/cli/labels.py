"""`elgo labels`: near-optimal solutions to imitate, kept in stores on disk."""

import math
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from elgo.cli.bulk import AddressOption, EngineChoice, EngineOption, workers_or_none
from elgo.problem.errors import ElgoError


def make(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The folder; continued where it ends.")],
    problem: Annotated[str, typer.Option(metavar="tsp|cvrp", help="Which problem.")],
    sizes: Annotated[
        str, typer.Option(metavar="SIZES", help="N: 100,200 or ranges, log-uniform within.")
    ] = "50-1000,100-500",
    distribution: Annotated[str, typer.Option(metavar="NAME", help="Of the points.")] = "mixed",
    count: Annotated[
        int, typer.Option(min=1, help="Stop when the store holds this many.", show_default=False)
    ] = sys.maxsize,
    minutes: Annotated[float, typer.Option(min=0, help="Stop after this long.", show_default=False)] = math.inf,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the instances.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Workers.", show_default="1, or all CPUs of Ray")] = None,
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
) -> None:
    """Fill STORE with generated instances and their solutions, until the limits or SIGTERM."""
    from elgo.train.labelling import LabelStream, parse_sizes
    from elgo.train.labels import LabelStore, make_labels

    def show(text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, flush=True)

    stream = LabelStream(problem, parse_sizes(sizes), distribution, seed)
    try:
        with workers_or_none(engine, jobs, address) as workers:
            make_labels(LabelStore(store), stream, count, minutes, workers, show)
    except (ImportError, RuntimeError) as error:
        raise ElgoError(str(error)) from None
