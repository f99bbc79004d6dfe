"""A TSP or CVRP as three arrays: what generators make and policies see."""

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

ProblemName = Literal["tsp", "cvrp"]
PROBLEMS: tuple[ProblemName, ...] = get_args(ProblemName)


class Task(NamedTuple):
    """One TSP or CVRP with Euclidean distances and exact integer demands. A policy needs points in the unit square."""

    coords: NDArray[np.float64]  # (n, 2); CVRP: the depot first
    demand: NDArray[np.int64] | None = None  # (n,) in units; 0 at the depot
    capacity: int | None = None

    @property
    def size(self) -> int:
        """Number of nodes, including the depot."""
        return len(self.coords)

    @property
    def problem(self) -> ProblemName:
        """The problem's name, "tsp" or "cvrp"."""
        return "tsp" if self.demand is None else "cvrp"

    @property
    def customers(self) -> int:
        """N of the literature: the number of nodes without the depot."""
        return self.size if self.demand is None else self.size - 1
