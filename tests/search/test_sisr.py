"""Ruin and recreate: routes that stay allowed, costs that add up, and the optimum where it can be found by counting."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

import numpy as np
import pytest
from samples import random_points
from search_samples import random_cvrp, random_routes

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search.data import SearchArrays, SearchData, prepare
from elgo.search.distances import EXPLICIT, Distances
from elgo.search.giant_tour import NodeArray, count_routes, to_giant_tour, to_routes
from elgo.search.savings import savings
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
    SisrResult,
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


def search(
    data: SearchData,
    walk: NodeArray,
    iterations: int = 300,
    temperature: float = 5.0,
    seed: int = 1,
    vehicles: int | None = None,
) -> SisrResult:
    most = data.instance.customers if vehicles is None else vehicles
    state = np.array([seed * 0x9E3779B97F4A7C15 % 2**64], np.uint64)
    return ruin_and_recreate(data.arrays, walk, most, iterations, float(temperature), state)


def cost(instance: Instance, walk: NodeArray) -> float:
    return Solution(instance, tuple(map(tuple, to_routes(walk)))).cost


def check(instance: Instance, walk: NodeArray, result: SisrResult) -> None:
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


# --- what holds whatever it does


@pytest.mark.parametrize("temperature", [0.0, 5.0, 1e9, math.inf])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_routes_stay_allowed_and_changes_are_true(temperature: float, asymmetric: bool) -> None:
    for seed in range(0, 40, 2):
        kind = ("uniform", "clustered", "lattice")[seed % 3]
        instance = random_cvrp(seed, 2 + seed, kind, asymmetric)
        data = prepare(instance)
        for walk in (to_giant_tour(random_routes(instance, seed)), to_giant_tour(savings(instance))):
            result = search(data, walk, 50 + 5 * seed, temperature, seed + 1)
            check(instance, walk, result)
            assert Solution(instance, tuple(map(tuple, to_routes(result.best)))).violations == ()
            if temperature == 0.0:
                assert result.change == pytest.approx(result.best_change, abs=1e-6)  # never uphill


@pytest.mark.parametrize("metric", [Metric.EUC_2D, Metric.CEIL_2D, Metric.ATT, Metric.EXACT, Metric.HAVERSINE])
def test_more_customers_than_a_table_holds(metric: Metric) -> None:
    rng = np.random.default_rng(0)
    demand = np.r_[0, rng.integers(1, 10, 600)]
    instance = Instance("large", 90 * rng.random((601, 2)), metric, demand, 60)
    data = prepare(instance)
    assert data.arrays.distances.values.shape == (601, 2)
    walk = to_giant_tour(savings(instance))
    check(instance, walk, search(data, walk, 3000, cost(instance, walk) / 1e4))


def test_one_iteration_after_the_other() -> None:
    """Every single step: none is allowed to leave anything wrong behind, not even for a moment."""
    instance = random_cvrp(3, 25)
    data = prepare(instance)
    walk = to_giant_tour(random_routes(instance, 0))
    for seed in range(1, 300):
        result = search(data, walk, 1, 20.0, seed)
        check(instance, walk, result)
        walk = result.current


@pytest.mark.parametrize("asymmetric", [False, True])
def test_it_finds_better_routes(asymmetric: bool) -> None:
    instance = random_cvrp(8, 60, asymmetric=asymmetric)
    walk = to_giant_tour(random_routes(instance, 0))
    *_, gain = search(prepare(instance), walk, 3000, 0.5)
    assert cost(instance, walk) + gain < 0.6 * cost(instance, walk)


def test_heat_leads_away_and_cold_does_not() -> None:
    instance = random_cvrp(4, 50)
    data = prepare(instance)
    walk = search(data, to_giant_tour(savings(instance)), 5000, 0.0)[2]
    rises = [search(data, walk, 3000, temperature)[1] for temperature in (0.0, 2.0, math.inf)]
    assert rises[0] <= 0.0
    assert 0.0 < rises[1] < rises[2]


def test_no_iterations_change_nothing() -> None:
    instance = random_cvrp(0, 12)
    walk = to_giant_tour(random_routes(instance, 1))
    last, change, best, gain = search(prepare(instance), walk, 0)
    assert np.array_equal(last, walk)
    assert np.array_equal(best, walk)
    assert (change, gain) == (0.0, 0.0)


# --- some of the customers


@pytest.mark.parametrize("seed", range(8))
def test_the_other_customers_are_not_there(seed: int) -> None:
    instance = random_cvrp(seed, 40)
    some = np.random.default_rng(seed).permutation(40)[: 3 + 4 * seed] + 1
    walk = to_giant_tour(random_routes(instance, seed, some.tolist()))
    check(instance, walk, search(prepare(instance), walk, 500, 10.0))


def test_parts_on_threads_do_not_disturb_each_other() -> None:
    instance = random_cvrp(7, 200)
    data = prepare(instance)
    parts = [to_giant_tour(random_routes(instance, k, range(1 + 50 * k, 51 + 50 * k))) for k in range(4)]
    one_by_one = [search(data, part, 2000, 5.0, 1 + k) for k, part in enumerate(parts)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda k: search(data, parts[k], 2000, 5.0, 1 + k), range(4)))
    for one, other in zip(one_by_one, together, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# --- vehicles


def tight(seed: int) -> tuple[SearchData, NodeArray]:
    """Nearly full vehicles, hardly more than are needed."""
    rng = np.random.default_rng(seed)
    demand = np.r_[0, rng.integers(1, 10, 30)]
    data = prepare(Instance("tight", 100 * random_points(rng, 31), Metric.EXACT, demand, 20))
    return data, search(data, to_giant_tour(savings(data.instance)), 2000, 1e3, vehicles=0)[0]


@pytest.mark.parametrize("seed", range(6))
def test_no_more_routes_than_vehicles(seed: int) -> None:
    """Nor than at the beginning, if they were too many; after each of many short searches at great heat."""
    data, start = tight(seed)
    for spare in (-3, 0, 1):
        walk, vehicles = start, count_routes(start) + spare
        for turn in range(1, 60):
            result = search(data, walk, 40, 1e3, turn, vehicles)
            check(data.instance, walk, result)
            assert max(count_routes(result.current), count_routes(result.best)) <= max(count_routes(walk), vehicles)
            walk = result.current


def test_more_vehicles_are_used_where_they_may() -> None:
    """What the test above forbids does happen otherwise."""
    for seed in range(6):
        data, walk = tight(seed)
        assert max(count_routes(search(data, walk, 40, 1e3, turn).current) for turn in range(1, 60)) > count_routes(
            walk
        )


# --- seeds


def test_the_seed_decides() -> None:
    instance = random_cvrp(5, 40)
    data = prepare(instance)
    walk = to_giant_tour(random_routes(instance, 0))
    one, same, other = (search(data, walk, 200, 5.0, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])


def test_only_the_state_of_the_generator_is_changed() -> None:
    instance = random_cvrp(6, 30)
    data = prepare(instance)
    walk, state = to_giant_tour(random_routes(instance, 0)), np.array([77], np.uint64)
    arrays = data.arrays
    given = (arrays.distances.values, arrays.neighbours, arrays.demand, walk)
    before = [array.copy() for array in given]
    results = []
    for _ in range(2):
        results.append(ruin_and_recreate(data.arrays, walk, 30, 100, 5.0, state))
        assert all(np.array_equal(a, b) for a, b in zip(given, before, strict=True))
    assert state[0] != 77
    assert not np.array_equal(results[0][0], results[1][0])  # the second went on where the first ended
    assert not any(np.shares_memory(result[k], walk) for result in results for k in (0, 2))


# --- small ones


def test_one_customer() -> None:
    """No Instance is that small, but a part on a thread may be; with and without others near."""
    instance = random_cvrp(0, 5)
    for node in range(1, 6):
        result = search(prepare(instance), to_giant_tour([[node]]), 50)
        assert [result.current.tolist(), result.best.tolist()] == [[node, 0], [node, 0]]
        assert result.change == pytest.approx(0.0)
    matrix, alone = np.array([[0.0, 2.0], [3.0, 0.0]]), np.zeros((2, 0), np.int32)
    walk, state = to_giant_tour([[1]]), np.array([1], np.uint64)
    data = SearchArrays(Distances(EXPLICIT, matrix), alone, np.array([0, 4]), 4)
    result = ruin_and_recreate(data, walk, 1, 50, 1.0, state)
    assert result.current.tolist() == [1, 0]
    assert (result.change, result.best_change) == (0.0, 0.0)


@pytest.mark.parametrize(("capacity", "routes"), [(2, [[1, 2]]), (1, [[1], [2]])])
def test_two_customers(capacity: int, routes: list[list[int]]) -> None:
    instance = Instance("two", [(0, 0), (3, 4), (6, 8)], Metric.EXACT, [0, 1, 1], capacity)
    walk = to_giant_tour([[2], [1]])
    result = search(prepare(instance), walk, 100, 0.0)
    check(instance, walk, result)
    assert sorted(sorted(route) for route in to_routes(result.best)) == routes
    assert result.best_change == pytest.approx(20.0 - 30.0 if capacity == 2 else 0.0)


@pytest.mark.parametrize("customers", [2, 3, 20])
def test_one_customer_per_route(customers: int) -> None:
    """Each fills a vehicle: nothing can be changed, but all routes are emptied and opened again."""
    coords = random_points(np.random.default_rng(customers), customers + 1)
    instance = Instance("full", coords, Metric.EXACT, np.r_[0, np.full(customers, 3)], 3)
    walk = to_giant_tour([[node] for node in range(1, customers + 1)])
    for vehicles in (1, customers):
        result = search(prepare(instance), walk, 500, 1.0, vehicles=vehicles)
        check(instance, walk, result)
        assert count_routes(result.current) == customers


def test_customers_in_one_place() -> None:
    instance = Instance("heap", [(0, 0)] + [(3, 4)] * 90, Metric.EXACT, np.r_[0, np.ones(90)], 20)
    walk = to_giant_tour([[node] for node in range(1, 91)])
    result = search(prepare(instance), walk, 3000, 0.1)
    check(instance, walk, result)
    assert cost(instance, result.best) == pytest.approx(5 * 10)  # as few as ceil(90 / 20) routes


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


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_tiny_ones_are_solved(seed: int, asymmetric: bool) -> None:
    instance = random_cvrp(seed, 4 + seed % 4, asymmetric=asymmetric)
    walk = to_giant_tour(random_routes(instance, seed))
    result = search(prepare(instance), walk, 5000, 10.0)
    check(instance, walk, result)
    assert cost(instance, result.best) == pytest.approx(lowest(instance))


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
    data, walk = tight(0)
    demand, capacity = data.instance.units()
    plan, members = linked(walk, demand), walk[walk > 0]
    out, key, state = np.empty(30, np.int32), np.empty(30), np.array([4321], np.uint64)
    rng, failed, emptied, opened = np.random.default_rng(0), 0, 0, 0
    for _ in range(300):
        before = unlinked(plan)
        limit, centre, strings = max(most, int(plan.total[IN_USE])), rng.choice(members), int(rng.integers(1, 6))
        arrays = (data.arrays.distances, data.arrays.neighbours, demand)
        delta, removed = _ruin(*arrays, *plan, centre, strings, 6.0, out, state)
        gone = np.setdiff1d(members, [node for route in unlinked(plan) for node in route])
        assert sorted(out[:removed].tolist()) == gone.tolist()
        assert (plan.nodes[out[:removed], ROUTE] == OUT).all()
        emptied += plan.total[IN_USE] < sum(map(bool, before))
        _sort(data.arrays.distances, demand, out[:removed], key, state)
        delta += _recreate(*arrays, capacity, limit, *plan, members, out[:removed], state)
        opened += plan.total[IN_USE] > sum(map(bool, before))
        failed += math.isinf(delta)
        if math.isinf(delta) or rng.random() < 0.67:
            _restore(*plan)
            assert unlinked(plan) == before
        else:
            _forget(plan.routes, plan.total)
            costs = [Solution(data.instance, tuple(map(tuple, found))).cost for found in (before, unlinked(plan))]
            assert costs[1] - costs[0] == pytest.approx(delta, abs=1e-9)
        check_links(plan, demand)
    assert emptied
    assert failed if most == 0 else opened


@pytest.mark.parametrize("customer", [1, 2, 5, 9, 10])
@pytest.mark.parametrize("length", [1, 3, 10])
def test_every_string_around_a_customer_occurs(customer: int, length: int) -> None:
    nodes = linked(to_giant_tour([[11], list(range(1, 11)), [12]]), np.ones(13, np.int64)).nodes
    state = np.array([12345], np.uint64)
    begins = {int(_string_around(nodes, customer, length, state)) for _ in range(300)}
    assert begins == {b for b in range(1, 12 - length) if b <= customer < b + length}


def test_the_cheapest_place() -> None:
    """Of all places in all routes with room; the search beside near customers overlooks it now and then."""
    missed = 0
    for seed in range(12):
        data = prepare(random_cvrp(seed, 14, asymmetric=True))
        demand, capacity = data.instance.units()
        customer = np.int32(1 + seed)
        others = np.array([node for node in range(1, 15) if node != customer], np.int32)
        plan = linked(to_giant_tour(random_routes(data.instance, seed, others.tolist())), demand)
        room = int(capacity - demand[customer])
        values = data.arrays.distances.values
        detours = {(0, OUT): math.inf}  # behind whom and in which route: how long
        for number, route in enumerate(unlinked(plan)):
            for left, right in pairwise((0, *route, 0)) if route and demand[route].sum() <= room else ():
                around = values[left, customer] + values[customer, right]
                detours[left, number] = around - values[left, right]
        cheapest = min(detours, key=detours.__getitem__)
        cost, *place = _place_anywhere(data.arrays.distances, others, plan.nodes, plan.routes, customer, room)
        assert (cost, tuple(place)) == (pytest.approx(detours[cheapest]), cheapest)
        state = np.array([1 + seed], np.uint64)
        for _ in range(500):
            _, *place = _place_near(
                data.arrays.distances, data.arrays.neighbours, plan.nodes, plan.routes, customer, room, state
            )
            assert tuple(place) in detours
            missed += tuple(place) != cheapest
    assert 0 < missed < 0.01 * 12 * 500  # one of its two sides in 100


def test_orders_of_putting_back() -> None:
    """The largest, farthest and nearest first, and at random."""
    instance = Instance("line", [(0, 0), (4, 0), (1, 0), (3, 0), (2, 0)], Metric.EXACT, [0, 2, 3, 4, 1], 5)
    data, key, state = prepare(instance), np.empty(4), np.array([99], np.uint64)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(2200):
        out = np.array([1, 2, 3, 4], np.int32)
        _sort(data.arrays.distances, instance.units()[0], out, key, state)
        counts[tuple(out.tolist())] = counts.get(tuple(out.tolist()), 0) + 1
    by_chance = 800 / 24
    assert len(counts) == 24
    for order, often in (((3, 2, 1, 4), 800), ((1, 3, 4, 2), 400), ((2, 4, 3, 1), 200)):
        assert counts.pop(order) == pytest.approx(often + by_chance, rel=0.2)
    assert max(counts.values()) < 2 * by_chance


def test_links_by_hand() -> None:
    demand = np.array([0, 7, 1, 1, 5, 2, 0, 9])
    plan = linked(to_giant_tour([[1, 3, 2], [4], [6, 5]]), demand)  # without customer 7
    assert plan.nodes[1:-1].tolist() == [[3, 0, 0], [0, 3, 0], [2, 1, 0], [0, 0, 1], [0, 6, 2], [5, 0, 2]]
    assert plan.nodes[7, ROUTE] == OUT
    assert plan.routes[:4, [FIRST, COUNT, LOAD]].tolist() == [[1, 3, 9], [4, 1, 5], [6, 2, 2], [0, 0, 0]]
    assert plan.total[[IN_USE, SPARES]].tolist() == [3, 4]  # of 7 routes
    check_links(plan, demand)
