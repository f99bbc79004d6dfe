"""An instance prepared for search: what the compiled kernels read of it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elgo.problem.instance import Instance
from elgo.search.distances import Distances, make_distances
from elgo.search.giant_tour import NodeArray

TOLERANCE = 1e-12  # of the largest distance: a sum of a few distances is off by 1e-15 of it
NEIGHBOURS = 64  # nearest nodes of each node that a search may consider

TREE_LIMIT = 2000  # points; up to here all distances take less time than loading scipy's tree
BLOCK = 2**20  # distances at a time

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class SearchArrays(NamedTuple):
    """What the compiled kernels read of an instance.

    neighbours  (n, K) the nearest nodes of each node, nearest first; never the depot of a CVRP
    demand      (n,) in integer units; zeros for a TSP
    capacity    of a vehicle, in the same units; 0 for a TSP
    tolerance   smaller differences of cost are rounding errors
    new_routes  whether a route of its own may be cheaper for a customer than a place in a route with room: not where
                the triangle inequality holds, but where routes are open, or costs differ by direction
    """

    distances: Distances
    neighbours: NodeArray
    demand: IntArray
    capacity: int
    tolerance: float
    new_routes: bool


@dataclass(frozen=True)
class SearchData:
    """An instance, and the same as arrays for the kernels.

    For each free end of an open TSP tour the arrays have one more node, which costs nothing to reach; see `pad_ends`.
    """

    instance: Instance
    arrays: SearchArrays


def prepare(instance: Instance) -> SearchData:
    """Return the instance prepared for search."""
    tsp = instance.problem == "tsp"
    free_ends = (instance.first is None) + (instance.last is None) if tsp and instance.open else 0
    neighbours, tolerance = nearest_neighbours(instance, NEIGHBOURS), TOLERANCE * _scale(instance)
    if free_ends:  # they are the nearest of every node
        ends = np.tile(np.arange(instance.size, instance.size + free_ends, dtype=np.int32), (instance.size, 1))
        neighbours = np.pad(np.hstack([ends, neighbours]), ((0, free_ends), (0, 0)))
    distances = make_distances(instance, free_ends)
    demand, capacity = demand_units(instance)
    arrays = SearchArrays(distances, neighbours, demand, capacity, tolerance, new_routes=not is_symmetric(instance))
    return SearchData(instance, arrays)


def _scale(instance: Instance) -> float:
    """Return the largest distance, or the largest from the first node, which is at least half of it."""
    if instance.matrix is not None:
        return float(instance.matrix.max())
    nodes = np.arange(instance.size)
    return float(instance.distances(np.zeros_like(nodes), nodes).max())


def is_symmetric(instance: Instance) -> bool:
    """True if all distances are the same in both directions; never for open CVRP routes, which return at no cost."""
    if instance.open and instance.problem == "cvrp":
        return False
    return instance.matrix is None or bool((instance.matrix == instance.matrix.T).all())


def demand_units(instance: Instance) -> tuple[IntArray, int]:
    """Return demands (n,) and capacity in integer units; zeros for a TSP."""
    return (np.zeros(instance.size, np.int64), 0) if instance.problem == "tsp" else instance.units()


def nearest_neighbours(instance: Instance, most: int) -> NodeArray:
    """Return the (n, K) nearest nodes of each, K <= `most`, nearest first; never itself, nor the depot of a CVRP."""
    first = instance.size - instance.customers  # 1 for CVRP
    count = min(most, instance.customers - 1)
    if count <= 0:
        return np.zeros((instance.size, 0), np.int32)
    if instance.matrix is not None:
        both = (instance.matrix + instance.matrix.T)[:, first:]
        order = np.argsort(both, axis=1, kind="stable")[:, : count + 1]
    else:
        plane = instance.plane()
        order = nearest_points(plane, plane[first:], count + 1)
    nodes = order.reshape(instance.size, -1) + first
    itself = nodes == np.arange(instance.size)[:, None]
    # A node is its own nearest, but among nodes at the same point not always the first, nor always listed.
    itself[~itself.any(axis=1), -1] = True
    return np.ascontiguousarray(nodes[~itself].reshape(instance.size, count), dtype=np.int32)


def nearest_points(queries: FloatArray, points: FloatArray, count: int) -> IntArray:
    """Return the (n, count) nearest of the points (m, 2) to each of the queries (n, 2), nearest first."""
    if len(points) > TREE_LIMIT:
        from scipy.spatial import KDTree

        order: IntArray = KDTree(points).query(queries, k=count)[1].reshape(len(queries), count)
        return order
    rows = max(1, BLOCK // len(points))
    return np.concatenate([_nearest(queries[k : k + rows], points, count) for k in range(0, len(queries), rows)])


def _nearest(queries: FloatArray, points: FloatArray, count: int) -> IntArray:
    squares = (queries[:, :1] - points[:, 0]) ** 2 + (queries[:, 1:] - points[:, 1]) ** 2
    nearest = np.argpartition(squares, count - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(squares, nearest, axis=1), axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1)
