"""The policy's solutions: instances as tasks, where rollouts start, and the best of what they become."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elgo.covering import MOST_CUSTOMERS
from elgo.decode.rollout import Actions
from elgo.decode.starts import choose_starts
from elgo.model.checkpoint import load_policy, shipped_weights
from elgo.model.env import ProblemName, Task
from elgo.model.policy import Policy, PolicyConfig
from elgo.problem.augment import normalise, symmetry
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution

Views = tuple[list[Task], list[NDArray[np.int64]]]


def views(instance: Instance, starts: int | None, symmetries: int, seed: int, policy: PolicyConfig) -> Views:
    """What to decode: the instance under its symmetries, and the first nodes of the rollouts of each."""
    indices = distinct_symmetries(symmetries, policy, instance.customers)
    tasks = [make_task(instance, index) for index in indices]
    return tasks, [choose_starts(task, starts, seed, policy, len(tasks)) for task in tasks]


def distinct_symmetries(count: int, policy: PolicyConfig, customers: int) -> list[int]:
    """Which of the first `count` symmetries to decode: a window alone sees rotations as the same instance.

    Not so with the kin of a CVRP, which shows other savings solutions and plans each time. Only in large ones would
    finding them take longer than all rollouts.
    """
    same = policy.local == "window" and not policy.global_policy
    if policy.kin and policy.problem == "cvrp" and customers <= MOST_CUSTOMERS:
        same = False
    return list(range(count))[:2] if same else list(range(count))  # 1 is a reflection


def make_task(instance: Instance, index: int = 0) -> Task:
    """The instance as the policy sees it under symmetry `index`."""
    coords = symmetry(normalise(instance.plane()), index)
    return Task(coords, *instance.units()) if instance.problem == "cvrp" else Task(coords, None, None)


def best_solution(instance: Instance, rollouts: list[Actions]) -> Solution:
    """The cheapest of all rollouts (lists of (M, T)), costed by the instance's own distance rule."""
    best = min(((costs(instance, actions), actions) for actions in rollouts), key=lambda pair: pair[0].min())
    return Solution(instance, routes(instance, best[1][best[0].argmin()]))


def with_few_routes(rollouts: list[Actions], vehicles: int) -> list[Actions]:
    """Only the rollouts of a CVRP (lists of (M, T), none of them empty) that make do with so many vehicles."""
    ends = [np.pad(actions, ((0, 0), (0, 1))) for actions in rollouts]  # the last return may be cut off
    used = [((walk[:, 1:] == 0) & (walk[:, :-1] != 0)).sum(axis=1) for walk in ends]
    few = [actions[count <= vehicles] for actions, count in zip(rollouts, used, strict=True)]
    return [actions for actions in few if len(actions)]


def costs(instance: Instance, actions: Actions) -> NDArray[np.float64]:
    """(M,) costs of rollouts (M, T)."""
    total = np.empty(len(actions))
    for rows in _chunks(len(actions), max(1, 2**22 // actions.shape[1])):
        walk = actions[rows]
        if instance.problem == "cvrp":
            walk = np.pad(walk, ((0, 0), (1, 0)))
        total[rows] = instance.distances(walk, np.roll(walk, -1, axis=1)).sum(axis=1)
    return total


def routes(instance: Instance, actions: NDArray[np.int32]) -> tuple[tuple[int, ...], ...]:
    """A rollout (T,) as routes: cut at the depot in CVRP, one tour in TSP."""
    if instance.problem == "tsp":
        return (tuple(actions.tolist()),)
    pieces = np.split(actions, np.flatnonzero(actions == 0))
    return tuple(route for piece in pieces if (route := tuple(piece[piece != 0].tolist())))


def _chunks(count: int, size: int) -> Iterator[slice]:
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))


def policy_for(instance: Instance, weights: str | Path | None) -> Policy:
    """The policy in a weights file, by default that of the package."""
    path = Path(weights) if weights is not None else shipped_weights(instance.problem)
    return _load(path, path.stat().st_mtime_ns if path.is_file() else 0, instance.problem)


@lru_cache(maxsize=4)
def _load(path: Path, modified: int, problem: ProblemName) -> Policy:
    """Weights are read once per file and version of it, however many instances are solved."""
    return load_policy(path, problem)
