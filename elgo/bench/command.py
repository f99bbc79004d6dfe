"""Run a benchmark in its folder and write its report, with a forecast of the remaining time.

A run that was killed continues with what is missing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from elgo.bench.methods import Answer, Method, Options, check, run_method, warm_up_methods
from elgo.bench.report import write_report
from elgo.bench.run import BenchFolder, Key, Record, describe
from elgo.bench.sets import BenchSet, Entry
from elgo.bench.tables import Table
from elgo.bulk.engine import Engine, run
from elgo.problem.solution import gap
from elgo.solve.result import format_seconds
from elgo.solve.worker import WorkerError

OnProgress = Callable[["Forecast", Record | None], None]


def bench(
    bench_set: BenchSet,
    methods: Sequence[Method],
    options: Options,
    path: Path,
    on_progress: OnProgress | None = None,
    with_published: bool = True,
    engine: Engine | None = None,
) -> Table:
    """Run a benchmark in a folder, or continue it, write its report and return the main table.

    With an engine its workers run several batches at once, and seconds are those of busy cores.
    on_progress is called at the beginning (with None for the record) and with the last record of each batch.
    """
    check(methods, bench_set.problems, options.device)
    batches = make_batches(bench_set, methods)
    with closing(BenchFolder(path, describe(bench_set, methods, options))) as folder:
        folder.update_references({entry.instance.name: entry.instance.best_known for entry in bench_set.entries})
        forecast = Forecast(batches, folder.records.values())
        left = [batch for batch in batches if any(key not in folder.records for key in batch.keys)]
        if left:
            warm_up_methods(methods, bench_set.problems, options)
        if on_progress is not None:
            on_progress(forecast, None)
        try:
            for batch, answers in _answers(left, options, engine, folder):
                pairs = zip(batch.entries, answers, strict=True)
                records = folder.add([_record(batch.method, entry, answer, options) for entry, answer in pairs])
                forecast.add(records)
                if on_progress is not None:
                    on_progress(forecast, records[-1])
        except BaseException:  # an interrupted benchmark has a report too
            if folder.records:
                write_report(path, with_published)
            raise
    return write_report(path, with_published)


def _answers(
    batches: Sequence["Batch"], options: Options, engine: Engine | None, folder: BenchFolder
) -> Iterator[tuple["Batch", Sequence[Answer]]]:
    """Yield batches with their answers: one after the other, or as the workers of an engine end them."""
    function = partial(_run_batches, options)
    if engine is None:
        yield from ((batch, function([_with_limit(batch, folder)])[0]) for batch in batches)
        return
    for later in (False, True):  # those that have the time of another method come after all others
        chosen = [batch for batch in batches if (batch.method.seconds_of is not None) == later]
        for (batch,), found in run(engine, function, ([_with_limit(batch, folder)] for batch in chosen)):
            if isinstance(found, WorkerError):  # of this batch; errors of baselines are answers
                yield batch, [Answer(None, str(found), 0.0, 0.0)] * len(batch.entries)
            elif isinstance(found, Exception):
                raise found
            else:
                yield batch, found[0]


def _run_batches(options: Options, batches: Sequence["Batch"]) -> list[list[Answer]]:
    return [run_method(batch.method, [entry.instance for entry in batch.entries], options) for batch in batches]


class Batch(NamedTuple):
    """Instances that a method solves in one call."""

    method: Method
    entries: Sequence[Entry]

    @property
    def keys(self) -> list[Key]:
        """The keys of the records that the batch makes."""
        return [(self.method.name, entry.instance.name) for entry in self.entries]


def make_batches(bench_set: BenchSet, methods: Sequence[Method]) -> list[Batch]:
    """Return everything to run: all methods on an instance before the next one, under the same load of the machine.

    Batches do not depend on what is already done, so that a model decodes the same ones in a continued run.
    """
    batches = []
    for _, same in groupby(bench_set.entries, key=lambda entry: (entry.group, entry.instance.size)):
        members = list(same)
        for begin in range(0, len(members), bench_set.batch_size):
            entries = members[begin : begin + bench_set.batch_size]
            for method in methods:
                if method.supports(entries[0].instance.problem):
                    parts = [entries] if method.decodes else [[entry] for entry in entries]
                    batches += [Batch(method, part) for part in parts]
    return batches


def _with_limit(batch: Batch, folder: BenchFolder) -> Batch:
    """Return the batch with its time limit, which may be the time that another method took on the instance."""
    method = batch.method
    if method.seconds_of is None:
        return batch
    seconds = folder.records[method.seconds_of, batch.entries[0].instance.name].seconds
    return batch._replace(method=replace(method, seconds=seconds))


def _record(method: Method, entry: Entry, answer: Answer, options: Options) -> Record:
    it, solution = entry.instance, answer.solution
    cost = None if solution is None else solution.cost
    costs = (cost, it.best_known, None if cost is None else gap(cost, it.best_known))
    routes = [] if solution is None else [list(route) for route in solution.routes]
    named = (method.name, it.name, entry.group, it.problem, it.customers)
    seconds, latency = round(answer.seconds, 6), round(answer.latency, 6)
    throughput = round(1 / answer.seconds, 3) if answer.seconds else 0.0
    return Record(
        *named,
        *costs,
        routes=len(routes),
        seconds=seconds,
        error=answer.error,
        solution=routes,
        metric=it.metric.value,
        starts=answer.starts,
        symmetries=answer.symmetries,
        threads=options.threads,
        latency=latency,
        throughput=throughput,
    )


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
