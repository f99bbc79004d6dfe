"""`elgo solve`: solve problem files."""

from __future__ import annotations

import math
import re
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elgo.cli.inputs import (
    DeviceOption,
    check_model,
    check_vehicles,
    expand_folders,
    read_all,
    read_warm_start,
    set_ends,
)
from elgo.cli.outputs import Outputs, PlotFormat, Solved, format_json
from elgo.problem.files import ProblemFile, printable
from elgo.problem.instance import Instance
from elgo.problem.itinerary import format_length
from elgo.problem.solution import Solution, format_gap
from elgo.solve.config import SolveConfig
from elgo.solve.result import Result, format_table

if TYPE_CHECKING:
    from elgo.solve.batch import BatchItem

# The fields of SolveConfig in its messages, which are options here; what is quoted stays as it is.
_FIELDS = re.compile(r"'[^']*'|^\w+|\w+_\w+|(?<=with )model|(?<=[;:] )start\b")

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH", help="Problem files (.tsp, .vrp, .csv) and folders of them.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Search time for each file.", show_default="5 to 60, by the size"),
]
Vehicles = Annotated[int | None, typer.Option(min=1, help="Most vehicles, that is routes (CVRP).", show_default="any")]
Start = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Start the search from the solution of a neural network: its name (see elgo info) or FILE.safetensors.",
        show_default="a classical heuristic",
    ),
]
WarmStart = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Start the search from a solution (.sol, .tour) of the input file.")
]
PolicyOnly = Annotated[
    bool,
    typer.Option("--policy-only", help="Take the solution of a neural network as it is: no search, no time limit."),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Neural network of --policy-only: its name (see elgo info) or FILE.safetensors.",
        show_default="elg",
    ),
]
Starts = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Solutions that the network makes, each from another first stop; the best one counts.",
        show_default="all up to 1,000 nodes, then 100; 16 above 10,000 nodes or with --start",
    ),
]
Symmetries = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=8,
        help="Rotations and reflections of the map for which the network solves again.",
        show_default="8; 1 above 10,000 nodes or with --start",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="CPU threads for each file.", show_default="all cores, or their share")
]
Memory = Annotated[float, typer.Option(min=0.1, metavar="GB", help="Most memory for the network's solutions.")]
Jobs = Annotated[int, typer.Option(min=1, help="Files to solve at once; they share the cores.")]
Capacity = Annotated[float | None, typer.Option(help="Vehicle capacity for CSV files with demands.")]
Depot = Annotated[
    str | None,
    typer.Option(metavar="ID|ROW", help="Depot of a CSV file.", show_default="as a column marks it, or the first row"),
]
Matrix = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Road distances or times between the stops of a CSV file, as a CSV file."),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the results as a JSON list; FILE.jsonl: append lines; -: to stdout."
    ),
]
Routes = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Write tables of stops: a folder, or FILE.csv for one input.")
]
GeoJson = Annotated[
    Path | None,
    typer.Option("--geojson", metavar="PATH", help="Write GeoJSON (for latitude, longitude), in the same way."),
]
Map = Annotated[
    Path | None, typer.Option("--map", metavar="PATH", help="Write maps as HTML pages: a folder, or FILE.html.")
]
Tiles = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Street tiles of maps, loaded by the reader: osm, or a URL.", show_default="none"),
]
Open = Annotated[bool, typer.Option("--open", help="Routes end at their last stop: the way back costs nothing.")]
First = Annotated[
    int | None, typer.Option(metavar="NODE", help="Stop at which a tour begins (TSP), by its number in the file.")
]
Last = Annotated[
    int | None, typer.Option(metavar="NODE", help="Stop at which a tour ends (TSP), from where it does not return.")
]
Solutions = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write NAME.sol (CVRP) or NAME.tour (TSP).")]
Plot = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Write pictures: a folder, or FILE.png/.svg for one input.")
]
PlotHistory = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Write pictures of the cost over time: a folder, or one FILE.png/.svg."),
]
Format = Annotated[PlotFormat, typer.Option(help="Format of pictures that go into a folder.")]
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
    device: DeviceOption = "auto",
    jobs: Jobs = 1,
    capacity: Capacity = None,
    depot: Depot = None,
    matrix: Matrix = None,
    open_routes: Open = False,
    first: First = None,
    last: Last = None,
    json_file: JsonFile = None,
    solutions: Solutions = None,
    routes: Routes = None,
    geojson: GeoJson = None,
    map_file: Map = None,
    tiles: Tiles = None,
    plot: Plot = None,
    plot_history: PlotHistory = None,
    plot_format: Format = PlotFormat.png,
    quiet: Quiet = False,
) -> None:
    """Solve problem files and print a table.

    It shows the cost, how many percent it is above the best known cost (gap), and where the solution comes from. Ctrl-C
    ends the search and keeps the best solution so far.
    """
    _check_one_start(warm_start, start, policy_only)
    config = make_config(
        time_limit, start, policy_only, model, starts, symmetries, seed, threads, vehicles, memory, device
    )
    files = expand_folders(paths)
    problems = read_all(files, capacity, depot, matrix)
    instances = set_ends([problem.instance for problem in problems], files, open_routes, first, last)
    if vehicles is not None:
        check_vehicles(vehicles, files, instances, must_fit=not (policy_only or warm_start))
    solution = read_warm_start(warm_start, files, instances, vehicles) if warm_start else None
    outputs = Outputs(json_file, solutions, plot, plot_history, plot_format, routes, geojson, map_file, tiles)
    outputs.prepare(files, problems, [Path(path) for path in (*files, warm_start, matrix, start, model) if path])
    if isinstance(config.policy, str | Path):
        check_model(config.policy, instances)
    pairs = zip(files, problems, strict=True)
    _print_lines(f"warning: {file}: {text}" for file, problem in pairs for text in problem.warnings)
    jobs = min(jobs, len(files))
    _solve_files(files, problems, _make_items(instances, config, solution, jobs), jobs, outputs, quiet)


def make_config(*fields: Any) -> SolveConfig:
    """Return the config with these values of its first fields; its errors name options instead of fields."""
    try:
        return SolveConfig(*fields)
    except ValueError as error:
        raise ValueError(_FIELDS.sub(_option, str(error))) from None


def _option(field: re.Match[str]) -> str:
    """Return a field of SolveConfig as an option."""
    return field[0] if field[0].startswith("'") else f"--{field[0].replace('_', '-')}"


def _check_one_start(warm_start: Path | None, start: str | None, policy_only: bool) -> None:
    for option, value in (("--start", start), ("--policy-only", policy_only)):
        if warm_start and value:
            raise ValueError(f"{warm_start}: --warm-start and {option} are both given; the search has one start")


def _make_items(
    instances: Sequence[Instance], config: SolveConfig, warm_start: Solution | None, jobs: int
) -> list[BatchItem]:
    """Return what is to be solved by `jobs` processes, which share cores and memory."""
    from elgo.solve.batch import BatchItem, share_resources

    if jobs > 1 and not config.policy_only:
        _compile_kernels(instances)
    shared = share_resources(config, jobs)
    return [BatchItem(instance, shared, warm_start) for instance in instances]


def _compile_kernels(instances: Sequence[Instance]) -> None:
    """Compile what is missing, once and not in every worker; on a thread, so that Ctrl-C is answered at once."""
    from elgo.solve.deadline import run_with_deadline
    from elgo.solve.search import load_kernels

    for instance in instances:
        run_with_deadline(partial(load_kernels, instance), math.inf)


def _print_lines(texts: Iterable[str]) -> None:
    for text in texts:
        print(f"elgo: {printable(text)}", file=sys.stderr)


def _solve_files(
    files: Sequence[Path],
    problems: Sequence[ProblemFile],
    items: Sequence[BatchItem],
    jobs: int,
    outputs: Outputs,
    quiet: bool,
) -> None:
    """Solve the files, write outputs, and print warnings and the table of all that were solved, whatever happens.

    A file that fails does not stop the others. Exit codes: 130 after Ctrl-C, 143 after SIGTERM, 1 for a solution that
    breaks a constraint and for files that failed by no fault of their own, 2 for other files that failed.
    """
    from elgo.cli.progress import BatchProgress
    from elgo.solve.batch import Stop, solve_batch

    stop, solved, lines, codes = Stop(), list[Solved](), list[str](), set[int]()
    try:
        with BatchProgress(items, quiet) as progress, stop.listen(signal.SIGINT, signal.SIGTERM):
            try:
                for number, outcome in solve_batch(items, jobs, stop, progress):
                    if isinstance(outcome, BaseException):
                        text, code = _failure(items[number].instance.name, outcome)
                        lines.append(text)
                        codes.add(code)
                        progress.failed(number)
                        continue
                    config = items[number].config
                    limit = None if config.policy_only else config.limit(outcome.instance)
                    solved.append(Solved(files[number], problems[number].stops, limit, outcome))
                    progress.finished(number, outcome)
                    lines += [f"warning: {outcome.instance.name}: {text}" for text in outcome.warnings]
                    if not outcome.solution.feasible:
                        lines.append(f"{outcome.instance.name}: infeasible: {outcome.solution.violations[0]}")
                        codes.add(1)
                    outputs.write(solved[-1])
            finally:
                outputs.finish(solved)
    finally:
        _print_lines(lines)
        if solved:
            table = "\n".join(_table([one.result for one in solved]))
            print(table, file=sys.stderr if outputs.json_on_stdout else sys.stdout)
        if outputs.json_on_stdout:
            print(format_json(solved), end="")
    if stop.requested:
        print("elgo: interrupted", file=sys.stderr)
        raise typer.Exit(128 + stop.signal)
    if codes:
        raise typer.Exit(min(codes))


def _failure(name: str, error: BaseException) -> tuple[str, int]:
    """Return a line for a file that was not solved, and the exit code: 2 for wrong input, 1 for anything else."""
    from elgo.solve.worker import WorkerError, describe_bug

    if isinstance(error, ValueError | OSError):
        text, code = str(error), 2
    else:
        text, code = str(error) if isinstance(error, WorkerError) else describe_bug(error), 1
    return text if text.startswith(f"{name}: ") else f"{name}: {text}", code


def _table(results: Sequence[Result]) -> list[str]:
    """Return a table with one row per result, and a last row with the mean gap if several results have a gap."""
    rows = [("name", "problem", "nodes", "routes", "cost", "best known", "gap %", "seconds", "from")]
    for result in results:
        it, routes = result.instance, str(len(result.solution.routes))
        cost, best_known = format_length(result.cost, it.metric), format_length(it.best_known, it.metric)
        costs = (cost, best_known, format_gap(result.gap))
        rows.append((it.name, it.problem, str(it.size), routes, *costs, f"{result.seconds.total:.2f}", result.source))
    gaps = [result.gap for result in results if result.gap is not None]
    if len(gaps) > 1:
        rows.append((f"mean of {len(gaps)}", "", "", "", "", "", format_gap(sum(gaps) / len(gaps)), "", ""))
    return format_table(rows)
