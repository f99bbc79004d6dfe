"""The `elgo` command. Heavy modules are imported inside the commands, so that `elgo --help` is instant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from elgo import __version__
from elgo.cli.errors import one_line_errors as _one_line_errors
from elgo.cli.info import info
from elgo.cli.outputs import check_file as _check_file
from elgo.cli.solve import solve

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


app.command("solve")(_one_line_errors()(solve))
app.command("info")(_one_line_errors()(info))


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
            "or :16x2 (starts x symmetries); search@5 (seconds) or elg+search@5; baselines such as pyvrp@5 or savings.",
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
