"""Routes at once: whole, allowed, and not bad."""

import numpy as np
import pytest
from samples import KINDS, random_instance, random_points

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search.construct import nearest_neighbour
from elgo.search.fallback import fallback_routes, hilbert_order
from elgo.search.giant_tour import Routes


def solution(instance: Instance, routes: Routes) -> Solution:
    return Solution(instance, tuple(map(tuple, routes)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 100, 3000])
def test_the_curve_visits_every_point_once(kind: str, n: int) -> None:
    points = 1000 * random_points(np.random.default_rng(n), n, kind) - 300
    assert sorted(hilbert_order(points).tolist()) == list(range(n))


def test_the_curve_of_points_in_one_place_or_on_a_line() -> None:
    assert hilbert_order(np.ones((4, 2))).tolist() == [0, 1, 2, 3]
    line = np.stack([np.arange(50.0), np.zeros(50)], axis=1)
    np.testing.assert_array_equal(hilbert_order(line), np.arange(50))


def test_the_curve_goes_from_cell_to_neighbouring_cell() -> None:
    cells = np.stack(np.divmod(np.arange(256), 16), axis=1).astype(float)
    steps = np.abs(np.diff(cells[hilbert_order(cells)], axis=0)).sum(axis=1)
    assert (steps == 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_is_not_much_longer_than_nearest_neighbour(seed: int) -> None:
    points = np.random.default_rng(seed).random((2000, 2))
    instance = Instance("uniform", points, Metric.EXACT)
    tour = solution(instance, fallback_routes(instance))
    assert tour.feasible
    assert tour.cost < 1.4 * solution(instance, nearest_neighbour(instance)).cost


@pytest.mark.parametrize("n", [3, 4, 30, 500])
def test_the_sweep_is_feasible(n: int) -> None:
    for seed in range(5):
        instance = random_instance("cvrp", n, seed=seed)
        assert solution(instance, fallback_routes(instance)).feasible


def test_the_sweep_goes_round_the_depot() -> None:
    angle = np.radians([100, 10, 190, 280, 20, 110, 200, 290])
    coords = np.concatenate([[[0, 0]], 100 * np.stack([np.cos(angle), np.sin(angle)], axis=1)])
    instance = Instance("star", coords, Metric.EXACT, demand=np.array([0] + [1] * 8), capacity=2)
    assert sorted(map(sorted, fallback_routes(instance))) == [[1, 6], [2, 5], [3, 7], [4, 8]]


def test_as_few_vehicles_as_possible() -> None:
    """Loads that were cut out of full vehicles, so that there is no room to spare."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        parts = [np.diff([0, *np.sort(rng.choice(np.arange(1, 100), 4, replace=False)), 100]) for _ in range(12)]
        demand = np.array([0, *rng.permutation(np.concatenate(parts))])
        coords = rng.random((len(demand), 2))
        instance = Instance("full", coords, Metric.EXACT, demand=demand, capacity=100)
        routes = fallback_routes(instance, 12)
        assert len(routes) == 12
        assert solution(instance, routes).feasible
