"""`elgo train` and `elgo plot-training`, with progress on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from elgo.problem.files import atomic_write
from elgo.train.config import Config
from elgo.train.loop import train
from elgo.train.run import read_log

SMOOTHING = 0.98  # of the loss that is shown


def run(config: Config, folder: Path, data: Path, quiet: bool) -> Path:
    """Train in a folder and return the weights file; show a bar on a terminal, elsewhere a line now and then."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    first = int(os.environ.get("RANK", "0")) == 0
    on_terminal = sys.stderr.isatty() and first and not quiet
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not on_terminal) as bar:
        task = bar.add_task("preparing", total=1.0)
        status = StatusLine()

        def report(row: dict[str, Any]) -> None:
            status.add(row)
            bar.update(task, completed=row["done"], description=status.line())
            due = status.validated or row["step"] % 100 == 0 or row["done"] == 1
            if due and first and not quiet and not on_terminal:
                print(f"{100 * row['done']:5.1f} %  {status.line()}", file=sys.stderr, flush=True)

        def message(line: str) -> None:
            if first and not quiet:
                print(line, file=sys.stderr, flush=True)

        try:
            return train(config, folder, data, report, message)
        except ImportError as error:  # of a solver that makes labels
            raise ValueError(str(error)) from error


class StatusLine:
    """Figures of a run in one line: step, smoothed loss, speed, last validation gaps."""

    def __init__(self) -> None:
        self.loss: float | None = None
        self.seconds = self.instances = 0.0
        self.gaps = ""
        self.validated = False
        self.last: dict[str, Any] = {}

    def add(self, row: dict[str, Any]) -> None:
        self.loss = row["loss"] if self.loss is None else SMOOTHING * self.loss + (1 - SMOOTHING) * row["loss"]
        if self.last:
            self.seconds = SMOOTHING * self.seconds + row["seconds"] - self.last["seconds"]
            self.instances = SMOOTHING * self.instances + row["instances"]
        gaps = validation_gaps(row)
        self.validated = bool(gaps)
        if gaps:
            self.gaps = "  gap " + ", ".join(f"{name} {gap:.2f} %" for name, gap in gaps.items())
        self.last = row

    def line(self) -> str:
        pace = f"  {self.instances / self.seconds:.1f} instances/s" if self.seconds else ""
        return f"step {self.last['step']}  loss {self.loss:.3f}{pace}{self.gaps}"


def validation_gaps(row: dict[str, Any]) -> dict[str, float]:
    """Return the best-of-starts gaps in a row of the log."""
    known = {"step", "seconds", "loss", "instances", "lr", "done"}
    return {name: value for name, value in row.items() if name not in known and not name.endswith("/single")}


def plot_training(runs: Sequence[Path], target: Path) -> None:
    """Draw loss and validation gaps of runs against hours, as a picture (png or svg)."""
    import io

    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    loss, gaps = figure.subplots(1, 2)
    for number, run_folder in enumerate(runs):
        rows = list(read_log(run_folder))
        if not rows:
            raise ValueError(f"{run_folder}: log.jsonl has no rows; is this the folder of a run?")
        colour = f"C{number}"
        hours = [row["seconds"] / 3600 for row in rows]
        loss.plot(hours, smoothed([row["loss"] for row in rows]), color=colour, label=run_folder.name)
        checked = [row for row in rows if validation_gaps(row)]
        names = validation_gaps(checked[0]) if checked else ()
        for style, name in zip(cycle(("-", "--", ":", "-.")), names, strict=False):
            series = [(row["seconds"] / 3600, row[name]) for row in checked]
            gaps.plot(*zip(*series, strict=True), style, color=colour, marker=".", label=f"{run_folder.name}: {name}")
    loss.set(xlabel="hours of training", ylabel="loss (smoothed)", title="Loss")
    gaps.set(xlabel="hours of training", ylabel="gap %", title="Validation, best of the starts")
    if all(min(line.get_ydata()) > 0 for line in gaps.lines):
        gaps.set_yscale("log")
        gaps.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        gaps.yaxis.set_major_formatter("{x:g}")
        gaps.yaxis.set_minor_formatter(NullFormatter())
    for axes, place in (
        (loss, {}),
        (gaps, {"loc": "upper left", "bbox_to_anchor": (1, 1)}),
    ):  # outside, because of many lines
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, **place)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=target.suffix.lstrip(".") or "png", dpi=150)
    atomic_write(target, buffer.getvalue())


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the exponential moving average."""
    out: list[float] = []
    for value in values:
        out.append(value if not out else SMOOTHING * out[-1] + (1 - SMOOTHING) * value)
    return out
