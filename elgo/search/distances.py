"""Distances for the compiled kernels: looked up in small instances, computed on demand in larger ones.

Computing a distance is faster than fetching it from main memory: twice as fast with 4,000 nodes. The formulas are
the compiled twins of those in elgo/problem/distances.py; tests/search/test_distances.py checks that both are equal.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.jit.cache import cached_njit
from elgo.problem.distances import EARTH_RADIUS, Metric, geo_radians
from elgo.problem.instance import Instance

FloatArray = NDArray[np.float64]

TABLE_NODES = 500  # largest instance whose distances are looked up
METRICS = (Metric.EXPLICIT, Metric.EXACT, Metric.EUC_2D, Metric.CEIL_2D, Metric.ATT, Metric.GEO, Metric.HAVERSINE)
EXPLICIT, EXACT, EUC_2D, CEIL_2D, ATT, GEO, HAVERSINE = range(len(METRICS))
OPEN = 16  # is added to the metric of an open CVRP: to node 0 costs nothing
FREE_ENDS = 32  # is added to the metric of a TSP with free ends: nodes whose coordinates are NaN cost nothing


class Distances(NamedTuple):
    """The distances of an instance as the kernels compute them.

    metric  index into METRICS, plus OPEN or FREE_ENDS
    values  for EXPLICIT the matrix (n, n); otherwise the points (n, 2), in radians for GEO and HAVERSINE
    """

    metric: int
    values: FloatArray


def make_distances(instance: Instance, free_ends: int = 0) -> Distances:
    """Return the distances of an instance, and of nodes for its free ends, for use in kernels."""
    metric, values = instance.metric, instance.coords
    if instance.size <= TABLE_NODES or metric is Metric.EXPLICIT:
        return Distances(EXPLICIT, np.pad(instance.distance_matrix(), (0, free_ends)))
    if metric is Metric.GEO:
        values = geo_radians(values)
    elif metric is Metric.HAVERSINE:
        values = np.radians(values)
    kind = FREE_ENDS if free_ends else OPEN if instance.open and instance.problem == "cvrp" else 0
    values = np.pad(values, ((0, free_ends), (0, 0)), constant_values=np.nan)
    return Distances(METRICS.index(metric) + kind, np.array(values, order="C"))


def integer_distances(instance: Instance, largest: int, extent: int) -> NDArray[np.int64]:
    """Return the (n, n) distances as integers: unchanged if integral and at most `largest`, else scaled to `extent`."""
    distance = instance.distance_matrix()
    top = float(distance.max())
    if top <= largest and (instance.metric.rounded or bool((distance == np.rint(distance)).all())):
        return distance.astype(np.int64)
    return np.rint(distance * (extent / (top or 1.0))).astype(np.int64)


@njit(inline="always")
def distance(distances: Distances, i: int, j: int) -> float:
    """Return the cost from node i to node j, as Instance.distances does."""
    metric, values = distances
    if metric == EXPLICIT:
        return values[i, j]
    x = values[i, 0] - values[j, 0]
    y = values[i, 1] - values[j, 1]
    length = math.sqrt(x * x + y * y)
    if metric == EUC_2D:
        return math.floor(length + 0.5)
    return length if metric == EXACT else _rare_distance(metric, values, i, j, length)


@cached_njit()
def _rare_distance(metric: int, points: FloatArray, i: int, j: int, length: float) -> float:
    """Return the distance by one of the rarer metrics; not inlined, to keep the kernels small."""
    if metric >= FREE_ENDS:
        if math.isnan(length):
            return 0.0
        metric -= FREE_ENDS
    elif metric >= OPEN:
        if j == 0:
            return 0.0
        metric -= OPEN
    if metric == EUC_2D:
        return math.floor(length + 0.5)
    if metric == EXACT:
        return length
    if metric == CEIL_2D:
        return math.ceil(length)
    if metric == ATT:
        x, y = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1]
        length = math.sqrt((x * x + y * y) / 10.0)
        nearest = math.floor(length + 0.5)
        return nearest + 1.0 if nearest < length else nearest
    if i == j:
        return 0.0
    if metric == GEO:
        q1 = math.cos(points[i, 1] - points[j, 1])
        q2 = math.cos(points[i, 0] - points[j, 0])
        q3 = math.cos(points[i, 0] + points[j, 0])
        cosine = 0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3)
        return math.floor(6378.388 * math.acos(min(1.0, max(-1.0, cosine))) + 1.0)
    north = math.sin((points[i, 0] - points[j, 0]) / 2.0) ** 2
    east = math.sin((points[i, 1] - points[j, 1]) / 2.0) ** 2
    chord = north + math.cos(points[i, 0]) * math.cos(points[j, 0]) * east
    return 2.0 * EARTH_RADIUS * math.asin(math.sqrt(min(1.0, chord)))
