"""Annealing routes: the same every time by iterations, in time by the clock, on one thread and on several."""

import time
from itertools import pairwise

import numpy as np
import pytest
from samples import LATE, prepared, solution

from elgo.problem.instance import Instance, Metric
from elgo.search.annealing import LARGE, anneal, forgets_its_start, improve, mean_edge, split, to_routes, to_walk
from elgo.search.data import Ground, NodeArray, survey

# --- walks


@pytest.mark.parametrize("routes", [[[1]], [[2, 1]], [[3], [1, 2], [4]], [[5, 4, 3, 2, 1]], [[1], [2], [3]]])
def test_walks_and_routes(routes: list[list[int]]) -> None:
    assert to_routes(to_walk(routes)) == routes


def test_walks_by_hand() -> None:
    assert to_walk([[3, 1], [2]]).tolist() == [3, 1, 0, 2, 0]
    assert to_walk(((3, 1), (2,))).dtype == np.int32
    assert to_routes(np.array([2, 0, 1, 3, 0], np.int32)) == [[2], [1, 3]]


def test_mean_edge_by_hand() -> None:
    seen = survey(Instance("line", [(0, 0), (3, 0), (5, 0), (-4, 0)], Metric.EXACT, [0, 1, 1, 1], 2))
    assert mean_edge(seen, to_walk([[1, 2], [3]])) == (3 + 2 + 5 + 4 + 4) / 5


# --- so many iterations


@pytest.mark.parametrize("customers", [2, 3, 20, 80])
@pytest.mark.parametrize("iterations", [0, 30, 4000])
def test_annealing_never_ends_worse(customers: int, iterations: int) -> None:
    seen, load, walk = prepared(customers, seed=customers)
    before = walk.copy()
    found = solution(seen, anneal(seen, load, walk, iterations, seed=0))
    assert found.violations == ()
    assert found.cost <= solution(seen, walk).cost + 1e-9
    assert np.array_equal(walk, before)


def test_annealing_improves_on_savings() -> None:
    for seed in range(3):
        seen, load, walk = prepared(80, seed)
        assert solution(seen, anneal(seen, load, walk, 16_000, 0)).cost < 0.98 * solution(seen, walk).cost


def test_annealing_is_the_same_every_time() -> None:
    seen, load, walk = prepared(60)
    one, same, other = (anneal(seen, load, walk, 3000, seed) for seed in (5, 5, 6))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_annealing_keeps_to_the_vehicles() -> None:
    seen, load, walk = prepared(60, seed=2)
    for vehicles in (0, int((walk == 0).sum())):
        found = anneal(seen, load._replace(vehicles=vehicles), walk, 3000, 0)
        assert (found == 0).sum() <= (walk == 0).sum()


# --- so much time


@pytest.mark.parametrize(("threads", "keep"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("customers", [2, 9, 120, LARGE])
def test_improving_until_the_time_is_over(customers: int, threads: int, keep: bool) -> None:
    seen, load, walk = prepared(customers, seed=1)
    before = walk.copy()
    told: list[NodeArray] = []
    until = time.perf_counter() + 0.4
    improve(seen, load, walk, until, threads, seed=0, on_better=told.append, keep=keep)
    assert -0.1 < time.perf_counter() - until < LATE  # it uses the time that it has, and no more
    costs = [solution(seen, better).cost for better in (walk, *told)]
    assert all(after < cost for cost, after in pairwise(costs))
    assert all(solution(seen, better).violations == () for better in told)
    assert np.array_equal(walk, before)
    assert not keep or customers < 100 or len(told) > 0  # without, it may be too hot to improve so soon


@pytest.mark.parametrize("threads", [1, 3])
def test_no_time_left(threads: int) -> None:
    seen, load, walk = prepared(30)
    told: list[NodeArray] = []
    for left in (-1.0, 0.0, 0.001):
        improve(seen, load, walk, time.perf_counter() + left, threads, 0, told.append)
    assert told == []


def test_threads_share_the_spare_vehicles() -> None:
    seen, load, walk = prepared(LARGE, seed=3)
    routes = int((walk == 0).sum())
    assert routes >= 6  # enough to be split
    for spare in (-2, 0, 1):
        told: list[NodeArray] = [walk]
        few = load._replace(vehicles=routes + spare)
        improve(seen, few, walk, time.perf_counter() + 0.3, 3, 0, told.append)
        assert all((better == 0).sum() <= routes + max(spare, 0) for better in told)


def test_only_a_small_cvrp_forgets_its_start() -> None:
    for customers in (LARGE - 1, LARGE):
        demand = np.append(0, np.ones(customers))
        coords = np.random.default_rng(0).random((customers + 1, 2))
        assert forgets_its_start(Instance("small?", coords, Metric.EXACT, demand, 9)) == (customers < LARGE)
        assert not forgets_its_start(Instance("tour", coords, Metric.EXACT))


# --- parts of the routes


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(4))
def test_parts_share_the_routes(count: int, seed: int) -> None:
    seen, _, walk = prepared((20, 100, 300, 600)[seed], seed)
    routes = to_routes(walk)
    parts = split(seen, walk, count, np.random.default_rng(seed))
    if len(routes) < 2 * count:
        assert len(parts) == 1
    assert 1 <= len(parts) <= count
    assert all(len(part) for part in parts)
    assert sorted(route for part in parts for route in to_routes(part)) == sorted(routes)
    share, largest = seen.instance.customers / len(parts), max(map(len, routes))
    if len(parts) == count:
        assert all(abs((part > 0).sum() - share) <= largest for part in parts)


def star(arms: int) -> tuple[Ground, NodeArray]:
    """Routes of two customers straight away from the depot, which is not at the origin, in all directions in turn."""
    angles = 2 * np.pi * np.arange(arms) / arms
    ray = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    coords = np.array([50.0, 70.0]) + np.concatenate([[[0.0, 0.0]], ray, 2 * ray])
    instance = Instance("star", coords, Metric.EXACT, np.r_[0, np.ones(2 * arms)], 2)
    shuffled = np.random.default_rng(0).permutation(arms)
    return survey(instance), to_walk([[1 + arm, 1 + arms + arm] for arm in shuffled.tolist()])


def test_parts_are_sectors() -> None:
    seen, walk = star(12)
    cuts = set()
    for seed in range(20):
        parts = split(seen, walk, 3, np.random.default_rng(seed))
        for part in parts:
            arms = sorted((part[part > 0] - 1) % 12)[::2]
            assert len(arms) == 4
            begin = next(arm for arm in arms if (arm - 1) % 12 not in arms)
            assert {(begin + k) % 12 for k in range(4)} == set(arms)
            cuts.add(int(begin))
    assert cuts == set(range(12))  # every two neighbours are together now and then


def test_few_routes_stay_together() -> None:
    seen, walk = star(5)
    rng = np.random.default_rng(0)
    assert [len(split(seen, walk, count, rng)) for count in (1, 2, 3, 9)] == [1, 2, 1, 1]
