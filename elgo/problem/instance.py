"""The problem to solve: nodes, a metric and, for CVRP, demands and a capacity.

An Instance is validated once, when it is made, so that all other code can rely on it.
"""

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from elgo.problem.distances import FloatArray, IntArray, Metric, costs_between, to_degrees
from elgo.problem.errors import ElgoError
from elgo.problem.plane import embed, project

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
    - `open`: routes end at their last stop; the way back costs nothing
    - `first`, `last`: node at which the tour of a TSP begins, or ends (it is open then); None for any

    Raises ElgoError that names the wrong field and its value.
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
    open: bool = False
    first: int | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        fix = object.__setattr__  # the only way to set fields of a frozen dataclass
        fix(self, "name", " ".join(self.name.split()))
        fix(self, "metric", Metric(self.metric))
        for name in ("capacity", "best_known"):
            fix(self, name, _to_float(getattr(self, name)))
        for name in ("coords", "demand", "matrix"):
            if getattr(self, name) is not None:
                fix(self, name, _read_only(getattr(self, name), np.float64, name.upper()))
        labels = np.arange(1, len(np.atleast_1d(self.coords)) + 1) if np.size(self.labels) == 0 else self.labels
        fix(self, "labels", _read_only(labels, np.int64, "LABELS"))
        for check in (_check_shapes, _check_labels, _check_matrix, _check_coords, _check_demand, _check_ends):
            check(self)
        fix(self, "open", self.open or self.last is not None)
        if self.best_known is not None and not 0 <= self.best_known < np.inf:
            raise ElgoError(f"BEST_KNOWN is {self.best_known:g}, expected a finite cost")

    @classmethod
    def from_coords(
        cls,
        coords: ArrayLike,
        *,
        demand: ArrayLike | None = None,
        capacity: float | None = None,
        metric: Metric | str = Metric.EXACT,
        name: str = "instance",
    ) -> Self:
        """Return the instance with nodes at coords (n, 2): a CVRP if demand (n,) and capacity are given, else a TSP.

        Node 0 of a CVRP is the depot, with demand 0. Any array-like will do, such as lists of pairs. The metric
        "HAVERSINE" takes (latitude, longitude) in degrees and gives metres.
        """
        points = _read_only(coords, np.float64, "COORDS")
        return cls(name, points, Metric(metric), _optional(demand, "DEMAND"), capacity)

    @classmethod
    def from_matrix(
        cls,
        matrix: ArrayLike,
        *,
        demand: ArrayLike | None = None,
        capacity: float | None = None,
        coords: ArrayLike | None = None,
        name: str = "instance",
    ) -> Self:
        """Return the instance with these costs (n, n) from node to node, which may differ by direction.

        Demand and capacity are those of `from_coords`. Coords, for pictures, are computed from the matrix unless given.
        """
        costs = _read_only(matrix, np.float64, "MATRIX")
        if costs.ndim != 2 or costs.shape[0] != costs.shape[1]:
            raise ElgoError(f"MATRIX has shape {costs.shape}, expected (n, n)")
        points = np.zeros((len(costs), 2)) if coords is None else _read_only(coords, np.float64, "COORDS")
        given = coords is not None
        instance = cls(
            name, points, Metric.EXPLICIT, _optional(demand, "DEMAND"), capacity, matrix=costs, has_coords=given
        )
        return instance if given else replace(instance, coords=embed(costs))

    def with_ends(self, *, open: bool | None = None, first: int | None = None, last: int | None = None) -> Self:
        """Return the same problem with open routes, or with a fixed first or last stop; see the fields.

        What is not given stays as it is. The best known cost is that of closed routes: open ones have none.
        """
        given = {name: value for name, value in (("open", open), ("first", first), ("last", last)) if value is not None}
        changed = replace(self, **given)  # type: ignore[arg-type]
        return replace(changed, best_known=None) if changed.open else changed

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
        """Return the costs from nodes a to nodes b (indices, broadcast against each other).

        Where the routes of a CVRP are open, the way back to the depot costs 0.
        """
        a, b = np.asarray(a), np.asarray(b)
        costs = self.matrix[a, b] if self.matrix is not None else costs_between(self.metric, self.coords, a, b)
        return np.where(b == 0, 0.0, costs) if self.open and self.demand is not None else np.asarray(costs)

    def distance_matrix(self) -> FloatArray:
        """Return all costs (n, n), row = from; may be the read-only matrix of the instance itself."""
        if self.matrix is not None and not self.open:
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
        also fits in fact. Raises ElgoError for TSP.
        """
        if self.demand is None or self.capacity is None:
            raise ElgoError(f"{self.name} is a TSP: it has no DEMAND")
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
    except (TypeError, ValueError, OverflowError):
        raise ElgoError(f"{name} is not an array of numbers") from None
    if dtype is np.int64 and not np.array_equal(array, values):
        raise ElgoError(f"{name} has a number that is not an integer")
    array.setflags(write=False)
    return array


def _to_float(value: float | None) -> float | None:
    """Return a number as a float; integers that are too large for one, as JSON may have, become infinite."""
    try:
        return None if value is None else float(value)
    except OverflowError:
        return float("inf")


def _optional(values: ArrayLike | None, name: str) -> FloatArray | None:
    return None if values is None else _read_only(values, np.float64, name)


# Validation, one function per concern.


def _check_shapes(it: Instance) -> None:
    n = len(it.coords) if it.coords.ndim else 0
    for name, shape in {"coords": (n, 2), "labels": (n,), "demand": (n,), "matrix": (n, n)}.items():
        array = getattr(it, name)
        if array is not None and array.shape != shape:
            raise ElgoError(f"{name.upper()} has shape {array.shape}, expected {shape}")
    if not it.name or not it.name.isprintable():
        raise ElgoError(f"NAME is {it.name!r}, expected one line of printable text")
    if it.size == 0:
        raise ElgoError("DIMENSION is 0, expected at least one node")


def _check_labels(it: Instance) -> None:
    values, counts = np.unique(it.labels, return_counts=True)
    if len(values) < it.size:
        raise ElgoError(f"node number {values[counts > 1][0]} is used {counts.max()} times")
    if values[0] < 0:  # -1 ends the lists of nodes in files
        raise ElgoError(f"node number {values[0]} is negative")


def _check_coords(it: Instance) -> None:
    for i in np.flatnonzero(~(np.abs(it.coords) <= LARGEST_NUMBER).all(axis=1)):
        x, y = it.coords[i]
        raise ElgoError(f"COORDS of node {it.labels[i]} are ({x:g}, {y:g}), expected finite numbers")
    if it.metric is Metric.HAVERSINE:
        for axis, (name, limit) in enumerate((("LAT", 90), ("LON", 360))):
            for i in np.flatnonzero(np.abs(it.coords[:, axis]) > limit):
                value = it.coords[i, axis]
                raise ElgoError(f"{name} of node {it.labels[i]} is {value:g}, outside -{limit}..{limit}")


def _check_matrix(it: Instance) -> None:
    if (it.matrix is not None) != (it.metric is Metric.EXPLICIT):
        raise ElgoError(f"MATRIX is {'missing' if it.matrix is None else 'given'} but the metric is {it.metric.value}")
    if it.matrix is None:
        if not it.has_coords:
            raise ElgoError(f"HAS_COORDS is False but the metric is {it.metric.value}, which needs coordinates")
        return
    for i, j in np.argwhere(~((it.matrix >= 0) & (it.matrix <= LARGEST_NUMBER))):
        pair = f"node {it.labels[i]} to node {it.labels[j]}"
        raise ElgoError(f"MATRIX from {pair} is {it.matrix[i, j]:g}, expected a finite cost >= 0")
    for i in np.flatnonzero(it.matrix.diagonal()):
        raise ElgoError(f"MATRIX from node {it.labels[i]} to itself is {it.matrix[i, i]:g}, expected 0")


def _check_demand(it: Instance) -> None:
    if (it.demand is None) != (it.capacity is None):
        missing = "CAPACITY" if it.capacity is None else "DEMAND"
        raise ElgoError(f"{missing} is missing: a CVRP has both DEMAND and CAPACITY")
    if it.demand is None or it.capacity is None:
        return
    if not 0 < it.capacity <= LARGEST_DEMAND:
        raise ElgoError(f"CAPACITY is {it.capacity:g}, expected more than 0 and at most {LARGEST_DEMAND:g}")
    rules = (
        (~np.isfinite(it.demand), "expected a finite number"),
        (it.demand < 0, "expected 0 or more"),
        (it.demand > it.capacity, f"more than CAPACITY {it.capacity:g}{_others(it, it.demand > it.capacity)}"),
        (it.demand[:1] != 0, "expected 0 because it is the depot"),
    )
    for bad, message in rules:
        for i in np.flatnonzero(bad):
            raise ElgoError(f"DEMAND of node {it.labels[i]} is {it.demand[i]:g}, {message}")


def _others(it: Instance, wrong: NDArray[np.bool_], most: int = 10) -> str:
    """Return the wrong nodes after the first one as the end of a message."""
    nodes = [str(label) for label in it.labels[wrong][1:]]
    more = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return f"; so is that of node{'s' * (len(nodes) > 1)} {', '.join(nodes[:most])}{more}" if nodes else ""


def _check_ends(it: Instance) -> None:
    for name in ("first", "last"):
        node = getattr(it, name)
        if node is None:
            continue
        if it.demand is not None:
            raise ElgoError(f"{name.upper()} is {node}, but only a TSP takes it: CVRP routes begin at the depot")
        if not 0 <= node < it.size:
            raise ElgoError(f"{name.upper()} is {node}, expected a node of 0..{it.size - 1}")
    if it.first is not None and it.first == it.last and it.size > 1:
        raise ElgoError(f"FIRST and LAST are both {it.first}; for a tour that returns there give FIRST alone")
