"""Distance rules against hand-computed values, and every way in which an instance can be wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elgo.problem.instance import EARTH_RADIUS, FULL_EIGH_LIMIT, Instance, Metric, embed
from elgo.problem.solution import Solution

SQUARE = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
PLANAR = [Metric.EUC_2D, Metric.CEIL_2D, Metric.ATT, Metric.EXACT]
WITH_COORDS = [*PLANAR, Metric.GEO, Metric.HAVERSINE]


def tsp(coords: object = SQUARE, metric: Metric = Metric.EXACT, **others: object) -> Instance:
    return Instance("square", coords, metric, **others)  # type: ignore[arg-type]


def cvrp(demand: object = (0, 1, 2, 3), capacity: float | None = 5, **others: object) -> Instance:
    return tsp(demand=demand, capacity=capacity, **others)


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


def test_explicit_costs_keep_their_direction() -> None:
    matrix = np.array([[0, 1, 2], [3, 0, 4], [5, 6, 0]], float)
    instance = Instance("three", embed(matrix), Metric.EXPLICIT, matrix=matrix, has_coords=False)
    assert instance.distances([0, 1], [1, 0]).tolist() == [1, 3]
    assert np.array_equal(instance.distance_matrix(), matrix)


# What an instance holds.


def test_properties() -> None:
    assert (tsp().problem, tsp().size, tsp().customers) == ("tsp", 4, 4)
    assert (cvrp().problem, cvrp().size, cvrp().customers) == ("cvrp", 4, 3)
    assert tsp().labels.tolist() == [1, 2, 3, 4]
    assert repr(cvrp()) == "Instance('square', cvrp, 3 customers, EXACT_2D)"


def test_arrays_are_private_and_read_only() -> None:
    coords = SQUARE.copy()
    instance = tsp(coords)
    coords[0] = 7
    assert instance.coords[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        instance.coords[0] = 7
    assert replace(instance, best_known=4.0).coords is instance.coords


def test_name_becomes_one_line() -> None:
    assert replace(tsp(), name=" a \t b\n").name == "a b"


def test_plane_of_degrees_is_shrunk_towards_the_poles() -> None:
    coords = np.array([[59.0, 10.0], [61.0, 10.0], [60.0, 12.0]])
    plane = tsp(coords, Metric.HAVERSINE).plane()
    assert plane[:, 1].tolist() == [59, 61, 60]
    assert plane[2, 0] - plane[0, 0] == pytest.approx(2 * math.cos(math.radians(60)))


def test_plane_of_geo_reads_minutes() -> None:
    plane = tsp([[0.30, 0.0], [-0.30, 0.0], [0.0, 1.30]], Metric.GEO).plane()
    assert plane[:, 1].tolist() == pytest.approx([0.5, -0.5, 0.0])
    assert plane[2, 0] == pytest.approx(1.5)


def test_plane_is_whole_across_the_date_line() -> None:
    plane = tsp([[0.0, 179.0], [0.0, -179.0], [1.0, 180.0]], Metric.HAVERSINE).plane()
    assert np.ptp(plane[:, 0]) == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize("metric", PLANAR)
def test_plane_of_the_plane_is_coords(metric: Metric) -> None:
    instance = tsp(metric=metric)
    assert instance.plane() is instance.coords


# Embedding.


@pytest.mark.parametrize("size", [3, 50, FULL_EIGH_LIMIT + 50])
def test_embedding_restores_points_up_to_motion(size: int) -> None:
    points = np.random.default_rng(size).uniform(0, 100, (size, 2))
    costs = tsp(points).distance_matrix()
    embedded = embed(costs)
    assert np.allclose(tsp(embedded).distance_matrix(), costs)
    assert np.array_equal(embedded, embed(costs))
    assert np.allclose(embedded.mean(axis=0), 0)


def test_embedding_takes_the_mean_of_both_directions() -> None:
    matrix = np.array([[0, 2, 6], [4, 0, 5], [2, 3, 0]], float)
    assert np.array_equal(embed(matrix), embed((matrix + matrix.T) / 2))


def test_embedding_of_what_is_no_distance_is_finite() -> None:
    """All equal costs have no plane picture, and costs against the triangle inequality give negative eigenvalues."""
    assert np.isfinite(embed(1 - np.eye(5))).all()
    assert np.isfinite(embed(1 - np.eye(FULL_EIGH_LIMIT + 1))).all()
    assert np.isfinite(embed(np.array([[0, 1, 99], [1, 0, 1], [99, 1, 0]], float))).all()


# Units.


@pytest.mark.parametrize(
    ("demand", "capacity", "units"),
    [
        ((0, 3, 4), 10, ([0, 3, 4], 10)),
        ((0, 0.1, 0.2), 0.3, ([0, 1, 2], 3)),  # 0.1 + 0.2 > 0.3 in floating point
        ((0, 0.25, 1.5), 2, ([0, 25, 150], 200)),
        ((0, 0.000001, 1), 1, ([0, 1, 1_000_000], 1_000_000)),
        ((0, 0.1 + 0.2, 0.7), 1, ([0, 3, 7], 10)),
        ((0, 1e12, 1), 1e12, ([0, 10**12, 1], 10**12)),
        ((0, 1 / 3, 1), 1, ([0, 333_333_333_334, 10**12], 10**12)),  # no decimal: demand goes up
        ((0, 1e-9, 2e-9), 2e-9, ([0, 5 * 10**11, 10**12], 10**12)),
    ],
)
def test_units(demand: tuple[float, ...], capacity: float, units: tuple[list[int], int]) -> None:
    whole, limit = cvrp(demand, capacity, coords=SQUARE[:3]).units()
    assert (whole.tolist(), limit) == units
    assert whole.dtype == np.int64


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(1e-3, 1e3))
def test_what_fits_in_units_fits_in_fact(shares: list[float], capacity: float) -> None:
    demand = [0.0, *(share * capacity for share in shares)]
    coords = np.arange(2 * len(demand), dtype=float).reshape(-1, 2)
    whole, limit = cvrp(np.minimum(demand, capacity), capacity, coords=coords).units()
    assert (whole <= limit).all()
    if whole.sum() <= limit:
        assert math.fsum(demand) <= capacity * (1 + 1e-8)


def test_units_of_a_tsp() -> None:
    with pytest.raises(ValueError, match="square is a TSP: it has no DEMAND"):
        tsp().units()


# One broken instance for each complaint.

NAN, INF = math.nan, math.inf
ZERO = np.zeros((4, 4))
ONES = 1 - np.eye(4)


def explicit(matrix: object) -> Instance:
    return tsp(metric=Metric.EXPLICIT, matrix=matrix)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: tsp([[0, 0, 0]] * 4), "COORDS has shape (4, 3), expected (4, 2)"),
        (lambda: tsp(7.0), "COORDS has shape (), expected (0, 2)"),
        (lambda: tsp("abc"), "COORDS is not an array of numbers"),
        (lambda: tsp(SQUARE[:2]), "DIMENSION is 2, but a TSP needs at least 3 nodes"),
        (lambda: cvrp((0, 1), coords=SQUARE[:2]), "DIMENSION is 2, but a CVRP needs a depot and at least 2 customers"),
        (lambda: tsp([[0, 0], [0, NAN], [1, 1]]), "COORDS of node 2 are (0, nan), expected finite numbers"),
        (lambda: tsp([[0, 0], [0, 1], [INF, 1]]), "COORDS of node 3 are (inf, 1), expected finite numbers"),
        (lambda: tsp([[0, 0], [0, 1], [1e200, 1]]), "COORDS of node 3 are (1e+200, 1), expected finite numbers"),
        (lambda: tsp([[2, 3]] * 4), "COORDS of all 4 nodes are equal (2, 3)"),
        (lambda: tsp([[0, 0], [91, 0], [1, 1]], Metric.HAVERSINE), "LAT of node 2 is 91, outside -90..90"),
        (lambda: tsp([[0, 0], [9, 400], [1, 1]], Metric.HAVERSINE), "LON of node 2 is 400, outside -360..360"),
        (lambda: tsp(labels=[1, 2, 3]), "LABELS has shape (3,), expected (4,)"),
        (lambda: tsp(labels=[1, 2, 3, 2]), "node number 2 is used 2 times"),
        (lambda: tsp(labels=[1, 2, 3, -1]), "node number -1 is negative"),
        (lambda: tsp(labels=[1, 2, 3, 4.5]), "LABELS has a number that is not whole"),
        (lambda: replace(tsp(), name=" "), "NAME is '', expected one line of printable text"),
        (lambda: replace(tsp(), name="a\0b"), r"NAME is 'a\x00b', expected one line of printable text"),
        (lambda: tsp(best_known=NAN), "BEST_KNOWN is nan, expected a finite cost"),
        (lambda: tsp(best_known=-1), "BEST_KNOWN is -1, expected a finite cost"),
        (lambda: cvrp((0, 1, 2)), "DEMAND has shape (3,), expected (4,)"),
        (lambda: cvrp((0, 1, -2, 3)), "DEMAND of node 3 is -2, expected 0 or more"),
        (lambda: cvrp((0, 1, NAN, 3)), "DEMAND of node 3 is nan, expected a finite number"),
        (lambda: cvrp((0, 1, 2, 6)), "DEMAND of node 4 is 6, more than CAPACITY 5"),
        (lambda: cvrp((1, 1, 2, 3)), "DEMAND of node 1 is 1, expected 0 because it is the depot"),
        (lambda: cvrp(capacity=0), "CAPACITY is 0, expected more than 0 and at most 1e+12"),
        (lambda: cvrp(capacity=NAN), "CAPACITY is nan, expected more than 0 and at most 1e+12"),
        (lambda: cvrp(capacity=1e13), "CAPACITY is 1e+13, expected more than 0 and at most 1e+12"),
        (lambda: cvrp(capacity=None), "CAPACITY is missing: a CVRP has both DEMAND and CAPACITY"),
        (lambda: tsp(capacity=5), "DEMAND is missing: a CVRP has both DEMAND and CAPACITY"),
        (lambda: explicit(np.ones((4, 3))), "MATRIX has shape (4, 3), expected (4, 4)"),
        (lambda: explicit(np.ones((3, 3))), "MATRIX has shape (3, 3), expected (4, 4)"),
        (lambda: explicit(-ONES), "MATRIX from node 1 to node 2 is -1, expected a finite cost >= 0"),
        (lambda: explicit(ONES * NAN), "MATRIX from node 1 to node 1 is nan, expected a finite cost >= 0"),
        (lambda: explicit(ONES + np.eye(4)), "MATRIX from node 1 to itself is 1, expected 0"),
        (lambda: explicit(ZERO), "MATRIX is 0 for all 4 nodes"),
        (lambda: explicit(None), "MATRIX is missing but the metric is EXPLICIT"),
        (lambda: tsp(matrix=ONES), "MATRIX is given but the metric is EXACT_2D"),
        (lambda: tsp(has_coords=False), "HAS_COORDS is False but the metric is EXACT_2D, which needs coordinates"),
    ],
)
def test_wrong_instances(make: Callable[[], Instance], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}$"):
        make()
