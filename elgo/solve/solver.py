"""Instance + SolveConfig -> Result: a start, then search until the time limit; or the policy alone."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from elgo.problem.files.text import errors_name
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.problem.task import PROBLEMS
from elgo.search.exact import EXACT_NODES, exact_routes
from elgo.search.fallback import fallback_routes
from elgo.solve.config import ModelName, SolveConfig, check_warm_start
from elgo.solve.deadline import DeadlineExceeded, run_with_deadline
from elgo.solve.incumbent import Incumbent, OnImprovement, OnProgress
from elgo.solve.result import CallbackError, Result
from elgo.solve.stop import StopCriterion

if TYPE_CHECKING:
    from elgo.model.checkpoint import Model

TRIVIAL = 3  # customers up to which no policy is asked: there is hardly a choice


def solve(
    instance: Instance,
    config: SolveConfig | None = None,
    *,
    time_limit: float | None = None,
    stop: StopCriterion | None = None,
    start: ModelName | Model | None = None,
    policy_only: bool | None = None,
    model: ModelName | Model | None = None,
    starts: int | None = None,
    symmetries: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    vehicles: int | None = None,
    memory_gb: float | None = None,
    device: str | None = None,
    warm_start: Solution | None = None,
    on_improvement: OnImprovement | None = None,
    on_progress: OnProgress | None = None,
) -> Result:
    """Return the best solution found within the time limit.

    The limit's clock starts when kernels and models are loaded; the first call ever compiles them, for about 20 s
    (see `warm_up`). The search ends earlier if it is told to by `stop`, or if the best solution is known to be optimal.

    - `instance`: what to solve
    - `config`: what to spend on it. The keywords from `time_limit` to `device` are fields of SolveConfig, whose
      documentation has their defaults; they replace those of `config`
    - `warm_start`: a feasible solution to start the search from
    - `on_improvement`: called with each better solution, as (Improvement, Solution)
    - `on_progress`: called with the fraction of the rollouts that are done, with policy_only

    Ctrl-C ends the search: the result is the best solution so far. If `on_improvement`, `on_progress` or `stop` raises
    an exception, the search ends with a CallbackError, which has that result. Wrong input is an ElgoError.
    """
    given = locals()
    changes = {it.name: given[it.name] for it in fields(SolveConfig) if given[it.name] is not None}
    incumbent = Incumbent(instance, replace(config or SolveConfig(), **changes), on_improvement)
    try:
        _solve(incumbent, warm_start, on_progress)
    except KeyboardInterrupt:
        if not incumbent.history:
            raise
        return incumbent.result(interrupted=True)
    except CallbackError as error:
        error.result = incumbent.result() if incumbent.history else None
        raise
    return incumbent.result()


def _solve(incumbent: Incumbent, warm_start: Solution | None, on_progress: OnProgress | None) -> None:
    """Offer solutions to the incumbent: by trying everything, by the policy alone, or by a start and search."""
    instance, config = incumbent.instance, incumbent.config
    if warm_start is not None:
        with errors_name(instance.name):
            warm_start = check_warm_start(warm_start, instance, config)
    if config.policy_only and instance.customers > TRIVIAL:
        from elgo.solve.policy import policy_alone

        policy_alone(incumbent, on_progress)
        return
    if warm_start is not None:
        incumbent.offer(warm_start, "warm start")
    if instance.customers <= (EXACT_NODES if config.policy is None else TRIVIAL):
        fallback_routes(instance, config.vehicles)  # raises ElgoError if there are too few vehicles
        incumbent.offer_routes(exact_routes(instance, config.vehicles), "exact")
        if config.policy is not None:
            incumbent.warnings.append("the model was not asked: so small an instance is solved by trying everything")
        return
    if warm_start is None:
        incumbent.offer_routes(fallback_routes(instance, config.vehicles), "fallback")
    if not incumbent.optimal():
        _start_and_search(incumbent)


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


def _load(instance: Instance, config: SolveConfig) -> Model | None:
    """Load the kernels that the search needs; return the model to start from, if any."""
    from elgo.solve.search import load_kernels

    load_kernels(instance)
    if config.start is None:
        return None
    from elgo.solve.policy import load_policy

    return load_policy(config.start, instance.problem, config.device)
