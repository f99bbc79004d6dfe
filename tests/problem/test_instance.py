"""Instances: what they hold, integer demands, and one broken instance per error message."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elgo.problem.instance import Instance, Metric
from elgo.problem.plane import embed

SQUARE = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])


def tsp(coords: object = SQUARE, metric: Metric = Metric.EXACT, **others: object) -> Instance:
    return Instance("square", coords, metric, **others)  # type: ignore[arg-type]


def cvrp(demand: object = (0, 1, 2, 3), capacity: float | None = 5, **others: object) -> Instance:
    return tsp(demand=demand, capacity=capacity, **others)


def test_explicit_costs_keep_their_direction() -> None:
    matrix = np.array([[0, 1, 2], [3, 0, 4], [5, 6, 0]], float)
    instance = Instance("three", embed(matrix), Metric.EXPLICIT, matrix=matrix, has_coords=False)
    assert instance.distances([0, 1], [1, 0]).tolist() == [1, 3]
    assert np.array_equal(instance.distance_matrix(), matrix)


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


# One broken instance per error message.

NAN, INF = math.nan, math.inf
ZERO = np.zeros((4, 4))
ONES = 1 - np.eye(4)


def explicit(matrix: object) -> Instance:
    return tsp(metric=Metric.EXPLICIT, matrix=matrix)


@pytest.mark.parametrize(
    ("make", "message"),
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
        (lambda: tsp(labels=[1, 2, 3, 4.5]), "LABELS has a number that is not an integer"),
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
def test_wrong_instances(make: Callable[[], Instance], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
