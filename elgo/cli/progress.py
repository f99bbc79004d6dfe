"""Progress on stderr: bars on a terminal, elsewhere plain lines, nothing when quiet."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, cast

from elgo.problem.instance import Instance, Metric
from elgo.problem.itinerary import format_length
from elgo.problem.solution import format_gap, gap
from elgo.solve.batch import BatchItem
from elgo.solve.result import Improvement, Result, format_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

REFRESH_SECONDS = 0.2
LINE_SECONDS = 5.0  # between plain lines
ESTIMATE_SECONDS = 1.0  # of rollouts before the time that they will take is estimated


def cost_facts(cost: float, best_known: float | None, comma: str = "", metric: Metric = Metric.EXPLICIT) -> list[str]:
    """Return a cost, and its gap if there is one, as words for a line; the metric tells the unit."""
    percent = gap(cost, best_known)
    found = [f"cost {format_length(cost, metric, comma)}"]
    return found if percent is None else [*found, f"gap {format_gap(percent)} %"]


@contextmanager
def progress_bar(quiet: bool, keep: bool = False) -> Iterator[Callable[[float, str, str], None]]:
    """Yield a function that shows a fraction and a text in a bar on a terminal; elsewhere it prints a line, if any.

    A bar to keep stays on the terminal at the end, and shows the remaining time.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    on_terminal = sys.stderr.isatty() and not quiet
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    columns += [TimeRemainingColumn()] * keep
    with Progress(*columns, console=Console(stderr=True), disable=not on_terminal, transient=not keep) as bars:
        bar = bars.add_task("preparing", total=1.0)

        def show(fraction: float, text: str, line: str) -> None:
            bars.update(bar, completed=fraction, description=text)
            if line and not on_terminal and not quiet:
                print(line, file=sys.stderr, flush=True)

        yield show


@dataclass
class _Running:
    """An instance that is being solved."""

    title: str
    instance: Instance
    limit: float | None  # seconds; None for the policy alone, which reports the fraction that is done
    bar: TaskID
    begin: float = math.inf  # of the time limit: not before the kernels are loaded
    last_line: float = field(default_factory=time.monotonic)
    cost: float | None = None
    fraction: float = 0.0
    first: tuple[float, float] = (math.inf, 0.0)  # time and fraction of the first report
    estimated: bool = False  # in a line
    line: str = ""  # the last one that was printed

    def done(self) -> float:
        """Return the length of the bar, 0 to 1."""
        if self.limit is None:
            return self.fraction
        return min(1.0, max(0.0, time.monotonic() - self.begin) / self.limit)

    def left(self) -> float | None:
        """Return the seconds until the end: exact with a time limit, an estimate for the policy; None if unknown."""
        if self.limit is not None:
            return None if math.isinf(self.begin) else max(0.0, self.begin + self.limit - time.monotonic())
        passed, advance = time.monotonic() - self.first[0], self.fraction - self.first[1]
        return (1 - self.fraction) * passed / advance if passed >= ESTIMATE_SECONDS and advance else None

    def facts(self, comma: str = "") -> list[str]:
        """Return what is known so far, as words for a line."""
        found = (
            [] if self.cost is None else cost_facts(self.cost, self.instance.best_known, comma, self.instance.metric)
        )
        left = self.left()
        if self.limit is None:
            found.append(f"{100 * self.fraction:.0f} %")
        elif left is None:
            found.append("loading")
        if left is not None:
            found.append(f"{'about ' if self.limit is None else ''}{format_seconds(left)} left")
        return found


class _NoBars:
    """Stands for the bars where there is no terminal: rich is not even loaded."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def refresh(self) -> None: ...

    def add_task(self, title: str, total: float, facts: str) -> TaskID:
        return cast("TaskID", 0)

    def update(self, bar: TaskID, completed: float, facts: str) -> None: ...

    def remove_task(self, bar: TaskID) -> None: ...


def _make_bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    title, facts = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[facts]}"))
    console = Console(stderr=True, highlight=False)
    return Progress(title, BarColumn(24), facts, console=console, transient=True, auto_refresh=False)


class BatchProgress:
    """Shows the progress of `elgo solve`, as the observer of its batch: a bar or lines for each running instance."""

    def __init__(self, items: Sequence[BatchItem], quiet: bool) -> None:
        self.items, self.quiet = items, quiet
        self.on_terminal = sys.stderr.isatty() and not quiet
        self.bars = _make_bars() if self.on_terminal else _NoBars()
        self.running: dict[int, _Running] = {}
        self.over, self.lock = Event(), Lock()
        self.refresher = Thread(target=self._refresh, daemon=True)

    def __enter__(self) -> BatchProgress:
        self.bars.start()
        self.refresher.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.refresher.join()
        self.bars.stop()

    def started(self, number: int) -> None:
        """Show a bar; for the policy alone, print how many rollouts it makes."""
        instance, config, _ = self.items[number]
        title = f"{number + 1}/{len(self.items)} {instance.name}"
        limit = None if config.policy_only else config.limit(instance)
        bar = self.bars.add_task(title, total=1.0, facts="")
        with self.lock:
            self.running[number] = _Running(title, instance, limit, bar)
        if config.policy_only:
            from elgo.solve.policy import rollout_counts

            starts, symmetries = rollout_counts(instance, config)
            self._print(f"{title}: {starts * symmetries:,} rollouts ({starts} starts x {symmetries} symmetries)")

    def improved(self, number: int, improvement: Improvement) -> None:
        """Show the cost of a better solution."""
        running = self.running[number]
        running.cost = improvement.cost
        if improvement.source not in ("fallback", "warm start"):  # which come before loading
            running.begin = time.monotonic() - improvement.seconds

    def advanced(self, number: int, fraction: float) -> None:
        """Show the fraction of the policy's rollouts that are done."""
        running = self.running[number]
        running.fraction = fraction
        running.first = min(running.first, (time.monotonic(), fraction))

    def finished(self, number: int, result: Result) -> None:
        """Print a line for a solved instance, unless it is the only one and the table follows on the same terminal."""
        with self.lock:
            running = self.running.pop(number)
        self.bars.remove_task(running.bar)
        self.bars.refresh()
        seconds = f"{result.seconds.total:.2f} s and {result.seconds.load:.2f} s for loading"
        it = running.instance
        facts = [*cost_facts(result.cost, it.best_known, metric=it.metric), seconds]
        if result.interrupted:
            facts.append("interrupted")
        if len(self.items) > 1 or not self.on_terminal:
            self._print(f"{running.title}: {', '.join(facts)}")

    def failed(self, number: int) -> None:
        """Remove the bar of an instance that was not solved."""
        with self.lock:
            running = self.running.pop(number, None)
        if running is not None:
            self.bars.remove_task(running.bar)
            self._print(f"{running.title}: failed")

    def _refresh(self) -> None:
        while not self.over.wait(REFRESH_SECONDS):
            with self.lock:
                for running in self.running.values():
                    self._show(running)
            self.bars.refresh()

    def _show(self, running: _Running) -> None:
        if self.on_terminal:
            self.bars.update(running.bar, completed=running.done(), facts="  ".join(running.facts(",")))
            return
        first_estimate = running.limit is None and not running.estimated and running.left() is not None
        if first_estimate or time.monotonic() - running.last_line > LINE_SECONDS:
            running.last_line = time.monotonic()
            running.estimated = running.estimated or first_estimate
            line = f"{running.title}: {', '.join(running.facts())}"
            if line != running.line:  # it stays the same while kernels are loaded
                self._print(line)
            running.line = line

    def _print(self, line: str) -> None:
        if self.on_terminal:
            assert not isinstance(self.bars, _NoBars)
            self.bars.console.print(line, markup=False, emoji=False)
        elif not self.quiet:
            print(line, file=sys.stderr, flush=True)
