"""Instance + SolveConfig -> Result: a start, then search until the time limit; or the policy alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.problem.task import PROBLEMS
from elgo.search.fallback import fallback_routes
from elgo.solve.config import SolveConfig
from elgo.solve.deadline import DeadlineExceeded, run_with_deadline
from elgo.solve.incumbent import Incumbent, OnImprovement, OnProgress
from elgo.solve.result import Result

if TYPE_CHECKING:
    from elgo.model.checkpoint import Weights
    from elgo.model.protocols import PolicyLike


def solve(
    instance: Instance,
    config: SolveConfig | None = None,
    *,
    warm_start: Solution | None = None,
    on_improvement: OnImprovement | None = None,
    on_progress: OnProgress | None = None,
    **changes: Any,
) -> Result:
    """Return the best solution found within the time limit.

    The limit's clock starts when kernels and models are loaded; the first call ever compiles them, for about 20 s
    (see `warm_up`).

    - `instance`: what to solve
    - `config`: what to spend on it; fields can be given as `changes` instead: solve(instance, time_limit=3)
    - `warm_start`: a feasible solution to start the search from
    - `on_improvement`: called with each better solution, as (Improvement, Solution)
    - `on_progress`: called with the fraction of the rollouts that are done, with policy_only

    Ctrl-C ends the search: the result is the best solution so far.
    """
    config = replace(config or SolveConfig(), **changes)
    incumbent = Incumbent(instance, config, on_improvement)
    if warm_start is not None:
        warm_start = _check_warm_start(warm_start, instance, config)
    if config.policy_only:
        from elgo.solve.policy import policy_alone

        policy_alone(incumbent, on_progress)
        return incumbent.result()
    try:
        if warm_start is not None:
            incumbent.offer(warm_start, "warm start")
        else:
            incumbent.offer_routes(fallback_routes(instance, config.vehicles), "fallback")
        _start_and_search(incumbent)
    except KeyboardInterrupt:
        if not incumbent.history:
            raise
        return incumbent.result(interrupted=True)
    return incumbent.result()


def warm_up() -> None:
    """Load what `solve` needs, for both problems: the first time ever that compiles it, which takes about 20 s."""
    from elgo.solve.policy import load_policy
    from elgo.solve.search import jit_warm_up

    for problem in PROBLEMS:
        jit_warm_up(problem)
        load_policy("elg", problem)


def _start_and_search(incumbent: Incumbent) -> None:
    """Find a start, by the policy or by classical construction, and improve it until the end of the time limit."""
    instance = incumbent.instance
    with incumbent.loading():  # on a thread: an interrupt inside of an import would leave numba half loaded
        policy = run_with_deadline(lambda: _load(instance, incumbent.config), math.inf)
    from elgo.search.data import prepare
    from elgo.solve.search import classical_start, search

    try:
        data = run_with_deadline(lambda: prepare(instance), incumbent.end)
    except DeadlineExceeded:
        incumbent.warnings.append("the time limit is too short to prepare the search: this is the fallback")
        return
    started = False
    if policy is not None:
        from elgo.solve.policy import policy_start

        started = policy_start(policy, incumbent)
    if not started:
        classical_start(data, incumbent)
    with incumbent.timed("search"):
        search(data, incumbent)


def _load(instance: Instance, config: SolveConfig) -> Weights | PolicyLike | None:
    """Load the kernels that the search needs; return the model to start from, if any."""
    from elgo.solve.search import load_kernels

    load_kernels(instance)
    if config.start is None:
        return None
    from elgo.solve.policy import load_policy

    return load_policy(config.start, instance.problem, config.device)


def _check_warm_start(solution: Solution, instance: Instance, config: SolveConfig) -> Solution:
    """Return the solution as one of this very instance; ValueError if the search cannot start from it."""
    for name in ("start", "policy_only"):
        if getattr(config, name):
            raise ValueError(f"{instance.name}: warm_start and {name} are both given; the search has one start")
    if solution.instance is not instance:
        solution = Solution(instance, solution.routes)
    if solution.violations:
        raise ValueError(f"{instance.name}: warm_start is not feasible: {solution.violations[0]}")
    routes = len(solution.routes)
    if config.vehicles is not None and routes > config.vehicles:
        raise ValueError(f"{instance.name}: warm_start has {routes} routes, vehicles is {config.vehicles}")
    return solution
