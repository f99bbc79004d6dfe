"""The problem to solve: nodes, a distance rule and, for CVRP, demands and a capacity.

An Instance checks itself once, when it is made; everything downstream may rely on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

EARTH_RADIUS = 6_371_008.8  # metres, mean radius (IUGG)
LARGEST_DEMAND = 1e12  # so that the load of a route of a million customers still fits into int64
LARGEST_NUMBER = 1e100  # of a coordinate or a cost, so that squares stay finite
FULL_EIGH_LIMIT = 300  # above this size only the two eigenvectors that matter are computed, much faster


class Metric(StrEnum):
    """How the cost between two nodes follows from the data; the value is the EDGE_WEIGHT_TYPE in files."""

    EUC_2D = "EUC_2D"  # Euclidean, rounded to the nearest integer
    CEIL_2D = "CEIL_2D"  # Euclidean, rounded up
    GEO = "GEO"  # kilometres on TSPLIB's earth, rounded; coordinates are DDD.MM (latitude, longitude)
    ATT = "ATT"  # TSPLIB's pseudo-Euclidean rule
    EXACT = "EXACT_2D"  # Euclidean, not rounded (our extension)
    HAVERSINE = "HAVERSINE"  # metres on a sphere; coordinates are (latitude, longitude) in degrees (our extension)
    EXPLICIT = "EXPLICIT"  # a matrix

    @property
    def rounded(self) -> bool:
        """True if every cost is an integer by definition."""
        return self in (Metric.EUC_2D, Metric.CEIL_2D, Metric.GEO, Metric.ATT)


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """One TSP or CVRP. All arrays are read-only; for CVRP index 0 is the depot.

    name        one line of text
    coords      (n, 2) the file's own numbers, or the planar embedding of the matrix if has_coords is False
    metric      the distance rule
    demand      (n,) or None for TSP; the depot's is 0
    capacity    of each vehicle, or None for TSP
    matrix      (n, n) costs with a zero diagonal, only for Metric.EXPLICIT; may be asymmetric
    labels      (n,) the file's node numbers, 1..n unless given
    best_known  lowest cost known from elsewhere, in this instance's own units
    has_coords  False if coords were derived from the matrix

    Raises ValueError naming the field and the value that is wrong.
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
        fix = object.__setattr__  # the one way to normalise the fields of a frozen dataclass
        fix(self, "name", " ".join(self.name.split()))
        fix(self, "metric", Metric(self.metric))
        fix(self, "coords", _read_only(self.coords, np.float64, "COORDS"))
        if self.demand is not None:
            fix(self, "demand", _read_only(self.demand, np.float64, "DEMAND"))
        if self.matrix is not None:
            fix(self, "matrix", _read_only(self.matrix, np.float64, "MATRIX"))
        labels = np.arange(1, len(np.atleast_1d(self.coords)) + 1) if np.size(self.labels) == 0 else self.labels
        fix(self, "labels", _read_only(labels, np.int64, "LABELS"))
        for check in (_check_shapes, _check_size, _check_labels, _check_matrix, _check_coords, _check_demand):
            check(self)
        if self.best_known is not None and not 0 <= self.best_known < np.inf:
            raise ValueError(f"BEST_KNOWN is {self.best_known}, expected a finite cost")

    def __repr__(self) -> str:
        return f"Instance({self.name!r}, {self.problem}, {self.customers} customers, {self.metric.value})"

    @property
    def size(self) -> int:
        """Number of nodes n, the depot included."""
        return len(self.coords)

    @property
    def problem(self) -> Literal["tsp", "cvrp"]:
        return "tsp" if self.demand is None else "cvrp"

    @property
    def customers(self) -> int:
        """Number of nodes to visit: n for TSP, n - 1 for CVRP."""
        return self.size if self.demand is None else self.size - 1

    def distances(self, a: ArrayLike, b: ArrayLike) -> FloatArray:
        """Costs from the nodes a to the nodes b (indices, broadcast against each other)."""
        a, b = np.asarray(a), np.asarray(b)
        if self.matrix is not None:
            return np.asarray(self.matrix[a, b])
        cost = _KERNELS[self.metric](self.coords[a], self.coords[b])
        # TSPLIB's GEO formula gives 1 even for a node and itself.
        return np.where(a == b, 0.0, cost) if self.metric is Metric.GEO else cost

    def distance_matrix(self) -> FloatArray:
        """All costs (n, n), row = from. Of an EXPLICIT instance the (read-only) matrix itself."""
        if self.matrix is not None:
            return self.matrix
        nodes = np.arange(self.size)
        costs = np.empty((self.size, self.size))
        block = max(1, 2**20 // self.size)  # rows at a time: the temporaries stay near 8 MB each
        for start in range(0, self.size, block):
            rows = nodes[start : start + block]
            costs[rows] = self.distances(rows[:, None], nodes)
        return costs

    def plane(self) -> FloatArray:
        """Points (n, 2) for the policy and for plots: coords, but x = east and y = north for GEO and HAVERSINE."""
        if self.metric is Metric.GEO:
            return _project(geo_degrees(self.coords))
        if self.metric is Metric.HAVERSINE:
            return _project(self.coords)
        return self.coords

    def units(self) -> tuple[IntArray, int]:
        """Demands (n,) and capacity in whole units of 10^-k, with the smallest k <= 6 that makes every number whole.

        Where none does, the capacity becomes 10^12 units and demands are rounded up: what fits in units then fits in
        fact. Raises ValueError for TSP.
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


def embed(matrix: FloatArray) -> FloatArray:
    """Costs (n, n) -> points (n, 2) in the plane whose distances resemble them: classical multidimensional scaling.

    Of an asymmetric matrix the mean of both directions is used. The result is centred and deterministic.
    """
    if len(matrix) < 2:
        return np.zeros((len(matrix), 2))
    squared = ((matrix + matrix.T) / 2) ** 2
    mean = squared.mean(axis=0)
    gram = -0.5 * (squared - mean - mean[:, None] + mean.mean())
    values, vectors = _leading_two(gram)
    points = vectors * np.sqrt(np.maximum(values, 0.0))
    # An eigenvector has no sign of its own: let its largest entry be positive.
    peaks = points[np.abs(points).argmax(axis=0), [0, 1]]
    return np.asarray(points * np.where(peaks < 0, -1.0, 1.0))


def _leading_two(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The two largest eigenvalues (2,) of a symmetric matrix, falling, and their vectors (n, 2)."""
    if len(gram) <= FULL_EIGH_LIMIT:
        values, vectors = np.linalg.eigh(gram)
    else:
        from scipy.sparse.linalg import eigsh  # slow to import, and only needed here

        # A fixed start keeps the result reproducible; a constant one would lie in the null space of gram.
        values, vectors = eigsh(gram, k=2, which="LA", v0=np.cos(np.arange(len(gram))))
    return values[:-3:-1], vectors[:, :-3:-1]


def _read_only(values: ArrayLike, dtype: type, name: str) -> NDArray:
    """A private read-only array of the values; one that already is such is shared."""
    if isinstance(values, np.ndarray) and values.dtype == dtype and values.base is None and not values.flags.writeable:
        return values
    try:
        array: NDArray = np.array(values, dtype=dtype, order="C")
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not an array of numbers") from None
    if dtype is np.int64 and not np.array_equal(array, values):
        raise ValueError(f"{name} has a number that is not whole")
    array.setflags(write=False)
    return array


# Validation, one concern each.


def _check_shapes(it: Instance) -> None:
    n = len(it.coords) if it.coords.ndim else 0
    wanted = {"COORDS": (it.coords, (n, 2)), "LABELS": (it.labels, (n,))}
    if it.demand is not None:
        wanted["DEMAND"] = (it.demand, (n,))
    if it.matrix is not None:
        wanted["MATRIX"] = (it.matrix, (n, n))
    for name, (array, shape) in wanted.items():
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    if not it.name or not it.name.isprintable():
        raise ValueError(f"NAME is {it.name!r}, expected one line of printable text")


def _check_size(it: Instance) -> None:
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
    bad = ~(np.abs(it.coords) <= LARGEST_NUMBER).all(axis=1)
    if bad.any():
        x, y = it.coords[bad][0]
        raise ValueError(f"COORDS of node {it.labels[bad][0]} are ({x:g}, {y:g}), expected finite numbers")
    if np.all(it.plane() == it.plane()[0]):
        raise ValueError(f"COORDS of all {it.size} nodes are equal ({it.coords[0, 0]:g}, {it.coords[0, 1]:g})")
    if it.metric is Metric.HAVERSINE:
        for axis, (name, limit) in enumerate((("LAT", 90), ("LON", 360))):
            outside = np.abs(it.coords[:, axis]) > limit
            if outside.any():
                value = it.coords[outside][0, axis]
                raise ValueError(f"{name} of node {it.labels[outside][0]} is {value:g}, outside -{limit}..{limit}")


def _check_matrix(it: Instance) -> None:
    if (it.matrix is not None) != (it.metric is Metric.EXPLICIT):
        raise ValueError(f"MATRIX is {'missing' if it.matrix is None else 'given'} but the metric is {it.metric.value}")
    if it.matrix is None:
        if not it.has_coords:
            raise ValueError(f"HAS_COORDS is False but the metric is {it.metric.value}, which needs coordinates")
        return
    bad = ~((it.matrix >= 0) & (it.matrix <= LARGEST_NUMBER))
    if bad.any():
        i, j = np.argwhere(bad)[0]
        pair = f"node {it.labels[i]} to node {it.labels[j]}"
        raise ValueError(f"MATRIX from {pair} is {it.matrix[i, j]:g}, expected a finite cost >= 0")
    if it.matrix.diagonal().any():
        i = int(np.flatnonzero(it.matrix.diagonal())[0])
        raise ValueError(f"MATRIX from node {it.labels[i]} to itself is {it.matrix[i, i]:g}, expected 0")
    if not it.matrix.any():
        raise ValueError(f"MATRIX is 0 for all {it.size} nodes")


def _check_demand(it: Instance) -> None:
    if it.demand is None or it.capacity is None:
        if it.demand is not None or it.capacity is not None:
            missing = "CAPACITY" if it.capacity is None else "DEMAND"
            raise ValueError(f"{missing} is missing: a CVRP has both DEMAND and CAPACITY")
        return
    if not 0 < it.capacity <= LARGEST_DEMAND:
        raise ValueError(f"CAPACITY is {it.capacity:g}, expected more than 0 and at most {LARGEST_DEMAND:g}")
    complaints = (
        (~np.isfinite(it.demand), "expected a finite number"),
        (it.demand < 0, "expected 0 or more"),
        (it.demand > it.capacity, f"more than CAPACITY {it.capacity:g}"),
    )
    for bad, complaint in complaints:
        if bad.any():
            raise ValueError(f"DEMAND of node {it.labels[bad][0]} is {it.demand[bad][0]:g}, {complaint}")
    if it.demand[0] != 0:
        raise ValueError(f"DEMAND of node {it.labels[0]} is {it.demand[0]:g}, expected 0 because it is the depot")


# Distance rules: points (..., 2) and (..., 2) -> costs (...). TSPLIB 95, section 2; nint(x) there is floor(x + 0.5).


def _squared(p: FloatArray, q: FloatArray) -> FloatArray:
    step = p - q
    return np.asarray(step[..., 0] * step[..., 0] + step[..., 1] * step[..., 1])


def _exact(p: FloatArray, q: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(_squared(p, q)))


def _euc_2d(p: FloatArray, q: FloatArray) -> FloatArray:
    return np.asarray(np.floor(_exact(p, q) + 0.5))


def _ceil_2d(p: FloatArray, q: FloatArray) -> FloatArray:
    return np.asarray(np.ceil(_exact(p, q)))


def _att(p: FloatArray, q: FloatArray) -> FloatArray:
    length = np.sqrt(_squared(p, q) / 10.0)
    nearest = np.floor(length + 0.5)
    return np.asarray(np.where(nearest < length, nearest + 1, nearest))


def geo_degrees(coords: FloatArray) -> FloatArray:
    """DDD.MM (degrees and minutes) -> decimal degrees. TSPLIB's own programs cut the degrees, they do not round."""
    degrees = np.trunc(coords)
    return np.asarray(degrees + 5.0 * (coords - degrees) / 3.0)


def _geo(p: FloatArray, q: FloatArray) -> FloatArray:
    a, b = (3.141592 * geo_degrees(point) / 180.0 for point in (p, q))  # PI as TSPLIB defines it
    q1 = np.cos(a[..., 1] - b[..., 1])
    q2 = np.cos(a[..., 0] - b[..., 0])
    q3 = np.cos(a[..., 0] + b[..., 0])
    cosine = 0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3)
    return np.asarray(np.floor(6378.388 * np.arccos(np.clip(cosine, -1.0, 1.0)) + 1.0))


def _haversine(p: FloatArray, q: FloatArray) -> FloatArray:
    a, b = np.radians(p), np.radians(q)
    across = np.sin((a - b) / 2.0) ** 2
    chord = across[..., 0] + np.cos(a[..., 0]) * np.cos(b[..., 0]) * across[..., 1]
    return np.asarray(2.0 * EARTH_RADIUS * np.arcsin(np.sqrt(np.minimum(chord, 1.0))))


_KERNELS: dict[Metric, Callable[[FloatArray, FloatArray], FloatArray]] = {
    Metric.EUC_2D: _euc_2d,
    Metric.CEIL_2D: _ceil_2d,
    Metric.GEO: _geo,
    Metric.ATT: _att,
    Metric.EXACT: _exact,
    Metric.HAVERSINE: _haversine,
}


def _project(degrees: FloatArray) -> FloatArray:
    """(latitude, longitude) -> (x, y): longitude shrunk by the cosine of the mean latitude, and latitude."""
    latitude, longitude = degrees[:, 0], degrees[:, 1]
    # Nodes on both sides of the date line belong together: turn each to within half a circle of the mean direction.
    angle = np.radians(longitude)
    middle = np.degrees(np.arctan2(np.sin(angle).mean(), np.cos(angle).mean()))
    longitude = longitude - 360.0 * np.round((longitude - middle) / 360.0)
    return np.stack([longitude * np.cos(np.radians(latitude.mean())), latitude], axis=1)
