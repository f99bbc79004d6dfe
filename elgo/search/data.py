"""What the searches walk on: distances by the instance's own rule, and the nodes near each node.

Small instances get a table of distances. In larger ones they are computed where they are needed, which is faster than
fetching them from beyond the caches: twice as fast with 4,000 nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.problem.instance import EARTH_RADIUS, Instance, Metric, geo_degrees

FloatArray = NDArray[np.float64]
NodeArray = NDArray[np.int32]

TABLE = 500  # nodes up to which distances are looked up
NEAR = 64  # nodes near each node that a search may look at
RULES = (Metric.EXPLICIT, Metric.EXACT, Metric.EUC_2D, Metric.CEIL_2D, Metric.ATT, Metric.GEO, Metric.HAVERSINE)
EXPLICIT, EXACT, EUC_2D, CEIL_2D, ATT, GEO, HAVERSINE = range(len(RULES))


@dataclass(frozen=True)
class Ground:
    """An instance, made ready for search.

    near  (n, K) the nearest nodes of each, the nearest first; never the depot of a CVRP
    rule  the place of its metric in RULES
    data  what the rule needs: points (n, 2), in radians for GEO and HAVERSINE, or for EXPLICIT the matrix (n, n)
    """

    instance: Instance
    near: NodeArray
    rule: int
    data: FloatArray


def survey(instance: Instance) -> Ground:
    """Make an instance ready for search."""
    rule, data = instance.metric, instance.coords
    if instance.size <= TABLE or rule is Metric.EXPLICIT:
        rule, data = Metric.EXPLICIT, instance.distance_matrix()
    elif rule is Metric.GEO:
        data = 3.141592 * geo_degrees(data) / 180.0  # PI as TSPLIB defines it
    elif rule is Metric.HAVERSINE:
        data = np.radians(data)
    return Ground(instance, near_nodes(instance, NEAR), RULES.index(rule), np.array(data, order="C"))


def near_nodes(instance: Instance, most: int) -> NodeArray:
    """(n, K) up to `most` nearest nodes of each, the nearest first; never itself, nor the depot of a CVRP."""
    first = instance.size - instance.customers  # 1 for CVRP
    count = min(most, instance.customers - 1)
    if count <= 0:
        return np.zeros((instance.size, 0), np.int32)
    if instance.matrix is not None:
        both = (instance.matrix + instance.matrix.T)[:, first:]
        order = np.argsort(both, axis=1, kind="stable")[:, : count + 1]
    else:
        from scipy.spatial import KDTree

        plane = instance.plane()
        _, order = KDTree(plane[first:]).query(plane, k=count + 1)
    nodes = order.reshape(instance.size, -1) + first
    itself = nodes == np.arange(instance.size)[:, None]
    # A node is its own nearest, but not always the first among others in the same place.
    itself[~itself.any(axis=1), -1] = True
    return np.ascontiguousarray(nodes[~itself].reshape(instance.size, count), dtype=np.int32)


def whole_distances(instance: Instance, largest: int, extent: int) -> NDArray[np.int64]:
    """(n, n) distances as integers: themselves where they are whole and at most `largest`, else scaled to `extent`."""
    distance = instance.distance_matrix()
    top = float(distance.max())
    if top <= largest and (instance.metric.rounded or bool((distance == np.rint(distance)).all())):
        return distance.astype(np.int64)
    return np.rint(distance * (extent / top)).astype(np.int64)


@njit(inline="always")
def distance(rule: int, data: FloatArray, i: int, j: int) -> float:
    """The cost from node i to node j, as Instance.distances gives it."""
    if rule == EXPLICIT:
        return data[i, j]
    x = data[i, 0] - data[j, 0]
    y = data[i, 1] - data[j, 1]
    length = math.sqrt(x * x + y * y)
    if rule == EUC_2D:
        return math.floor(length + 0.5)
    return length if rule == EXACT else _other(rule, data, i, j, length)


@njit(cache=True)
def _other(rule: int, points: FloatArray, i: int, j: int, length: float) -> float:
    """The less common rules, out of the way of the others."""
    if rule == CEIL_2D:
        return math.ceil(length)
    if rule == ATT:
        x, y = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1]
        length = math.sqrt((x * x + y * y) / 10.0)
        nearest = math.floor(length + 0.5)
        return nearest + 1.0 if nearest < length else nearest
    if i == j:
        return 0.0
    if rule == GEO:
        q1 = math.cos(points[i, 1] - points[j, 1])
        q2 = math.cos(points[i, 0] - points[j, 0])
        q3 = math.cos(points[i, 0] + points[j, 0])
        cosine = 0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3)
        return math.floor(6378.388 * math.acos(min(1.0, max(-1.0, cosine))) + 1.0)
    north = math.sin((points[i, 0] - points[j, 0]) / 2.0) ** 2
    east = math.sin((points[i, 1] - points[j, 1]) / 2.0) ** 2
    chord = north + math.cos(points[i, 0]) * math.cos(points[j, 0]) * east
    return 2.0 * EARTH_RADIUS * math.asin(math.sqrt(min(1.0, chord)))
