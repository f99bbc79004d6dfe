"""Distance types against hand-computed values and the program in TSPLIB's documentation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elgo.problem.distances import EARTH_RADIUS
from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution

WITH_COORDS = [metric for metric in Metric if metric is not Metric.EXPLICIT]


def tsp(coords: object, metric: Metric = Metric.EXACT) -> Instance:
    return Instance("points", coords, metric)  # type: ignore[arg-type]


def between(metric: Metric, p: tuple[float, float], q: tuple[float, float]) -> float:
    third = (0.5, 0.5)  # because two nodes are no problem
    return float(tsp([p, q, third], metric).distances(0, 1))


@pytest.mark.parametrize(
    ("metric", "p", "q", "cost"),
    [
        (Metric.EXACT, (0, 0), (3, 4), 5),
        (Metric.EXACT, (0, 0), (1, 1), math.sqrt(2)),
        (Metric.EUC_2D, (0, 0), (1, 1), 1),  # 1.414
        (Metric.EUC_2D, (0, 0), (1.5, 0), 2),  # halves go up, unlike Python's round(2.5)
        (Metric.EUC_2D, (0, 0), (2.5, 0), 3),
        (Metric.EUC_2D, (0, 0), (2, 2), 3),  # 2.828
        (Metric.CEIL_2D, (0, 0), (1, 1), 2),
        (Metric.CEIL_2D, (0, 0), (3, 4), 5),
        (Metric.ATT, (0, 0), (3, 4), 2),  # sqrt(25 / 10) = 1.58, nearest 2
        (Metric.ATT, (0, 0), (10, 0), 4),  # sqrt(100 / 10) = 3.16, nearest 3 lies below: 4
        (Metric.ATT, (0, 0), (10, 30), 10),  # sqrt(1000 / 10) = 10
        (Metric.GEO, (0, 0), (0, 90), 10020),  # int(6378.388 * 3.141592 / 2 + 1) = int(10019.147... + 1)
        (Metric.GEO, (0, 0.30), (0, 1.00), 56),  # 30 minutes: int(6378.388 * 3.141592 / 360 + 1) = int(55.66 + 1)
        (Metric.GEO, (0, -0.30), (0, 0.30), 112),  # degrees are cut towards 0: one degree, int(111.32 + 1)
        (Metric.GEO, (5, 5), (5, 5), 1),  # TSPLIB: two nodes at one place are 1 apart
        (Metric.HAVERSINE, (0, 0), (0, 180), math.pi * EARTH_RADIUS),
        (Metric.HAVERSINE, (90, 0), (0, 77), math.pi * EARTH_RADIUS / 2),
        (Metric.HAVERSINE, (0, 179), (0, -179), math.pi * EARTH_RADIUS / 90),  # across the date line
    ],
)
def test_distance_by_hand(metric: Metric, p: tuple[float, float], q: tuple[float, float], cost: float) -> None:
    assert between(metric, p, q) == pytest.approx(cost, rel=1e-12)
    assert between(metric, q, p) == between(metric, p, q)


def test_haversine_paris_london() -> None:
    """About 344 km, well known; within 0.5 % because the sources use slightly different points and radii."""
    assert between(Metric.HAVERSINE, (48.8566, 2.3522), (51.5074, -0.1278)) == pytest.approx(343_500, rel=0.005)


def test_geo_gives_the_optimum_of_burma14() -> None:
    """TSPLIB: the optimal tour of burma14 has length 3323; this is one."""
    text = """16.47 96.10  16.47 94.44  20.09 92.54  22.39 93.37  25.23 97.24  22.00 96.05  20.47 97.02
              17.20 96.29  16.30 97.38  14.05 98.12  16.53 97.38  21.52 95.59  19.41 97.13  20.09 94.55"""
    burma = tsp(np.array(text.split(), float).reshape(14, 2), Metric.GEO)
    tour = np.array([1, 2, 14, 3, 4, 5, 6, 12, 7, 13, 8, 11, 9, 10]) - 1
    assert Solution(burma, (tuple(tour),)).cost == 3323


def naive_geo(p: list[float], q: list[float]) -> int:
    """The C program in the TSPLIB documentation, line by line."""

    def radians(x: float) -> float:
        degrees = int(x)
        return 3.141592 * (degrees + 5.0 * (x - degrees) / 3.0) / 180.0

    q1 = math.cos(radians(p[1]) - radians(q[1]))
    q2 = math.cos(radians(p[0]) - radians(q[0]))
    q3 = math.cos(radians(p[0]) + radians(q[0]))
    return int(6378.388 * math.acos(0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3)) + 1.0)


def test_geo_equals_the_documented_program() -> None:
    coords = np.random.default_rng(0).uniform(-89, 89, (30, 2)).round(2)
    costs = tsp(coords, Metric.GEO).distance_matrix()
    for i in range(30):
        for j in range(30):
            assert costs[i, j] == (naive_geo(coords[i].tolist(), coords[j].tolist()) if i != j else 0)


@pytest.mark.parametrize("metric", WITH_COORDS)
def test_distance_matrix_is_distances_of_all_pairs(metric: Metric) -> None:
    rng = np.random.default_rng(1)
    instance = tsp(rng.uniform(-80, 80, (37, 2)), metric)
    costs = instance.distance_matrix()
    assert costs.shape == (37, 37)
    assert np.array_equal(costs, costs.T)
    assert not costs.diagonal().any()
    assert costs[3, 5] == instance.distances(3, 5)
    assert np.array_equal(costs[[3, 4]][:, [5, 6, 7]], instance.distances([[3], [4]], [5, 6, 7]))
    if metric.rounded:
        assert np.array_equal(costs, np.rint(costs))


def test_distance_matrix_in_several_blocks() -> None:
    """Large instances are costed some rows at a time; the seams must not show."""
    rng = np.random.default_rng(2)
    coords = rng.uniform(0, 1000, (1500, 2))
    step = coords[:, None] - coords
    expected = np.floor(np.sqrt((step**2).sum(axis=-1)) + 0.5)
    assert np.array_equal(tsp(coords, Metric.EUC_2D).distance_matrix(), expected)
