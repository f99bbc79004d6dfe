"""The rollouts of a policy: alone, or as the start of a search."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from threading import Event, Lock

import numpy as np
from numpy.typing import NDArray

from elgo.decode.decoder import DecodeConfig, OnRollouts, decode, use_compiled
from elgo.decode.multistart import augmentations, best_solution, start_count, with_few_routes
from elgo.decode.types import Actions
from elgo.model.checkpoint import Model, as_policy
from elgo.problem.augment import SYMMETRIES
from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.problem.task import ProblemName, Task
from elgo.solve.config import ModelName, SolveConfig
from elgo.solve.deadline import DeadlineExceeded, run_with_deadline
from elgo.solve.incumbent import Incumbent, OnProgress
from elgo.solve.result import CallbackError, Result, Timings, format_seconds

Nodes = NDArray[np.int64]
log = logging.getLogger("elgo")

START_SHARE = 0.5  # of the time limit, at most, until the rollouts that a search starts from are done
START_NODES = 16  # of these rollouts by default, under one symmetry
LARGE = 10_000  # nodes above which policy_only has the same defaults: its time grows with their square

# CPU seconds per node^2, of what a task takes before its rollouts and of each rollout; about, on a core of 2024
TASK_SECONDS, ROLLOUT_SECONDS = 1e-7, 1.5e-8
SAID_SECONDS = 60.0  # of rollouts that take longer, the log says so before they begin

EXIT_SECONDS = 30.0  # for which the exit of the interpreter waits for what cannot be interrupted


def policy_alone(incumbent: Incumbent, on_progress: OnProgress | None) -> None:
    """Offer the best rollout from every start under every symmetry; ElgoError if all have too many routes.

    Loading and decoding are on threads of their own, so that Ctrl-C is answered at once; what is done then is offered.
    """
    instance, config, stopped = incumbent.instance, incumbent.config, Event()
    model = config.policy
    assert model is not None

    def advance(fraction: float) -> None:
        if stopped.is_set():
            raise DeadlineExceeded
        if on_progress is not None:
            try:
                on_progress(fraction)
            except Exception as error:
                raise CallbackError("on_progress", error) from error

    with incumbent.loading():
        load = partial(load_policy, model, instance.problem, config.device)
        policy = run_with_deadline(load, math.inf, EXIT_SECONDS)
    counts = rollout_counts(instance, config)
    seconds = rollout_seconds(instance, *counts, config.workers)
    if seconds > SAID_SECONDS:
        text = "{}: {} starts x {} symmetries take about {}; fewer take less"
        log.info(text.format(instance.name, *counts, format_seconds(seconds)))
    best = _BestSoFar(incumbent)
    with incumbent.timed("decode"):
        tasks, starts = augmentations(instance, policy.config.normalisation, *counts, config.seed)
        incumbent.starts, incumbent.symmetries = len(starts[0]), len(tasks)
        try:
            roll_out = partial(_best_rollout, policy, incumbent, tasks, starts, advance, best.take)
            solution = run_with_deadline(roll_out, math.inf, EXIT_SECONDS)
        except (KeyboardInterrupt, CallbackError):
            best.offer(sum(map(len, starts)))
            raise
        finally:
            stopped.set()
    if solution is None:
        raise _too_many_routes(incumbent)
    incumbent.offer(solution, "policy")


class _BestSoFar:
    """Keeps the best of the rollouts that are done, in case that the others never will be."""

    def __init__(self, incumbent: Incumbent) -> None:
        self._incumbent = incumbent
        self._solution: Solution | None = None
        self._done = 0
        self._lock = Lock()

    def take(self, actions: Actions) -> None:
        """Take note of rollouts (M, T)."""
        solution = _best_of([actions], self._incumbent)
        with self._lock:
            self._done += len(actions)
            if solution is not None and (self._solution is None or solution.cost < self._solution.cost):
                self._solution = solution

    def offer(self, planned: int) -> None:
        """Offer the best one, if there is one, with a warning that not all that were planned are done."""
        with self._lock:
            solution, done = self._solution, self._done
        if solution is not None:
            self._incumbent.warnings.append(f"{done} of {planned} rollouts were done")
            self._incumbent.offer(solution, "policy")


def policy_batch(instances: Sequence[Instance], config: SolveConfig) -> list[Result | ElgoError]:
    """Return what `solve` returns with policy_only, or raises, for instances of one problem.

    Those of one size are encoded and decoded together, as many as fit into memory, and share the time evenly. The
    others of a batch can change the rounding of an instance's scores, and so decide between moves that are as good.
    """
    assert config.policy is not None
    policy = as_policy(config.policy, instances[0].problem, config.device)
    order = sorted(range(len(instances)), key=lambda i: instances[i].size)
    found: dict[int, Result | ElgoError] = {}
    for group in _in_memory(order, [_rollout_bytes(instances[i], config) for i in order], config.memory_gb * 2**30 / 4):
        found |= dict(zip(group, _decode_group(policy, [instances[i] for i in group], config), strict=True))
    return [found[i] for i in range(len(instances))]


def policy_start(policy: Model, incumbent: Incumbent) -> bool:
    """Offer the best rollout of the policy that the search is to start from; False if none is ready in time.

    The rollouts are made in rounds: first one start node per thread, then twice as many each time. What is not done
    within START_SHARE of the time limit is dropped.
    """
    instance, config = incumbent.instance, incumbent.config
    until = incumbent.begin + START_SHARE * (incumbent.end - incumbent.begin)
    found: list[Solution] = []
    stopped = Event()

    def stop_in_time(fraction: float) -> None:
        if stopped.is_set() or time.perf_counter() > until:
            raise DeadlineExceeded

    def roll_out() -> None:
        how, symmetries = policy.config.normalisation, config.symmetries or 1
        tasks, starts = augmentations(instance, how, config.starts or START_NODES, symmetries, config.seed)
        for part in _rounds(len(starts[0]), config.workers):
            chosen = [nodes[part] for nodes in starts]
            solution = _best_rollout(policy, incumbent, tasks, chosen, stop_in_time)
            incumbent.starts, incumbent.symmetries = part.stop, len(tasks)
            found.extend([solution] if solution else [])

    try:
        with incumbent.timed("decode"):
            run_with_deadline(roll_out, until, EXIT_SECONDS)
    except DeadlineExceeded:
        done = f"{incumbent.starts} of {config.starts or START_NODES} rollouts" if found else "no rollout"
        incumbent.warnings.append(f"the time limit is too short for the model: {done} in half of it")
    finally:  # on Ctrl-C, too: the rounds that are done count
        stopped.set()
        for solution in found:
            incumbent.offer(solution, "policy")
    return bool(found)


def _in_memory(order: Sequence[int], needs: Sequence[float], memory: float) -> Iterator[list[int]]:
    """Cut an order into groups whose needs, in bytes, fit into memory, or are alone."""
    group: list[int] = []
    used = 0.0
    for i, need in zip(order, needs, strict=True):
        if group and used + need > memory:
            yield group
            group, used = [], 0.0
        group.append(i)
        used += need
    yield group


def _rollout_bytes(instance: Instance, config: SolveConfig) -> float:
    """Return the memory of all rollouts of an instance."""
    starts, symmetries = rollout_counts(instance, config)
    return 16.0 * starts * symmetries * instance.size  # two arrays of 4 bytes, of up to twice as many moves as nodes


def _decode_group(policy: Model, instances: Sequence[Instance], config: SolveConfig) -> list[Result | ElgoError]:
    begin, how = time.perf_counter(), policy.config.normalisation
    plans = [augmentations(it, how, *rollout_counts(it, config), config.seed) for it in instances]
    tasks, starts = [task for own, _ in plans for task in own], [nodes for _, own in plans for nodes in own]
    decoding = DecodeConfig(threads=config.threads, memory_gb=config.memory_gb)
    made = iter(decode(policy, tasks, starts, decoding))
    share = (time.perf_counter() - begin) / len(instances)
    found: list[Result | ElgoError] = []
    for instance, (own, nodes) in zip(instances, plans, strict=True):
        incumbent = Incumbent(instance, config, None)
        incumbent.starts, incumbent.symmetries = len(nodes[0]), len(own)
        solution = _best_of([rollouts.actions for rollouts in islice(made, len(own))], incumbent)
        if solution is None:
            found.append(_too_many_routes(incumbent))
            continue
        incumbent.offer(solution, "policy")
        result = incumbent.result()
        history = tuple(improvement._replace(seconds=share) for improvement in result.history)
        found.append(replace(result, seconds=Timings(0.0, share, 0.0, share), history=history))
    return found


def rollout_counts(instance: Instance, config: SolveConfig) -> tuple[int, int]:
    """Return the number of start nodes and of symmetries of the rollouts that policy_alone makes."""
    if instance.size > LARGE:
        return start_count(instance.customers, config.starts or START_NODES), config.symmetries or 1
    return start_count(instance.customers, config.starts), config.symmetries or SYMMETRIES


def rollout_seconds(instance: Instance, starts: int, symmetries: int, threads: int) -> float:
    """Return about how long rollouts take on a CPU."""
    at_once = min(threads, symmetries)  # one thread makes the tables of a task
    task, rollouts = TASK_SECONDS * symmetries / at_once, ROLLOUT_SECONDS * starts * symmetries / threads
    return instance.size**2 * (task + rollouts)


def load_policy(model: ModelName | Model, problem: ProblemName, device: str = "auto") -> Model:
    """Return the policy of a model, with the decoder loaded, or compiled the first time ever."""
    policy = as_policy(model, problem, device)
    if use_compiled(policy, DecodeConfig()):
        tiny = Task(np.eye(3, 2)) if problem == "tsp" else Task(np.eye(3, 2), np.array([0, 1, 1]), 1)
        decode(policy, [tiny], [np.array([1])], DecodeConfig(threads=1))
    return policy


def _rounds(count: int, first: int) -> Iterator[slice]:
    """Yield slices of range(count): `first` items, then twice as many each time."""
    begin = 0
    while begin < count:
        yield slice(begin, min(begin + first, count))
        begin, first = begin + first, 2 * first


def _best_rollout(
    policy: Model,
    incumbent: Incumbent,
    tasks: list[Task],
    starts: Sequence[Nodes],
    on_progress: OnProgress,
    on_rollouts: OnRollouts | None = None,
) -> Solution | None:
    """Return the best solution of the rollouts; None if all have more routes than there are vehicles."""
    config = incumbent.config
    decoding = DecodeConfig(threads=config.threads, memory_gb=config.memory_gb)
    made = decode(policy, tasks, starts, decoding, on_progress=on_progress, on_rollouts=on_rollouts)
    return _best_of([own.actions for own in made], incumbent)


def _best_of(rollouts: list[Actions], incumbent: Incumbent) -> Solution | None:
    """Return the best solution of the rollouts; None if all have more routes than there are vehicles."""
    vehicles = incumbent.config.vehicles
    if vehicles is not None and incumbent.instance.problem == "cvrp":
        rollouts = with_few_routes(rollouts, vehicles)
    return best_solution(incumbent.instance, rollouts) if rollouts else None


def _too_many_routes(incumbent: Incumbent) -> ElgoError:
    text = f"vehicles is {incumbent.config.vehicles}, but every rollout has more routes"
    return ElgoError(f"{incumbent.instance.name}: {text}")
