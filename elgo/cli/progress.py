"""What is seen on stderr while instances are being solved: a line with a bar for each of them, as the time goes by.

Without a terminal there are plain lines instead, now and then.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING

from elgo.problem.solution import format_cost, format_gap, gap
from elgo.solve.batch import Job

if TYPE_CHECKING:
    from rich.progress import TaskID

    from elgo.solve.solver import Improvement, Result

TICK = 0.2  # seconds between two looks at the clock
SAY_SECONDS = 5.0  # between plain lines


@dataclass
class _Running:
    """An instance that is being solved."""

    title: str
    best_known: float | None
    limit: float | None  # seconds; without one the policy says how far it is
    row: TaskID
    begin: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)
    cost: float | None = None
    fraction: float = 0.0

    def done(self) -> float:
        return self.fraction if self.limit is None else min(1.0, (time.monotonic() - self.begin) / self.limit)

    def facts(self, comma: str = "") -> list[str]:
        found = [] if self.cost is None else _costs(self.cost, self.best_known, comma)
        if self.limit is None:
            return [*found, f"{100 * self.fraction:.0f} %"]
        left = max(0, math.ceil(self.begin + self.limit - time.monotonic()))
        return [*found, f"{left} s left"]


class Live:
    """Watches jobs. Nothing is seen of them if it has to be quiet."""

    def __init__(self, jobs: Sequence[Job], quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.jobs, self.quiet = jobs, quiet
        self.bars = sys.stderr.isatty() and not quiet
        title, facts = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[facts]}"))
        console = Console(stderr=True, highlight=False)
        self.progress = Progress(
            title, BarColumn(24), facts, console=console, disable=not self.bars, transient=True, auto_refresh=False
        )
        self.running: dict[int, _Running] = {}
        self.over = Event()
        self.lock = Lock()
        self.clock = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Live:
        self.progress.start()
        if not self.quiet:
            self.clock.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        if not self.quiet:
            self.clock.join()
        self.progress.stop()

    def begin(self, number: int) -> None:
        instance, config, _ = self.jobs[number]
        title = f"{number + 1}/{len(self.jobs)} {instance.name}"
        limit = None if config.policy_only else config.limit(instance)
        row = self.progress.add_task(title, total=1.0, facts="")
        with self.lock:
            self.running[number] = _Running(title, instance.best_known, limit, row)

    def improved(self, number: int, improvement: Improvement) -> None:
        self.running[number].cost = improvement.cost

    def advanced(self, number: int, fraction: float) -> None:
        self.running[number].fraction = fraction

    def finished(self, number: int, result: Result) -> None:
        """One line for a finished instance. On a terminal there will be the table; several are not kept waiting."""
        with self.lock:
            over = self.running.pop(number)
        self.progress.remove_task(over.row)
        self.progress.refresh()
        facts = [*_costs(result.cost, over.best_known), f"{result.seconds.total:.2f} s"]
        if result.interrupted:
            facts.append("interrupted")
        if not self.quiet and (len(self.jobs) > 1 or not self.bars):
            self._say(f"{over.title}: {', '.join(facts)}")

    def _run(self) -> None:
        while not self.over.wait(TICK):
            with self.lock:
                for running in self.running.values():
                    self._show(running)
            if self.bars:
                self.progress.refresh()

    def _show(self, running: _Running) -> None:
        if self.bars:
            self.progress.update(running.row, completed=running.done(), facts="  ".join(running.facts(",")))
        elif time.monotonic() - running.said > SAY_SECONDS:
            running.said = time.monotonic()
            self._say(f"{running.title}: {', '.join(running.facts())}")

    def _say(self, line: str) -> None:
        if self.bars:
            self.progress.console.print(line, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)


def _costs(cost: float, best_known: float | None, comma: str = "") -> list[str]:
    percent = gap(cost, best_known)
    found = [f"cost {format_cost(cost, comma)}"]
    return found if percent is None else [*found, f"gap {format_gap(percent)} %"]
