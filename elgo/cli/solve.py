"""`elgo solve`: solve problem files."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elgo.cli.outputs import Outputs, Pictures, PlotFormat, Solved
from elgo.solve.config import SolveConfig

if TYPE_CHECKING:
    from elgo.solve.batch import BatchItem
    from elgo.solve.result import Result

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH", help="Problem files (.tsp, .vrp, .csv) and folders of them.")
]
TimeLimit = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="Time for each file.", show_default="5 to 60, by the size")
]
Vehicles = Annotated[int | None, typer.Option(min=1, help="Most routes of a CVRP.", show_default="any")]
Start = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Start the search from the best rollout of a model: a name (see elgo info) or FILE.safetensors.",
        show_default="savings or local search, no model",
    ),
]
WarmStart = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Start the search from a solution (.sol, .tour) of the one file.")
]
PolicyOnly = Annotated[
    bool, typer.Option("--policy-only", help="Take the best rollout of a model: no search, no time limit.")
]
Model = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Model of --policy-only: a name or FILE.safetensors.", show_default="elg"),
]
Starts = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Nodes at which the model's rollouts start.",
        show_default="all up to 1,000 nodes, above that 100; with --start 16",
    ),
]
Symmetries = Annotated[
    int | None,
    typer.Option(min=1, max=8, help="Symmetries under which rollouts are made.", show_default="8; with --start 1"),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all randomness.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="CPU threads for each file.", show_default="all cores, or their share")
]
Memory = Annotated[float, typer.Option(min=0.1, metavar="GB", help="Memory that rollouts may take.")]
Jobs = Annotated[int, typer.Option(min=1, help="Files to solve at once; they share the cores.")]
Capacity = Annotated[float | None, typer.Option(help="Vehicle capacity for CSV files with demands.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the results as a JSON list.")]
Solutions = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write NAME.sol (CVRP) or NAME.tour (TSP).")]
Plot = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Write pictures: a folder, or FILE.png/.svg for one input.")
]
PlotHistory = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Write pictures of the cost over time, in the same way.")
]
Format = Annotated[PlotFormat, typer.Option(help="Format of the pictures in folders.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only the table and errors.")]


def solve(
    paths: Paths,
    time_limit: TimeLimit = None,
    vehicles: Vehicles = None,
    start: Start = None,
    warm_start: WarmStart = None,
    policy_only: PolicyOnly = False,
    model: Model = None,
    starts: Starts = None,
    symmetries: Symmetries = None,
    seed: Seed = 0,
    threads: Threads = None,
    memory: Memory = 4.0,
    jobs: Jobs = 1,
    capacity: Capacity = None,
    json_file: JsonFile = None,
    solutions: Solutions = None,
    plot: Plot = None,
    plot_history: PlotHistory = None,
    plot_format: Format = PlotFormat.png,
    quiet: Quiet = False,
) -> None:
    """Solve problem files; print costs and gaps. Ctrl-C ends the search: the best so far is kept."""
    suffix = f".{plot_format.value}"
    outputs = Outputs(
        json_file,
        solutions,
        Pictures("--plot", plot, suffix) if plot else None,
        Pictures("--plot-history", plot_history, f".history{suffix}") if plot_history else None,
    )
    config = SolveConfig(
        time_limit, start, policy_only, model, starts, symmetries, seed, threads, vehicles, memory_gb=memory
    )
    files, items = _prepare(paths, config, warm_start, capacity, outputs, jobs)
    solved: list[Solved] = []
    try:
        stopped = _solve_files(files, items, jobs, outputs, quiet, solved)
    finally:
        _print_table([result for _, result in solved])
    _report_infeasible([result for _, result in solved])
    if stopped:
        raise KeyboardInterrupt


def _prepare(
    paths: Sequence[Path],
    config: SolveConfig,
    warm_start: Path | None,
    capacity: float | None,
    outputs: Outputs,
    jobs: int,
) -> tuple[list[Path], list[BatchItem]]:
    """Return the problem files and what to do with each; raise ValueError or OSError now for all that is wrong."""
    from elgo.cli.inputs import check_model, check_vehicles, problem_files, read_all, read_warm_start
    from elgo.solve.batch import BatchItem, share_resources

    for name, value in (("--start", config.start), ("--policy-only", config.policy_only)):
        if warm_start and value:
            raise ValueError(f"{warm_start}: --warm-start and {name} are both given; the search has one start")
    files = problem_files(paths)
    instances = read_all(files, capacity)
    if config.vehicles is not None:
        check_vehicles(config.vehicles, files, instances, must_fit=not (config.policy_only or warm_start))
    solution = read_warm_start(warm_start, files, instances, config.vehicles) if warm_start else None
    outputs.prepare(files)
    if config.policy_name is not None:
        check_model(config.policy_name, instances)
    config = share_resources(config, min(jobs, len(files)))
    return files, [BatchItem(instance, config, solution) for instance in instances]


def _solve_files(
    files: Sequence[Path], items: Sequence[BatchItem], jobs: int, outputs: Outputs, quiet: bool, solved: list[Solved]
) -> bool:
    """Solve the files and append each to `solved`, which the caller has whatever happens; True if Ctrl-C stopped it."""
    from elgo.cli.progress import BatchProgress
    from elgo.solve.batch import Stop, solve_batch

    stop = Stop()
    with BatchProgress(items, quiet) as progress, stop.listen(signal.SIGINT):
        for number, result in solve_batch(items, jobs, stop, progress):
            solved.append((files[number], result))
            progress.finished(number, result)
            outputs.write(solved)
    return stop.requested


def _print_table(results: Sequence[Result]) -> None:
    """Print the table of results, which is never cut off when it goes into a file or a pipe."""
    if not results:
        return
    from rich.console import Console

    from elgo.cli.tables import results_table

    Console(width=None if sys.stdout.isatty() else 160).print(results_table(results))


def _report_infeasible(results: Sequence[Result]) -> None:
    """Exit with code 1 when a solution breaks a constraint; the first violation of each is named."""
    infeasible = [result for result in results if not result.solution.feasible]
    for result in infeasible:
        print(f"elgo: {result.instance.name}: infeasible: {result.solution.violations[0]}", file=sys.stderr)
    if infeasible:
        raise typer.Exit(1)
