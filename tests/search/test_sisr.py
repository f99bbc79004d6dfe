"""Ruin and recreate: routes that stay allowed, costs that add up, and the optimum where it can be found by counting."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

import numpy as np
import pytest
from samples import random_cvrp, random_points, random_routes

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search.annealing import to_routes, to_walk
from elgo.search.construct import savings
from elgo.search.data import Ground, NodeArray, survey
from elgo.search.sisr import (
    AFTER,
    BEFORE,
    COUNT,
    FIRST,
    IN_USE,
    IS_SPARE,
    IS_TOUCHED,
    LOAD,
    OUT,
    ROUTE,
    SPARE,
    SPARES,
    TOUCHES,
    _forget,
    _place_anywhere,
    _place_near,
    _read,
    _recreate,
    _restore,
    _ruin,
    _sort,
    _string_around,
    ruin_and_recreate,
)

Result = tuple[NodeArray, float, NodeArray, float]


def search(
    seen: Ground,
    walk: NodeArray,
    iterations: int = 300,
    temperature: float = 5.0,
    seed: int = 1,
    vehicles: int | None = None,
) -> Result:
    most = seen.instance.customers if vehicles is None else vehicles
    load = (*seen.instance.units(), most)
    state = np.array([seed * 0x9E3779B97F4A7C15 % 2**64], np.uint64)
    return ruin_and_recreate(seen.rule, seen.data, seen.near, *load, walk, iterations, float(temperature), state)


def cost(instance: Instance, walk: NodeArray) -> float:
    return Solution(instance, tuple(map(tuple, to_routes(walk)))).cost


def check(instance: Instance, walk: NodeArray, result: Result) -> None:
    """Both walks have the same customers as the given one in routes that are allowed, and both changes are true."""
    last, change, best, gain = result
    demand, capacity = instance.units()
    before = cost(instance, walk)
    for found, delta in ((last, change), (best, gain)):
        assert found.dtype == np.int32
        assert found[-1] == 0
        routes = to_routes(found)
        assert all(routes)
        assert all(demand[route].sum() <= capacity for route in routes)
        assert np.array_equal(np.sort(found[found > 0]), np.sort(walk[walk > 0]))
        assert cost(instance, found) - before == pytest.approx(delta, abs=1e-6)
    assert gain <= min(0.0, change + 1e-6)


def number(walk: NodeArray) -> int:
    """Of routes."""
    return int((walk == 0).sum())


# --- what holds whatever it does


@pytest.mark.parametrize("temperature", [0.0, 5.0, 1e9, math.inf])
@pytest.mark.parametrize("one_way", [False, True])
def test_routes_stay_allowed_and_changes_are_true(temperature: float, one_way: bool) -> None:
    for seed in range(0, 40, 2):
        kind = ("uniform", "clustered", "lattice")[seed % 3]
        instance = random_cvrp(seed, 2 + seed, kind, one_way)
        seen = survey(instance)
        for walk in (to_walk(random_routes(instance, seed)), to_walk(savings(instance))):
            result = search(seen, walk, 50 + 5 * seed, temperature, seed + 1)
            check(instance, walk, result)
            assert Solution(instance, tuple(map(tuple, to_routes(result[2])))).violations == ()
            if temperature == 0.0:
                assert result[1] == pytest.approx(result[3], abs=1e-6)  # never uphill


@pytest.mark.parametrize("metric", [Metric.EUC_2D, Metric.CEIL_2D, Metric.ATT, Metric.EXACT, Metric.HAVERSINE])
def test_more_customers_than_a_table_holds(metric: Metric) -> None:
    rng = np.random.default_rng(0)
    demand = np.r_[0, rng.integers(1, 10, 600)]
    instance = Instance("large", 90 * rng.random((601, 2)), metric, demand, 60)
    seen = survey(instance)
    assert seen.data.shape == (601, 2)
    walk = to_walk(savings(instance))
    check(instance, walk, search(seen, walk, 3000, cost(instance, walk) / 1e4))


def test_one_iteration_after_the_other() -> None:
    """Every single step: none is allowed to leave anything wrong behind, not even for a moment."""
    instance = random_cvrp(3, 25)
    seen = survey(instance)
    walk = to_walk(random_routes(instance, 0))
    for seed in range(1, 300):
        result = search(seen, walk, 1, 20.0, seed)
        check(instance, walk, result)
        walk = result[0]


@pytest.mark.parametrize("one_way", [False, True])
def test_it_finds_better_routes(one_way: bool) -> None:
    instance = random_cvrp(8, 60, one_way=one_way)
    walk = to_walk(random_routes(instance, 0))
    *_, gain = search(survey(instance), walk, 3000, 0.5)
    assert cost(instance, walk) + gain < 0.6 * cost(instance, walk)


def test_heat_leads_away_and_cold_does_not() -> None:
    instance = random_cvrp(4, 50)
    seen = survey(instance)
    walk = search(seen, to_walk(savings(instance)), 5000, 0.0)[2]
    rises = [search(seen, walk, 3000, temperature)[1] for temperature in (0.0, 2.0, math.inf)]
    assert rises[0] <= 0.0
    assert 0.0 < rises[1] < rises[2]


def test_no_iterations_change_nothing() -> None:
    instance = random_cvrp(0, 12)
    walk = to_walk(random_routes(instance, 1))
    last, change, best, gain = search(survey(instance), walk, 0)
    assert np.array_equal(last, walk)
    assert np.array_equal(best, walk)
    assert (change, gain) == (0.0, 0.0)


# --- some of the customers


@pytest.mark.parametrize("seed", range(8))
def test_the_other_customers_are_not_there(seed: int) -> None:
    instance = random_cvrp(seed, 40)
    some = np.random.default_rng(seed).permutation(40)[: 3 + 4 * seed] + 1
    walk = to_walk(random_routes(instance, seed, some.tolist()))
    check(instance, walk, search(survey(instance), walk, 500, 10.0))


def test_parts_on_threads_do_not_disturb_each_other() -> None:
    instance = random_cvrp(7, 200)
    seen = survey(instance)
    parts = [to_walk(random_routes(instance, k, range(1 + 50 * k, 51 + 50 * k))) for k in range(4)]
    one_by_one = [search(seen, part, 2000, 5.0, 1 + k) for k, part in enumerate(parts)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda k: search(seen, parts[k], 2000, 5.0, 1 + k), range(4)))
    for one, other in zip(one_by_one, together, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# --- vehicles


def tight(seed: int) -> tuple[Ground, NodeArray]:
    """Nearly full vehicles, hardly more than are needed."""
    rng = np.random.default_rng(seed)
    demand = np.r_[0, rng.integers(1, 10, 30)]
    seen = survey(Instance("tight", 100 * random_points(rng, 31), Metric.EXACT, demand, 20))
    return seen, search(seen, to_walk(savings(seen.instance)), 2000, 1e3, vehicles=0)[0]


@pytest.mark.parametrize("seed", range(6))
def test_no_more_routes_than_vehicles(seed: int) -> None:
    """Nor than at the beginning, if they were too many; after each of many short searches at great heat."""
    seen, start = tight(seed)
    for spare in (-3, 0, 1):
        walk, vehicles = start, number(start) + spare
        for turn in range(1, 60):
            result = search(seen, walk, 40, 1e3, turn, vehicles)
            check(seen.instance, walk, result)
            assert max(number(result[0]), number(result[2])) <= max(number(walk), vehicles)
            walk = result[0]


def test_more_vehicles_are_used_where_they_may() -> None:
    """What the test above forbids does happen otherwise."""
    for seed in range(6):
        seen, walk = tight(seed)
        assert max(number(search(seen, walk, 40, 1e3, turn)[0]) for turn in range(1, 60)) > number(walk)


# --- seeds


def test_the_seed_decides() -> None:
    instance = random_cvrp(5, 40)
    seen = survey(instance)
    walk = to_walk(random_routes(instance, 0))
    one, same, other = (search(seen, walk, 200, 5.0, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])


def test_only_the_state_of_the_generator_is_changed() -> None:
    instance = random_cvrp(6, 30)
    seen = survey(instance)
    demand, capacity = instance.units()
    walk, state = to_walk(random_routes(instance, 0)), np.array([77], np.uint64)
    given = (seen.data, seen.near, demand, walk)
    before = [array.copy() for array in given]
    results = []
    for _ in range(2):
        results.append(ruin_and_recreate(seen.rule, seen.data, seen.near, demand, capacity, 30, walk, 100, 5.0, state))
        assert all(np.array_equal(a, b) for a, b in zip(given, before, strict=True))
    assert state[0] != 77
    assert not np.array_equal(results[0][0], results[1][0])  # the second went on where the first ended
    assert not any(np.shares_memory(result[k], walk) for result in results for k in (0, 2))


# --- small ones


def test_one_customer() -> None:
    """No Instance is that small, but a part on a thread may be; with and without others near."""
    instance = random_cvrp(0, 5)
    for node in range(1, 6):
        result = search(survey(instance), to_walk([[node]]), 50)
        assert [result[0].tolist(), result[2].tolist()] == [[node, 0], [node, 0]]
        assert result[1] == pytest.approx(0.0)
    matrix, alone = np.array([[0.0, 2.0], [3.0, 0.0]]), np.zeros((2, 0), np.int32)
    walk, state = to_walk([[1]]), np.array([1], np.uint64)
    result = ruin_and_recreate(0, matrix, alone, np.array([0, 4]), 4, 1, walk, 50, 1.0, state)
    assert result[0].tolist() == [1, 0]
    assert (result[1], result[3]) == (0.0, 0.0)


@pytest.mark.parametrize(("capacity", "routes"), [(2, [[1, 2]]), (1, [[1], [2]])])
def test_two_customers(capacity: int, routes: list[list[int]]) -> None:
    instance = Instance("two", [(0, 0), (3, 4), (6, 8)], Metric.EXACT, [0, 1, 1], capacity)
    walk = to_walk([[2], [1]])
    result = search(survey(instance), walk, 100, 0.0)
    check(instance, walk, result)
    assert sorted(sorted(route) for route in to_routes(result[2])) == routes
    assert result[3] == pytest.approx(20.0 - 30.0 if capacity == 2 else 0.0)


@pytest.mark.parametrize("customers", [2, 3, 20])
def test_one_customer_per_route(customers: int) -> None:
    """Each fills a vehicle: nothing can be changed, but all routes are emptied and opened again."""
    coords = random_points(np.random.default_rng(customers), customers + 1)
    instance = Instance("full", coords, Metric.EXACT, np.r_[0, np.full(customers, 3)], 3)
    walk = to_walk([[node] for node in range(1, customers + 1)])
    for vehicles in (1, customers):
        result = search(survey(instance), walk, 500, 1.0, vehicles=vehicles)
        check(instance, walk, result)
        assert number(result[0]) == customers


def test_customers_in_one_place() -> None:
    instance = Instance("heap", [(0, 0)] + [(3, 4)] * 90, Metric.EXACT, np.r_[0, np.ones(90)], 20)
    walk = to_walk([[node] for node in range(1, 91)])
    result = search(survey(instance), walk, 3000, 0.1)
    check(instance, walk, result)
    assert cost(instance, result[2]) == pytest.approx(5 * 10)  # as few as ceil(90 / 20) routes


def lowest(instance: Instance) -> float:
    """The optimum, by looking at all routes through all sets of customers and all ways to divide them."""
    costs = instance.distance_matrix()
    demand, capacity = instance.units()
    everyone = tuple(range(1, instance.size))

    @cache
    def route(nodes: tuple[int, ...]) -> float:
        if demand[list(nodes)].sum() > capacity:
            return math.inf
        return min(float(sum(costs[i, j] for i, j in pairwise((0, *order, 0)))) for order in permutations(nodes))

    @cache
    def total(nodes: tuple[int, ...]) -> float:
        if not nodes:
            return 0.0
        first, *others = nodes
        with_first = [(first, *some) for k in range(len(nodes)) for some in combinations(others, k)]
        return min(route(some) + total(tuple(x for x in nodes if x not in some)) for some in with_first)

    return total(everyone)


@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_tiny_ones_are_solved(seed: int, one_way: bool) -> None:
    instance = random_cvrp(seed, 4 + seed % 4, one_way=one_way)
    walk = to_walk(random_routes(instance, seed))
    result = search(survey(instance), walk, 5000, 10.0)
    check(instance, walk, result)
    assert cost(instance, result[2]) == pytest.approx(lowest(instance))


# --- its parts


class Linked(NamedTuple):
    """Routes as the search holds them."""

    nodes: NodeArray
    routes: np.ndarray
    total: np.ndarray
    saved: NodeArray


def linked(walk: NodeArray, demand: np.ndarray) -> Linked:
    size = len(demand)
    nodes, routes = np.full((size, 3), OUT, np.int32), np.zeros((int((walk > 0).sum()) + 2, 9), np.int64)
    plan = Linked(nodes, routes, np.zeros(3, np.int64), np.empty(size, np.int32))
    _read(walk, demand, *plan[:3])
    return plan


def unlinked(plan: Linked) -> list[list[int]]:
    """The routes by their numbers, the empty ones too."""
    routes: list[list[int]] = []
    for first in plan.routes[:-1, FIRST].tolist():
        route = [first] if first else []
        while route and plan.nodes[route[-1], AFTER]:
            route.append(int(plan.nodes[route[-1], AFTER]))
        routes.append(route)
    return routes


def check_links(plan: Linked, demand: np.ndarray) -> None:
    """Everything that is kept about the routes is true of them, and every empty one can be found."""
    for number, route in enumerate(unlinked(plan)):
        assert plan.nodes[route, BEFORE].tolist() == [0, *route][: len(route)]
        assert plan.nodes[route, ROUTE].tolist() == [number] * len(route)
        assert plan.routes[number, COUNT] == len(route)
        assert plan.routes[number, LOAD] == demand[route].sum()
    spare = plan.routes[: plan.total[SPARES], SPARE].tolist()
    assert len(set(spare)) == len(spare)
    assert set(spare) == set(np.flatnonzero(plan.routes[:-1, IS_SPARE]).tolist())
    empty = [number for number, route in enumerate(unlinked(plan)) if not route]
    assert set(empty) <= set(spare)
    assert plan.total[IN_USE] == len(plan.routes) - 1 - len(empty)
    assert plan.total[TOUCHES] == 0
    assert not plan.routes[:, IS_TOUCHED].any()


@pytest.mark.parametrize("most", [0, 30], ids=["few vehicles", "many vehicles"])
def test_what_is_undone_leaves_no_trace(most: int) -> None:
    """Iterations by hand, two thirds of them undone."""
    seen, walk = tight(0)
    demand, capacity = seen.instance.units()
    plan, members = linked(walk, demand), walk[walk > 0]
    out, key, state = np.empty(30, np.int32), np.empty(30), np.array([4321], np.uint64)
    rng, failed, emptied, opened = np.random.default_rng(0), 0, 0, 0
    for _ in range(300):
        before = unlinked(plan)
        limit, centre, strings = max(most, int(plan.total[IN_USE])), rng.choice(members), int(rng.integers(1, 6))
        ground = (seen.rule, seen.data, seen.near, demand)
        delta, removed = _ruin(*ground, *plan, centre, strings, 6.0, out, state)
        gone = np.setdiff1d(members, [node for route in unlinked(plan) for node in route])
        assert sorted(out[:removed].tolist()) == gone.tolist()
        assert (plan.nodes[out[:removed], ROUTE] == OUT).all()
        emptied += plan.total[IN_USE] < sum(map(bool, before))
        _sort(seen.rule, seen.data, demand, out[:removed], key, state)
        delta += _recreate(*ground, capacity, limit, *plan, members, out[:removed], state)
        opened += plan.total[IN_USE] > sum(map(bool, before))
        failed += math.isinf(delta)
        if math.isinf(delta) or rng.random() < 0.67:
            _restore(*plan)
            assert unlinked(plan) == before
        else:
            _forget(plan.routes, plan.total)
            costs = [Solution(seen.instance, tuple(map(tuple, found))).cost for found in (before, unlinked(plan))]
            assert costs[1] - costs[0] == pytest.approx(delta, abs=1e-9)
        check_links(plan, demand)
    assert emptied
    assert failed if most == 0 else opened


@pytest.mark.parametrize("customer", [1, 2, 5, 9, 10])
@pytest.mark.parametrize("length", [1, 3, 10])
def test_every_string_around_a_customer_occurs(customer: int, length: int) -> None:
    nodes = linked(to_walk([[11], list(range(1, 11)), [12]]), np.ones(13, np.int64)).nodes
    state = np.array([12345], np.uint64)
    begins = {int(_string_around(nodes, customer, length, state)) for _ in range(300)}
    assert begins == {b for b in range(1, 12 - length) if b <= customer < b + length}


def test_the_cheapest_place() -> None:
    """Of all places in all routes with room; the search beside near customers overlooks it now and then."""
    missed = 0
    for seed in range(12):
        seen = survey(random_cvrp(seed, 14, one_way=True))
        demand, capacity = seen.instance.units()
        customer = np.int32(1 + seed)
        others = np.array([node for node in range(1, 15) if node != customer], np.int32)
        plan = linked(to_walk(random_routes(seen.instance, seed, others.tolist())), demand)
        room = int(capacity - demand[customer])
        detours = {(0, OUT): math.inf}  # behind whom and in which route: how long
        for number, route in enumerate(unlinked(plan)):
            for left, right in pairwise((0, *route, 0)) if route and demand[route].sum() <= room else ():
                around = seen.data[left, customer] + seen.data[customer, right]
                detours[left, number] = around - seen.data[left, right]
        cheapest = min(detours, key=detours.__getitem__)
        ground = (seen.rule, seen.data)
        cost, *place = _place_anywhere(*ground, others, plan.nodes, plan.routes, customer, room)
        assert (cost, tuple(place)) == (pytest.approx(detours[cheapest]), cheapest)
        state = np.array([1 + seed], np.uint64)
        for _ in range(500):
            _, *place = _place_near(*ground, seen.near, plan.nodes, plan.routes, customer, room, state)
            assert tuple(place) in detours
            missed += tuple(place) != cheapest
    assert 0 < missed < 0.01 * 12 * 500  # one of its two sides in 100


def test_orders_of_putting_back() -> None:
    """The largest, farthest and nearest first, and at random."""
    instance = Instance("line", [(0, 0), (4, 0), (1, 0), (3, 0), (2, 0)], Metric.EXACT, [0, 2, 3, 4, 1], 5)
    seen, key, state = survey(instance), np.empty(4), np.array([99], np.uint64)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(2200):
        out = np.array([1, 2, 3, 4], np.int32)
        _sort(seen.rule, seen.data, instance.units()[0], out, key, state)
        counts[tuple(out.tolist())] = counts.get(tuple(out.tolist()), 0) + 1
    by_chance = 800 / 24
    assert len(counts) == 24
    for order, often in (((3, 2, 1, 4), 800), ((1, 3, 4, 2), 400), ((2, 4, 3, 1), 200)):
        assert counts.pop(order) == pytest.approx(often + by_chance, rel=0.2)
    assert max(counts.values()) < 2 * by_chance


def test_links_by_hand() -> None:
    demand = np.array([0, 7, 1, 1, 5, 2, 0, 9])
    plan = linked(to_walk([[1, 3, 2], [4], [6, 5]]), demand)  # without customer 7
    assert plan.nodes[1:-1].tolist() == [[3, 0, 0], [0, 3, 0], [2, 1, 0], [0, 0, 1], [0, 6, 2], [5, 0, 2]]
    assert plan.nodes[7, ROUTE] == OUT
    assert plan.routes[:4, [FIRST, COUNT, LOAD]].tolist() == [[1, 3, 9], [4, 1, 5], [6, 2, 2], [0, 0, 0]]
    assert plan.total[[IN_USE, SPARES]].tolist() == [3, 4]  # of 7 routes
    check_links(plan, demand)
