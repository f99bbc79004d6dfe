"""`elgo train`: train a policy."""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elgo.cli.inputs import DeviceOption
from elgo.problem.errors import ElgoError
from elgo.solve.result import format_seconds

if TYPE_CHECKING:
    from elgo.train.config import Config

SMOOTHING = 0.98  # of the loss and the speed

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Override a field of the config; repeatable."),
]

DataOption = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Folder of the validation sets; missing ones are made.")
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default="all cores")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def train(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG", help="Name of a config, such as elg-tsp, elg-cvrp or paper-tsp, or FILE.toml."
        ),
    ],
    folder: Annotated[  # not --run: torchrun takes that for an abbreviation of its own options
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the run; a run in it is continued.", show_default="runs/CONFIG"),
    ] = None,
    sets: SetOption = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Minutes to train, instead of the config's steps or minutes.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to train, instead of the config's steps or minutes.")
    ] = None,
    data: DataOption = Path("data"),
    threads: ThreadsOption = None,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
) -> None:
    """Train a neural network.

    A run that was stopped is continued. Ctrl-C saves the run and stops it; without an end in its config it goes on
    till then.
    """
    if minutes and steps:
        raise ElgoError("--minutes and --steps are both given; a run ends by one of them")
    overrides = list(sets or [])
    if minutes or steps:
        overrides += [f"train.minutes={float(minutes or 0)}", f"train.steps={steps or 0}"]

    from elgo.train.config import load_config

    chosen = load_config(config, overrides)

    from elgo.model.rollout import torch_threads

    with torch_threads(threads) if threads else nullcontext():
        weights = train_with_progress(chosen, folder or Path("runs") / Path(config).stem, data, quiet, device)
    print(f"wrote {weights}")


def train_with_progress(config: Config, folder: Path, data: Path, quiet: bool, device: str = "auto") -> Path:
    """Train in a folder and return the weights file; show a bar on a terminal, elsewhere a line now and then."""
    from elgo.cli.progress import progress_bar
    from elgo.train.loop import train

    status = StatusLine()
    quiet = quiet or int(os.environ.get("RANK", "0")) > 0
    with progress_bar(quiet, keep=True) as show:

        def report(row: dict[str, Any]) -> None:
            status.add(row)
            due = status.rows <= 2 or status.validated or row["step"] % 100 == 0 or row["done"] == 1
            percent = f"{100 * row['done']:5.1f} %  " if config.train.steps or config.train.minutes else ""
            show(row["done"], status.line(), percent + status.line() + status.left() if due else "")

        def message(line: str) -> None:
            if not quiet:
                print(line, file=sys.stderr, flush=True)

        try:
            return train(config, folder, data, report, message, device=device)
        except ImportError as error:  # of a solver that makes labels
            raise ElgoError(str(error)) from error


class StatusLine:
    """Figures of a run in one line: step, smoothed loss, speed, last validation gaps."""

    def __init__(self) -> None:
        self.loss: float | None = None
        self.seconds = self.instances = 0.0
        self.gaps = ""
        self.validated = False
        self.rows = 0
        self.last: dict[str, Any] = {}
        self.begin = self.begin_done = 0.0  # after the first step, which may have compiled kernels

    def add(self, row: dict[str, Any]) -> None:
        """Take in the figures of a step."""
        from elgo.train.run import validation_gaps

        self.loss = row["loss"] if self.loss is None else SMOOTHING * self.loss + (1 - SMOOTHING) * row["loss"]
        self.rows += 1
        if self.rows == 1:
            self.begin, self.begin_done = time.monotonic(), row["done"]
        else:
            self.seconds = SMOOTHING * self.seconds + row["seconds"] - self.last["seconds"]
            self.instances = SMOOTHING * self.instances + row["instances"]
        gaps = validation_gaps(row)
        self.validated = bool(gaps)
        if gaps:
            self.gaps = "  gap " + ", ".join(f"{name} {gap:.2f} %" for name, gap in gaps.items())
        self.last = row

    def line(self) -> str:
        """Return the figures as text."""
        pace = f"  {self.instances / self.seconds:.1f} instances/s" if self.seconds else ""
        return f"step {self.last['step']}  loss {self.loss:.3f}{pace}{self.gaps}"

    def left(self) -> str:
        """Return an estimate of the time until the end of the run as text; nothing if it has no end or is over."""
        done = self.last["done"]
        if not self.begin_done < done < 1:
            return ""
        seconds = (time.monotonic() - self.begin) * (1 - done) / (done - self.begin_done)
        return f"  about {format_seconds(seconds)} left"
