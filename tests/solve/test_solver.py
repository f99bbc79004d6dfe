"""solve within a time limit: always feasible, never late, never worse than what it was given or begins with."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import LATE, random_instance

from elgo.problem import packing
from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance, Metric
from elgo.problem.packing import fill_vehicles
from elgo.problem.plane import embed
from elgo.problem.solution import Solution
from elgo.problem.task import PROBLEMS
from elgo.search import data as search_data
from elgo.search.fallback import fallback_routes
from elgo.search.savings import savings
from elgo.solve import search as solve_search
from elgo.solve.result import Improvement, Result
from elgo.solve.search import jit_warm_up, savings_seconds
from elgo.solve.solver import solve
from elgo.solve.stop import MaxIterations

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """The first time ever the kernels are compiled: not in the time of a test."""
    for problem in PROBLEMS:
        jit_warm_up(problem)


def routes_of(routes: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, routes))


def cost_of(instance: Instance, routes: list[list[int]]) -> float:
    return Solution(instance, routes_of(routes)).cost


def check(result: Result, limit: float) -> None:
    """Feasible, in time, and with a history that fits."""
    assert result.solution.feasible, result.solution.violations
    assert result.seconds.total < limit + LATE
    assert result.history[-1].cost == result.cost
    for before, after in pairwise(result.history):
        assert after.cost < before.cost
        assert after.seconds >= before.seconds


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("limit", [1e-9, 0.01, 0.1, 0.4])
def test_every_limit_is_kept(problem: str, limit: float) -> None:
    for n, metric in ((12, Metric.EUC_2D), (300, Metric.EXACT)):
        instance = random_instance(problem, n, metric)
        begin = time.perf_counter()
        result = solve(instance, time_limit=limit, seed=3)
        assert time.perf_counter() - begin < limit + LATE
        check(result, limit)
        assert result.seed == 3
        assert not result.interrupted
        assert result.instance is instance


def test_a_large_instance_in_no_time() -> None:
    for problem in PROBLEMS:
        instance = random_instance(problem, 20_000, Metric.EXACT)
        check(solve(instance, time_limit=0.3), 0.3)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_never_worse_than_what_it_begins_with(problem: str) -> None:
    instance = random_instance(problem, 60)
    result = solve(instance, time_limit=0.6, threads=2)
    check(result, 0.6)
    assert result.cost < cost_of(instance, fallback_routes(instance))
    if problem == "cvrp":
        assert result.cost <= cost_of(instance, savings(instance))
    again = solve(instance, time_limit=0.05, warm_start=result.solution)
    check(again, 0.05)
    assert again.cost <= result.cost
    assert again.history[0][1:] == (result.cost, "warm start")


@pytest.mark.parametrize("good", [True, False])
def test_only_a_warm_start_that_is_the_best_is_kept_near(good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bool] = []

    def improve(*given: Any) -> None:
        kept.append(given[-1])

    monkeypatch.setattr(solve_search, "improve_routes", improve)
    instance = random_instance("cvrp", 40)
    start = Solution(
        instance, routes_of(savings(instance)) if good else tuple((node,) for node in range(1, instance.size))
    )
    solve(instance, time_limit=20.0, warm_start=start)
    assert kept == [good]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_improvements_are_told_as_they_come(problem: str) -> None:
    instance = random_instance(problem, 50)
    told: list[tuple[Improvement, Solution]] = []
    result = solve(instance, time_limit=1.0, on_improvement=lambda *found: told.append(found))
    assert tuple(found for found, _ in told) == result.history
    assert len(told) > 1
    for found, solution in told:
        assert solution.feasible
        assert solution.cost == found.cost
    assert told[-1][1] is result.solution
    assert told[0][0].source == "fallback"


# --- warm starts


def test_a_warm_start_of_the_same_nodes_in_another_object() -> None:
    instance = random_instance("cvrp", 40)
    routes = routes_of(savings(instance))
    other = replace(instance, name="other")
    result = solve(instance, time_limit=0.05, warm_start=Solution(other, routes))
    assert result.instance is instance
    check(result, 0.05)
    assert result.cost <= cost_of(instance, savings(instance))


def test_wrong_warm_starts() -> None:
    instance = random_instance("cvrp", 10)
    with pytest.raises(ValueError, match=r"^cvrp10: warm_start is not feasible: missing nodes: 3, 4, 5, 6, 7, "):
        solve(instance, warm_start=Solution(instance, ((1, 2),)))
    alone = Solution(instance, tuple((node,) for node in range(1, 10)))
    with pytest.raises(ValueError, match=r"^cvrp10: warm_start and start are both given"):
        solve(instance, warm_start=alone, start="elg")
    with pytest.raises(ValueError, match=r"^cvrp10: warm_start and policy_only are both given"):
        solve(instance, warm_start=alone, policy_only=True)
    with pytest.raises(ValueError, match=r"^cvrp10: warm_start has 9 routes, vehicles is 8$"):
        solve(instance, warm_start=alone, vehicles=8)


def test_a_warm_start_where_no_other_solution_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Demands that were cut out of four full vehicles, and that no packing of ours puts together again."""
    rng = np.random.default_rng(0)
    demand, capacity = np.array([0]), 50
    while len(demand) == 1 or len(fill_vehicles(demand, capacity)) == 4:
        cuts = [np.sort(rng.choice(np.arange(1, capacity), 2, replace=False)) for _ in range(4)]
        demand = np.concatenate([[0], *(np.diff([0, *cut, capacity]) for cut in cuts)])
    instance = Instance("hard", rng.random((13, 2)), Metric.EXACT, demand=demand, capacity=capacity)
    monkeypatch.setattr(packing, "MOST_WORK", 10)
    with pytest.raises(ElgoError, match="hard: vehicles is 4, but the demands were not made to fit"):
        solve(instance, time_limit=0.1, vehicles=4)
    start = Solution(instance, tuple(tuple(range(k, k + 3)) for k in (1, 4, 7, 10)))
    result = solve(instance, time_limit=0.2, vehicles=4, warm_start=start)
    check(result, 0.2)
    assert len(result.solution.routes) == 4


# --- vehicles


def test_as_few_vehicles_as_the_demand_fills() -> None:
    for seed in range(3):
        instance = random_instance("cvrp", 60, seed=seed)
        least = len(fill_vehicles(*instance.units()))
        told: list[int] = []
        result = solve(
            instance,
            time_limit=1.0,
            vehicles=least,
            on_improvement=lambda _, found, told=told: told.append(len(found.routes)),
        )
        check(result, 1.0)
        assert len(told) > 1
        assert max(told) <= least


def test_too_few_vehicles() -> None:
    instance = random_instance("cvrp", 60)
    demand, capacity = instance.units()
    least = -(-int(demand.sum()) // capacity)
    with pytest.raises(ElgoError, match=f"^cvrp60: vehicles is {least - 1}, but at least {least} are needed: the dem"):
        solve(instance, vehicles=least - 1)


# --- Ctrl-C


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("at", [1, 2, 3])
def test_ctrl_c_gives_the_best_so_far(problem: str, at: int) -> None:
    calls: list[float] = []

    def interrupt(found: Improvement, solution: Solution) -> None:
        calls.append(found.cost)
        if len(calls) == at:
            raise KeyboardInterrupt

    result = solve(random_instance(problem, 100), time_limit=6, on_improvement=interrupt)
    assert result.seconds.total < 6
    assert result.interrupted
    assert len(calls) == len(result.history) == at
    check(result, 6)


def test_ctrl_c_at_the_warm_start() -> None:
    def interrupt(found: Improvement, solution: Solution) -> None:
        raise KeyboardInterrupt

    instance = random_instance("cvrp", 20)
    start = Solution(instance, routes_of(savings(instance)))
    result = solve(instance, time_limit=30, warm_start=start, on_improvement=interrupt)
    assert result.interrupted
    assert result.solution is start


# --- what is not ready


@pytest.mark.parametrize("problem", PROBLEMS)
def test_loading_kernels_does_not_count(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_search, "jit_warm_up", lambda problem: time.sleep(1))
    result = solve(random_instance(problem, 50), time_limit=0.4)
    check(result, 0.4)
    assert result.seconds.load >= 1
    assert result.source == "search"
    assert not result.warnings


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_fallback_if_there_is_no_time_for_more(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_data, "prepare", lambda instance: time.sleep(5))
    result = solve(random_instance(problem, 50), time_limit=0.2)
    assert result.source == "fallback"
    assert result.warnings == ("the time limit is too short to prepare the search: this is the fallback",)


def test_savings_of_few_nodes_take_little_time() -> None:
    """100 nodes need a millisecond, so a limit of 5 ms has time for them."""
    assert savings_seconds(100) == pytest.approx(0.0025)
    assert savings_seconds(10_000) == pytest.approx(2.0)


def test_no_time_for_savings() -> None:
    result = solve(random_instance("cvrp", 1500), time_limit=0.5)
    assert result.warnings == ("the time limit is too short for savings: the search starts from the fallback",)


# --- every kind of instance


def optimum(instance: Instance) -> float:
    """By trying everything."""
    costs, first = instance.distance_matrix(), instance.size - instance.customers

    def plans(left: frozenset[int]) -> Iterator[float]:
        if not left:
            yield 0.0
        for size in range(1, len(left) + 1):
            for route in itertools.permutations(left, size):
                if load(route) <= capacity:
                    walk = [0, *route, 0]
                    cost = sum(costs[a, b] for a, b in pairwise(walk))
                    yield cost + min(plans(left - set(route)))

    if first == 0:
        tours = ([0, *rest, 0] for rest in itertools.permutations(range(1, instance.size)))
        return min(sum(costs[a, b] for a, b in pairwise(tour)) for tour in tours)
    demand, capacity = instance.units()

    def load(route: tuple[int, ...]) -> int:
        return int(demand[list(route)].sum())

    return min(plans(frozenset(range(1, instance.size))))


def asymmetric(problem: str, n: int, seed: int = 0) -> Instance:
    """Any costs, in every direction another."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(1, 100, (n, n)).astype(float)
    np.fill_diagonal(matrix, 0)
    extra = {} if problem == "tsp" else {"demand": np.array([0, *rng.integers(0, 5, n - 1)]), "capacity": 8}
    return Instance("any", embed(matrix), Metric.EXPLICIT, matrix=matrix, has_coords=False, **extra)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_tiny_asymmetric_instances_are_solved(problem: str, n: int) -> None:
    instance = asymmetric(problem, n)
    result = solve(instance, time_limit=0.5)
    check(result, 0.5)
    assert result.cost == optimum(instance)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_asymmetric_costs_are_improved_and_exact(problem: str) -> None:
    instance = asymmetric(problem, 60)
    result = solve(instance, time_limit=1.5)
    check(result, 1.5)
    assert instance.matrix is not None
    stops = [[0, *route] if problem == "cvrp" else list(route) for route in result.solution.routes]
    total = sum(instance.matrix[a, b] for walk in stops for a, b in zip(walk, [*walk[1:], walk[0]], strict=True))
    assert result.cost == total
    assert result.cost < 0.5 * result.history[0].cost
    assert result.history[-1].source == "search"


@pytest.mark.parametrize("metric", [metric for metric in Metric if metric is not Metric.EXPLICIT])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_metric(problem: str, metric: Metric) -> None:
    instance = random_instance(problem, 40)
    coords = instance.coords / 20 if metric in (Metric.GEO, Metric.HAVERSINE) else instance.coords
    instance = replace(instance, coords=np.trunc(coords), metric=metric)
    result = solve(instance, time_limit=0.5)
    check(result, 0.5)
    assert result.cost < result.history[0].cost
    assert result.cost.is_integer() or not metric.rounded


def test_the_smallest_instances() -> None:
    triangle = Instance("triangle", np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]), Metric.EUC_2D)
    assert solve(triangle, time_limit=0.1).cost == 12
    for capacity, cost in ((3, 14), (4, 12)):
        two = replace(triangle, demand=np.array([0, 2, 2]), capacity=capacity)
        assert solve(two, time_limit=0.1).cost == cost


@pytest.mark.parametrize("problem", PROBLEMS)
def test_nodes_in_the_same_place(problem: str) -> None:
    coords = np.zeros((30, 2))
    coords[7] = 3, 4
    extra = {} if problem == "tsp" else {"demand": np.array([0] + [1] * 29), "capacity": 10}
    result = solve(Instance("place", coords, Metric.EUC_2D, **extra), time_limit=0.15)
    check(result, 0.15)
    assert result.cost == 10


def test_customers_without_demand_fit_into_one_route() -> None:
    instance = random_instance("cvrp", 30)
    result = solve(replace(instance, demand=np.zeros(30)), time_limit=0.3, vehicles=1)
    check(result, 0.3)
    assert len(result.solution.routes) == 1


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("metric", [Metric.EXACT, Metric.EUC_2D, Metric.EXPLICIT])
@pytest.mark.parametrize("exponent", [-20, -8, 8, 20])
def test_every_scale_is_searched_in_time(problem: str, metric: Metric, exponent: int) -> None:
    """The same instance in other units: as good as in its own, and no endless loop on rounding errors."""
    if metric is Metric.EUC_2D and exponent < 0:
        return  # all distances are rounded to 0
    points = random_instance(problem, 60, Metric.EXACT)
    scaled = replace(points, coords=10.0**exponent * points.coords, metric=Metric.EXACT)
    if metric is Metric.EXPLICIT:
        scaled = replace(scaled, metric=metric, matrix=scaled.distance_matrix())
    scaled = replace(scaled, metric=metric)
    result = solve(scaled, stop=MaxIterations(20_000), threads=1)
    own = solve(points, stop=MaxIterations(20_000), threads=1)
    assert result.solution.feasible
    assert Solution(points, result.solution.routes).cost < 1.05 * own.cost
    check(solve(scaled, time_limit=0.3), 0.3)
