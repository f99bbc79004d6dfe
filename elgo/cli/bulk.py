"""`elgo bulk`: solve any number of instances, on this machine or on a Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elgo.cli.inputs import DeviceOption, options_named
from elgo.cli.outputs import check_file, file_ids
from elgo.cli.solve import Capacity, Model, PolicyOnly, Seed, Start, Starts, Symmetries, Vehicles

if TYPE_CHECKING:
    from elgo.bulk.engine import Engine
    from elgo.bulk.many import BulkProgress, OnProgress

TIME_LIMIT = 0.1  # seconds


class EngineChoice(StrEnum):
    """Where workers run."""

    local = "local"
    ray = "ray"


EngineOption = Annotated[EngineChoice, typer.Option(help="Workers: processes of this machine, or actors of Ray.")]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A running Ray cluster: HOST:PORT, ray://HOST:PORT, or auto: that of this machine.",
        show_default="Ray is started here",
    ),
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Workers, one thread each.", show_default="all cores")]
WorkerMemory = Annotated[
    float, typer.Option(min=0.1, metavar="GB", help="Most memory for the network's solutions, of each worker.")
]


def bulk(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="Problem files, folders or patterns of them; .jsonl, .parquet, .npz, .npy or .pkl files of many "
            "instances; random:PROBLEM:N:COUNT[:DISTRIBUTION[:SEED]]; kool:PROBLEM[:COUNT].",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="One row per instance: .jsonl or .parquet; continued if it exists.")
    ],
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
    jobs: JobsOption = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Search time for each instance.", show_default="0.1")
    ] = None,
    policy_only: PolicyOnly = False,
    model: Model = None,
    start: Start = None,
    starts: Starts = None,
    symmetries: Symmetries = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Instances per batch.", show_default="50, or as many as are searched in a second"),
    ] = None,
    seed: Seed = 0,
    vehicles: Vehicles = None,
    capacity: Capacity = None,
    memory: WorkerMemory = 1.0,
    device: DeviceOption = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only the last line and errors.")] = False,
) -> None:
    """Solve thousands of instances and write a row for each; started again, go on with what is missing.

    An instance that cannot be read or solved is a row with an error, and exit code 1 at the end.
    """
    from elgo.bulk.engines import open_engine
    from elgo.bulk.inputs import open_inputs
    from elgo.bulk.many import describe_settings, solve_inputs
    from elgo.bulk.outputs import Output
    from elgo.solve.config import SolveConfig

    seconds = TIME_LIMIT if time_limit is None and not policy_only else time_limit
    with options_named():
        config = SolveConfig(seconds, start, policy_only, model, starts, symmetries, seed, 1, vehicles, memory, device)
    sources = open_inputs(inputs, capacity)
    if not out.is_dir():
        check_file("--out", out, file_ids(Path(source.name) for source in sources))
    with (
        Output(out, describe_settings(config, capacity)) as output,
        open_engine(engine.value, jobs, address) as workers,
        bulk_progress(quiet) as show,
    ):
        progress = solve_inputs(sources, output, config, engine=workers, batch=batch, on_progress=show)
    done, seconds = progress.done, progress.seconds
    print(f"{out}: {done} new rows in {seconds:.1f} s ({done / seconds:.1f}/s), {progress.failed} failed")
    if progress.failed:
        raise typer.Exit(1)


def workers_or_none(
    engine: EngineChoice, jobs: int | None, address: str | None
) -> AbstractContextManager[Engine | None]:
    """Return a context with an engine; with None, for a command that does all itself, unless one is asked for."""
    from elgo.bulk.engines import open_engine

    if engine is EngineChoice.local and address is None and jobs in (None, 1):
        return nullcontext()
    return open_engine(engine.value, jobs, address)


@contextmanager
def bulk_progress(quiet: bool) -> Iterator[OnProgress]:
    """Yield the function that shows the progress of a run: a bar, or else a plain line every few seconds."""
    from elgo.cli.progress import LINE_SECONDS, progress_bar

    last_line = time.monotonic()
    with progress_bar(quiet) as show_bar:

        def show(progress: BulkProgress) -> None:
            nonlocal last_line
            text, line = format_progress(progress), ""
            if time.monotonic() - last_line > LINE_SECONDS:
                last_line, line = time.monotonic(), text
            show_bar(progress.done / progress.total if progress.total else 0.0, text, line)

        yield show


def format_progress(progress: BulkProgress) -> str:
    """Return the progress in words, such as "1,200/10,000, 450.1/s, 2 failed, about 20 s left"."""
    from elgo.solve.result import format_seconds

    total = "" if progress.total is None else f"/{progress.total:,}"
    facts = [f"{progress.done:,}{total}", f"{progress.done / max(progress.seconds, 1e-9):.1f}/s"]
    if progress.failed:
        facts.append(f"{progress.failed} failed")
    if progress.left is not None:
        facts.append(f"about {format_seconds(progress.left)} left")
    return ", ".join(facts)
