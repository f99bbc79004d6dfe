"""Ruin and recreate: routes that stay allowed, costs that add up, and the optimum where it can be found by counting."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from samples import random_points
from search_samples import random_cvrp, random_routes, routes_of, tight

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search.data import SearchArrays, SearchData, prepare
from elgo.search.distances import EXPLICIT, Distances
from elgo.search.giant_tour import NodeArray, count_routes, to_giant_tour, to_routes
from elgo.search.linked_routes import NO_ROUTE, link_routes
from elgo.search.savings import savings
from elgo.search.sisr import (
    SisrResult,
    _cheapest_anywhere,
    _cheapest_near,
    _sort,
    _string_around,
    ruin_and_recreate,
)


def search(
    data: SearchData,
    tour: NodeArray,
    iterations: int = 300,
    temperature: float = 5.0,
    seed: int = 1,
    vehicles: int | None = None,
) -> SisrResult:
    most = data.instance.customers if vehicles is None else vehicles
    state = np.array([seed * 0x9E3779B97F4A7C15 % 2**64], np.uint64)
    return ruin_and_recreate(data.arrays, tour, most, iterations, float(temperature), state)


def cost(instance: Instance, tour: NodeArray) -> float:
    return Solution(instance, tuple(map(tuple, to_routes(tour)))).cost


def check(instance: Instance, tour: NodeArray, result: SisrResult) -> None:
    """Both giant tours have the same customers as the given one, in feasible routes, and both changes are true."""
    last, change, best, gain = result
    demand, capacity = instance.units()
    before = cost(instance, tour)
    for found, delta in ((last, change), (best, gain)):
        assert found.dtype == np.int32
        assert found[-1] == 0
        routes = to_routes(found)
        assert all(routes)
        assert all(demand[route].sum() <= capacity for route in routes)
        assert np.array_equal(np.sort(found[found > 0]), np.sort(tour[tour > 0]))
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
        for tour in (to_giant_tour(random_routes(instance, seed)), to_giant_tour(savings(instance))):
            result = search(data, tour, 50 + 5 * seed, temperature, seed + 1)
            check(instance, tour, result)
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
    tour = to_giant_tour(savings(instance))
    check(instance, tour, search(data, tour, 3000, cost(instance, tour) / 1e4))


def test_one_iteration_after_the_other() -> None:
    """Every single step: none may leave an inconsistent state."""
    instance = random_cvrp(3, 25)
    data = prepare(instance)
    tour = to_giant_tour(random_routes(instance, 0))
    for seed in range(1, 300):
        result = search(data, tour, 1, 20.0, seed)
        check(instance, tour, result)
        tour = result.current


@pytest.mark.parametrize("asymmetric", [False, True])
def test_it_finds_better_routes(asymmetric: bool) -> None:
    instance = random_cvrp(8, 60, asymmetric=asymmetric)
    tour = to_giant_tour(random_routes(instance, 0))
    *_, gain = search(prepare(instance), tour, 3000, 0.5)
    assert cost(instance, tour) + gain < 0.6 * cost(instance, tour)


def test_heat_leads_away_and_cold_does_not() -> None:
    instance = random_cvrp(4, 50)
    data = prepare(instance)
    tour = search(data, to_giant_tour(savings(instance)), 5000, 0.0)[2]
    rises = [search(data, tour, 3000, temperature)[1] for temperature in (0.0, 2.0, math.inf)]
    assert rises[0] <= 0.0
    assert 0.0 < rises[1] < rises[2]


def test_no_iterations_change_nothing() -> None:
    instance = random_cvrp(0, 12)
    tour = to_giant_tour(random_routes(instance, 1))
    last, change, best, gain = search(prepare(instance), tour, 0)
    assert np.array_equal(last, tour)
    assert np.array_equal(best, tour)
    assert (change, gain) == (0.0, 0.0)


# --- some of the customers


@pytest.mark.parametrize("seed", range(8))
def test_the_other_customers_are_not_there(seed: int) -> None:
    instance = random_cvrp(seed, 40)
    some = np.random.default_rng(seed).permutation(40)[: 3 + 4 * seed] + 1
    tour = to_giant_tour(random_routes(instance, seed, some.tolist()))
    check(instance, tour, search(prepare(instance), tour, 500, 10.0))


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


@pytest.mark.parametrize("seed", range(6))
def test_no_more_routes_than_vehicles(seed: int) -> None:
    """Nor than at the beginning, if they were too many; after each of many short searches at great heat."""
    data, start = tight(seed)
    for spare in (-3, 0, 1):
        tour, vehicles = start, count_routes(start) + spare
        for turn in range(1, 60):
            result = search(data, tour, 40, 1e3, turn, vehicles)
            check(data.instance, tour, result)
            assert max(count_routes(result.current), count_routes(result.best)) <= max(count_routes(tour), vehicles)
            tour = result.current


def test_more_vehicles_are_used_where_they_may() -> None:
    """What the test above forbids does happen otherwise."""
    for seed in range(6):
        data, tour = tight(seed)
        found = [search(data, tour, 40, 1e3, turn).current for turn in range(1, 60)]
        assert max(map(count_routes, found)) > count_routes(tour)


# --- seeds


def test_the_seed_decides() -> None:
    instance = random_cvrp(5, 40)
    data = prepare(instance)
    tour = to_giant_tour(random_routes(instance, 0))
    one, same, other = (search(data, tour, 200, 5.0, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])


def test_only_the_state_of_the_generator_is_changed() -> None:
    instance = random_cvrp(6, 30)
    data = prepare(instance)
    tour, state = to_giant_tour(random_routes(instance, 0)), np.array([77], np.uint64)
    arrays = data.arrays
    given = (arrays.distances.values, arrays.neighbours, arrays.demand, tour)
    before = [array.copy() for array in given]
    results = []
    for _ in range(2):
        results.append(ruin_and_recreate(data.arrays, tour, 30, 100, 5.0, state))
        assert all(np.array_equal(a, b) for a, b in zip(given, before, strict=True))
    assert state[0] != 77
    assert not np.array_equal(results[0][0], results[1][0])  # the second went on where the first ended
    assert not any(np.shares_memory(result[k], tour) for result in results for k in (0, 2))


# --- small ones


def test_one_customer() -> None:
    """As a part on a thread may be; with and without others near."""
    instance = random_cvrp(0, 5)
    for node in range(1, 6):
        result = search(prepare(instance), to_giant_tour([[node]]), 50)
        assert [result.current.tolist(), result.best.tolist()] == [[node, 0], [node, 0]]
        assert result.change == pytest.approx(0.0)
    matrix, alone = np.array([[0.0, 2.0], [3.0, 0.0]]), np.zeros((2, 0), np.int32)
    tour, state = to_giant_tour([[1]]), np.array([1], np.uint64)
    data = SearchArrays(Distances(EXPLICIT, matrix), alone, np.array([0, 4]), 4, 0.0, False)
    result = ruin_and_recreate(data, tour, 1, 50, 1.0, state)
    assert result.current.tolist() == [1, 0]
    assert (result.change, result.best_change) == (0.0, 0.0)


@pytest.mark.parametrize(("capacity", "routes"), [(2, [[1, 2]]), (1, [[1], [2]])])
def test_two_customers(capacity: int, routes: list[list[int]]) -> None:
    instance = Instance("two", [(0, 0), (3, 4), (6, 8)], Metric.EXACT, [0, 1, 1], capacity)
    tour = to_giant_tour([[2], [1]])
    result = search(prepare(instance), tour, 100, 0.0)
    check(instance, tour, result)
    assert sorted(sorted(route) for route in to_routes(result.best)) == routes
    assert result.best_change == pytest.approx(20.0 - 30.0 if capacity == 2 else 0.0)


@pytest.mark.parametrize("customers", [2, 3, 20])
def test_one_customer_per_route(customers: int) -> None:
    """Each fills a vehicle: nothing can be changed, but all routes are emptied and opened again."""
    coords = random_points(np.random.default_rng(customers), customers + 1)
    instance = Instance("full", coords, Metric.EXACT, np.r_[0, np.full(customers, 3)], 3)
    tour = to_giant_tour([[node] for node in range(1, customers + 1)])
    for vehicles in (1, customers):
        result = search(prepare(instance), tour, 500, 1.0, vehicles=vehicles)
        check(instance, tour, result)
        assert count_routes(result.current) == customers


def test_customers_in_one_place() -> None:
    instance = Instance("heap", [(0, 0)] + [(3, 4)] * 90, Metric.EXACT, np.r_[0, np.ones(90)], 20)
    tour = to_giant_tour([[node] for node in range(1, 91)])
    result = search(prepare(instance), tour, 3000, 0.1)
    check(instance, tour, result)
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
    tour = to_giant_tour(random_routes(instance, seed))
    result = search(prepare(instance), tour, 5000, 10.0)
    check(instance, tour, result)
    assert cost(instance, result.best) == pytest.approx(lowest(instance))


# --- its parts


@pytest.mark.parametrize("customer", [1, 2, 5, 9, 10])
@pytest.mark.parametrize("length", [1, 3, 10])
def test_every_string_around_a_customer_occurs(customer: int, length: int) -> None:
    nodes = link_routes(to_giant_tour([[11], list(range(1, 11)), [12]]), np.ones(13, np.int64)).nodes
    state = np.array([12345], np.uint64)
    begins = {int(_string_around(nodes, customer, length, state)) for _ in range(300)}
    assert begins == {b for b in range(1, 12 - length) if b <= customer < b + length}


def test_the_cheapest_position() -> None:
    """Of all positions in all routes with enough capacity; the search next to near customers blinks now and then."""
    missed = 0
    for seed in range(12):
        data = prepare(random_cvrp(seed, 14, asymmetric=True))
        arrays, values = data.arrays, data.arrays.distances.values
        customer = np.int32(1 + seed)
        others = np.array([node for node in range(1, 15) if node != customer], np.int32)
        linked = link_routes(to_giant_tour(random_routes(data.instance, seed, others.tolist())), arrays.demand)
        routes = (linked.nodes, linked.routes)
        free = int(arrays.capacity - arrays.demand[customer])
        detours = {(0, NO_ROUTE): math.inf}  # after which node and in which route: how long
        for number, route in enumerate(routes_of(linked)):
            for left, right in pairwise((0, *route, 0)) if route and arrays.demand[route].sum() <= free else ():
                detours[left, number] = values[left, customer] + values[customer, right] - values[left, right]
        cheapest = min(detours, key=detours.__getitem__)
        cost, *position = _cheapest_anywhere(arrays.distances, *routes, others, customer, free)
        assert (cost, tuple(position)) == (pytest.approx(detours[cheapest]), cheapest)
        state = np.array([1 + seed], np.uint64)
        for _ in range(500):
            _, *position = _cheapest_near(arrays, *routes, customer, free, state)
            assert tuple(position) in detours
            missed += tuple(position) != cheapest
    assert 0 < missed < 0.01 * 12 * 500  # one of its two sides in 100


def test_orders_of_insertion() -> None:
    """Largest demand, farthest and nearest first, and random."""
    instance = Instance("line", [(0, 0), (4, 0), (1, 0), (3, 0), (2, 0)], Metric.EXACT, [0, 2, 3, 4, 1], 5)
    data, keys, state = prepare(instance), np.empty(4), np.array([99], np.uint64)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(2200):
        removed = np.array([1, 2, 3, 4], np.int32)
        _sort(data.arrays, removed, keys, state)
        counts[tuple(removed.tolist())] = counts.get(tuple(removed.tolist()), 0) + 1
    random = 800 / 24
    assert len(counts) == 24
    for order, often in (((3, 2, 1, 4), 800), ((1, 3, 4, 2), 400), ((2, 4, 3, 1), 200)):
        assert counts.pop(order) == pytest.approx(often + random, rel=0.2)
    assert max(counts.values()) < 2 * random
