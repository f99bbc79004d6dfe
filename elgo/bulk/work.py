"""What a worker does: it solves the instances of a batch and returns a row for each, whatever happens to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from elgo.problem.instance import Instance
from elgo.problem.task import PROBLEMS
from elgo.solve import solver
from elgo.solve.config import SolveConfig
from elgo.solve.result import Result
from elgo.solve.worker import WorkerError, describe_bug

MOST_INSTANCES = 10**9  # of an input: outputs count them by a byte each


class Item(NamedTuple):
    """One instance of an input: itself, a function that makes it in the worker, or the error that reading it was."""

    input: str  # file or generated set
    number: int  # in this input, from 0
    data: Instance | Callable[[], Instance] | ValueError


class Row(NamedTuple):
    """The result of one instance, as outputs have it. Without a cost, `error` says what went wrong."""

    input: str
    number: int
    name: str
    problem: str
    nodes: int  # including the depot
    cost: float | None
    best_known: float | None
    gap: float | None  # percent
    routes: tuple[tuple[int, ...], ...]  # nodes from 0, without the depot
    seconds: float
    source: str  # of the solution: policy, search, exact ...
    error: str
    settings: str  # that the instance was solved with


Outcome = Result | Exception


def solve_rows(config: SolveConfig, settings: str, items: Sequence[Item]) -> list[Row]:
    """Return the rows of a batch."""
    loaded = [_load(item) for item in items]
    outcomes = iter(solve_instances(config, [it for it in loaded if isinstance(it, Instance)]))
    pairs = [(it, next(outcomes)) if isinstance(it, Instance) else (None, it) for it in loaded]
    return [make_row(item, settings, *pair) for item, pair in zip(items, pairs, strict=True)]


def solve_instances(config: SolveConfig, instances: Sequence[Instance]) -> list[Outcome]:
    """Return the results of `solve`, or what it raised; policies decode instances of one size together."""
    together = [i for i, it in enumerate(instances) if config.policy_only and it.customers > solver.TRIVIAL]
    found: dict[int, Outcome] = {}
    for problem in PROBLEMS:
        members = [i for i in together if instances[i].problem == problem]
        found |= dict(zip(members, _decode([instances[i] for i in members], config), strict=True))
    for i, instance in enumerate(instances):
        if i not in found:
            try:
                found[i] = solver.solve(instance, config)
            except Exception as error:
                found[i] = error
    return [found[i] for i in range(len(instances))]


def make_row(item: Item, settings: str, instance: Instance | None, outcome: Outcome) -> Row:
    """Return the row of an instance, which is None if it could not be read."""
    about = ("", "", 0) if instance is None else (instance.name, instance.problem, instance.size)
    best_known = None if instance is None else instance.best_known
    if isinstance(outcome, Result) and not outcome.solution.violations:
        costs, routes = (float(outcome.cost), best_known, outcome.gap), outcome.solution.routes
        seconds = round(outcome.seconds.total, 6)
        return Row(item.input, item.number, *about, *costs, routes, seconds, outcome.source, "", settings)
    error = f"infeasible: {outcome.solution.violations[0]}" if isinstance(outcome, Result) else describe_error(outcome)
    return Row(item.input, item.number, *about, None, best_known, None, (), 0.0, "", error, settings)


def failed_row(item: Item, settings: str, error: Exception) -> Row:
    """Return the row of an instance whose batch has no rows."""
    return make_row(item, settings, item.data if isinstance(item.data, Instance) else None, error)


def describe_error(error: Exception) -> str:
    """Return an error in one line; of one that is not about the input, with the place where it was raised."""
    expected = isinstance(error, ValueError | OSError | WorkerError)
    return " ".join(str(error).split()) if expected else describe_bug(error)


def _load(item: Item) -> Instance | Exception:
    if isinstance(item.data, Instance | ValueError):
        return item.data
    try:
        return item.data()
    except Exception as error:
        return error


def _decode(instances: Sequence[Instance], config: SolveConfig) -> list[Outcome]:
    """Return the policy's results; if a batch fails, those of each instance alone."""
    if not instances:
        return []
    from elgo.solve.policy import policy_batch

    try:
        return list(policy_batch(instances, config))
    except Exception as error:
        return [error] if len(instances) == 1 else [x for it in instances for x in _decode([it], config)]
