"""When a search stops: by iterations, without improvement, by a function, and where nothing can be improved."""

import logging
import threading
import time

import numpy as np
import pytest
from samples import random_instance

from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.problem.task import PROBLEMS
from elgo.solve.config import SolveConfig
from elgo.solve.result import CallbackError
from elgo.solve.search import jit_warm_up
from elgo.solve.solver import solve
from elgo.solve.stop import MaxIterations, MaxRuntime, NoImprovement, Progress

LONG = 40.0  # seconds: a test that waits for this limit has failed


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    for problem in PROBLEMS:
        jit_warm_up(problem)


def asymmetric(n: int) -> Instance:
    rng = np.random.default_rng(0)
    return Instance.from_matrix(rng.integers(1, 100, (n, n)) * (1 - np.eye(n)))


def kinds(n: int) -> list[Instance]:
    return [
        random_instance("tsp", n),
        random_instance("cvrp", n),
        asymmetric(n),
        random_instance("tsp", n).with_ends(first=1, last=2),
        random_instance("cvrp", n).with_ends(open=True),
    ]


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("threads", [1, 2])
def test_iterations_and_a_seed_determine_the_solution(kind: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = kinds(120)[kind]
    found = []
    for speed in (1, 50):  # of the clock, which is read for the history, but decides nothing
        clock = time.perf_counter
        monkeypatch.setattr(time, "perf_counter", lambda clock=clock, speed=speed: speed * clock())
        found.append(solve(instance, stop=MaxIterations(2000), threads=threads, seed=4))
        monkeypatch.undo()
    assert found[0].solution.routes == found[1].solution.routes
    assert found[0].source == "search"
    other = solve(instance, stop=MaxIterations(2000), threads=threads, seed=5)
    assert other.solution.routes != found[0].solution.routes


@pytest.mark.parametrize("problem", PROBLEMS)
def test_more_iterations_are_not_worse_and_none_are_enough(problem: str) -> None:
    instance = random_instance(problem, 100)
    costs = [solve(instance, stop=MaxIterations(count), threads=1).cost for count in (0, 50_000)]
    assert costs[1] < costs[0]


@pytest.mark.parametrize("kind", range(5))
def test_no_improvement_for_a_while(kind: int) -> None:
    result = solve(kinds(20)[kind], time_limit=LONG, stop=NoImprovement(0.3))
    assert result.solution.feasible
    assert result.seconds.total < LONG / 2
    assert result.seconds.total - result.history[-1].seconds >= 0.3


def test_a_function_stops_it_and_is_told_the_truth() -> None:
    told: list[Progress] = []

    def stop(progress: Progress) -> bool:
        told.append(progress)
        return len(told) == 4

    for problem in PROBLEMS:
        told.clear()
        result = solve(random_instance(problem, 50), time_limit=LONG, stop=stop)
        assert len(told) == 4
        assert told[-1].cost == result.cost
        assert told[-1].iterations > told[0].iterations == 0
        assert [progress.seconds for progress in told] == sorted(progress.seconds for progress in told)
        assert all(0 <= progress.unimproved <= progress.seconds for progress in told)


def test_a_runtime_is_a_time_limit() -> None:
    instance = random_instance("tsp", 50)
    for config, seconds in (
        (SolveConfig(stop=MaxRuntime(3)), 3),
        (SolveConfig(stop=MaxRuntime(3), time_limit=2), 2),
        (SolveConfig(stop=NoImprovement(1)), 5),
        (SolveConfig(stop=MaxIterations(9)), float("inf")),
        (SolveConfig(stop=MaxIterations(9), time_limit=2), 2),
    ):
        assert config.limit(instance) == seconds
    assert solve(instance, stop=MaxRuntime(0.3)).seconds.total < 3
    assert solve(instance, stop=MaxIterations(10**12), time_limit=0.3).solution.feasible


def test_wrong_criteria() -> None:
    for make in (lambda: MaxRuntime(0), lambda: NoImprovement(-1), lambda: NoImprovement(float("nan"))):
        with pytest.raises(ElgoError, match="must be a number of seconds above 0"):
            make()
    with pytest.raises(ElgoError, match="MaxIterations is -1, must not be negative"):
        MaxIterations(-1)
    with pytest.raises(ElgoError, match="stop is given, but policy_only does not search"):
        SolveConfig(policy_only=True, stop=MaxIterations(3))


# --- nothing to improve

ONE_PLACE, EQUAL = [[3, 4]] * 25, (1 - np.eye(25)).tolist()
UNIT = {"demand": [0] + [1] * 24, "capacity": 3}


@pytest.mark.parametrize(
    ("instance", "cost"),
    [
        (Instance.from_coords([[1, 2]]), 0),
        (Instance.from_coords([[0, 0], [3, 4]]), 10),
        (Instance.from_coords([[1, 2]], demand=[0], capacity=1), 0),
        (Instance.from_coords([[0, 0], [3, 4]], demand=[0, 1], capacity=1), 10),
        (Instance.from_coords([[0, 0], [3, 4], [3, 0]], demand=[0, 1, 1], capacity=2), 12),
        (Instance.from_coords(ONE_PLACE), 0),
        (Instance.from_coords(ONE_PLACE, **UNIT), 0),
        (Instance.from_matrix(EQUAL), 25),
        (Instance.from_matrix(EQUAL).with_ends(open=True), 24),
        (Instance.from_matrix(EQUAL, **UNIT), 32),
        (Instance.from_matrix(EQUAL, **UNIT).with_ends(open=True), 24),
        (Instance.from_coords([[0, 0]] + [[3, 4]] * 20, demand=[0] + [2] * 20, capacity=3), 200),
    ],
)
@pytest.mark.parametrize("policy_only", [False, True])
def test_trivial_problems_are_solved_at_once(instance: Instance, cost: float, policy_only: bool) -> None:
    result = solve(instance, policy_only=True) if policy_only else solve(instance, time_limit=LONG)
    assert result.solution.feasible
    assert result.cost == cost
    assert result.seconds.total < LONG / 2


# --- callbacks


@pytest.mark.parametrize("name", ["on_improvement", "stop"])
def test_an_exception_of_the_caller_keeps_the_best_so_far(name: str) -> None:
    calls: list[object] = []

    def fail(*given: object) -> bool:
        calls.append(given)
        if len(calls) == 3:
            raise ZeroDivisionError("mine")
        return False

    with pytest.raises(CallbackError, match=rf"^{name} has raised ZeroDivisionError\('mine'\); ") as caught:
        solve(random_instance("cvrp", 60), time_limit=LONG, **{name: fail})  # type: ignore[arg-type]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.result is not None
    assert caught.value.result.solution.feasible
    assert len(calls) == 3
    assert not isinstance(caught.value, ValueError)  # it is not wrong input


def test_improvements_are_logged_and_nothing_is_printed(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG, "elgo"):
        result = solve(random_instance("tsp", 30), stop=MaxIterations(10))
    assert any(f"{result.cost:.12g}" in line for line in caplog.messages)
    assert capfd.readouterr() == ("", "")


def test_short_calls_leave_no_threads_behind() -> None:
    before = threading.active_count()
    for k in range(40):
        solve(random_instance(PROBLEMS[k % 2], 40), time_limit=0.02)
    end = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.05)
    assert threading.active_count() <= before
