"""Simulated annealing: deterministic by iterations, punctual by the clock, on one thread and on several."""

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from samples import LATE
from search_samples import prepared, solution

from elgo.problem.instance import Instance, Metric
from elgo.search.annealing import LARGE, SLICE, anneal, ignores_start, improve
from elgo.search.data import prepare
from elgo.search.giant_tour import NodeArray, count_routes
from elgo.search.slices import iteration_slices, time_slices

# --- a fixed number of iterations


@pytest.mark.parametrize("customers", [2, 3, 20, 80])
@pytest.mark.parametrize("iterations", [0, 30, 4000])
def test_annealing_never_ends_worse(customers: int, iterations: int) -> None:
    data, giant_tour = prepared(customers, seed=customers)
    before = giant_tour.copy()
    found = solution(data, anneal(data, giant_tour, iterations, seed=0))
    assert found.violations == ()
    assert found.cost <= solution(data, giant_tour).cost + 1e-9
    assert np.array_equal(giant_tour, before)


def test_annealing_improves_on_savings() -> None:
    for seed in range(3):
        data, giant_tour = prepared(80, seed)
        assert solution(data, anneal(data, giant_tour, 16_000, 0)).cost < 0.98 * solution(data, giant_tour).cost


def test_small_distances_do_not_stop_improvement() -> None:
    data, giant_tour = prepared(80)
    small = prepare(replace(data.instance, coords=1e-20 * data.instance.coords, metric=Metric.EXACT))
    assert solution(small, anneal(small, giant_tour, 16_000, 0)).cost < 0.98 * solution(small, giant_tour).cost


def test_annealing_is_the_same_every_time() -> None:
    data, giant_tour = prepared(60)
    one, same, other = (anneal(data, giant_tour, 3000, seed) for seed in (5, 5, 6))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_annealing_keeps_to_the_vehicles() -> None:
    data, giant_tour = prepared(60, seed=2)
    for vehicles in (0, count_routes(giant_tour)):
        found = anneal(data, giant_tour, 3000, 0, vehicles)
        assert count_routes(found) <= count_routes(giant_tour)


# --- a time limit


@pytest.mark.parametrize(("threads", "near_start"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("customers", [2, 9, 120, LARGE])
def test_improving_until_the_time_is_over(customers: int, threads: int, near_start: bool) -> None:
    data, giant_tour = prepared(customers, seed=1)
    before = giant_tour.copy()
    told: list[NodeArray] = []
    until = time.perf_counter() + 0.4
    slices = time_slices(until, SLICE)
    improve(data, giant_tour, slices, threads, seed=0, on_better=told.append, near_start=near_start)
    assert -0.1 < time.perf_counter() - until < LATE  # it uses the time that it has, and no more
    costs = [solution(data, better).cost for better in (giant_tour, *told)]
    assert all(after < cost for cost, after in pairwise(costs))
    assert all(solution(data, better).violations == () for better in told)
    assert np.array_equal(giant_tour, before)
    assert not near_start or customers < 100 or len(told) > 0  # without, it may be too hot to improve so soon


@pytest.mark.parametrize("threads", [1, 3])
def test_no_time_left(threads: int) -> None:
    data, giant_tour = prepared(30)
    told: list[NodeArray] = []
    for left in (-1.0, 0.0, 0.001):
        improve(data, giant_tour, time_slices(time.perf_counter() + left, SLICE), threads, 0, told.append)
    assert told == []


def test_threads_share_the_spare_vehicles() -> None:
    data, giant_tour = prepared(LARGE, seed=3)
    routes = count_routes(giant_tour)
    assert routes >= 6  # enough to be split
    for spare in (-2, 0, 1):
        told: list[NodeArray] = [giant_tour]
        slices = time_slices(time.perf_counter() + 0.3, SLICE)
        improve(data, giant_tour, slices, 3, 0, told.append, routes + spare)
        assert all(count_routes(better) <= routes + max(spare, 0) for better in told)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_fixed_number_of_iterations_gives_the_same_routes(threads: int) -> None:
    data, giant_tour = prepared(LARGE)
    found = []
    for _ in range(2):
        told: list[NodeArray] = []
        improve(data, giant_tour, iteration_slices(3000), threads, 7, told.append)
        found.append(told)
    assert len(found[0]) == len(found[1]) > 0
    assert all(np.array_equal(one, same) for one, same in zip(*found, strict=True))


def test_only_a_small_cvrp_ignores_its_start() -> None:
    for customers in (LARGE - 1, LARGE):
        demand = np.append(0, np.ones(customers))
        coords = np.random.default_rng(0).random((customers + 1, 2))
        assert ignores_start(Instance("small?", coords, Metric.EXACT, demand, 9)) == (customers < LARGE)
        assert not ignores_start(Instance("tour", coords, Metric.EXACT))
