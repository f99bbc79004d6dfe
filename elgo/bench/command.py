"""What `elgo bench` does, with progress and the time that is left shown as it goes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from elgo.bench.methods import Options, Row, check, effort, warm_up
from elgo.bench.report import write_report
from elgo.bench.run import BenchFolder, Job, Record, describe, jobs, run
from elgo.bench.sets import BenchSet
from elgo.bench.tables import Table
from elgo.problem.solution import format_cost

SAY_SECONDS = 5.0  # between lines of progress where there is no terminal for a bar


def bench(
    bench_set: BenchSet,
    rows: Sequence[Row],
    options: Options,
    path: Path,
    quiet: bool = False,
    with_published: bool = True,
) -> Table:
    """Run a benchmark in a folder, or go on with it, and write its report; the main table."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    problems = {entry.instance.problem for entry in bench_set.entries}
    check(rows, problems)
    folder = BenchFolder(path, describe(bench_set, rows, options))
    todo = jobs(bench_set, rows)
    if any(key not in folder.records for job in todo for key in job.keys):
        warm_up(rows, problems, options)
    forecast = Forecast(todo, folder.records.values())
    on_terminal = sys.stderr.isatty() and not quiet
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    said = 0.0
    try:
        with Progress(*columns, console=Console(stderr=True), disable=not on_terminal, transient=True) as progress:
            bar = progress.add_task(forecast.line(), total=1.0)
            progress.update(bar, completed=forecast.share())

            def report(records: list[Record]) -> None:
                nonlocal said
                forecast.add(records)
                progress.update(bar, completed=forecast.share(), description=forecast.line())
                if not on_terminal and not quiet and time.monotonic() - said > SAY_SECONDS:
                    print(f"{forecast.line()}  {_shown(records[-1])}", file=sys.stderr, flush=True)
                    said = time.monotonic()

            run(folder, todo, options, report)
    except BaseException:  # whatever stopped it, what is there can be looked at
        if folder.records:
            write_report(path, with_published)
        raise
    finally:
        folder.close()
    return write_report(path, with_published)


class Forecast:
    """How long the rest will take: limits are known; other rows go on as before, by their effort."""

    def __init__(self, todo: Sequence[Job], records: Iterable[Record]) -> None:
        self.limit = {job.row.name: job.row.seconds for job in todo}
        self.left = dict.fromkeys(self.limit, 0.0)  # effort
        self.spent = dict.fromkeys(self.limit, 0.0)  # seconds
        self.done = dict.fromkeys(self.limit, 0.0)  # effort
        self.finished = 0
        self.total = sum(len(job.entries) for job in todo)
        self.effort: dict[tuple[str, str], float] = {}
        for job in todo:
            for key, entry in zip(job.keys, job.entries, strict=True):
                self.effort[key] = effort(job.row, entry.instance)
                self.left[job.row.name] += self.effort[key]
        for record in records:
            self._count(record)

    def _count(self, record: Record) -> None:
        self.left[record.row] -= self.effort[record.key]
        self.done[record.row] += self.effort[record.key]
        self.spent[record.row] += record.seconds
        self.finished += 1

    def add(self, records: Sequence[Record]) -> None:
        """Count new records."""
        for record in records:
            self._count(record)

    def remaining(self) -> float | None:
        """Seconds; None while a row has not been seen yet."""
        seconds = 0.0
        for row, left in self.left.items():
            if left <= 0:
                continue
            if self.done[row]:
                seconds += left * self.spent[row] / self.done[row]
            elif self.limit[row] is not None:
                seconds += left * (self.limit[row] or 0.0)
            else:
                return None
        return seconds

    def share(self) -> float:
        """The part of the work that is done, from 0 to 1."""
        remaining, spent = self.remaining(), sum(self.spent.values())
        if remaining is None:
            return 0.0
        return spent / (spent + remaining) if remaining else 1.0

    def line(self) -> str:
        remaining = self.remaining()
        left = "" if remaining is None else f", about {duration(remaining)} left"
        return f"{self.finished}/{self.total}{left}"


def duration(seconds: float) -> str:
    """ "45 s", "12 min", "3.4 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _shown(record: Record) -> str:
    if record.cost is None:
        return f"{record.row} {record.instance}: {record.fault}"
    gap = "" if record.gap is None else f", gap {record.gap:.2f} %"
    return f"{record.row} {record.instance}: cost {format_cost(record.cost)}{gap}, {record.seconds:.2f} s"
