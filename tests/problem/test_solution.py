"""Cost and feasibility of routes, by hand and as properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution, format_cost, format_gap, gap

LINE = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [6.0, 0.0]])


def tsp(metric: Metric = Metric.EXACT) -> Instance:
    return Instance("line", LINE, metric)


def cvrp(demand: tuple[float, ...] = (0, 1, 2, 3), capacity: float = 5) -> Instance:
    return Instance("line", LINE, Metric.EXACT, demand=np.array(demand), capacity=capacity)


def test_cost_by_hand() -> None:
    assert Solution(tsp(), ((0, 1, 2, 3),)).cost == 12  # out and back
    assert Solution(tsp(), ((0, 2, 1, 3),)).cost == 3 + 2 + 5 + 6
    assert Solution(cvrp(), ((1, 2), (3,))).cost == 6 + 12
    assert Solution(cvrp(), ((1,), (2,), (3,))).cost == 2 + 6 + 12


def test_cost_of_an_asymmetric_matrix_follows_the_direction() -> None:
    matrix = np.array([[0, 1, 9], [9, 0, 1], [1, 9, 0]], float)
    instance = Instance("ring", LINE[:3], Metric.EXPLICIT, matrix=matrix)
    assert Solution(instance, ((0, 1, 2),)).cost == 3
    assert Solution(instance, ((2, 1, 0),)).cost == 27


@settings(deadline=None)
@given(st.permutations(range(30)), st.integers(0, 29), st.sampled_from([Metric.EXACT, Metric.EUC_2D, Metric.GEO]))
def test_turning_a_tour_keeps_its_cost_exactly(tour: list[int], turn: int, metric: Metric) -> None:
    instance = Instance("random", np.random.default_rng(0).uniform(0, 80, (30, 2)), metric)
    cost = Solution(instance, (tuple(tour),)).cost
    assert Solution(instance, (tuple(tour[turn:] + tour[:turn]),)).cost == cost
    assert Solution(instance, (tuple(reversed(tour)),)).cost == cost
    assert cost.is_integer() or not metric.rounded


@settings(deadline=None)
@given(st.permutations(range(12)))
def test_renaming_nodes_keeps_the_cost(names: list[int]) -> None:
    coords = np.random.default_rng(0).uniform(0, 100, (12, 2))
    moved = np.empty_like(coords)
    moved[names] = coords
    plain = Solution(Instance("a", coords, Metric.EUC_2D), (tuple(range(12)),))
    assert Solution(Instance("b", moved, Metric.EUC_2D), (tuple(names),)).cost == plain.cost


def test_routes_may_be_any_sequences_of_whole_numbers() -> None:
    solution = Solution(cvrp(), (np.array([1, 2]), [3]))  # type: ignore[arg-type]
    assert solution.routes == ((1, 2), (3,))
    assert all(type(node) is int for route in solution.routes for node in route)
    with pytest.raises(TypeError):
        Solution(cvrp(), ((1.5, 2),))  # type: ignore[arg-type]


def test_equal_routes_of_one_instance_are_equal() -> None:
    instance = cvrp()
    assert Solution(instance, ((1, 2), (3,))) == Solution(instance, ((1, 2), (3,)))
    assert Solution(instance, ((1, 2), (3,))) != Solution(instance, ((2, 1), (3,)))


@pytest.mark.parametrize(
    ("instance", "routes", "violations"),
    [
        (tsp(), ((2, 0, 3, 1),), ()),
        (cvrp(), ((1, 2), (3,)), ()),
        (cvrp(), ((3, 2), (1,)), ()),  # exactly full
        (tsp(), (), ("a TSP has one route, not 0", "missing nodes: 0, 1, 2, 3")),
        (tsp(), ((0, 1), (2, 3)), ("a TSP has one route, not 2",)),
        (tsp(), ((0, 1, 3),), ("missing nodes: 2",)),
        (tsp(), ((0, 1, 2, 3, 1),), ("repeated nodes: 1",)),
        (tsp(), ((0, 1, 2, 3, 4, -1),), ("unknown nodes: -1, 4",)),
        (cvrp(), ((1, 2), (), (3,)), ("route 2 is empty",)),
        (cvrp(), ((1, 0, 2), (3,)), ("route 1 contains the depot",)),
        (cvrp(), ((1,), (3,)), ("missing nodes: 2",)),
        (cvrp(), ((1, 2), (3, 1)), ("repeated nodes: 1",)),
        (cvrp(), ((1, 2, 3),), ("route 1 carries 6, more than CAPACITY 5",)),
        (cvrp((0, 0.1, 0.2, 0.3), 0.3), ((1, 2), (3,)), ()),  # 0.1 + 0.2 > 0.3 in floating point
        (cvrp((0, 0.1, 0.2, 0.3), 0.3), ((1, 2, 3),), ("route 1 carries 0.6, more than CAPACITY 0.3",)),
        (cvrp((0, 1 / 3, 1 / 3, 1 / 3), 1), ((1, 2, 3),), ()),  # too much in units, which were rounded up
        (cvrp((0, 0.5, 0.5, 1e-5), 1), ((1, 2, 3),), ("route 1 carries 1.00001, more than CAPACITY 1",)),
    ],
)
def test_violations(instance: Instance, routes: tuple[tuple[int, ...], ...], violations: tuple[str, ...]) -> None:
    solution = Solution(instance, routes)
    assert solution.violations == violations
    assert solution.feasible == (not violations)


def test_long_lists_of_nodes_are_shortened() -> None:
    instance = Instance("many", np.arange(40.0).reshape(20, 2), Metric.EXACT)
    assert Solution(instance, ((0,),)).violations == ("missing nodes: 1, 2, 3, 4, 5, ... (19 in all)",)


def test_load_is_exact_beyond_floating_point() -> None:
    """One unit too much in 10^12 is seen."""
    instance = cvrp((0, 10**12 - 1, 1, 1), 10**12)
    assert Solution(instance, ((1, 2), (3,))).feasible
    assert not Solution(instance, ((1, 2, 3),)).feasible


def test_cost_of_a_node_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="line has no node -1, so the routes have no cost"):
        _ = Solution(tsp(), ((0, 1, 2, -1),)).cost


def test_gap() -> None:
    assert gap(110, 100) == pytest.approx(10)
    assert gap(100, 100) == 0
    assert gap(99, 100) == pytest.approx(-1)
    assert gap(100, None) is None
    assert gap(math.pi, 0) is None


def test_costs_and_gaps_as_text() -> None:
    assert [format_cost(cost) for cost in (None, 7.0, 1234, 0.12345)] == ["-", "7", "1234", "0.1235"]
    assert [format_cost(cost) for cost in (1e15 - 1, 1e15, 1.23456789e99)] == [
        "999999999999999",
        "1e+15",
        "1.23457e+99",
    ]
    assert [format_cost(cost, ",") for cost in (1234567, 1234.5)] == ["1,234,567", "1,234.5000"]
    assert [format_gap(percent) for percent in (None, 0.126, -1)] == ["-", "0.13", "-1.00"]
