"""The `elgo` command, assembled from one module per command. Heavy imports are inside the commands: --help is fast."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from elgo import __version__
from elgo.cli import bench, data, labels
from elgo.cli.bulk import bulk
from elgo.cli.convert_weights import export_weights, import_weights
from elgo.cli.cool import cool
from elgo.cli.examples import epilog
from elgo.cli.info import info
from elgo.cli.models import models
from elgo.cli.plot_training import plot_training
from elgo.cli.serve import serve
from elgo.cli.solve import solve
from elgo.cli.streams import flush_streams, prepare_streams
from elgo.cli.train import train
from elgo.cli.warm_up import warm_up
from elgo.problem.files import printable
from elgo.startup import INTERRUPTED, end_loading

TERMINATED = 143  # exit code

app = typer.Typer(
    help="Plan routes: solve travelling salesman problems (TSP) and vehicle routing problems (CVRP), by classical "
    "search or by a neural network. Begin with: elgo solve FILE",
    rich_markup_mode=None,  # plain help: importing rich would double its time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # of all commands
)
bench_app = typer.Typer(
    cls=bench.SetFirst,
    help="Measure and compare solvers. On a benchmark set: elgo bench SET [OPTIONS], see elgo bench run --help.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
labels_app = typer.Typer(
    help="Near-optimal solutions to imitate, kept in stores on disk.", rich_markup_mode=None, no_args_is_help=True
)
data_app = typer.Typer(
    help="Benchmark sets: list them, download files, make reference costs.", rich_markup_mode=None, no_args_is_help=True
)


class _OnStderr(logging.Handler):
    """Prints what the package logs, each line once: several processes may log the same."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if line not in self._said:
            self._said.add(line)
            print(f"elgo: {printable(line)}", file=sys.stderr, flush=True)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated


def _code_of(error: KeyboardInterrupt) -> int:
    return TERMINATED if isinstance(error, _Terminated) else INTERRUPTED


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn wrong input (ValueError, OSError) into one line and exit code 2, Ctrl-C into 130, SIGTERM into 143."""
    code = 2
    try:
        yield
        return
    except KeyboardInterrupt as error:
        message, code = "interrupted", _code_of(error)
    except EOFError as error:  # a bug, which typer would take for Ctrl-D at a prompt
        raise RuntimeError("unexpected end of a file") from error
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    except ValueError as error:
        message = str(error)
    except MemoryError as error:
        message = f"not enough memory ({error})" if str(error) else "not enough memory"
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        message = str(error) if "pip install" in str(error) else "this needs torch: pip install 'elgo[train]'"
    print(f"elgo: {printable(message)}", file=sys.stderr)
    raise typer.Exit(code)


def _add(group: typer.Typer, *functions: Callable[..., None]) -> None:
    """Add functions as commands, under their names, that report wrong input in one line."""
    for function in functions:
        name = function.__name__.removesuffix("_sets").replace("_", "-")  # list is Python's own
        group.command(name, epilog=epilog(name))(_one_line_errors()(function))


_add(app, solve, bulk, serve, warm_up, models, info, import_weights, export_weights, train, cool, plot_training)
_add(bench_app, bench.run, bench.report, bench.compare, bench.paper, bench.ablations)
_add(data_app, data.fetch, data.list_sets, data.reference)
_add(labels_app, labels.make)
labels_app.callback()(lambda: None)  # a group, although it has only one command
app.add_typer(bench_app, name="bench")
app.add_typer(labels_app, name="labels")
app.add_typer(data_app, name="data")


@app.callback(invoke_without_command=True)
def _version_or_help(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"elgo {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the command, which leaves no traceback unless it has a bug (exit code 1)."""
    prepare_streams()
    log = logging.getLogger("elgo")
    log.setLevel(logging.INFO)
    log.handlers = [_OnStderr()]
    try:
        signal.signal(signal.SIGTERM, _terminate)
        end_loading()
        code = _run()
    except KeyboardInterrupt as error:  # outside of a command's function
        print("elgo: interrupted", file=sys.stderr)
        code = _code_of(error)
    if (fault := flush_streams()) and code != 2:
        print(f"elgo: standard output: {fault}", file=sys.stderr)
        code = 2
    # Threads still at work would abort the process while Python shuts down: those of work that was not ready in
    # time, and gloo's under torchrun (https://github.com/pytorch/pytorch/pull/179291). And Python itself turns 130
    # into a death by SIGINT if Ctrl-C came inside of exec("..."), as in imports of torch, although it was caught.
    if code >= INTERRUPTED or threading.active_count() > 1 or "TORCHELASTIC_RUN_ID" in os.environ:
        flush_streams()
        os._exit(code)
    sys.exit(code)


def _run() -> int:
    """Return the exit code of the command; a wrong option is reported in one line, too."""
    # UsageError: click's, or in later versions typer's own.
    usage_error: type[typer.BadParameter] = typer.BadParameter.__bases__[0]
    try:
        return app(prog_name="elgo", standalone_mode=False) or 0
    except typer.Abort:
        print("elgo: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:  # of the standard output
        print(f"elgo: {error.strerror}", file=sys.stderr)
        return 2
    except usage_error as error:
        print(f"elgo: {printable(error.format_message())}", file=sys.stderr)
        return 2
