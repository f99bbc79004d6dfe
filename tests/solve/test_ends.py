"""Open routes and fixed ends: optimal on small cases, costed right on larger ones."""

import itertools
from itertools import pairwise

import numpy as np
import pytest

from elgo.decode.multistart import costs
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.search.ends import fit_ends
from elgo.search.exact import EXACT_NODES, lower_bound
from elgo.search.savings import savings
from elgo.solve import solver
from elgo.solve.search import jit_warm_up
from elgo.solve.solver import solve
from elgo.solve.stop import MaxIterations

ENDS = [
    {},
    {"open": True},
    {"first": 2},
    {"first": 2, "open": True},
    {"last": 1},
    {"first": 2, "last": 1},
]


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    jit_warm_up("tsp")
    jit_warm_up("cvrp")


def random_matrix(rng: np.random.Generator, n: int, symmetric: bool) -> np.ndarray:
    if symmetric:
        points = rng.random((n, 2))
        return np.linalg.norm(points[:, None] - points, axis=2)
    return rng.random((n, n)) * (1 - np.eye(n))


def tour_costs(
    matrix: np.ndarray, open: bool = False, first: int | None = None, last: int | None = None
) -> list[float]:
    """The costs of all tours that are allowed."""
    costs = []
    for tour in itertools.permutations(range(len(matrix))):
        if tour[0] == (tour[0] if first is None else first) and tour[-1] == (tour[-1] if last is None else last):
            back = 0.0 if open or last is not None else matrix[tour[-1], tour[0]]
            costs.append(sum(matrix[a, b] for a, b in pairwise(tour)) + back)
    return costs


def routes_cost(matrix: np.ndarray, demand: np.ndarray, capacity: int, open: bool, vehicles: int) -> float:
    """The least cost of all ways to cut all orders of the customers into routes."""
    n, best = len(demand), np.inf
    for order in itertools.permutations(range(1, n)):
        for cuts in range(1 << (n - 2)):
            routes = [[order[0]]]
            for k, node in enumerate(order[1:]):
                if cuts >> k & 1:
                    routes.append([node])
                else:
                    routes[-1].append(node)
            if len(routes) > vehicles or any(demand[route].sum() > capacity for route in routes):
                continue
            legs = [pairwise([0, *route] if open else [0, *route, 0]) for route in routes]
            best = min(best, sum(matrix[a, b] for way in legs for a, b in way))
    return float(best)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("symmetric", [True, False])
def test_tiny_tours_are_optimal(ends: dict, symmetric: bool) -> None:
    rng = np.random.default_rng(1)
    for n in (3, 4, 5, 6, 7):
        matrix = random_matrix(rng, n, symmetric)
        instance = Instance.from_matrix(matrix).with_ends(**ends)
        best = min(tour_costs(matrix, **ends))
        result = solve(instance)
        assert result.solution.feasible
        assert result.cost == pytest.approx(best)
        assert lower_bound(instance) <= best * (1 + 1e-12)


@pytest.mark.parametrize("open", [False, True])
@pytest.mark.parametrize("symmetric", [True, False])
def test_tiny_routes_are_optimal(open: bool, symmetric: bool) -> None:
    rng = np.random.default_rng(2)
    for n in (2, 3, 4, 5, 6):
        for vehicles in (n, 2):
            matrix, demand = random_matrix(rng, n, symmetric), np.append(0, rng.integers(0, 4, n - 1))
            capacity = max(4, int(demand.sum() * 0.7))
            instance = Instance.from_matrix(matrix, demand=demand, capacity=capacity).with_ends(open=open)
            best = routes_cost(matrix, demand, capacity, open, vehicles)
            result = solve(instance, vehicles=vehicles)
            assert result.solution.feasible
            assert result.cost == pytest.approx(best)
            assert lower_bound(instance) <= best * (1 + 1e-12)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_search_finds_the_optimum_of_small_tours(
    ends: dict, symmetric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of as many nodes as are solved exactly: those are compared with brute force above."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        instance = Instance.from_matrix(random_matrix(rng, EXACT_NODES, symmetric)).with_ends(**ends)
        best = solve(instance).cost
        with monkeypatch.context() as patch:
            patch.setattr(solver, "EXACT_NODES", 0)
            result = solve(instance, stop=MaxIterations(5000), threads=1)
        assert result.history[0].source == "fallback"
        assert result.solution.feasible
        assert result.cost == pytest.approx(best)


@pytest.mark.parametrize("open", [False, True])
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_search_finds_the_optimum_of_small_routes(
    open: bool, symmetric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    for _ in range(5):
        matrix, demand = random_matrix(rng, 9, symmetric), np.append(0, rng.integers(1, 4, 8))
        instance = Instance.from_matrix(matrix, demand=demand, capacity=7).with_ends(open=open)
        best = solve(instance).cost
        with monkeypatch.context() as patch:
            patch.setattr(solver, "EXACT_NODES", 0)
            result = solve(instance, stop=MaxIterations(20_000), threads=1)
        assert result.cost == pytest.approx(best)


def plain_cost(solution: Solution, matrix: np.ndarray) -> float:
    instance, total = solution.instance, 0.0
    for route in solution.routes:
        walk = list(route) if instance.problem == "tsp" else [0, *route]
        total += sum(matrix[a, b] for a, b in pairwise(walk if instance.open else [*walk, walk[0]]))
    return total


@pytest.mark.parametrize("n", [150, 620])  # below and above the size up to which distances are looked up
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("kind", ["coords", "symmetric", "asymmetric"])
def test_larger_tours_cost_what_they_say(n: int, ends: dict, kind: str) -> None:
    rng = np.random.default_rng(5)
    coords = 1000 * rng.random((n, 2))
    matrix = Instance.from_coords(coords, metric="EUC_2D").distance_matrix()
    if kind == "asymmetric":
        matrix = matrix * rng.uniform(0.5, 2, (n, n))
    instance = Instance.from_coords(coords, metric="EUC_2D") if kind == "coords" else Instance.from_matrix(matrix)
    result = solve(instance.with_ends(**ends), stop=MaxIterations(3000), threads=2)
    assert result.solution.feasible, result.solution.violations
    assert result.cost == pytest.approx(plain_cost(result.solution, matrix))
    assert result.cost < 0.9 * result.history[0].cost
    by_time = solve(instance.with_ends(**ends), time_limit=0.3)
    assert by_time.solution.feasible
    assert by_time.cost == pytest.approx(plain_cost(by_time.solution, matrix))


@pytest.mark.parametrize("n", [150, 620])
@pytest.mark.parametrize("kind", ["coords", "symmetric", "asymmetric"])
def test_larger_open_routes_cost_what_they_say(n: int, kind: str) -> None:
    rng = np.random.default_rng(6)
    coords, demand = 1000 * rng.random((n, 2)), np.append(0, rng.integers(1, 9, n - 1))
    matrix = Instance.from_coords(coords, metric="EUC_2D").distance_matrix()
    if kind == "asymmetric":
        matrix = matrix * rng.uniform(0.5, 2, (n, n))
    loads = {"demand": demand, "capacity": 50}
    made = Instance.from_coords(coords, metric="EUC_2D", **loads) if kind == "coords" else None
    closed = made or Instance.from_matrix(matrix, **loads)
    instance = closed.with_ends(open=True)
    result = solve(instance, stop=MaxIterations(5000), threads=2)
    assert result.solution.feasible
    assert result.cost == pytest.approx(plain_cost(result.solution, matrix))
    start = Solution(instance, tuple(map(tuple, savings(instance))))
    assert start.feasible
    assert result.cost < start.cost
    assert result.cost < 0.9 * solve(closed, stop=MaxIterations(5000), threads=2).cost


def test_a_warm_start_has_the_ends_that_are_asked_for() -> None:
    instance = Instance.from_coords(np.random.default_rng(0).random((20, 2))).with_ends(first=2, last=1)
    with pytest.raises(ValueError, match="warm_start is not feasible: the first node is 0, not 2"):
        solve(instance, warm_start=Solution(instance, (tuple(range(20)),)))
    good = Solution(instance, ((2, *(node for node in range(20) if node not in (1, 2)), 1),))
    assert solve(instance, warm_start=good, time_limit=0.2).cost <= good.cost


def test_the_policy_knows_the_ends() -> None:
    coords = np.random.default_rng(0).random((20, 2))
    for ends in ENDS:
        result = solve(Instance.from_coords(coords).with_ends(**ends), policy_only=True, starts=3, symmetries=1)
        assert result.solution.feasible
    loads = {"demand": [0] + [1] * 19, "capacity": 4}
    opened = Instance.from_coords(coords, **loads).with_ends(open=True)
    assert solve(opened, policy_only=True, starts=3, symmetries=1).solution.feasible


def test_one_node_with_any_ends() -> None:
    one = Instance.from_coords([[3.0, 4.0]])
    for ends in ({"open": True}, {"first": 0}, {"last": 0}, {"first": 0, "last": 0}):
        solution = solve(one.with_ends(**ends), time_limit=0.2).solution
        assert (solution.routes, solution.cost, solution.feasible) == (((0,),), 0, True)


def test_a_tour_with_free_ends_is_cut_at_its_longest_edge() -> None:
    line = Instance.from_coords([[x, 0.0] for x in (0, 1, 2, 10, 11)]).with_ends(open=True)
    assert fit_ends(line, [1, 2, 3, 4, 0]) == [0, 1, 2, 3, 4]


def test_the_policy_chooses_among_tours_without_their_longest_edges() -> None:
    points = Instance.from_coords([[0, 0], [0, 1], [5, 0], [5, 1]]).with_ends(open=True)
    assert costs(points, np.array([[0, 1, 3, 2], [0, 2, 1, 3]])) == pytest.approx([7, 10 + np.hypot(5, 1)])


def test_vehicles_mean_nothing_to_the_policy_of_a_tsp() -> None:
    tsp = Instance.from_coords(np.random.default_rng(1).random((20, 2)))
    found = [solve(tsp, policy_only=True, vehicles=vehicles, symmetries=1).cost for vehicles in (None, 1)]
    assert found[0] == found[1]
