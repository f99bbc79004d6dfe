"""Augmentation: normalisation of points to the unit square, and the 8 symmetries of the square (POMO's x8)."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from elgo.problem.errors import ElgoError
from elgo.problem.task import Task

Normalisation = Literal["fit", "raw", "official"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)

SYMMETRIES = 8


def normalise(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points (n, 2) moved and scaled into the unit square, centred.

    Both axes are scaled by the same factor, so that distances and angles keep their meaning for the local policy.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    side = (high - low).max() or 1.0
    return (points - (low + high) / 2) / side + 0.5


def normalise_task(task: Task, how: Normalisation) -> Task:
    """Return the task with the coordinates that a policy sees.

    fit: `normalise`. raw: as they are if all of them lie in the unit square, otherwise `normalise`. official: also as
    they are in the unit square; otherwise as in the published evaluation code, which moves and scales a TSP by the
    lowest and highest number of both axes together, and each axis of a CVRP by its own.
    """
    points = task.coords
    if how != "fit" and points.min() >= 0 and points.max() <= 1:
        return task
    if how != "official":
        return task._replace(coords=normalise(points))
    axis = None if task.demand is None else 0
    span = np.ptp(points, axis=axis)
    return task._replace(coords=(points - points.min(axis=axis)) / np.where(span > 0, span, 1.0))


def symmetry(points: NDArray[np.float64], index: int) -> NDArray[np.float64]:
    """Return points (n, 2) of the unit square under symmetry `index` of 0..7; 0 is the identity."""
    if not 0 <= index < SYMMETRIES:
        raise ElgoError(f"symmetry is {index}, must be 0..{SYMMETRIES - 1}")
    x, y = points[:, 0], points[:, 1]
    if index & 1:
        x = 1 - x
    if index & 2:
        y = 1 - y
    if index & 4:
        x, y = y, x
    return np.stack([x, y], axis=1)
