"""The problem to solve: nodes, a metric and, for CVRP, demands and a capacity.

An Instance is validated once, when it is made, so that all other code can rely on it.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from elgo.problem.distances import FloatArray, IntArray, Metric, costs_between, to_degrees
from elgo.problem.plane import project

LARGEST_DEMAND = 1e12  # so that the load of a route with a million customers fits into int64
LARGEST_NUMBER = 1e100  # of a coordinate or a cost, so that squares stay finite


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """One TSP or CVRP. All arrays are read-only; for CVRP index 0 is the depot.

    - `name`: one line of text
    - `coords`: (n, 2) as in the file, or a planar embedding of the matrix if has_coords is False
    - `metric`: the distance type
    - `demand`: (n,), 0 for the depot; None for TSP
    - `capacity`: of each vehicle; None for TSP
    - `matrix`: (n, n) costs with a zero diagonal, only for Metric.EXPLICIT; may be asymmetric
    - `labels`: (n,) node numbers of the file, 1..n unless given
    - `best_known`: lowest published cost, None if not known
    - `has_coords`: False if coords were derived from the matrix

    Raises ValueError that names the wrong field and its value.
    """

    name: str
    coords: FloatArray
    metric: Metric
    demand: FloatArray | None = None
    capacity: float | None = None
    matrix: FloatArray | None = None
    labels: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    best_known: float | None = None
    has_coords: bool = True

    def __post_init__(self) -> None:
        fix = object.__setattr__  # the only way to set fields of a frozen dataclass
        fix(self, "name", " ".join(self.name.split()))
        fix(self, "metric", Metric(self.metric))
        for name in ("coords", "demand", "matrix"):
            if getattr(self, name) is not None:
                fix(self, name, _read_only(getattr(self, name), np.float64, name.upper()))
        labels = np.arange(1, len(np.atleast_1d(self.coords)) + 1) if np.size(self.labels) == 0 else self.labels
        fix(self, "labels", _read_only(labels, np.int64, "LABELS"))
        for check in (_check_shapes, _check_labels, _check_matrix, _check_coords, _check_demand):
            check(self)
        if self.best_known is not None and not 0 <= self.best_known < np.inf:
            raise ValueError(f"BEST_KNOWN is {self.best_known}, expected a finite cost")

    def __repr__(self) -> str:
        return f"Instance({self.name!r}, {self.problem}, {self.customers} customers, {self.metric.value})"

    @property
    def size(self) -> int:
        """Number of nodes n, including the depot."""
        return len(self.coords)

    @property
    def problem(self) -> Literal["tsp", "cvrp"]:
        """The problem's name; a CVRP is an instance with demands."""
        return "tsp" if self.demand is None else "cvrp"

    @property
    def customers(self) -> int:
        """Number of nodes to visit: n for TSP, n - 1 for CVRP."""
        return self.size if self.demand is None else self.size - 1

    def distances(self, a: ArrayLike, b: ArrayLike) -> FloatArray:
        """Return the costs from nodes a to nodes b (indices, broadcast against each other)."""
        a, b = np.asarray(a), np.asarray(b)
        if self.matrix is not None:
            return np.asarray(self.matrix[a, b])
        return costs_between(self.metric, self.coords, a, b)

    def distance_matrix(self) -> FloatArray:
        """Return all costs (n, n), row = from. For Metric.EXPLICIT this is the read-only matrix itself."""
        if self.matrix is not None:
            return self.matrix
        nodes = np.arange(self.size)
        costs = np.empty((self.size, self.size))
        block = max(1, 2**20 // self.size)  # rows at a time, so that temporary arrays take about 8 MB each
        for start in range(0, self.size, block):
            rows = nodes[start : start + block]
            costs[rows] = self.distances(rows[:, None], nodes)
        return costs

    def plane(self) -> FloatArray:
        """Return points (n, 2) for the policy and for plots: coords, projected if they are latitude and longitude."""
        degrees = to_degrees(self.metric, self.coords)
        return self.coords if degrees is None else project(degrees)

    def units(self) -> tuple[IntArray, int]:
        """Return demands (n,) and capacity as integers: multiples of 10^-k, with the smallest k <= 6 that is exact.

        If none is, the capacity becomes 10^12 and demands are rounded up, so that a load that fits in these units
        also fits in fact. Raises ValueError for TSP.
        """
        if self.demand is None or self.capacity is None:
            raise ValueError(f"{self.name} is a TSP: it has no DEMAND")
        amounts = np.append(self.demand, self.capacity)
        for k in range(7):
            scaled = amounts * 10.0**k
            whole = np.rint(scaled)
            if scaled[-1] > LARGEST_DEMAND:
                break
            if np.all(np.abs(scaled - whole) <= np.minimum(1e-9 * scaled, 1e-6)):
                return whole[:-1].astype(np.int64), int(whole[-1])
        return np.ceil(self.demand / self.capacity * LARGEST_DEMAND).astype(np.int64), int(LARGEST_DEMAND)


def _read_only(values: ArrayLike, dtype: type, name: str) -> NDArray:
    """Return a read-only copy of the values as an array; an array that is read-only already is returned itself."""
    if isinstance(values, np.ndarray) and values.dtype == dtype and values.base is None and not values.flags.writeable:
        return values
    try:
        array: NDArray = np.array(values, dtype=dtype, order="C")
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not an array of numbers") from None
    if dtype is np.int64 and not np.array_equal(array, values):
        raise ValueError(f"{name} has a number that is not an integer")
    array.setflags(write=False)
    return array


# Validation, one function per concern.


def _check_shapes(it: Instance) -> None:
    n = len(it.coords) if it.coords.ndim else 0
    for name, shape in {"coords": (n, 2), "labels": (n,), "demand": (n,), "matrix": (n, n)}.items():
        array = getattr(it, name)
        if array is not None and array.shape != shape:
            raise ValueError(f"{name.upper()} has shape {array.shape}, expected {shape}")
    if not it.name or not it.name.isprintable():
        raise ValueError(f"NAME is {it.name!r}, expected one line of printable text")
    if it.demand is None and it.size < 3:
        raise ValueError(f"DIMENSION is {it.size}, but a TSP needs at least 3 nodes")
    if it.demand is not None and it.customers < 2:
        raise ValueError(f"DIMENSION is {it.size}, but a CVRP needs a depot and at least 2 customers")


def _check_labels(it: Instance) -> None:
    values, counts = np.unique(it.labels, return_counts=True)
    if len(values) < it.size:
        raise ValueError(f"node number {values[counts > 1][0]} is used {counts.max()} times")
    if values[0] < 0:  # -1 ends the lists of nodes in files
        raise ValueError(f"node number {values[0]} is negative")


def _check_coords(it: Instance) -> None:
    for i in np.flatnonzero(~(np.abs(it.coords) <= LARGEST_NUMBER).all(axis=1)):
        x, y = it.coords[i]
        raise ValueError(f"COORDS of node {it.labels[i]} are ({x:g}, {y:g}), expected finite numbers")
    if np.all(it.plane() == it.plane()[0]):
        raise ValueError(f"COORDS of all {it.size} nodes are equal ({it.coords[0, 0]:g}, {it.coords[0, 1]:g})")
    if it.metric is Metric.HAVERSINE:
        for axis, (name, limit) in enumerate((("LAT", 90), ("LON", 360))):
            for i in np.flatnonzero(np.abs(it.coords[:, axis]) > limit):
                value = it.coords[i, axis]
                raise ValueError(f"{name} of node {it.labels[i]} is {value:g}, outside -{limit}..{limit}")


def _check_matrix(it: Instance) -> None:
    if (it.matrix is not None) != (it.metric is Metric.EXPLICIT):
        raise ValueError(f"MATRIX is {'missing' if it.matrix is None else 'given'} but the metric is {it.metric.value}")
    if it.matrix is None:
        if not it.has_coords:
            raise ValueError(f"HAS_COORDS is False but the metric is {it.metric.value}, which needs coordinates")
        return
    for i, j in np.argwhere(~((it.matrix >= 0) & (it.matrix <= LARGEST_NUMBER))):
        pair = f"node {it.labels[i]} to node {it.labels[j]}"
        raise ValueError(f"MATRIX from {pair} is {it.matrix[i, j]:g}, expected a finite cost >= 0")
    for i in np.flatnonzero(it.matrix.diagonal()):
        raise ValueError(f"MATRIX from node {it.labels[i]} to itself is {it.matrix[i, i]:g}, expected 0")
    if not it.matrix.any():
        raise ValueError(f"MATRIX is 0 for all {it.size} nodes")


def _check_demand(it: Instance) -> None:
    if (it.demand is None) != (it.capacity is None):
        missing = "CAPACITY" if it.capacity is None else "DEMAND"
        raise ValueError(f"{missing} is missing: a CVRP has both DEMAND and CAPACITY")
    if it.demand is None or it.capacity is None:
        return
    if not 0 < it.capacity <= LARGEST_DEMAND:
        raise ValueError(f"CAPACITY is {it.capacity:g}, expected more than 0 and at most {LARGEST_DEMAND:g}")
    rules = (
        (~np.isfinite(it.demand), "expected a finite number"),
        (it.demand < 0, "expected 0 or more"),
        (it.demand > it.capacity, f"more than CAPACITY {it.capacity:g}"),
        (it.demand[:1] != 0, "expected 0 because it is the depot"),
    )
    for bad, message in rules:
        for i in np.flatnonzero(bad):
            raise ValueError(f"DEMAND of node {it.labels[i]} is {it.demand[i]:g}, {message}")
