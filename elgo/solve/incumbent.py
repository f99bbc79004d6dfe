"""The best solution so far of one call of `solve`, with its history and its clock."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.solve.config import SolveConfig
from elgo.solve.result import Improvement, Result, Timings

OnImprovement = Callable[[Improvement, Solution], None]
OnProgress = Callable[[float], None]
Routes = Sequence[Sequence[int]]
Stage = Literal["decode", "search"]

COSTING_SHARE = 0.05  # of the time of a search, at most, that is spent on costing what it finds


class Incumbent:
    """Keeps the best solution offered to it, tells the caller of `solve` about it, and watches the clock."""

    def __init__(self, instance: Instance, config: SolveConfig, on_improvement: OnImprovement | None) -> None:
        self.begin = time.perf_counter()
        self.end = self.begin + config.limit(instance)
        self.instance, self.config = instance, config
        self.history: list[Improvement] = []
        self.warnings: list[str] = []  # what was cut short, or had no effect
        self.starts = self.symmetries = 0  # of the policy's rollouts
        self._on_improvement = on_improvement
        self._best: Solution | None = None
        self._load = 0.0
        self._stages: dict[Stage, float] = {"decode": 0.0, "search": 0.0}
        self._pending: Callable[[], Routes] | None = None
        self._costed = self._costing = 0.0  # when routes of a search were last costed, and how long that took

    @property
    def best(self) -> Solution:
        """The best solution so far; there is one as soon as there is a history."""
        assert self._best is not None
        return self._best

    def remaining(self) -> float:
        """Return the seconds until the end of the time limit."""
        return self.end - time.perf_counter()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Stop the clock during the block: loading and compiling do not count against the time limit."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begin
            self._load += seconds
            self.begin += seconds
            self.end += seconds

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Count the time of the block as time of a stage."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._stages[stage] += time.perf_counter() - begin

    def offer(self, solution: Solution, source: str) -> None:
        """Keep a solution if it is better than the best so far and has no more routes than there are vehicles."""
        if self.config.vehicles is not None and len(solution.routes) > self.config.vehicles:
            return
        if self._best is not None and solution.cost >= self._best.cost:
            return
        self._best = solution
        self.history.append(Improvement(time.perf_counter() - self.begin, solution.cost, source))
        if self._on_improvement is not None:
            self._on_improvement(self.history[-1], solution)

    def offer_routes(self, routes: Routes, source: str) -> None:
        """Offer the solution with these routes."""
        self.offer(Solution(self.instance, tuple(tuple(route) for route in routes)), source)

    def offer_found(self, routes: Callable[[], Routes]) -> None:
        """Offer what the search has found: now, or later if costing took more than its share of the time."""
        self._pending = routes
        if COSTING_SHARE * (time.perf_counter() - self._costed) > self._costing:
            self.take_found()

    def take_found(self) -> None:
        """Cost what the search has found last, unless that is done."""
        if self._pending is not None:
            begin = time.perf_counter()
            routes, self._pending = self._pending, None
            self.offer_routes(routes(), "search")
            self._costed = time.perf_counter()
            self._costing = self._costed - begin

    def result(self, interrupted: bool = False) -> Result:
        """Return the result of the call."""
        seconds = Timings(self._load, **self._stages, total=time.perf_counter() - self.begin)
        return Result(
            self.best,
            seconds,
            self.config.seed,
            self.starts,
            self.symmetries,
            tuple(self.history),
            interrupted,
            tuple(self.warnings),
        )
