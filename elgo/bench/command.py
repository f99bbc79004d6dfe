"""Run a benchmark in its folder and write its report, with a forecast of the remaining time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from elgo.bench.methods import Method, Options, check, warm_up_methods
from elgo.bench.report import write_report
from elgo.bench.run import Batch, BenchFolder, Key, Record, describe, make_batches, run
from elgo.bench.sets import BenchSet
from elgo.bench.tables import Table
from elgo.solve.result import format_seconds

OnProgress = Callable[["Forecast", Record | None], None]


def bench(
    bench_set: BenchSet,
    methods: Sequence[Method],
    options: Options,
    path: Path,
    on_progress: OnProgress | None = None,
    with_published: bool = True,
) -> Table:
    """Run a benchmark in a folder, or continue it, write its report and return the main table.

    on_progress is called at the beginning (with None for the record) and with the last record of each batch.
    """
    check(methods, bench_set.problems)
    folder = BenchFolder(path, describe(bench_set, methods, options))
    batches = make_batches(bench_set, methods)
    if any(key not in folder.records for batch in batches for key in batch.keys):
        warm_up_methods(methods, bench_set.problems, options)
    forecast = Forecast(batches, folder.records.values())

    def report(records: list[Record]) -> None:
        forecast.add(records)
        if on_progress is not None:
            on_progress(forecast, records[-1] if records else None)

    try:
        report([])
        run(folder, batches, options, report)
    except BaseException:  # an interrupted benchmark has a report too
        if folder.records:
            write_report(path, with_published)
        raise
    finally:
        folder.close()
    return write_report(path, with_published)


class Forecast:
    """Estimates the remaining time: time limits as they are, other methods by their times so far, growing as N^2."""

    def __init__(self, batches: Sequence[Batch], records: Iterable[Record]) -> None:
        self.limits = {batch.method.name: batch.method.seconds for batch in batches}
        self.effort: dict[Key, float] = {}
        for batch in batches:
            for key, entry in zip(batch.keys, batch.entries, strict=True):
                self.effort[key] = entry.instance.customers**2 if batch.method.seconds is None else 1.0
        self.left = dict.fromkeys(self.limits, 0.0)  # effort
        self.done, self.spent = self.left.copy(), self.left.copy()  # effort, seconds
        for (method, _), effort in self.effort.items():
            self.left[method] += effort
        self.finished = 0
        self.add(records)

    def add(self, records: Iterable[Record]) -> None:
        """Count new records."""
        for record in records:
            self.left[record.method] -= self.effort[record.key]
            self.done[record.method] += self.effort[record.key]
            self.spent[record.method] += record.seconds
            self.finished += 1

    def remaining(self) -> float | None:
        """Return the estimated seconds; None while a method without a time limit has solved nothing yet."""
        total = 0.0
        for method, limit in self.limits.items():
            pace = self.spent[method] / self.done[method] if self.done[method] else limit
            if pace is None:
                return None
            total += self.left[method] * pace
        return total

    def fraction(self) -> float:
        """Return the fraction of the time that is done, from 0 to 1."""
        remaining, spent = self.remaining(), sum(self.spent.values())
        if remaining is None:
            return 0.0
        return spent / (spent + remaining) if remaining else 1.0

    def line(self) -> str:
        """Return the progress in words, such as "12/98, about 5 min left"."""
        remaining = self.remaining()
        left = "" if remaining is None else f", about {format_seconds(remaining)} left"
        return f"{self.finished}/{len(self.effort)}{left}"
