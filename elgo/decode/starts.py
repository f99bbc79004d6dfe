"""Where rollouts begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elgo.problem.task import Task

EVERY_START = 1000  # nodes up to which every node is a start, as in the paper
STARTS = 100  # in larger instances


def all_starts(task: Task) -> NDArray[np.int64]:
    """Return every node but the depot."""
    return np.arange(0 if task.demand is None else 1, len(task.coords))


def start_count(customers: int, starts: int | None) -> int:
    """Return the number of start nodes: as asked for, by default all up to 1,000 customers and 100 above."""
    return min(starts or (customers if customers <= EVERY_START else STARTS), customers)


def choose_starts(task: Task, starts: int | None, seed: int) -> NDArray[np.int64]:
    """Return the first nodes of the rollouts in ascending order: all nodes, or a random sample of them."""
    nodes = all_starts(task)
    count = start_count(len(nodes), starts)
    if count == len(nodes):
        return nodes
    return np.sort(np.random.default_rng(seed).choice(nodes, count, replace=False))
