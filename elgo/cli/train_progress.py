"""Progress of `elgo train` on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from elgo.train.config import Config
from elgo.train.loop import train
from elgo.train.run import validation_gaps

SMOOTHING = 0.98  # of the loss and the speed


def train_with_progress(config: Config, folder: Path, data: Path, quiet: bool) -> Path:
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
