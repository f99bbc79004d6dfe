"""Clarke and Wright's savings against hand-computed routes and a naive twin."""

import itertools

import numpy as np
import pytest
from samples import random_instance
from search_samples import on_a_line

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search import savings as module
from elgo.search.savings import savings


def test_savings_by_hand() -> None:
    two_sides = on_a_line([0, 1, 2, -1, -2], [0, 1, 1, 1, 1], 2)
    assert sorted(sorted(route) for route in savings(two_sides)) == [[1, 2], [3, 4]]
    assert sorted(map(sorted, savings(on_a_line([0, 1, 2, 3], [0, 3, 3, 2], 5)))) == [[1], [2, 3]]


@pytest.mark.parametrize("metric", [Metric.EUC_2D, Metric.EXACT])
@pytest.mark.parametrize("seed", range(4))
def test_savings_are_feasible(metric: Metric, seed: int) -> None:
    it = random_instance("cvrp", 40, metric, seed)
    assert Solution(it, tuple(map(tuple, savings(it)))).violations == ()


def naive_savings(it: Instance) -> list[list[int]]:
    """Clarke and Wright with lists that are turned and glued."""
    demand, capacity = it.units()
    distance = it.distance_matrix()
    routes = [[node] for node in range(1, it.size)]
    pairs = itertools.combinations(range(1, it.size), 2)
    saved = [(distance[i, 0] + distance[j, 0] - distance[i, j], i, j) for i, j in pairs]
    for amount, i, j in sorted(saved, key=lambda one: -one[0]):
        first = next(route for route in routes if i in route)
        second = next(route for route in routes if j in route)
        ends = i in (first[0], first[-1]) and j in (second[0], second[-1])
        if amount <= 0 or first is second or not ends or demand[first + second].sum() > capacity:
            continue
        routes.remove(first)
        routes.remove(second)
        routes.append((first if first[-1] == i else first[::-1]) + (second if second[0] == j else second[::-1]))
    return routes


@pytest.mark.parametrize("seed", range(3))
def test_savings_equal_a_naive_twin(seed: int) -> None:
    it = random_instance("cvrp", 30, Metric.EXACT, seed)

    def plain(routes: list[list[int]]) -> list[list[int]]:
        return sorted(min(route, route[::-1]) for route in routes)

    assert plain(savings(it)) == plain(naive_savings(it))


def test_savings_of_near_pairs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    it = random_instance("cvrp", 60, Metric.EXACT, 1)
    whole = Solution(it, tuple(map(tuple, savings(it)))).cost
    monkeypatch.setattr(module, "ALL_PAIRS", 10)
    monkeypatch.setattr(module, "NEAREST_PAIRS", 20)
    i, j = module._pairs(it)
    assert (i < j).all()
    assert len(np.unique(i * 100 + j)) == len(i)
    near = Solution(it, tuple(map(tuple, savings(it))))
    assert near.feasible
    assert near.cost < 1.2 * whole
