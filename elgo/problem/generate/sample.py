"""Generated instances as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elgo.problem.instance import Instance, Metric


@dataclass(frozen=True, eq=False)
class Sample:
    """A generated instance: coords (n, 2) float64; for CVRP demand (n,) int64 and capacity, with the depot first."""

    coords: np.ndarray
    demand: np.ndarray | None = None
    capacity: int | None = None

    def __post_init__(self) -> None:
        if self.coords.ndim != 2 or self.coords.shape[1] != 2:
            raise ValueError(f"coords has shape {self.coords.shape}, expected (n, 2)")
        if (self.demand is None) != (self.capacity is None):
            raise ValueError("demand and capacity must be given together")
        if self.demand is not None and self.demand.shape != (len(self.coords),):
            raise ValueError(f"demand has shape {self.demand.shape}, expected ({len(self.coords)},)")

    @property
    def size(self) -> int:
        """Number of nodes, including the depot."""
        return len(self.coords)

    @property
    def problem(self) -> str:
        """The problem's name, "tsp" or "cvrp"."""
        return "tsp" if self.demand is None else "cvrp"

    @property
    def customers(self) -> int:
        """N of the literature: the number of nodes without the depot."""
        return self.size if self.demand is None else self.size - 1


def as_instance(sample: Sample, name: str = "sample") -> Instance:
    """Return the sample as an Instance with unrounded Euclidean distances, as usual for synthetic sets."""
    demand = None if sample.demand is None else sample.demand.astype(np.float64)
    capacity = None if sample.capacity is None else float(sample.capacity)
    return Instance(name=name, coords=sample.coords, metric=Metric.EXACT, demand=demand, capacity=capacity)
