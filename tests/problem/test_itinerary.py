"""Itineraries: hand-computed legs, distances and loads; lengths as text."""

import numpy as np
import pytest

from elgo.problem.instance import Instance, Metric
from elgo.problem.itinerary import format_length, itineraries
from elgo.problem.solution import Solution

COORDS = np.array([[0.0, 0], [3, 0], [3, 4], [0, 4]])


def test_routes_of_a_cvrp() -> None:
    instance = Instance("a", COORDS, Metric.EXACT, np.array([0, 0.1, 0.2, 5]), 6.0)
    first, second = itineraries(Solution(instance, ((1, 2), (3,))))
    assert (first.nodes, first.legs, first.loads) == ((0, 1, 2, 0), (0, 3, 4, 5), (0, 0.1, 0.3, 0.3))
    assert (first.distances, first.cost, first.load, first.stops) == ((0, 3, 7, 12), 12, 0.3, (1, 2))
    assert (second.nodes, second.cost, second.load) == ((0, 3, 0), 8, 5)


def test_a_tour_begins_at_node_0_in_its_own_direction() -> None:
    matrix = np.arange(16.0).reshape(4, 4)
    np.fill_diagonal(matrix, 0)
    solution = Solution(Instance("a", COORDS, Metric.EXPLICIT, matrix=matrix), ((3, 1, 0, 2),))
    (tour,) = itineraries(solution)
    assert tour.nodes == (0, 2, 3, 1, 0)
    assert tour.legs == (0, 2, 11, 13, 4)
    assert tour.cost == solution.cost
    assert tour.loads == (0, 0, 0, 0, 0)


def test_open_routes_end_at_their_last_stop() -> None:
    instance = Instance("a", COORDS, Metric.EXACT, np.array([0, 1, 2, 5]), 6.0).with_ends(open=True)
    solution = Solution(instance, ((1, 2), (3,)))
    first, second = itineraries(solution)
    assert (first.nodes, first.legs, first.stops) == ((0, 1, 2), (0, 3, 4), (1, 2))
    assert first.cost + second.cost == solution.cost == 11


def test_an_open_tour_of_one_node() -> None:
    (tour,) = itineraries(Solution(Instance("a", COORDS[:1], Metric.EXACT).with_ends(open=True), ((0,),)))
    assert (tour.nodes, tour.legs, tour.stops) == ((0,), (0,), ())


def test_a_tour_with_fixed_ends() -> None:
    tsp = Instance("a", COORDS, Metric.EXACT)
    (path,) = itineraries(Solution(tsp.with_ends(first=1, last=0), ((1, 2, 3, 0),)))
    assert (path.nodes, path.cost, path.stops) == ((1, 2, 3, 0), 11, (2, 3, 0))
    (tour,) = itineraries(Solution(tsp.with_ends(first=2), ((2, 3, 0, 1),)))
    assert (tour.nodes, tour.cost) == ((2, 3, 0, 1, 2), 14)


@pytest.mark.parametrize(
    ("cost", "metric", "text"),
    [
        (142_249.0, Metric.HAVERSINE, "142.2 km"),
        (842.4, Metric.HAVERSINE, "842 m"),
        (6859.0, Metric.GEO, "6859 km"),
        (12.5, Metric.EXACT, "12.5000"),
        (12.0, Metric.EXPLICIT, "12"),
        (None, Metric.HAVERSINE, "-"),
    ],
)
def test_lengths_have_a_unit_where_it_is_known(cost: float | None, metric: Metric, text: str) -> None:
    assert format_length(cost, metric) == text
