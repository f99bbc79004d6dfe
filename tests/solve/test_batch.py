"""Several instances at once: the same as one after the other, in the same order, with the same faults."""

import os
import signal
from multiprocessing import active_children

import numpy as np
import pytest
from samples import random_instance

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search.jit_warm_up import jit_warm_up
from elgo.solve.batch import Job, Stop, share, solve_all
from elgo.solve.solver import Improvement, Result, SolveConfig


class Diary:
    """A watcher that remembers, and does something when a job begins."""

    def __init__(self, at_begin=lambda number: None) -> None:
        self.begun: list[int] = []
        self.costs: dict[int, list[float]] = {}
        self.fractions: list[float] = []
        self.at_begin = at_begin

    def begin(self, number: int) -> None:
        self.begun.append(number)
        self.at_begin(number)

    def improved(self, number: int, improvement: Improvement) -> None:
        self.costs.setdefault(number, []).append(improvement.cost)

    def advanced(self, number: int, fraction: float) -> None:
        self.fractions.append(fraction)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    jit_warm_up("tsp")
    jit_warm_up("cvrp")


def jobs(seconds: float, count: int = 4) -> list[Job]:
    config = SolveConfig(time_limit=seconds, threads=1)
    return [Job(random_instance(("tsp", "cvrp")[k % 2], 20 + k), config) for k in range(count)]


def too_few_vehicles() -> Job:
    coords = np.random.default_rng(0).random((4, 2))
    instance = Instance("full", coords, Metric.EXACT, demand=np.array([0, 5, 5, 5]), capacity=5)
    return Job(instance, SolveConfig(time_limit=0.1, vehicles=2))


@pytest.mark.parametrize("at_once", [1, 2])
def test_results_come_in_the_order_of_the_jobs(at_once: int) -> None:
    work, diary = jobs(0.3), Diary()
    found = list(solve_all(work, at_once, Stop(), diary))
    assert [number for number, _ in found] == diary.begun == [0, 1, 2, 3]
    for number, result in found:
        assert result.instance is work[number].instance
        assert result.solution.feasible
        assert diary.costs[number] == [improvement.cost for improvement in result.history]
        assert not result.interrupted


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_fault_is_raised_in_its_turn(at_once: int) -> None:
    work = [*jobs(0.3, 1), too_few_vehicles(), *jobs(0.3, 4)]
    diary = Diary()
    found: list[Result] = []
    with pytest.raises(ValueError, match="full: vehicles is 2, but the demand fills at least 3"):
        found.extend(result for _, result in solve_all(work, at_once, Stop(), diary))
    assert len(diary.begun) <= 3


def test_what_was_ready_before_a_fault_is_given() -> None:
    work = [*jobs(0.5, 1), too_few_vehicles()]
    results = solve_all(work, 2, Stop(), Diary())
    assert next(results)[1].solution.feasible
    with pytest.raises(ValueError, match="full"):
        next(results)


def test_a_warm_start_and_the_policy_alone() -> None:
    instance = random_instance("tsp", 12)
    tour = Solution(instance, (tuple(range(12)),))
    alone = SolveConfig(policy_only=True, starts=2, symmetries=1, threads=1)
    diary = Diary()
    work = [Job(instance, SolveConfig(time_limit=0.2), tour), Job(instance, alone)]
    (_, first), (_, second) = solve_all(work, 2, Stop(), diary)
    assert first.history[0].source == "warm start"
    assert second.history[0].source == "policy"
    assert diary.fractions[-1] == 1


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_wish_to_stop_ends_what_runs_and_begins_nothing(at_once: int) -> None:
    def ask(number: int) -> None:
        if number == at_once - 1:
            signal.setitimer(signal.ITIMER_REAL, 0.5)

    stop, diary = Stop(), Diary(ask)
    with stop.on(signal.SIGALRM):
        found = list(solve_all(jobs(60), at_once, stop, diary))
    assert stop.wished
    assert diary.begun == list(range(at_once))
    assert [number for number, _ in found] == diary.begun
    assert all(result.interrupted and result.solution.feasible for _, result in found)


@pytest.mark.parametrize("at_once", [1, 2])
def test_who_is_stopped_before_the_beginning_begins_nothing(at_once: int) -> None:
    stop, diary = Stop(), Diary()
    stop.wished = True
    assert list(solve_all(jobs(60), at_once, stop, diary)) == []
    assert diary.begun == []


def test_a_process_that_dies_is_a_fault() -> None:
    def kill(number: int) -> None:
        if number == 1:
            for process in active_children():
                process.kill()

    with pytest.raises(ChildProcessError, match="tsp20: the process ended with code -9"):
        list(solve_all(jobs(60, 2), 2, Stop(), Diary(kill)))


def test_what_is_done_on_the_wish_to_stop() -> None:
    stop = Stop()
    calls: list[int] = []
    before = signal.getsignal(signal.SIGUSR2)
    with stop.on(signal.SIGUSR2):
        with stop.calls(lambda: calls.append(1)):
            os.kill(os.getpid(), signal.SIGUSR2)
            assert stop.wished
            assert calls == [1]
        with stop.calls(lambda: calls.append(2)):  # at once, since it is wished already
            assert calls == [1, 2]
        with pytest.raises(KeyboardInterrupt):  # the second time
            os.kill(os.getpid(), signal.SIGUSR2)
    assert signal.getsignal(signal.SIGUSR2) is before


def test_processes_share_cores_and_memory() -> None:
    config = SolveConfig(memory_gb=4.0)
    assert share(config, 1) is config
    half = share(config, 2)
    assert half.threads == max(1, config.workers // 2)
    assert half.memory_gb == 2.0
    assert share(config, 10_000).threads == 1
    assert share(SolveConfig(threads=3), 2).threads == 3
