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


def choose_starts(task: Task, starts: int | None, seed: int) -> NDArray[np.int64]:
    """Return the first nodes of the rollouts in ascending order: all nodes, or a random sample of `starts` of them.

    By default every node of an instance with up to 1,000 nodes is a start, and 100 nodes of a larger one.
    """
    nodes = all_starts(task)
    count = min(starts or (len(nodes) if len(nodes) <= EVERY_START else STARTS), len(nodes))
    if count == len(nodes):
        return nodes
    return np.sort(np.random.default_rng(seed).choice(nodes, count, replace=False))
