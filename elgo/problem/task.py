"""An instance as a policy sees it."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

ProblemName = Literal["tsp", "cvrp"]
PROBLEMS: tuple[ProblemName, ...] = get_args(ProblemName)


class Task(NamedTuple):
    """One instance as a policy sees it: points in the unit square and exact integer demands."""

    coords: NDArray[np.float64]  # (n, 2); CVRP: the depot first
    demand: NDArray[np.int64] | None  # (n,) in units; 0 at the depot
    capacity: int | None
