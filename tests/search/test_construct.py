"""Nearest neighbour and random insertion against hand-computed routes."""

import pytest
from samples import random_instance
from search_samples import on_a_line

from elgo.problem.instance import Metric
from elgo.problem.solution import Solution
from elgo.search.construct import nearest_neighbour, random_insertion


def test_nearest_neighbour_by_hand() -> None:
    assert nearest_neighbour(on_a_line([0, 2, -1, 7])) == [[0, 2, 1, 3]]
    # From the depot: 1, then 2 does not fit, 3 does; then a new vehicle for 2.
    assert nearest_neighbour(on_a_line([0, 1, 2, 3], [0, 3, 3, 2], 5)) == [[1, 3], [2]]


def test_random_insertion_by_hand() -> None:
    (tour,) = random_insertion(on_a_line([0, 1, 2, 3]), seed=0)
    assert Solution(on_a_line([0, 1, 2, 3]), (tuple(tour),)).cost == 6  # there and back, whatever the order
    two_sides = on_a_line([0, 1, 2, -1, -2], [0, 1, 1, 1, 1], 2)
    assert Solution(two_sides, tuple(map(tuple, random_insertion(two_sides, 3)))).feasible


@pytest.mark.parametrize("metric", [Metric.EUC_2D, Metric.EXACT])
@pytest.mark.parametrize("seed", range(4))
def test_all_are_feasible(metric: Metric, seed: int) -> None:
    tsp, cvrp = (random_instance(problem, 40, metric, seed) for problem in ("tsp", "cvrp"))
    for it in (tsp, cvrp):
        for routes in (nearest_neighbour(it), random_insertion(it, seed)):
            assert Solution(it, tuple(map(tuple, routes))).violations == ()
