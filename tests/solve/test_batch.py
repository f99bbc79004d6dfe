"""Several instances at once: the same as one after the other, in the same order, with the same faults."""

import os
import signal
from multiprocessing import active_children

import numpy as np
import pytest
from samples import random_instance

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.solve.batch import BatchItem, Stop, share_resources, solve_batch
from elgo.solve.config import SolveConfig
from elgo.solve.result import Improvement, Result
from elgo.solve.search import jit_warm_up
from elgo.solve.worker import WorkerError


class Log:
    """An observer that remembers what happened, and does something when an item is started."""

    def __init__(self, at_start=lambda number: None) -> None:
        self.started_items: list[int] = []
        self.costs: dict[int, list[float]] = {}
        self.fractions: list[float] = []
        self.at_start = at_start

    def started(self, number: int) -> None:
        self.started_items.append(number)
        self.at_start(number)

    def improved(self, number: int, improvement: Improvement) -> None:
        self.costs.setdefault(number, []).append(improvement.cost)

    def advanced(self, number: int, fraction: float) -> None:
        self.fractions.append(fraction)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    jit_warm_up("tsp")
    jit_warm_up("cvrp")


def items(seconds: float, count: int = 4) -> list[BatchItem]:
    config = SolveConfig(time_limit=seconds, threads=1)
    return [BatchItem(random_instance(("tsp", "cvrp")[k % 2], 20 + k), config) for k in range(count)]


def too_few_vehicles() -> BatchItem:
    coords = np.random.default_rng(0).random((4, 2))
    instance = Instance("full", coords, Metric.EXACT, demand=np.array([0, 5, 5, 5]), capacity=5)
    return BatchItem(instance, SolveConfig(time_limit=0.1, vehicles=2))


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_items(processes: int) -> None:
    batch, log = items(0.3), Log()
    found = list(solve_batch(batch, processes, Stop(), log))
    assert [number for number, _ in found] == sorted(log.started_items) == [0, 1, 2, 3]
    for number, result in found:
        assert result.instance is batch[number].instance
        assert result.solution.feasible
        assert log.costs[number] == [improvement.cost for improvement in result.history]
        assert not result.interrupted


@pytest.mark.parametrize("processes", [1, 2])
def test_an_item_that_fails_does_not_stop_the_others(processes: int) -> None:
    batch = [*items(0.3, 1), too_few_vehicles(), *items(0.3, 2)]
    found = dict(solve_batch(batch, processes, Stop(), Log()))
    error = found.pop(1)
    assert isinstance(error, ValueError)
    assert str(error).startswith("full: vehicles is 2, but at least 3 are needed")
    assert sorted(found) == [0, 2, 3]
    assert all(isinstance(result, Result) and result.solution.feasible for result in found.values())


def test_a_warm_start_and_the_policy_alone() -> None:
    instance = random_instance("tsp", 12)
    tour = Solution(instance, (tuple(range(12)),))
    alone = SolveConfig(policy_only=True, starts=2, symmetries=1, threads=1)
    log = Log()
    batch = [BatchItem(instance, SolveConfig(time_limit=0.2), tour), BatchItem(instance, alone)]
    (_, first), (_, second) = solve_batch(batch, 2, Stop(), log)
    assert first.history[0].source == "warm start"
    assert second.history[0].source == "policy"
    assert log.fractions[-1] == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_a_request_to_stop_ends_what_runs_and_starts_nothing(processes: int) -> None:
    def ask(number: int) -> None:
        if len(log.started_items) == processes:
            signal.setitimer(signal.ITIMER_REAL, 0.5)

    stop, log = Stop(), Log(ask)
    with stop.listen(signal.SIGALRM):
        found = list(solve_batch(items(60), processes, stop, log))
    assert stop.requested
    assert sorted(log.started_items) == list(range(processes))
    assert [number for number, _ in found] == sorted(log.started_items)
    assert all(result.interrupted and result.solution.feasible for _, result in found)


@pytest.mark.parametrize("processes", [1, 2])
def test_nothing_is_started_after_a_request_to_stop(processes: int) -> None:
    stop, log = Stop(), Log()
    stop.signal = signal.SIGINT
    assert list(solve_batch(items(60), processes, stop, log)) == []
    assert log.started_items == []


def test_a_process_that_dies_is_the_fault_of_its_item() -> None:
    def kill(number: int) -> None:
        if number == 1:
            for process in active_children():
                process.kill()

    found = dict(solve_batch([*items(3, 2), *items(0.3, 2)], 2, Stop(), Log(kill)))
    assert isinstance(found[1], WorkerError)
    assert all(isinstance(found[number], Result) for number in (2, 3))


def test_the_handler_is_called_when_a_stop_is_requested() -> None:
    stop = Stop()
    calls: list[int] = []
    before = signal.getsignal(signal.SIGUSR2)
    with stop.listen(signal.SIGUSR2):
        with stop.handled_by(lambda: calls.append(1)):
            os.kill(os.getpid(), signal.SIGUSR2)
            assert stop.requested
            assert calls == [1]
        with stop.handled_by(lambda: calls.append(2)):  # at once, since it is requested already
            assert calls == [1, 2]
        with pytest.raises(KeyboardInterrupt):  # the second time
            os.kill(os.getpid(), signal.SIGUSR2)
    assert signal.getsignal(signal.SIGUSR2) is before


def test_processes_share_cores_and_memory() -> None:
    config = SolveConfig(memory_gb=4.0)
    assert share_resources(config, 1) is config
    half = share_resources(config, 2)
    assert half.threads == max(1, config.workers // 2)
    assert half.memory_gb == 2.0
    assert share_resources(config, 10_000).threads == 1
    assert share_resources(SolveConfig(threads=3), 2).threads == 3
