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

from elgo.problem.errors import ElgoError
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
ONES = 1 - np.eye(4)


def explicit(matrix: object) -> Instance:
    return tsp(metric=Metric.EXPLICIT, matrix=matrix)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tsp([[0, 0, 0]] * 4), "COORDS has shape (4, 3), expected (4, 2)"),
        (lambda: tsp(7.0), "COORDS has shape (), expected (0, 2)"),
        (lambda: tsp("abc"), "COORDS is not an array of numbers"),
        (lambda: tsp([[10**400, 1]]), "COORDS is not an array of numbers"),
        (
            lambda: Instance.from_coords([[1, 2]], demand=[0], capacity=10**400),
            "CAPACITY is inf, expected more than 0 and at most 1e+12",
        ),
        (lambda: tsp(np.zeros((0, 2))), "DIMENSION is 0, expected at least one node"),
        (lambda: tsp([[0, 0], [0, NAN], [1, 1]]), "COORDS of node 2 are (0, nan), expected finite numbers"),
        (lambda: tsp([[0, 0], [0, 1], [INF, 1]]), "COORDS of node 3 are (inf, 1), expected finite numbers"),
        (lambda: tsp([[0, 0], [0, 1], [1e200, 1]]), "COORDS of node 3 are (1e+200, 1), expected finite numbers"),
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
        (lambda: cvrp((0, 6, 2, 7)), "DEMAND of node 2 is 6, more than CAPACITY 5; so is that of node 4"),
        (lambda: cvrp((0, 6, 8, 7)), "DEMAND of node 2 is 6, more than CAPACITY 5; so is that of nodes 3, 4"),
        (lambda: tsp(first=4), "FIRST is 4, expected a node of 0..3"),
        (lambda: tsp(last=-1), "LAST is -1, expected a node of 0..3"),
        (lambda: tsp(first=1, last=1), "FIRST and LAST are both 1; for a tour that returns there give FIRST alone"),
        (lambda: replace(cvrp(), first=1), "FIRST is 1, but only a TSP takes it: CVRP routes begin at the depot"),
        (lambda: Instance.from_coords([[1, 2], [3]]), "COORDS is not an array of numbers"),
        (lambda: Instance.from_coords([1, 2, 3]), "COORDS has shape (3,), expected (3, 2)"),
        (lambda: Instance.from_coords([[1, 2]], demand=["a"], capacity=1), "DEMAND is not an array of numbers"),
        (lambda: Instance.from_coords([[1, 2]], demand=[0, 1], capacity=1), "DEMAND has shape (2,), expected (1,)"),
        (lambda: Instance.from_matrix([[0, 1, 2], [1, 0, 2]]), "MATRIX has shape (2, 3), expected (n, n)"),
        (
            lambda: Instance.from_matrix([[0, NAN], [1, 0]]),
            "MATRIX from node 1 to node 2 is nan, expected a finite cost >= 0",
        ),
        (
            lambda: Instance.from_matrix([[0, 1], [1, 0]], demand=[0, 1]),
            "CAPACITY is missing: a CVRP has both DEMAND and CAPACITY",
        ),
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
        (lambda: explicit(None), "MATRIX is missing but the metric is EXPLICIT"),
        (lambda: tsp(matrix=ONES), "MATRIX is given but the metric is EXACT_2D"),
        (lambda: tsp(has_coords=False), "HAS_COORDS is False but the metric is EXACT_2D, which needs coordinates"),
    ],
)
def test_wrong_instances(make: Callable[[], Instance], message: str) -> None:
    with pytest.raises(ElgoError, match=f"^{re.escape(message)}$"):
        make()


# --- from arrays


def test_from_lists_of_coordinates() -> None:
    instance = Instance.from_coords([(0, 0), (3, 0), (3, 4)])
    assert (instance.problem, instance.metric, instance.name) == ("tsp", Metric.EXACT, "instance")
    assert instance.distances(0, 2) == 5
    rounded = Instance.from_coords(((0, 0), (1, 1)), demand=[0, 2], capacity=3, metric="EUC_2D", name="two")
    assert (rounded.problem, rounded.distances(0, 1), rounded.capacity) == ("cvrp", 1, 3)


def test_from_a_matrix_that_may_be_asymmetric() -> None:
    instance = Instance.from_matrix([[0, 1, 2], [3, 0, 4], [5, 6, 0]], demand=[0, 1, 1], capacity=2)
    assert instance.problem == "cvrp"
    assert not instance.has_coords
    assert (instance.distances(0, 1), instance.distances(1, 0)) == (1, 3)
    placed = Instance.from_matrix([[0, 1], [2, 0]], coords=[[5, 6], [7, 8]])
    assert placed.has_coords
    assert placed.coords.tolist() == [[5, 6], [7, 8]]


def test_an_unknown_metric() -> None:
    with pytest.raises(ElgoError, match=r"^METRIC is 'MAN_2D', expected one of EUC_2D, CEIL_2D"):
        Instance.from_coords(SQUARE, metric="MAN_2D")


# --- open routes, and fixed ends


def test_the_way_back_of_an_open_cvrp_costs_nothing() -> None:
    closed = Instance.from_matrix([[0, 1, 2], [3, 0, 4], [5, 6, 0]], demand=[0, 1, 1], capacity=2)
    opened = replace(closed, best_known=9.0).with_ends(open=True)
    assert opened.best_known is None
    assert opened.distance_matrix().tolist() == [[0, 1, 2], [0, 0, 4], [0, 6, 0]]
    assert opened.distances([1, 2, 1], [0, 0, 2]).tolist() == [0, 0, 4]
    assert closed.distances([1, 2], [0, 0]).tolist() == [3, 5]
    points = Instance.from_coords(SQUARE, demand=[0, 1, 1, 1], capacity=2).with_ends(open=True)
    assert not points.distance_matrix()[:, 0].any()
    assert points.distance_matrix()[0, 1:].all()


def test_a_last_stop_makes_a_tour_open() -> None:
    assert tsp(last=2).open
    assert not tsp(first=2).open
    assert tsp(best_known=4.0).with_ends(first=1).best_known == 4


def test_ends_that_are_not_given_stay() -> None:
    path = tsp().with_ends(first=1).with_ends(last=2).with_ends(open=True)
    assert (path.first, path.last, path.open) == (1, 2, True)
    assert path.with_ends(first=0).last == 2
    opened = tsp(best_known=4.0).with_ends(open=True)
    assert opened.with_ends(first=1).open
    assert opened.best_known is None
    assert not opened.with_ends(open=False).open
