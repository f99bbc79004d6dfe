"""The `elgo` command. Heavy modules are imported inside the commands, so that `elgo --help` is instant."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from elgo import __version__

if TYPE_CHECKING:
    from elgo.problem.instance import Instance
    from elgo.problem.solution import Solution
    from elgo.solve.batch import Job
    from elgo.solve.solver import Result

    Done = tuple[Path, Result]

SUFFIXES = (".tsp", ".vrp", ".csv")

app = typer.Typer(
    help="A learned vehicle-routing solver for TSP and CVRP.",
    rich_markup_mode=None,  # plain help: importing rich would double its time
    pretty_exceptions_enable=False,
    add_completion=False,
)


class SetFirst(TyperGroup):
    """Commands of `elgo bench`; a first word that is none of them is the set to run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


bench_app = typer.Typer(
    cls=SetFirst,
    help="Measure models, search and baselines on benchmark sets: elgo bench SET [OPTIONS], see elgo bench run --help.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
data_app = typer.Typer(help="Benchmark files.", rich_markup_mode=None, no_args_is_help=True)
app.add_typer(bench_app, name="bench")
app.add_typer(data_app, name="data")


class PlotFormat(StrEnum):
    """Picture formats of `elgo solve --plot FOLDER`."""

    png = "png"
    svg = "svg"


@dataclass(frozen=True)
class Pictures:
    """Where an option puts its pictures: into one file, or into a folder under the names of the problem files."""

    option: str
    path: Path
    ending: str  # of the names in a folder

    @property
    def is_file(self) -> bool:
        return self.path.suffix.lower() in (f".{kind.value}" for kind in PlotFormat)

    def check(self, files: Sequence[Path]) -> None:
        """Raise ValueError if pictures of these files cannot go there; the folder is made."""
        suffix = self.path.suffix
        if suffix and not self.is_file and not self.path.is_dir():
            raise ValueError(f"{self.path}: {self.option} ends in {suffix!r}; name a .png or .svg file, or a folder")
        if self.is_file and len(files) > 1:
            raise ValueError(
                f"{self.path}: {self.option} names one picture for {len(files)} problem files; name a folder"
            )
        if not self.is_file:
            _check_names(files)
        (_check_file if self.is_file else _make_folder)(self.option, self.path)

    def of(self, file: Path) -> Path:
        """The picture for a problem file."""
        return self.path if self.is_file else self.path / f"{file.stem}{self.ending}"


@dataclass(frozen=True)
class Outputs:
    """Where the results of a run go; each of them is on request."""

    json_file: Path | None
    solutions: Path | None
    plot: Pictures | None
    plot_history: Pictures | None

    def prepare(self, files: Sequence[Path]) -> None:
        """Create the folders, and raise ValueError or OSError now for what could not be written after the solving."""
        if self.solutions:
            _check_names(files)
        folder = self.solutions and self.solutions.resolve()
        for file in files:
            if file.suffix.lower() == ".vrp" and file.parent.resolve() == folder:
                raise ValueError(f"{file}: --solutions is its own folder, where NAME.sol is the best-known solution")
        pictures = [found for found in (self.plot, self.plot_history) if found]
        if len({found.of(files[0]).resolve() for found in pictures}) < len(pictures):
            raise ValueError(f"{pictures[0].path}: --plot and --plot-history name the same file")
        for found in pictures:
            found.check(files)
        if self.json_file:
            _check_file("--json", self.json_file)
        if self.solutions:
            _make_folder("--solutions", self.solutions)

    def write(self, done: Sequence[Done]) -> None:
        """Write the newest result and the list of all so far: whatever stops the run later, these are kept."""
        from elgo.problem.files import atomic_write, write_solution

        file, result = done[-1]
        if self.json_file:
            lines = ",\n".join(json.dumps(_record(*pair)) for pair in done)
            atomic_write(self.json_file, f"[\n{lines}\n]\n")
        if self.solutions:
            suffix = ".tour" if result.instance.problem == "tsp" else ".sol"
            write_solution(self.solutions / (file.stem + suffix), result.solution)
        if self.plot:
            from elgo.solve.plot import save_plot

            save_plot(result.solution, self.plot.of(file))
        if self.plot_history:
            from elgo.solve.plot import save_history

            save_history(result, self.plot_history.of(file))


def main() -> None:
    """Entry point of the `elgo` command. A wrong option, too, gets one line."""
    # UsageError: click's, or in later versions typer's own.
    usage_error: type[typer.BadParameter] = typer.BadParameter.__bases__[0]
    try:
        code = app(prog_name="elgo", standalone_mode=False)
    except typer.Abort:
        code = 130
    except usage_error as error:
        print(f"elgo: {error.format_message()}", file=sys.stderr)
        code = 2
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _global(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"elgo {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("solve")
def solve_command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Problem files (.tsp, .vrp, .csv) and folders of them.")
    ],
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time for each file.", show_default="5 to 60, by the size"),
    ] = None,
    vehicles: Annotated[int | None, typer.Option(min=1, help="Most routes of a CVRP.", show_default="any")] = None,
    warm_start: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Solution (.sol, .tour) of the one file to begin with."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Files to solve at once; they share the cores.")] = 1,
    starts: Annotated[
        int | None,
        typer.Option(min=1, help="Most start nodes of the policy.", show_default="as many as fit into its time"),
    ] = None,
    symmetries: Annotated[int, typer.Option(min=1, max=8, help="Most symmetries that the policy tries.")] = 8,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Weights of the policy (.safetensors).", show_default="those of the package"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all randomness.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads for each file.", show_default="all cores, or their share")
    ] = None,
    memory: Annotated[float, typer.Option(min=0.1, metavar="GB", help="Memory to stay within while decoding.")] = 4.0,
    policy_only: Annotated[
        bool, typer.Option("--policy-only", help="Take the policy's best solution: no search, no time limit.")
    ] = False,
    capacity: Annotated[float | None, typer.Option(help="Vehicle capacity for CSV files with demands.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results as a JSON list.")
    ] = None,
    solutions: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write NAME.sol (CVRP) or NAME.tour (TSP).")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A folder for pictures, or FILE.png/.svg for one input.")
    ] = None,
    plot_history: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The same for pictures of the cost as time goes by.")
    ] = None,
    plot_format: Annotated[PlotFormat, typer.Option(help="Picture format in these folders.")] = PlotFormat.png,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only the table and errors.")] = False,
) -> None:
    """Solve problem files; print costs and gaps. Ctrl-C ends the search: the best so far is kept."""
    with _one_line_errors():
        from elgo.solve.batch import Job, share
        from elgo.solve.solver import SolveConfig

        config = SolveConfig(
            time_limit=time_limit,
            starts=starts,
            symmetries=symmetries,
            seed=seed,
            threads=threads,
            weights=weights,
            policy_only=policy_only,
            vehicles=vehicles,
            memory_gb=memory,
        )
        files = _problem_files(paths)
        instances = _read_all(files, capacity)
        if vehicles is not None:
            _check_vehicles(vehicles, files, instances, policy_only or warm_start is not None)
        begin_with = _read_warm_start(warm_start, files, instances, vehicles) if warm_start else None
        suffix = f".{plot_format.value}"
        outputs = Outputs(
            json_file,
            solutions,
            Pictures("--plot", plot, suffix) if plot else None,
            Pictures("--plot-history", plot_history, f".history{suffix}") if plot_history else None,
        )
        outputs.prepare(files)
        if weights:
            _check_weights(weights, instances)
        at_once = min(jobs, len(files))
        work = [Job(instance, share(config, at_once), begin_with) for instance in instances]
        done: list[Done] = []
        try:
            stopped = _solve_all(files, work, at_once, outputs, quiet, done)
        finally:
            _print_table([result for _, result in done])
        _report_infeasible([result for _, result in done])
        if stopped:
            raise KeyboardInterrupt


@app.command()
def info(
    weights: Annotated[
        Path | None, typer.Argument(metavar="WEIGHTS", help="Weights file.", show_default="those of the package")
    ] = None,
) -> None:
    """Describe weights: their network and training."""
    with _one_line_errors():
        shipped = sorted((Path(__file__).parents[1] / "model" / "weights").glob("*.safetensors"))
        for file in [weights] if weights else shipped:
            header = _header(file)
            print(file if weights else file.name)
            for key, value in sorted(header.items()):
                print(f"  {key}: {value}")


@app.command("import-weights")
def import_weights(
    source: Annotated[Path, typer.Argument(metavar="FILE.pt", help="Checkpoint of the official ELG code.")],
    target: Annotated[
        Path | None,
        typer.Argument(metavar="OUT.safetensors", help="Weights file to write.", show_default="beside FILE.pt"),
    ] = None,
) -> None:
    """Convert a checkpoint of the official ELG code."""
    with _one_line_errors():
        target = target or source.with_suffix(".safetensors")
        if target == source:
            raise ValueError(f"{source}: the weights file would replace its own input")
        _check_file("OUT", target)

        from elgo.model.official import import_official

        import_official(source, target)
        print(f"wrote {target}")


@app.command("train")
def train_command(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="Name of a config, such as imitate-tsp, or FILE.toml.")
    ],
    folder: Annotated[  # not --run: torchrun takes that for an abbreviation of its own options
        Path | None,
        typer.Option(metavar="FOLDER", help="The run's folder; goes on if it is one.", show_default="runs/CONFIG"),
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Override a field of the config.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Train so long, instead of what the config says.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Train so many steps, instead of what the config says.")
    ] = None,
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where validation sets are kept, and made when missing.")
    ] = Path("data"),
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default="all cores")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train a policy, or go on with a run that was stopped."""
    with _one_line_errors():
        if minutes and steps:
            raise ValueError("--minutes and --steps are both given; a run ends by one of them")
        overrides = list(sets or [])
        if minutes or steps:
            overrides += [f"train.minutes={float(minutes or 0)}", f"train.steps={steps or 0}"]

        from elgo.train.config import load_config

        chosen = load_config(config, overrides)

        import torch

        from elgo.train.command import run as run_training

        if threads:
            torch.set_num_threads(threads)
        weights = run_training(chosen, folder or Path("runs") / Path(config).stem, data, quiet)
        print(f"wrote {weights}")


@app.command("plot-training")
def plot_training_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Picture to write (.png or .svg).")] = Path("training.png"),
) -> None:
    """Draw loss and validation gaps of training runs."""
    with _one_line_errors():
        _check_file("--out", out)

        from elgo.train.command import plot_training

        plot_training(runs, out)
        print(f"wrote {out}")


DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="Where the benchmark files are.",
        show_default="$ELGO_DATA, or the user's cache",
    ),
]
ThreadsOption = Annotated[int, typer.Option(min=1, help="CPU threads of every method that can use them.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of every method.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only tables and errors.")]
InstancesOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Only these: names, their beginnings or patterns, by commas; ten: ten of Set-X."
    ),
]
LimitOption = Annotated[
    int | None, typer.Option(min=1, help="Only the first instances of each group, at most this many.")
]


@bench_app.command("run")
def bench_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SET", help="tsplib, cvrplib-x, cvrplib-xxl, uniform, synthetic, scaling, or a folder of files."
        ),
    ],
    data: DataOption = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="METHODS",
            help="By commas: a model (elg, FILE.safetensors or NAME=FILE.safetensors), perhaps with :single, :starts "
            "or :16x2 (starts x symmetries); search@5 (seconds); baselines such as pyvrp@5 or savings.",
        ),
    ] = "elg:single,elg:starts,elg",
    baselines: Annotated[
        str, typer.Option(metavar="NAMES", help="Baselines to add at each time limit: all, installed, or names.")
    ] = "",
    time_limits: Annotated[str, typer.Option(metavar="SECONDS", help="Time limits of --baselines, by commas.")] = "",
    problem: Annotated[str | None, typer.Option(metavar="tsp|cvrp", help="Only one problem of the set.")] = None,
    instances: InstancesOption = None,
    limit: LimitOption = None,
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
    memory: Annotated[float, typer.Option(min=0.1, metavar="GB", help="Memory of a model while decoding.")] = 4.0,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where results go; goes on if it holds this run.", show_default="bench/SET"
        ),
    ] = None,
    published: Annotated[bool, typer.Option(help="Show published figures beside the measured ones.")] = True,
    quiet: QuietOption = False,
) -> None:
    """Measure methods on a set (`elgo bench SET` for short); print the table, write CSV, pictures and a report."""
    with _one_line_errors():
        from elgo.bench.methods import Options, parse_limits, parse_methods
        from elgo.bench.sets import Selection, load_set

        limits = parse_limits(time_limits)
        bench_set = load_set(name, data, Selection(problem, instances, limit))
        problems = {entry.instance.problem for entry in bench_set.entries}
        chosen = parse_methods(methods, baselines, limits, problems)

        from elgo.bench.command import bench
        from elgo.cli.bench_progress import bench_progress

        target = folder or Path("bench") / bench_set.name
        with bench_progress(quiet) as show:
            table = bench(bench_set, chosen, Options(seed, threads, memory), target, show, published)
        print(table.text())
        print(f"\nwrote {target / 'report.html'}")


@bench_app.command("report")
def bench_report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a benchmark, finished or not.")],
    published: Annotated[bool, typer.Option(help="Show published figures beside the measured ones.")] = True,
) -> None:
    """Write tables, pictures and the report of a benchmark once more."""
    with _one_line_errors():
        from elgo.bench.report import write_report

        print(write_report(folder, published).text())
        print(f"\nwrote {folder / 'report.html'}")


@bench_app.command("compare")
def bench_compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The folder of a benchmark, or FOLDER:METHOD.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The one to compare with it.")],
) -> None:
    """Compare two benchmarks, instance by instance; exit code 1 if B is worse."""
    with _one_line_errors():
        from elgo.bench.compare import compare, compare_table

        pairs = compare(a, b)
        print(compare_table(a, b, pairs).text())
        if any(pair.regression for pair in pairs):
            raise typer.Exit(1)


@bench_app.command("ablations")
def bench_ablations(
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each variant.")] = 1000,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Override a field of every config.")
    ] = None,
    variants: Annotated[
        str | None, typer.Option(metavar="CONFIGS", help="Which variants, by commas.", show_default="all")
    ] = None,
    data: DataOption = None,
    instances: InstancesOption = None,
    limit: LimitOption = None,
    protocol: Annotated[
        str, typer.Option(help="How each variant is measured: single, starts, x8 or STARTSxSYMMETRIES.")
    ] = "x8",
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where training and results go.")] = Path(
        "bench/ablations"
    ),
    quiet: QuietOption = False,
) -> None:
    """Train every ablation of the paper briefly on the same data; print its tables with ours beside them."""
    with _one_line_errors():
        from functools import partial

        import torch

        from elgo.bench.ablations import VARIANTS, make_variants, measure_variants, train_variants
        from elgo.bench.methods import Options
        from elgo.bench.sets import Selection, load_set
        from elgo.cli.bench_progress import bench_progress
        from elgo.train.command import run

        names = [name.strip() for name in variants.split(",")] if variants else list(VARIANTS)
        bench_set = load_set("tsplib", data, Selection(None, instances, limit))
        configs = make_variants(names, steps, sets or [])
        torch.set_num_threads(threads)
        methods = train_variants(configs, folder, protocol, partial(run, quiet=quiet))
        with bench_progress(quiet) as show:
            table = measure_variants(configs, methods, bench_set, Options(seed, threads), folder, show)
        print(table.text())
        print(f"\nwrote {folder / 'ablations.md'}")


@data_app.callback()
def _data() -> None:
    """Benchmark files."""


@data_app.command("fetch")
def data_fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="SET", help="tsplib, cvrplib-x, cvrplib-xxl.", show_default="all of them"),
    ] = None,
    data: DataOption = None,
) -> None:
    """Download what is missing of TSPLIB and CVRPLIB."""
    with _one_line_errors():
        from elgo.bench.fetch import fetch
        from elgo.bench.sets import FILE_SETS, data_folder

        for name in names or list(FILE_SETS):
            fetch(name, data_folder(data), lambda line: print(line, flush=True))


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn a wrong input (ValueError, OSError) into one line and exit code 2, and Ctrl-C into exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), 2)
    except ValueError as error:
        _fail(str(error), 2)


def _fail(message: str, code: int) -> NoReturn:
    print(f"elgo: {message}", file=sys.stderr)
    raise typer.Exit(code)


def _problem_files(paths: Sequence[Path]) -> list[Path]:
    """The files named by paths, a folder standing for its problem files in order; each file once."""
    from elgo.problem.files import COST_TABLES

    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = [
            p for p in sorted(path.iterdir()) if p.suffix.lower() in SUFFIXES and p.name.lower() not in COST_TABLES
        ]
        if not inside:
            raise ValueError(f"{path}: no problem files ({', '.join(SUFFIXES)}) in this folder")
        files += inside
    return list(dict.fromkeys(files))


def _read_all(files: Sequence[Path], capacity: float | None) -> list[Instance]:
    """The instances in the files; capacity is that of the CSV files."""
    from elgo.problem.files import read

    csv = [file.suffix.lower() == ".csv" for file in files]
    if capacity is not None and not any(csv):
        raise ValueError(f"{files[0]}: --capacity is {capacity:g}, but only CSV files take it")
    return [read(file, capacity if is_csv else None) for file, is_csv in zip(files, csv, strict=True)]


def _check_vehicles(vehicles: int, files: Sequence[Path], instances: Sequence[Instance], may_find: bool) -> None:
    """Raise ValueError if no file takes --vehicles, or if one needs more and nothing else `may find` a solution."""
    from elgo.search.fallback import fallback_routes

    if all(instance.problem == "tsp" for instance in instances):
        raise ValueError(f"{files[0]}: --vehicles is {vehicles}, but only a CVRP takes it")
    if not may_find:
        for instance in instances:
            fallback_routes(instance, vehicles)


def _read_warm_start(
    file: Path, files: Sequence[Path], instances: Sequence[Instance], vehicles: int | None
) -> Solution:
    """The solution to begin with, of the one problem file."""
    from elgo.problem.files import read_solution

    if len(files) > 1:
        raise ValueError(f"{file}: --warm-start is a solution of one problem file, but there are {len(files)}")
    solution = read_solution(file, instances[0])
    if solution.violations:
        raise ValueError(f"{file}: --warm-start is no solution of {files[0]}: {solution.violations[0]}")
    if vehicles is not None and len(solution.routes) > vehicles:
        raise ValueError(f"{file}: --warm-start has {len(solution.routes)} routes, --vehicles is {vehicles}")
    return solution


def _check_weights(weights: Path, instances: Sequence[Instance]) -> None:
    """A wrong file is found now, not when the first instance of the other problem comes."""
    if not weights.is_file():
        raise ValueError(f"{weights}: --weights names no file")
    from elgo.model.checkpoint import load_policy

    for problem in {instance.problem for instance in instances}:
        load_policy(weights, problem)


def _solve_all(
    files: Sequence[Path], jobs: Sequence[Job], at_once: int, outputs: Outputs, quiet: bool, done: list[Done]
) -> bool:
    """Solve the files; `done` grows, and so is there for the caller whatever happens. True if stopped by Ctrl-C."""
    from elgo.cli.progress import Live
    from elgo.solve.batch import Stop, solve_all

    stop = Stop()
    with Live(jobs, quiet) as live, stop.on(signal.SIGINT):
        for number, result in solve_all(jobs, at_once, stop, live):
            done.append((files[number], result))
            live.finished(number, result)
            outputs.write(done)
    return stop.wished


def _record(file: Path, result: Result) -> dict[str, Any]:
    """The JSON object of one result."""
    instance = result.instance
    return {
        "name": instance.name,
        "file": str(file),
        "problem": instance.problem,
        "nodes": instance.size,
        "cost": _number(result.cost),
        "best_known": _number(instance.best_known),
        "gap": result.gap,
        "feasible": result.solution.feasible,
        "routes": [[int(node) for node in route] for route in result.solution.routes],
        "seconds": result.seconds.total,
        "history": [[found.seconds, _number(found.cost), found.source] for found in result.history],
        "interrupted": result.interrupted,
        "seed": result.seed,
        "starts": result.starts,
        "symmetries": result.symmetries,
    }


def _header(file: Path) -> dict[str, str]:
    """What a weights file says about itself, read without loading the weights."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as tensors:
            return tensors.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file}: not a safetensors file ({error})") from error


def _number(value: float | None) -> float | int | None:
    """An integral cost as an int, so that it is written without a decimal point."""
    return int(value) if value is not None and float(value).is_integer() else value


def _print_table(results: Sequence[Result]) -> None:
    """The table of results on stdout, never cut off when it goes into a file or a pipe."""
    if not results:
        return
    from rich.console import Console

    from elgo.cli.tables import results_table

    Console(width=None if sys.stdout.isatty() else 160).print(results_table(results))


def _report_infeasible(results: Sequence[Result]) -> None:
    """Exit with code 1 when a solution breaks a constraint; the first violation of each is named."""
    broken = [result for result in results if not result.solution.feasible]
    for result in broken:
        print(f"elgo: {result.instance.name}: infeasible: {result.solution.violations[0]}", file=sys.stderr)
    if broken:
        raise typer.Exit(1)


def _check_names(files: Sequence[Path]) -> None:
    """Raise ValueError if two files would have outputs of the same name."""
    stems: dict[str, Path] = {}
    for file in files:
        other = stems.setdefault(file.stem, file)
        if other != file:
            raise ValueError(f"{file}: output name {file.stem!r} is that of {other} too")


def _check_file(option: str, file: Path) -> None:
    """Raise ValueError if file could not be written; its folder is created."""
    if file.exists() and not file.is_file():  # a folder, or a device that an atomic write would replace
        raise ValueError(f"{file}: {option} is not a regular file")
    _make_folder(option, file.parent)


def _make_folder(option: str, folder: Path) -> None:
    """Create the folder, or raise ValueError if that is impossible or it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder}: {option} folder cannot be created: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder}: {option} folder is not writable")
