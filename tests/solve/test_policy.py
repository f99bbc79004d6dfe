"""The policy alone, and as the start of a search, with small random weights."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import LATE, random_instance, random_policy, small_config

from elgo.decode.decoder import DecodeConfig
from elgo.model.checkpoint import save_policy
from elgo.problem.instance import Instance, Metric
from elgo.problem.plane import embed
from elgo.problem.task import PROBLEMS
from elgo.solve import policy as solve_policy
from elgo.solve.config import SolveConfig
from elgo.solve.policy import rollout_counts
from elgo.solve.result import CallbackError, Result
from elgo.solve.solver import solve

Weights = Callable[[str], Path]
FEW = {"starts": 4, "symmetries": 2, "threads": 1, "policy_only": True}


def run(instance: Instance, weights: Weights, **changes: object) -> Result:
    return solve(instance, SolveConfig(**{**FEW, "model": weights(instance.problem), **changes}))  # type: ignore


def check(result: Result, distance: Callable[[int, int], float]) -> None:
    """Every node is visited once within the capacity, and the cost is the sum of the given distances."""
    instance = result.instance
    visited = sorted(node for route in result.solution.routes for node in route)
    assert visited == list(range(instance.size - instance.customers, instance.size))
    total = 0.0
    for route in result.solution.routes:
        stops = list(route) if instance.demand is None else [0, *route]
        total += sum(distance(a, b) for a, b in zip(stops, [*stops[1:], stops[0]], strict=True))
        if instance.demand is not None:
            assert sum(instance.demand[list(route)]) <= instance.capacity
    assert result.cost == pytest.approx(total, rel=1e-12)
    assert result.solution.feasible


def nint(instance: Instance) -> Callable[[int, int], float]:
    return lambda a, b: math.floor(math.dist(instance.coords[a], instance.coords[b]) + 0.5)


@pytest.mark.parametrize("n", [3, 4, 30])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_solutions_are_feasible_and_cost_what_they_say(problem: str, n: int, weights: Weights) -> None:
    for seed in range(3):
        instance = random_instance(problem, n, seed=seed)
        result = run(instance, weights)
        check(result, nint(instance))
        assert result.cost.is_integer()
        assert result.gap is None


def test_the_smallest_instances(weights: Weights) -> None:
    triangle = Instance("triangle", np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]), Metric.EUC_2D)
    assert run(triangle, weights).cost == 12
    line = Instance("line", np.array([[0.0, 0.0], [5.0, 0.0], [9.0, 0.0]]), Metric.EUC_2D)
    assert run(line, weights).cost == 18
    two = Instance("two", triangle.coords, Metric.EUC_2D, demand=np.array([0, 2, 2]), capacity=3)
    assert run(two, weights).cost == 6 + 8
    assert sorted(run(two, weights).solution.routes) == [(1,), (2,)]


@pytest.mark.parametrize("metric", [Metric.EXACT, Metric.CEIL_2D, Metric.ATT])
def test_plane_metrics(metric: Metric, weights: Weights) -> None:
    def distance(a: int, b: int) -> float:
        length = math.dist(instance.coords[a], instance.coords[b])
        scaled = length / math.sqrt(10)
        return {Metric.EXACT: length, Metric.CEIL_2D: math.ceil(length), Metric.ATT: math.ceil(scaled)}[metric]

    instance = random_instance("cvrp", 15, metric)
    check(run(instance, weights), distance)


def test_geo_with_routes_that_end_early(weights: Weights) -> None:
    """GEO gives 1 for a node and itself; waiting at the depot must not be paid for."""
    rng = np.random.default_rng(0)
    coords = np.stack([rng.uniform(-60, 60, 14), rng.uniform(-170, 170, 14)], axis=1).round(1)
    coords = np.trunc(coords) + (coords - np.trunc(coords)) * 0.5  # minutes below 60

    def radians(x: float) -> float:
        return 3.141592 * (math.trunc(x) + 5 * (x - math.trunc(x)) / 3) / 180

    def distance(a: int, b: int) -> float:
        (lat_a, lon_a), (lat_b, lon_b) = (map(radians, coords[node]) for node in (a, b))
        q1, q2, q3 = math.cos(lon_a - lon_b), math.cos(lat_a - lat_b), math.cos(lat_a + lat_b)
        return int(6378.388 * math.acos(0.5 * ((1 + q1) * q2 - (1 - q1) * q3)) + 1)

    check(run(Instance("geo", coords, Metric.GEO), weights), distance)
    demand = np.array([0, *rng.integers(1, 9, 13)])
    check(run(Instance("geo", coords, Metric.GEO, demand=demand, capacity=20), weights), distance)


def test_haversine(weights: Weights) -> None:
    coords = np.array([[52.5, 13.4], [48.1, 11.6], [50.1, 8.7], [53.6, 10.0], [51.3, 12.4]])

    def distance(a: int, b: int) -> float:
        (lat_a, lon_a), (lat_b, lon_b) = np.radians(coords[[a, b]])
        h = math.sin((lat_a - lat_b) / 2) ** 2 + math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_a - lon_b) / 2) ** 2
        return 2 * 6_371_008.8 * math.asin(math.sqrt(h))

    result = run(Instance("cities", coords, Metric.HAVERSINE), weights, starts=5)
    check(result, distance)
    assert 1_400_000 < result.cost < 2_500_000  # metres


@pytest.mark.parametrize("problem", PROBLEMS)
def test_explicit_matrix_without_coordinates(problem: str, weights: Weights) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.integers(1, 100, (9, 9)).astype(float)  # asymmetric: costed in the direction of travel
    np.fill_diagonal(matrix, 0)
    extra = {} if problem == "tsp" else {"demand": np.array([0] + [1] * 8), "capacity": 3}
    instance = Instance("matrix", embed(matrix), Metric.EXPLICIT, matrix=matrix, has_coords=False, **extra)
    check(run(instance, weights), lambda a, b: matrix[a, b])


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_best_of_all_rollouts_is_taken(problem: str, weights: Weights) -> None:
    """More symmetries cannot be worse, since each adds rollouts; the first alone is that of the identity."""
    instance = random_instance(problem, 25)
    found = [run(instance, weights, symmetries=count, starts=25).cost for count in (1, 4, 8)]
    assert found == sorted(found, reverse=True)
    assert found[2] < found[0]
    every = run(instance, weights, symmetries=1, starts=25).cost
    assert every <= min(run(instance, weights, symmetries=1, starts=5, seed=seed).cost for seed in range(4))


def test_gap(weights: Weights) -> None:
    instance = random_instance("tsp", 12)
    cost = run(instance, weights).cost
    known = replace(instance, best_known=cost / 1.25)
    assert run(known, weights).gap == pytest.approx(25)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_same_seed_same_answer_for_any_number_of_threads(problem: str, weights: Weights) -> None:
    instance = random_instance(problem, 40)
    first = run(instance, weights, seed=3, threads=1)
    for threads in (1, 2, 3):
        again = run(instance, weights, seed=3, threads=threads)
        assert again.solution == first.solution
    assert (first.seed, first.starts, first.symmetries) == (3, 4, 2)


def test_memory_does_not_change_the_answer(weights: Weights) -> None:
    instance = random_instance("cvrp", 40)
    assert run(instance, weights, memory_gb=1e-6).solution == run(instance, weights).solution


def test_more_starts_than_nodes(weights: Weights) -> None:
    result = run(random_instance("tsp", 5), weights, starts=50)
    assert result.starts == 5


def test_vehicles_and_the_policy_alone(weights: Weights) -> None:
    instance = random_instance("cvrp", 30)
    free = run(instance, weights)
    assert run(instance, weights, vehicles=len(free.solution.routes)).solution == free.solution
    with pytest.raises(ValueError, match="cvrp30: vehicles is 1, but every rollout has more routes"):
        run(instance, weights, vehicles=1)


def test_progress_and_timings(weights: Weights) -> None:
    seen: list[float] = []
    instance = random_instance("tsp", 10)
    result = solve(instance, model=weights("tsp"), threads=1, policy_only=True, on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1
    seconds = result.seconds
    assert min(seconds.load, seconds.decode) > 0
    assert seconds.search == 0
    assert seconds.total >= seconds.decode
    assert result.instance is instance
    (found,) = result.history
    assert (found.cost, found.source) == (result.cost, "policy")
    assert not result.interrupted


def test_weights_are_read_again_when_the_file_changes(tmp_path: Path) -> None:
    instance, file = random_instance("tsp", 40), tmp_path / "w.safetensors"
    found = []
    for seed in (0, 1, 0):
        save_policy(file, random_policy(small_config("tsp"), seed), "random")
        found.append(solve(instance, model=file, starts=1, symmetries=1, threads=1, policy_only=True).cost)
    assert found[0] == found[2] != found[1]


def test_wrong_weights(weights: Weights, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tsp.safetensors: problem is 'tsp', but the instance needs 'cvrp'"):
        solve(random_instance("cvrp", 5), model=weights("tsp"), policy_only=True)
    with pytest.raises(ValueError, match=r"nothing.safetensors: no such weights file"):
        solve(random_instance("cvrp", 5), model=tmp_path / "nothing.safetensors", policy_only=True)


def test_rollouts_are_counted_before_they_are_made(weights: Weights) -> None:
    for instance in (random_instance("tsp", 9), random_instance("cvrp", 9)):
        for config in (SolveConfig(policy_only=True), SolveConfig(policy_only=True, starts=3, symmetries=2)):
            result = solve(instance, config, model=weights(instance.problem), threads=1)
            assert rollout_counts(instance, config) == (result.starts, result.symmetries)
    assert rollout_counts(random_instance("tsp", 1001), SolveConfig(policy_only=True)) == (100, 8)


# --- as the start of a search


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_search_starts_from_the_best_rollout(problem: str, weights: Weights) -> None:
    instance = random_instance(problem, 60)
    alone = solve(instance, policy_only=True, model=weights(problem), starts=5, symmetries=2)
    result = solve(instance, start=weights(problem), starts=5, symmetries=2, time_limit=6)
    by_policy = [found.cost for found in result.history if found.source == "policy"]
    assert "savings" not in {found.source for found in result.history}
    assert (result.starts, result.symmetries) == (5, 2)
    assert result.seconds.decode > 0
    assert result.solution.feasible
    if by_policy:  # better than the fallback construction
        assert by_policy[-1] == alone.cost
    assert result.cost <= alone.cost


def test_a_policy_itself_is_a_start() -> None:
    policy, instance = random_policy(small_config("tsp"), scale=1.5), random_instance("tsp", 40)
    result = solve(instance, start=policy, time_limit=6)
    assert (result.starts, result.symmetries) == (16, 1)
    assert result.cost <= solve(instance, policy_only=True, model=policy, starts=16, symmetries=1).cost
    with pytest.raises(ValueError, match="the policy's problem is 'tsp', but the instance needs 'cvrp'"):
        solve(random_instance("cvrp", 40), start=policy, time_limit=6)


def test_few_rollouts_by_default(weights: Weights) -> None:
    result = solve(random_instance("tsp", 40), start=weights("tsp"), time_limit=6)
    assert (result.starts, result.symmetries) == (16, 1)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_rounds_that_are_not_done_in_time_are_dropped(
    problem: str, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round of two rollouts is done; the second one takes too long and stops at its next report."""
    decode, rounds = solve_policy.decode, []

    def slow(*given: Any, on_progress: Callable[[float], None] | None = None, **options: Any) -> Any:
        if on_progress is None:  # the rollout that loads the kernels
            return decode(*given, **options)
        rounds.append(len(given[2][0]))
        while len(rounds) > 1:
            time.sleep(0.01)
            on_progress(0.5)
        return decode(*given, on_progress=on_progress, **options)

    monkeypatch.setattr(solve_policy, "decode", slow)
    instance = random_instance(problem, 30)
    result = solve(instance, start=weights(problem), threads=2, time_limit=6)
    assert rounds == [2, 4]
    assert result.starts == 2
    assert result.warnings == ("the time limit is too short for the model: 2 of 16 rollouts in half of it",)
    assert result.seconds.total < 6 + LATE
    assert result.solution.feasible


def test_a_classical_start_if_no_rollout_is_ready_in_time(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_policy, "_best_rollout", lambda *given: time.sleep(5))
    result = solve(random_instance("cvrp", 50), start=weights("cvrp"), time_limit=2)
    assert result.starts == 0
    assert "savings" in {found.source for found in result.history}
    assert result.warnings == ("the time limit is too short for the model: no rollout in half of it",)
    assert result.seconds.total < 2 + LATE


def test_loading_the_model_does_not_count(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    as_policy = solve_policy.as_policy
    monkeypatch.setattr(solve_policy, "as_policy", lambda *given: time.sleep(1.5) or as_policy(*given))
    result = solve(random_instance("cvrp", 20), start=weights("cvrp"), time_limit=1)
    assert result.seconds.load >= 1.5
    assert result.starts > 0


def test_ctrl_c_keeps_the_rollouts_that_are_done(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_round(count: int, first: int) -> Iterator[slice]:
        yield slice(0, 1)
        raise KeyboardInterrupt

    instance = random_instance("tsp", 60)
    monkeypatch.setattr(solve_policy, "_rounds", one_round)
    result = solve(instance, start=weights("tsp"), starts=2, time_limit=6)
    assert result.interrupted
    assert result.starts == 1


@pytest.mark.parametrize("path", ["compiled", "torch"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_the_policy_alone_keeps_the_rollouts_that_are_done(
    path: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight tasks in groups, and a fault between them."""
    model = random_policy(small_config("cvrp"))
    instance = random_instance("cvrp", 30)
    monkeypatch.setattr("elgo.decode.decoder.GROUP", 2)
    monkeypatch.setattr(solve_policy, "DecodeConfig", partial(DecodeConfig, path=path))

    def fail(fraction: float) -> None:
        if fraction >= 0.5:
            raise error("mine")

    options = {"policy_only": True, "model": model, "threads": 1, "on_progress": fail}
    if error is KeyboardInterrupt:
        result = solve(instance, **options)
        assert result.interrupted
    else:
        with pytest.raises(CallbackError, match="on_progress has raised ZeroDivisionError") as caught:
            solve(instance, **options)
        assert caught.value.result is not None
        result = caught.value.result
    assert result.source == "policy"
    check(result, nint(instance))
    (warning,) = result.warnings
    assert 0 < int(warning.split()[0]) < 29 * 8
    assert warning.endswith(f" of {29 * 8} rollouts were done")


def test_a_function_that_fails_before_there_is_a_rollout(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fraction: float) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(solve_policy, "load_policy", lambda *given: random_policy(small_config("tsp")))
    monkeypatch.setattr(solve_policy, "decode", lambda *given, on_progress, **options: on_progress(0.0))
    with pytest.raises(CallbackError, match=r"^on_progress has raised ZeroDivisionError\(\)$") as caught:
        solve(random_instance("tsp", 30), policy_only=True, model=weights("tsp"), on_progress=fail)
    assert caught.value.result is None


def test_an_error_of_the_model_is_raised(weights: Weights) -> None:
    with pytest.raises(ValueError, match=r"tsp.safetensors: problem is 'tsp', but the instance needs 'cvrp'"):
        solve(random_instance("cvrp", 5), start=weights("tsp"), time_limit=20)
    with pytest.raises(ValueError, match="model is 'nothing'; there are elg"):
        solve(random_instance("cvrp", 5), start="nothing", time_limit=20)


def test_large_instances_have_fewer_rollouts_and_say_how_long_they_take(
    weights: Weights, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As if they began at 30 nodes, on a slow machine."""
    monkeypatch.setattr(solve_policy, "LARGE", 30)
    monkeypatch.setattr(solve_policy, "TASK_SECONDS", 0.1)
    monkeypatch.setattr(solve_policy, "ROLLOUT_SECONDS", 0.01)
    large, small = random_instance("tsp", 31), random_instance("tsp", 30)
    for instance, options, counts in (
        (large, {}, (16, 1)),
        (large, {"starts": 2, "symmetries": 3}, (2, 3)),
        (small, {}, (30, 8)),
    ):
        result = solve(instance, policy_only=True, model=weights("tsp"), **options)
        assert (result.starts, result.symmetries) == counts
    with caplog.at_level("INFO", "elgo"):
        solve(large, policy_only=True, model=weights("tsp"), threads=2)
    # 31^2 * (0.1 on one thread + 0.01 * 16 / 2) = 173 s
    assert caplog.messages == ["tsp31: 16 starts x 1 symmetries take about 3 min; fewer take less"]
    caplog.clear()
    monkeypatch.setattr(solve_policy, "SAID_SECONDS", 200)
    with caplog.at_level("INFO", "elgo"):
        solve(large, policy_only=True, model=weights("tsp"), threads=2)
    assert not caplog.messages
