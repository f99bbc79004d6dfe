"""Progress of `elgo bench` on stderr: a bar on a terminal, or else a plain line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elgo.problem.solution import format_cost

if TYPE_CHECKING:
    from elgo.bench.command import Forecast, OnProgress
    from elgo.bench.run import Record

LINE_SECONDS = 5.0  # between plain lines


@contextmanager
def bench_progress(quiet: bool) -> Iterator[OnProgress]:
    """Yield the function that shows the progress of a benchmark."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    on_terminal = sys.stderr.isatty()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    last_line = 0.0
    show_bar = on_terminal and not quiet
    with Progress(*columns, console=Console(stderr=True), disable=not show_bar, transient=True) as progress:
        bar = progress.add_task("preparing", total=1.0)

        def show(forecast: Forecast, record: Record | None) -> None:
            nonlocal last_line
            progress.update(bar, completed=forecast.fraction(), description=forecast.line())
            if record and not on_terminal and not quiet and time.monotonic() - last_line > LINE_SECONDS:
                print(f"{forecast.line()}  {_describe(record)}", file=sys.stderr, flush=True)
                last_line = time.monotonic()

        yield show


def _describe(record: Record) -> str:
    if record.cost is None:
        return f"{record.method} {record.instance}: {record.error}"
    gap = "" if record.gap is None else f", gap {record.gap:.2f} %"
    return f"{record.method} {record.instance}: cost {format_cost(record.cost)}{gap}, {record.seconds:.2f} s"
