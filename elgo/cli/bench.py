"""`elgo bench`: measure methods on benchmark sets, and compare the results."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from elgo.cli.bulk import AddressOption, EngineChoice, EngineOption, workers_or_none
from elgo.cli.data import DataOption
from elgo.cli.inputs import DeviceOption
from elgo.cli.train import SetOption, train_with_progress

if TYPE_CHECKING:
    from elgo.bench.command import Forecast, OnProgress
    from elgo.bench.run import Record

ThreadsOption = Annotated[int, typer.Option(min=1, help="CPU threads of every method that can use them.")]
MemoryOption = Annotated[float, typer.Option(min=0.1, metavar="GB", help="Memory of a model while decoding.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of every method.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only tables and errors.")]
InstancesOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Only these: names, prefixes or patterns, separated by commas; ten: ten of Set-X."
    ),
]
LimitOption = Annotated[
    int | None, typer.Option(min=1, help="Only the first instances of each group, at most this many.")
]


@contextmanager
def bench_progress(quiet: bool, name: str = "") -> Iterator[OnProgress]:
    """Yield the function that shows the progress of a benchmark: a bar, or else a plain line every few seconds."""
    from elgo.cli.progress import LINE_SECONDS, cost_facts, progress_bar

    last_line = 0.0
    with progress_bar(quiet) as show_bar:

        def show(forecast: Forecast, record: Record | None) -> None:
            nonlocal last_line
            line = ""
            if record and time.monotonic() - last_line > LINE_SECONDS:
                last_line = time.monotonic()
                facts = [record.error] if record.cost is None else cost_facts(record.cost, record.best_known)
                facts.append(f"{record.seconds:.2f} s")
                line = f"{name}{forecast.line()}  {record.method} {record.instance}: {', '.join(facts)}"
            show_bar(forecast.fraction(), f"{name}{forecast.line()}", line)

        yield show


class SetFirst(TyperGroup):
    """The commands of `elgo bench`; `elgo bench SET` stands for `elgo bench run SET`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SET",
            help="tsplib, cvrplib-x, cvrplib-xxl, uniform, synthetic, scaling; or a folder, FILE.npz or FILE.pkl.",
        ),
    ],
    data: DataOption = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="METHODS",
            help="Separated by commas: a model (elg, FILE.safetensors or NAME=FILE.safetensors), perhaps with :single, "
            ":starts or :16x2 (starts x symmetries); elgo@5 (seconds), or elg+search@5 from a model's solution; "
            "baselines such as pyvrp@5 or savings.",
        ),
    ] = "elg:single,elg:starts,elg",
    baselines: Annotated[
        str, typer.Option(metavar="NAMES", help="Baselines to add at each time limit: all, installed, or names.")
    ] = "",
    time_limits: Annotated[
        str, typer.Option(metavar="SECONDS", help="Time limits of --baselines, separated by commas.")
    ] = "",
    problem: Annotated[str | None, typer.Option(metavar="tsp|cvrp", help="Only one problem of the set.")] = None,
    instances: InstancesOption = None,
    limit: LimitOption = None,
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
    memory: MemoryOption = 4.0,
    device: DeviceOption = "auto",
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where results go; continued if it holds this run.", show_default="bench/SET"
        ),
    ] = None,
    published: Annotated[bool, typer.Option(help="Show published figures beside the measured ones.")] = True,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Workers; seconds of several are those of busy cores.", show_default="1"),
    ] = None,
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
    quiet: QuietOption = False,
) -> None:
    """Measure methods on a set (`elgo bench SET` for short); print the table, write CSV, pictures and a report."""
    from elgo.bench.command import bench
    from elgo.bench.methods import Options, parse_limits, parse_methods
    from elgo.bench.sets import Selection, load_set

    limits = parse_limits(time_limits)
    bench_set = load_set(name, data, Selection(problem, instances, limit))
    chosen = parse_methods(methods, baselines, limits, bench_set.problems)
    target = folder or Path("bench") / bench_set.name
    with workers_or_none(engine, jobs, address) as workers, bench_progress(quiet) as show:
        table = bench(bench_set, chosen, Options(seed, threads, memory, device), target, show, published, workers)
    print(f"{table.text()}\n\nwrote {target / 'report.html'}")


def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a benchmark, finished or not.")],
    published: Annotated[bool, typer.Option(help="Show published figures beside the measured ones.")] = True,
) -> None:
    """Write tables, pictures and the report of a benchmark again."""
    from elgo.bench.report import write_report

    print(f"{write_report(folder, published).text()}\n\nwrote {folder / 'report.html'}")


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The folder of a benchmark, or FOLDER:METHOD.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The one to compare with it.")],
) -> None:
    """Compare two benchmarks, instance by instance; exit code 1 if B is worse."""
    from elgo.bench.compare import compare as compare_results

    table = compare_results(a, b)
    print(table.text())
    if any(row[-1].startswith("WORSE") for row in table.rows):
        raise typer.Exit(1)


def paper(
    table: Annotated[str, typer.Option(metavar="NUMBERS", help="Numbers as in the paper: 2, 1,3 or 7-9.")] = "all",
    data: DataOption = None,
    limit: LimitOption = None,
    ablations: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Weights of ablations: runs, or NAME.safetensors.")
    ] = Path("bench/ablations/training"),
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
    memory: MemoryOption = 4.0,
    device: DeviceOption = "auto",
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where results and tables go; continued if it holds some.")
    ] = Path("bench/paper"),
    quiet: QuietOption = False,
) -> None:
    """Make the paper's tables: the models of the package measured, published rows beside them.

    Measured with every start up to 1,000 (XXL: 100) and 8 symmetries: hours, if all are asked for. What was interrupted
    goes on, and tables share what is measured.
    """
    from elgo.bench.methods import Options
    from elgo.bench.paper import Study
    from elgo.bench.paper_tables import paper_table, parse_tables

    numbers = parse_tables(table)
    options = Options(seed, threads, memory, device)
    study = Study(folder, data, options, limit, ablations, lambda name: bench_progress(quiet, f"{name}: "))
    folder.mkdir(parents=True, exist_ok=True)
    left_out = False
    for number in numbers:
        try:
            print(f"{paper_table(number, study).text()}\n", flush=True)
        except ValueError as error:  # such as files that are missing: the other tables do without
            print(f"elgo: table {number}: {error}", file=sys.stderr)
            left_out = True
    print(f"wrote {folder}/table-*.md")
    if left_out:
        raise typer.Exit(2)


def ablations(
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each variant.")] = 1000,
    sets: SetOption = None,
    variants: Annotated[
        str | None, typer.Option(metavar="CONFIGS", help="Which variants, separated by commas.", show_default="all")
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
    from elgo.bench.ablations import VARIANTS, make_variants, measure_variants
    from elgo.bench.methods import Options
    from elgo.bench.sets import Selection, load_set
    from elgo.model.rollout import torch_threads

    names = [name.strip() for name in variants.split(",")] if variants else list(VARIANTS)
    bench_set = load_set("tsplib", data, Selection(None, instances, limit))
    configs, runs = make_variants(names, steps, sets or []), folder / "training"
    with torch_threads(threads):
        weights = {x: train_with_progress(configs[x], runs / x, folder / "data", quiet) for x in configs}
    with bench_progress(quiet) as show:
        table = measure_variants(configs, weights, protocol, bench_set, Options(seed, threads), folder, show)
    print(f"{table.text()}\n\nwrote {folder / 'ablations.md'}")
