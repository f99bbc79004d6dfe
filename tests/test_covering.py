"""The cover against a linear program over every route of a small instance; its routes against their definition."""

from collections.abc import Callable
from itertools import chain, combinations, pairwise, permutations

import highspy
import numpy as np
import pytest
from samples import random_task
from scipy.optimize import linprog

from elgo import covering
from elgo.covering import GAIN, cover_by_routes
from elgo.model.env import Task
from elgo.search.construct import Routes


def one_each(task: Task) -> Routes:
    return [[i] for i in range(1, len(task.coords))]


def way(coords: np.ndarray, route: tuple[int, ...] | list[int]) -> float:
    return float(sum(np.hypot(*(coords[a] - coords[b])) for a, b in pairwise([0, *route, 0])))


def length(task: Task, routes: list[np.ndarray], shares: list[float]) -> float:
    return sum(share * way(task.coords, route.tolist()) for route, share in zip(routes, shares, strict=True))


def over_every_route(task: Task) -> float:
    customers = range(1, len(task.coords))
    assert task.demand is not None
    sets = [list(some) for size in customers for some in combinations(customers, size)]
    sets = [some for some in sets if task.demand[some].sum() <= (task.capacity or 0)]
    cost = [min(way(task.coords, order) for order in permutations(some)) for some in sets]
    once = np.array([[-float(i in some) for some in sets] for i in customers])
    return float(linprog(cost, once, -np.ones(len(customers))).fun)


@pytest.mark.parametrize("seed", range(8))
def test_the_shortest_cover_of_few_customers(seed: int) -> None:
    task = random_task(np.random.default_rng(seed), "cvrp", 8)
    found = length(task, *cover_by_routes(task, [one_each(task)]))
    assert over_every_route(task) * (1 - 1e-6) <= found <= over_every_route(task) * 1.1  # some routes are overlooked


def test_customers_are_covered_by_routes_that_fit() -> None:
    task = random_task(np.random.default_rng(1), "cvrp", 90)
    assert task.demand is not None
    routes, shares = cover_by_routes(task, [one_each(task)])
    covered = np.zeros(90)
    for route, share in zip(routes, shares, strict=True):
        covered[route] += share
        assert len(set(route.tolist()) - {0}) == len(route)
        assert task.demand[route].sum() <= (task.capacity or 0)
    assert (covered[1:] >= 1 - 1e-6).all()
    assert length(task, routes, shares) < 0.9 * sum(way(task.coords, route) for route in one_each(task))


def test_customers_who_fit_with_nobody_go_alone() -> None:
    task = Task(np.random.default_rng(5).random((9, 2)), np.r_[0, np.full(8, 5)], 5)
    routes, shares = cover_by_routes(task, [one_each(task)])
    assert [route.tolist() for route in routes] == one_each(task)
    np.testing.assert_allclose(shares, 1.0)


@pytest.mark.parametrize("demands", ["usual", "none"])
def test_new_routes_are_feasible_and_worth_it(monkeypatch: pytest.MonkeyPatch, demands: str) -> None:
    usual = random_task(np.random.default_rng(2), "cvrp", 70)
    task = usual if demands == "usual" else usual._replace(demand=np.zeros(70, np.int64))
    assert task.demand is not None
    rounds = []

    def watch(find: Callable[..., tuple[np.ndarray, np.ndarray]]) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
        def watched(*given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            many, walks = find(*given)
            price = given[-1]
            for count, walk in zip(many, walks, strict=True):
                route = walk[:count]
                assert len(set(route.tolist()) - {0}) == count
                assert task.demand[route].sum() <= task.capacity  # type: ignore[index, operator]
                assert way(task.coords, route.tolist()) < price[route].sum() - GAIN / 2
            rounds.append(len(many))
            return many, walks

        return watched

    monkeypatch.setattr(covering, "_find_routes", watch(covering._find_routes))
    cover_by_routes(task, [one_each(task)])
    assert len(rounds) > 5
    assert max(rounds) > 10


def test_the_parts_of_a_large_instance() -> None:
    rng = np.random.default_rng(3)
    coords = rng.random((1000, 2))
    routes = [part.tolist() for part in np.array_split(np.arange(1, 1000), 80)]
    parts = list(covering._parts(coords, routes))
    assert sorted(chain.from_iterable(part[1:] for part in parts)) == list(range(1, 1000))
    for part in parts:
        assert part[0] == 0
        assert covering.MOST_CUSTOMERS / 4 < len(part) - 1 <= covering.MOST_CUSTOMERS
        inside = set(part.tolist())
        assert all(inside.issuperset(route) or inside.isdisjoint(route) for route in routes)
    assert [len(part) for part in covering._parts(coords, [list(range(1, 1000))])] == [1000]  # a route stays whole


def test_a_route_that_is_a_large_part_stays_as_it_is() -> None:
    task = Task(np.random.default_rng(6).random((600, 2)), np.ones(600, np.int64), 599)
    route = list(range(1, 600))
    routes, shares = cover_by_routes(task, [[route]])
    assert [found.tolist() for found in routes] == [route]
    np.testing.assert_allclose(shares, 1.0)


def test_parts_lose_little(monkeypatch: pytest.MonkeyPatch) -> None:
    task = random_task(np.random.default_rng(4), "cvrp", 120)
    begin = [one_each(task)]
    whole = length(task, *cover_by_routes(task, begin))
    monkeypatch.setattr(covering, "MOST_CUSTOMERS", 60)
    assert whole <= length(task, *cover_by_routes(task, begin)) <= 1.1 * whole


def test_without_a_solution_there_are_no_prices_and_no_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covering._Cover, "_solve", lambda self: highspy.Highs().getSolution())
    task = random_task(np.random.default_rng(0), "cvrp", 12)
    assert cover_by_routes(task, [one_each(task)]) == ([], [])
