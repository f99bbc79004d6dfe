"""Instance + SolveConfig -> Result: the policy's best solution if that helps, then search as long as there is time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from elgo.problem.augment import SYMMETRIES
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution, gap
from elgo.search.fallback import fallback_routes
from elgo.search.giant_tour import NodeArray, Routes, to_giant_tour, to_routes
from elgo.solve.deadline import Late, in_time

if TYPE_CHECKING:
    from elgo.decode.decoder import DecodeConfig
    from elgo.model.ensemble import Policy
    from elgo.search.data import SearchData

SHORTEST, LONGEST = 5.0, 60.0  # seconds for an instance unless told otherwise
PER_NODE = 0.01  # and between these so many per node
SAVINGS_SECONDS = 2e-4  # per node, at most
GRACE = 0.1  # seconds that fast_tsp may be late
DESCENT_SHARE = 0.05  # of a TSP's time for our own search, before the policy
KICKS_SHARE = 0.1  # of a TSP's time for our own search, before fast_tsp, which answers only at its end


Progress = Callable[[float], None]
OnImprovement = Callable[["Improvement", Solution], None]


@dataclass(frozen=True)
class SolveConfig:
    """What to spend on an instance.

    Starts and symmetries are the policy's; with a time limit they are at most what fits into its share of it.
    """

    time_limit: float | None = None  # seconds for the whole call; default: from 5 to 60, by the size
    starts: int | None = None  # default: every node; fewer on large instances, so that it takes seconds
    symmetries: int = SYMMETRIES
    seed: int = 0  # of all randomness
    threads: int | None = None  # default: all cores that this process may use
    weights: str | Path | None = None  # default: those in the package
    policy_only: bool = False  # no search, and no time limit
    vehicles: int | None = None  # most routes of a CVRP
    memory_gb: float = 4.0

    def __post_init__(self) -> None:
        if self.time_limit is not None and not 0 < self.time_limit < float("inf"):
            raise ValueError(f"time_limit is {self.time_limit}, must be a number of seconds above 0")
        if self.time_limit is not None and self.policy_only:
            raise ValueError(f"time_limit is {self.time_limit}, but policy_only is on: it takes as long as it takes")
        if self.starts is not None and self.starts < 1:
            raise ValueError(f"starts is {self.starts}, must be at least 1")
        if not 1 <= self.symmetries <= SYMMETRIES:
            raise ValueError(f"symmetries is {self.symmetries}, must be 1..{SYMMETRIES}")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}, must not be negative")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads is {self.threads}, must be at least 1")
        if self.vehicles is not None and self.vehicles < 1:
            raise ValueError(f"vehicles is {self.vehicles}, must be at least 1")
        if self.memory_gb <= 0:
            raise ValueError(f"memory_gb is {self.memory_gb}, must be positive")

    @property
    def workers(self) -> int:
        return self.threads or len(os.sched_getaffinity(0))

    def limit(self, instance: Instance) -> float:
        """Seconds for this instance."""
        return self.time_limit or min(LONGEST, max(SHORTEST, PER_NODE * instance.size))

    def decoding(self) -> DecodeConfig:
        from elgo.decode.decoder import DecodeConfig

        return DecodeConfig(threads=self.threads, memory_gb=self.memory_gb)


class Improvement(NamedTuple):
    """When a better solution was there, what it costs, and where it comes from."""

    seconds: float
    cost: float
    source: str


@dataclass(frozen=True)
class Timings:
    """Seconds per stage: loading, the policy's rollouts, search; `total` is more than their sum."""

    load: float
    decode: float
    search: float
    total: float


@dataclass(frozen=True)
class Result:
    """The best solution found, and how it was found. `starts` and `symmetries` are those that the policy decoded."""

    solution: Solution
    seconds: Timings
    seed: int
    starts: int
    symmetries: int
    history: tuple[Improvement, ...] = ()
    interrupted: bool = False  # by Ctrl-C

    @property
    def instance(self) -> Instance:
        return self.solution.instance

    @property
    def cost(self) -> float:
        return self.solution.cost

    @property
    def gap(self) -> float | None:
        """Percent above the best known cost, if there is one."""
        return gap(self.cost, self.instance.best_known)


def solve(
    instance: Instance,
    config: SolveConfig | None = None,
    *,
    warm_start: Solution | None = None,
    on_improvement: OnImprovement | None = None,
    on_progress: Progress | None = None,
    **changes: Any,
) -> Result:
    """The best solution within the time limit; `changes` are fields of SolveConfig.

    warm_start      a solution to begin with
    on_improvement  is told of every better solution, with its time and cost
    on_progress     is told which fraction of its rollouts the policy has done, with policy_only
    Ctrl-C ends the search: the result is the best so far.
    """
    run = _Run(instance, replace(config or SolveConfig(), **changes), on_improvement, on_progress)
    start = None if warm_start is None else run.checked(warm_start)
    return run.policy_only(start) if run.config.policy_only else run.anytime(start)


class _Run:
    """One call of solve: its clock, the best solution so far, and the stages that make it better."""

    def __init__(
        self,
        instance: Instance,
        config: SolveConfig,
        on_improvement: OnImprovement | None,
        on_progress: Progress | None,
    ) -> None:
        self.begin = time.perf_counter()
        self.instance, self.config = instance, config
        self.on_improvement, self.on_progress = on_improvement, on_progress
        self.end = self.begin + config.limit(instance)
        self.best: Solution | None = None
        self.history: list[Improvement] = []
        self.spent = dict.fromkeys(("load", "decode", "search"), 0.0)
        self.starts = self.symmetries = 0
        self.found: Callable[[], Routes] | None = None  # by the search, and not costed yet
        self.taken = self.taking = 0.0  # when the last was costed, and how long that took

    def checked(self, solution: Solution) -> Solution:
        """A warm start as a solution of this very instance."""
        if solution.instance is not self.instance:
            solution = Solution(self.instance, solution.routes)
        if solution.violations:
            raise ValueError(f"{self.instance.name}: warm_start is not feasible: {solution.violations[0]}")
        if self.config.vehicles is not None and len(solution.routes) > self.config.vehicles:
            used = len(solution.routes)
            raise ValueError(f"{self.instance.name}: warm_start has {used} routes, vehicles is {self.config.vehicles}")
        return solution

    def offer(self, solution: Solution, source: str) -> None:
        """Keep a solution if it is better than the best so far, and allowed."""
        if self.config.vehicles is not None and len(solution.routes) > self.config.vehicles:
            return
        if self.best is not None and solution.cost >= self.best.cost:
            return
        self.best = solution
        self.history.append(Improvement(time.perf_counter() - self.begin, solution.cost, source))
        if self.on_improvement is not None:
            self.on_improvement(self.history[-1], solution)

    def offer_routes(self, routes: Sequence[Sequence[int]], source: str) -> None:
        self.offer(Solution(self.instance, tuple(tuple(route) for route in routes)), source)

    def left(self) -> float:
        return self.end - time.perf_counter()

    def policy_only(self, start: Solution | None) -> Result:
        if start is not None:
            self.offer(start, "warm start")
        self._decode(self._policy())
        if self.best is None:
            raise ValueError(f"{self.instance.name}: vehicles is {self.config.vehicles}, the policy's routes are more")
        return self._result()

    def anytime(self, start: Solution | None) -> Result:
        interrupted = False
        try:
            if start is not None:
                self.offer(start, "warm start")
            else:
                self.offer_routes(fallback_routes(self.instance, self.config.vehicles), "quick")
            self._stages()
        except KeyboardInterrupt:
            if self.best is None:
                raise
            interrupted = True
        return self._result(interrupted)

    def _stages(self) -> None:
        begin = time.perf_counter()
        try:
            data = in_time(self._prepare, self.end)
        except Late:  # still compiling, the first time ever
            return
        finally:
            self.spent["load"] = time.perf_counter() - begin
        from elgo.search.tsp import takes_fast_tsp

        self._construct(data)
        begin = time.perf_counter()
        try:
            if self.instance.problem == "cvrp":
                self._search_routes(data)
            elif takes_fast_tsp(self.instance):
                self._search_tour(data, begin + KICKS_SHARE * self.left())
                self._ask_fast_tsp()
            else:
                self._search_tour(data, self.end)
        finally:
            self._take_found()
            self.spent["search"] = time.perf_counter() - begin

    def _prepare(self) -> SearchData:
        """Load what the search needs, and compile it the first time ever."""
        from elgo.search.data import prepare
        from elgo.search.jit_warm_up import jit_warm_up
        from elgo.search.tsp import is_symmetric

        data = prepare(self.instance)
        jit_warm_up("tsp" if self.instance.problem == "tsp" and is_symmetric(self.instance) else "cvrp")
        return data

    def _construct(self, data: SearchData) -> None:
        """What the policy must not be worse than."""
        from elgo.search.savings import savings

        if self.instance.problem == "tsp":
            self._search_tour(data, time.perf_counter() + DESCENT_SHARE * self.left())
        elif SAVINGS_SECONDS * self.instance.size < 0.5 * self.left():
            self.offer_routes(savings(self.instance), "savings")

    def _policy(self) -> Policy:
        from elgo.model.checkpoint import load_model

        begin = time.perf_counter()
        policy = load_model(self.config.weights or "elg", self.instance.problem)
        self.spent["load"] += time.perf_counter() - begin
        return policy

    def _decode(self, policy: Policy) -> None:
        from elgo.decode.decoder import decode
        from elgo.decode.multistart import augmentations, best_solution, with_few_routes

        begin = time.perf_counter()
        tasks, starts = augmentations(self.instance, self.config.starts, self.config.symmetries, self.config.seed)
        made = decode(policy, tasks, starts, self.config.decoding(), on_progress=self.on_progress)
        rollouts = [own.actions for own in made]
        self.spent["decode"] += time.perf_counter() - begin
        self.starts, self.symmetries = len(starts[0]), len(tasks)
        if self.config.vehicles is not None:
            rollouts = with_few_routes(rollouts, self.config.vehicles)
        if rollouts:
            self.offer(best_solution(self.instance, rollouts), "policy")

    def _search_routes(self, data: SearchData) -> None:
        from elgo.search.annealing import improve

        assert self.best is not None
        config, giant_tour = self.config, to_giant_tour(self.best.routes)

        def better(giant_tour: NodeArray) -> None:
            self._found(lambda: to_routes(giant_tour))

        keep = self.history[-1].source == "warm start"  # and nothing was better yet
        improve(data, giant_tour, self.end, config.workers, config.seed, better, config.vehicles, near_start=keep)

    def _search_tour(self, data: SearchData, until: float) -> None:
        from elgo.search.tsp import improve, improve_asymmetric, is_symmetric

        assert self.best is not None
        tour = self.best.routes[0]

        def better(tour: NodeArray) -> None:
            self._found(lambda: [tour.tolist()])

        if is_symmetric(self.instance):
            improve(data, tour, until, self.config.workers, self.config.seed, better)
        else:
            improve_asymmetric(data, tour, until, self.config.seed, better)
        self._take_found()

    def _ask_fast_tsp(self) -> None:
        from elgo.search.tsp import fast_tsp_tour

        try:
            tour = in_time(lambda: fast_tsp_tour(self.instance, self.end, self.config.workers), self.end + GRACE)
            self.offer_routes([tour], "fast_tsp")
        except Late:
            return

    def _found(self, routes: Callable[[], Routes]) -> None:
        """The search has something better. Costing it takes time: not more than a twentieth."""
        self.found = routes
        if time.perf_counter() - self.taken > 20 * self.taking:
            self._take_found()

    def _take_found(self) -> None:
        if self.found is not None:
            begin = time.perf_counter()
            routes, self.found = self.found, None
            self.offer_routes(routes(), "search")
            self.taken = time.perf_counter()
            self.taking = self.taken - begin

    def _result(self, interrupted: bool = False) -> Result:
        assert self.best is not None
        seconds = Timings(**self.spent, total=time.perf_counter() - self.begin)
        made = self.starts, self.symmetries
        return Result(self.best, seconds, self.config.seed, *made, tuple(self.history), interrupted)
