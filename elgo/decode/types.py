"""What goes into the decoder and what comes out of it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elgo.problem.task import Task

Actions = NDArray[np.int32]  # (M, T): a TSP tour, or a CVRP giant tour with the depot's 0 between routes and at the end
Confidence = NDArray[np.float32]  # (M, T) probability of the likeliest node; 0 for the start and for greedy moves


class Rollouts(NamedTuple):
    """The rollouts of one task."""

    actions: Actions
    confidence: Confidence


class Request(NamedTuple):
    """The rollouts to make of one task."""

    task: Task
    starts: NDArray[np.int64]  # (M,)
    uniforms: NDArray[np.float32]  # (M, T) numbers that decide sampled moves; (0, 0) for greedy rollouts


def longest(task: Task, starts: NDArray[np.int64]) -> int:
    """Return the maximum number of actions that a rollout of this task can take from these nodes."""
    return task.size if task.demand is None else 2 * task.customers + int((starts == 0).any())


def new_rollouts(request: Request) -> Rollouts:
    """Return arrays for the rollouts of a request, filled with zeros."""
    shape = len(request.starts), longest(request.task, request.starts)
    return Rollouts(np.zeros(shape, np.int32), np.zeros(shape, np.float32))
