"""The policy's solutions: instances as tasks, where rollouts start, and the best of what they become."""

import numpy as np
from numpy.typing import NDArray

from elgo.decode.types import Actions
from elgo.problem.augment import Normalisation, normalise_task, symmetry
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.problem.task import Task

Augmentations = tuple[list[Task], list[NDArray[np.int64]]]

EVERY_START = 1000  # nodes up to which every node is a start, as in the paper
STARTS = 100  # in larger instances


def all_starts(task: Task, how: Normalisation = "fit") -> NDArray[np.int64]:
    """Return every node but the depot; "official" are 0 to N - 1 of a CVRP, as published: not the last customer."""
    if task.demand is None or how == "official":
        return np.arange(task.customers)
    return np.arange(1, task.size)


def start_count(customers: int, starts: int | None) -> int:
    """Return the number of start nodes: as asked for, by default all up to 1,000 customers and 100 above."""
    return min(starts or (customers if customers <= EVERY_START else STARTS), customers)


def choose_starts(task: Task, starts: int | None, seed: int, how: Normalisation = "fit") -> NDArray[np.int64]:
    """Return the first nodes of the rollouts in ascending order: all nodes, or a random sample of them."""
    nodes = all_starts(task, how)
    count = start_count(len(nodes), starts)
    if count == len(nodes):
        return nodes
    return np.sort(np.random.default_rng(seed).choice(nodes, count, replace=False))


def augmentations(
    instance: Instance, how: Normalisation, starts: int | None, symmetries: int, seed: int
) -> Augmentations:
    """Return the instance under the first `symmetries` symmetries as tasks, and the start nodes of each."""
    tasks = [make_task(instance, how, index) for index in range(symmetries)]
    return tasks, [choose_starts(task, starts, seed, how) for task in tasks]


def make_task(instance: Instance, how: Normalisation = "fit", index: int = 0) -> Task:
    """The instance as the policy sees it under symmetry `index`."""
    task = Task(instance.plane(), *(instance.units() if instance.problem == "cvrp" else (None, None)))
    task = normalise_task(task, how)
    return task._replace(coords=symmetry(task.coords, index))


def best_solution(instance: Instance, rollouts: list[Actions]) -> Solution:
    """The cheapest of all rollouts (lists of (M, T)), costed by the instance's own distance rule."""
    if len(rollouts) == len(rollouts[0]) == 1:
        return Solution(instance, routes(instance, rollouts[0][0]))
    best = min(((costs(instance, actions), actions) for actions in rollouts), key=lambda pair: pair[0].min())
    return Solution(instance, routes(instance, best[1][best[0].argmin()]))


def with_few_routes(rollouts: list[Actions], vehicles: int) -> list[Actions]:
    """Only the rollouts of a CVRP (lists of (M, T), none of them empty) that make do with so many vehicles."""
    ends = [np.pad(actions, ((0, 0), (0, 1))) for actions in rollouts]  # the last return may be cut off
    used = [((walk[:, 1:] == 0) & (walk[:, :-1] != 0)).sum(axis=1) for walk in ends]
    few = [actions[count <= vehicles] for actions, count in zip(rollouts, used, strict=True)]
    return [actions for actions in few if len(actions)]


def costs(instance: Instance, actions: Actions) -> NDArray[np.float64]:
    """(M,) costs of rollouts (M, T); of an open tour without its longest edge, where it can be cut."""
    total = np.empty(len(actions))
    size = max(1, 2**22 // actions.shape[1])
    for begin in range(0, len(actions), size):
        rows = slice(begin, begin + size)
        walk = actions[rows]
        if instance.problem == "cvrp":
            walk = np.pad(walk, ((0, 0), (1, 0)))
        edges = instance.distances(walk, np.roll(walk, -1, axis=1))
        total[rows] = edges.sum(axis=1)
        if instance.open and instance.problem == "tsp":
            total[rows] -= edges.max(axis=1)
    return total


def routes(instance: Instance, actions: NDArray[np.int32]) -> tuple[tuple[int, ...], ...]:
    """A rollout (T,) as routes: cut at the depot in CVRP, one tour in TSP."""
    if instance.problem == "tsp":
        return (tuple(actions.tolist()),)
    pieces = np.split(actions, np.flatnonzero(actions == 0))
    return tuple(route for piece in pieces if (route := tuple(piece[piece != 0].tolist())))
