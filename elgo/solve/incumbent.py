"""The best solution so far of one call of `solve`, with its history and its clock."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.search.ends import fit_ends
from elgo.search.exact import lower_bound
from elgo.search.slices import Slices, iteration_slices, time_slices
from elgo.solve.config import SolveConfig
from elgo.solve.result import CallbackError, Improvement, Result, Timings
from elgo.solve.stop import MaxIterations, Progress

OnImprovement = Callable[[Improvement, Solution], None]
OnProgress = Callable[[float], None]
Routes = Sequence[Sequence[int]]
Stage = Literal["decode", "search"]

log = logging.getLogger("elgo")

ROUNDING = 1e-12  # relative error of a cost
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
        self._iterations = 0  # of the search, by each thread
        self._stopped = False  # by `stop`
        self._bound: float | None = None
        self._costed = self._costing = 0.0  # when routes of a search were last costed, and how long that took

    @property
    def best(self) -> Solution:
        """The best solution so far; there is one as soon as there is a history."""
        assert self._best is not None
        return self._best

    def remaining(self) -> float:
        """Return the seconds until the end of the time limit."""
        return self.end - time.perf_counter()

    def slices(self, until: float, seconds: float) -> Slices:
        """Yield the slices of a search until a value of time.perf_counter(), or until it is to stop."""
        stop = self.config.stop
        if isinstance(stop, MaxIterations):  # of a TSP, each slice begins with a pass over all nodes
            slices: Slices = iteration_slices(stop.iterations, self.instance.size)
        else:
            slices = time_slices(until, seconds)
        for iterations, fraction in slices:
            if self.stopped():
                return
            yield iterations, fraction
            self._iterations += iterations

    def stopped(self) -> bool:
        """True if the search is to end: at the time limit, as `stop` says, or since the best solution is optimal."""
        stop = self.config.stop
        if stop is not None:
            self.take_found()  # the cost that the caller is told is that of the best
        if self._stopped or self.remaining() <= 0 or self.optimal():
            return True
        if stop is None:
            return False
        seconds = time.perf_counter() - self.begin
        progress = Progress(seconds, self._iterations, self.best.cost, seconds - self.history[-1].seconds)
        try:
            self._stopped = bool(stop(progress))
        except Exception as error:
            raise CallbackError("stop", error) from error
        return self._stopped

    def optimal(self) -> bool:
        """True if the best solution is known to be optimal: it costs no more than a lower bound."""
        if self._bound is None:
            self._bound = lower_bound(self.instance)
        return self.best.cost <= self._bound * (1 + ROUNDING)

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
        if self.instance.problem == "tsp" and (self.instance.open or self.instance.first is not None):
            solution = Solution(self.instance, (tuple(fit_ends(self.instance, solution.routes[0])),))
        if self._best is not None and solution.cost >= self._best.cost:
            return
        self._best = solution
        self.history.append(Improvement(time.perf_counter() - self.begin, solution.cost, source))
        log.debug(
            "%s: cost %.12g after %.2f s by %s", self.instance.name, solution.cost, self.history[-1].seconds, source
        )
        if self._on_improvement is not None:
            try:
                self._on_improvement(self.history[-1], solution)
            except Exception as error:
                self._on_improvement = None  # what was found but not costed is still to come
                raise CallbackError("on_improvement", error) from error

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
