"""Genetic search: populations that keep the fit, routes that stay allowed, in time on one thread and on several."""

import time
from random import Random

import numpy as np
import pytest
from samples import prepared, solution

from elg.instance import Instance, Metric, embed
from elg.search.chance import states
from elg.search.genetic import LARGEST, LEAST, MORE, SOON, Population, Search, improve, suits
from elg.search.ground import NodeArray
from elg.search.warm import warm_up


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    warm_up("cvrp")


def test_for_small_symmetric_instances() -> None:
    assert suits(prepared(LARGEST - 1)[0].instance)
    assert not suits(prepared(LARGEST)[0].instance)
    matrix = np.arange(16.0).reshape(4, 4) * (1 - np.eye(4))
    for costs, symmetric in ((matrix, False), (matrix + matrix.T, True)):
        demand = np.array([0, 1, 1, 1])
        instance = Instance("any", embed(costs), Metric.EXPLICIT, demand, 2, costs, has_coords=False)
        assert suits(instance) == symmetric


def test_it_ends_at_once_when_the_listener_fails() -> None:
    def fail(walk: NodeArray) -> None:
        raise KeyboardInterrupt

    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        improve(*prepared(100), begin + 60, 2, 0, fail)
    assert time.perf_counter() - begin < 40  # one annealing is far shorter, and it is not waited for


def test_no_more_routes_than_vehicles() -> None:
    for seed in range(3):
        seen, load, walk = prepared(60, seed)
        used = int((walk == 0).sum())
        told = [walk]
        until = time.perf_counter() + 0.5
        improve(seen, load._replace(vehicles=used), walk, until, 2, 0, told.append)
        assert max(int((better == 0).sum()) for better in told) <= used


def bred(customers: int, count: int) -> Search:
    """A search after so many offspring, on this thread: the same every time."""
    search = Search(*prepared(customers), until=float("inf"))
    state, chance = states(3, 1)[0], Random(0)
    for _ in range(10):
        search.add_stranger(state, chance)
    for _ in range(count):
        search.add_child(state, chance)
    return search


def test_offspring_is_the_same_every_time_and_gets_better() -> None:
    few, many, same = bred(50, 5), bred(50, 200), bred(50, 200)
    assert many.shortest == same.shortest < few.shortest
    told = [many.better.get() for _ in range(many.better.qsize())]
    assert solution(many.ground, told[-1]).cost == pytest.approx(many.shortest)


def test_halves_stay_in_order() -> None:
    search = bred(30, 300)
    population = search.population
    cheapest = min(plan.length for plan in population.halves[0].plans)
    assert cheapest == pytest.approx(search.shortest)  # the best one never goes
    for too_full, half in enumerate(population.halves):
        assert all((plan.excess > 0) == too_full for plan in half.plans)
        count = len(half.plans)
        assert count <= LEAST + MORE
        gaps = half.gaps[:count, :count]
        assert np.array_equal(gaps, gaps.T)  # whoever it was that took the place of another


def test_the_price_follows() -> None:
    for fits, falls in ((True, True), (False, False)):
        population = Population(1.0)
        for _ in range(SOON):
            population.learn(fits)
        assert (population.price < 1) == falls
    right = Population(1.0)
    for k in range(5 * SOON):
        right.learn(k % 5 == 0)
    assert right.price == 1.0
