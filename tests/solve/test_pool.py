"""The pool: results and improvements as from `solve`, a stop per job, and faults that cost one job each."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from multiprocessing import active_children
from operator import attrgetter
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from samples import random_instance

from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.solve import pool as pool_module
from elgo.solve.config import SolveConfig
from elgo.solve.pool import Job, Pool
from elgo.solve.result import CallbackError
from elgo.solve.search import jit_warm_up
from elgo.solve.worker import WorkerError, describe_bug

ROOT = Path(__file__).parents[2]
SHORT, LONG = SolveConfig(time_limit=0.2, threads=1), SolveConfig(time_limit=60, threads=1)
SECONDS = 300.0  # until a test gives up: workers may have to compile


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    jit_warm_up("tsp")
    jit_warm_up("cvrp")


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(1) as made:
        yield made
    assert not active_children()


def start(pool: Pool, instance: Instance, config: SolveConfig) -> Job:
    """Return a job that has its first solution."""
    improved = Event()
    job = pool.submit(instance, config, on_improvement=lambda found, solution: improved.set())
    assert improved.wait(SECONDS)
    return job


def kill(job: Job) -> None:
    """Kill the process that works on a job."""
    (worker,) = [worker for worker in job.pool._workers if worker.job is job]
    assert worker.process.pid is not None
    os.kill(worker.process.pid, signal.SIGKILL)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_results_and_improvements(pool: Pool, problem: str) -> None:
    instance, seen = random_instance(problem, 20), []
    job = pool.submit(instance, SHORT, on_improvement=lambda found, solution: seen.append((found, solution)))
    result = job.future.result(SECONDS)
    assert result.instance is instance
    assert result.solution.feasible
    assert [found for found, _ in seen] == list(result.history)
    assert [solution.cost for _, solution in seen] == [found.cost for found in result.history]
    assert all(solution.instance is instance for _, solution in seen)


def test_a_warm_start_and_the_policy_alone(pool: Pool) -> None:
    instance, fractions = random_instance("tsp", 12), []
    warm = pool.submit(instance, SHORT, Solution(instance, (tuple(range(12)),)))
    alone = SolveConfig(policy_only=True, starts=2, symmetries=1, threads=1)
    policy = pool.submit(instance, alone, on_progress=fractions.append)
    assert warm.future.result(SECONDS).history[0].source == "warm start"
    assert policy.future.result(SECONDS).source == "policy"
    assert fractions[-1] == 1


def test_kernels_are_loaded_once_per_process(pool: Pool) -> None:
    instance = random_instance("cvrp", 20)
    first, second = (pool.submit(instance, SHORT).future.result(SECONDS) for _ in range(2))
    assert second.seconds.load < 0.2 * first.seconds.load


@pytest.mark.parametrize(
    "problem", ["tsp", "cvrp"]
)  # fast_tsp runs on a thread of its own, which the stop must not await
def test_a_stopped_job_keeps_its_best_and_the_next_one_runs(pool: Pool, problem: str) -> None:
    job = start(pool, random_instance(problem, 20), LONG)
    following = pool.submit(random_instance("tsp", 21), SHORT)
    time.sleep(1)
    job.stop()
    result = job.future.result(SECONDS)
    assert result.interrupted
    assert result.solution.feasible
    assert not following.future.result(SECONDS).interrupted


def test_stopping_a_job_that_waits_or_is_done(pool: Pool) -> None:
    first = start(pool, random_instance("cvrp", 20), LONG)
    waiting = pool.submit(random_instance("cvrp", 21), LONG)
    waiting.stop()
    assert waiting.future.cancelled()
    first.stop()
    first.future.result(SECONDS)
    first.stop()
    assert pool.submit(random_instance("cvrp", 22), SHORT).future.result(SECONDS).solution.feasible


def test_many_stops_at_any_moment(pool: Pool) -> None:
    instance = random_instance("cvrp", 20)
    for wait in np.random.default_rng(0).uniform(0, 0.25, 20):
        job = pool.submit(instance, SHORT)
        time.sleep(wait)
        job.stop()
        with suppress(CancelledError):  # before there was a solution
            assert job.future.result(SECONDS).solution.feasible
    assert len(pool._workers) == 1


def test_any_function_can_be_called(pool: Pool) -> None:
    assert pool.call("a sum", math.fsum, [1, 2]).future.result(SECONDS) == 3
    with pytest.raises(ValueError, match=r"math domain|nonnegative"):
        pool.call("a root", math.sqrt, -1).future.result(SECONDS)
    with pytest.raises(WorkerError, match="an end: its process ended with code 3"):
        pool.call("an end", os._exit, 3).future.result(SECONDS)


def test_an_error_is_that_of_its_job_alone(pool: Pool) -> None:
    full = Instance("full", np.eye(4, 2), Metric.EXACT, demand=np.array([0, 5, 5, 5]), capacity=5)
    wrong = pool.submit(full, replace(SHORT, vehicles=2))
    right = pool.submit(full, SHORT)
    with pytest.raises(ValueError, match="full: vehicles is 2"):
        wrong.future.result(SECONDS)
    assert len(right.future.result(SECONDS).solution.routes) == 3


def test_a_stop_that_fails_keeps_the_best_so_far(pool: Pool) -> None:
    job = pool.submit(random_instance("cvrp", 30), replace(SHORT, stop=attrgetter("mine")))
    with pytest.raises(CallbackError, match="stop has raised AttributeError") as caught:
        job.future.result(SECONDS)
    assert caught.value.result is not None
    assert caught.value.result.solution.feasible


class NotToBeSent:
    """A model that cannot be pickled, or not be loaded again."""

    def __init__(self, load: Callable[..., object] | None) -> None:
        self.load = load

    def __reduce__(self) -> object:
        if self.load is None:
            raise TypeError("cannot be sent")
        return self.load, ("no number",)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (None, "^start is NotToBeSent, which cannot be sent to another process: cannot be sent$"),
        (int, "^the job cannot be read by another process: ValueError"),
    ],
)
def test_what_cannot_be_sent_is_an_error_of_its_job(
    pool: Pool, load: Callable[..., object] | None, message: str
) -> None:
    instance = random_instance("tsp", 12)
    job = pool.submit(instance, replace(SHORT, start=NotToBeSent(load)))  # type: ignore[arg-type]
    with pytest.raises(ElgoError, match=message):
        job.future.result(SECONDS)
    assert pool.submit(instance, SHORT).future.result(SECONDS).solution.feasible


def test_a_stop_that_cannot_be_sent(pool: Pool) -> None:
    job = pool.submit(random_instance("tsp", 12), replace(SHORT, stop=lambda progress: True))
    with pytest.raises(ElgoError, match=r"^stop is test_a_stop.*lambda>, which cannot be sent .* top of a module$"):
        job.future.result(SECONDS)


def test_a_killed_worker_is_one_failed_job_and_comes_back() -> None:
    with Pool(2) as pool:
        other, killed = (start(pool, random_instance("cvrp", n), replace(LONG, time_limit=3)) for n in (20, 21))
        waiting = [pool.submit(random_instance("cvrp", n), SHORT) for n in (22, 23, 24)]
        kill(killed)
        with pytest.raises(WorkerError, match="cvrp21: its process was ended by SIGKILL, perhaps for lack of memory"):
            killed.future.result(SECONDS)
        for job in (*waiting, other):
            assert job.future.result(SECONDS).solution.feasible
            assert not job.future.result().interrupted
    assert not active_children()


def test_an_idle_worker_that_is_killed_costs_nothing(pool: Pool) -> None:
    assert pool.submit(random_instance("tsp", 20), SHORT).future.result(SECONDS)
    (process,) = active_children()
    process.kill()
    process.join()
    assert pool.submit(random_instance("tsp", 20), SHORT).future.result(SECONDS)


def end_at_once(pipe: object, low_priority: bool) -> None:
    raise SystemExit(3)


def test_workers_that_cannot_start_fail_each_job_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "work", end_at_once)
    with Pool(1) as pool:
        jobs = [pool.submit(random_instance("tsp", 9), SHORT) for _ in range(3)]
        for job in jobs:
            with pytest.raises(WorkerError, match="its process ended with code 3"):
                job.future.result(SECONDS)
    assert not active_children()


def test_closing_ends_the_processes_and_cancels_the_jobs() -> None:
    pool = Pool(1)
    running, waiting = start(pool, random_instance("cvrp", 20), LONG), pool.submit(random_instance("tsp", 9), LONG)
    pool.close()
    assert not active_children()
    for job in (running, waiting):
        with pytest.raises(CancelledError):
            job.future.result(0)
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(random_instance("tsp", 9), SHORT)
    pool.close()


ALONE = SolveConfig(policy_only=True, threads=1)


@pytest.mark.parametrize(
    ("name", "config"), [("on_start", LONG), ("on_improvement", LONG), ("on_progress", ALONE)], ids=str
)
def test_a_function_that_fails_ends_its_job_alone(pool: Pool, name: str, config: SolveConfig) -> None:
    calls: list[object] = []

    def fail(*given: object) -> None:
        calls.append(given)
        raise ZeroDivisionError("mine")

    instance = random_instance("tsp", 30)
    job = pool.submit(instance, config, **{name: fail})  # type: ignore[arg-type]
    with pytest.raises(CallbackError, match=rf"^{name} has raised ZeroDivisionError\('mine'\)") as caught:
        job.future.result(SECONDS)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert len(calls) == 1
    if name == "on_improvement":
        assert caught.value.result is not None
        assert caught.value.result.solution.feasible
        assert caught.value.result.interrupted
    assert pool.submit(instance, SHORT).future.result(SECONDS).solution.feasible


def test_without_masks_of_signals_and_priorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.delattr(signal, "pthread_sigmask")
    with Pool(1) as pool:
        job = start(pool, random_instance("tsp", 20), LONG)
        job.stop()
        assert job.future.result(SECONDS).interrupted


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="no priorities here")
def test_low_priority() -> None:
    with Pool(1, low_priority=True) as pool:
        pool.submit(random_instance("tsp", 9), SHORT).future.result(SECONDS)
        (process,) = active_children()
        assert os.getpriority(os.PRIO_PROCESS, process.pid) > os.getpriority(os.PRIO_PROCESS, 0)


PARENT = """
import sys, time
sys.path.insert(0, "tests")
from samples import random_instance
from elgo.solve.config import SolveConfig
from elgo.solve.pool import Pool
from multiprocessing import active_children
if __name__ == "__main__":
    pool = Pool(2)
    for n in (20, 21):
        pool.submit(random_instance("cvrp", n), SolveConfig(time_limit=60), on_improvement=lambda *found: None)
    print(*(process.pid for process in active_children()), flush=True)
    END
"""


@pytest.mark.parametrize("end", ["time.sleep(60)", "pass"])
def test_workers_end_with_their_parent(tmp_path: Path, end: str) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.replace("END", end))
    parent = subprocess.Popen([sys.executable, script], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                              env=os.environ | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    if end != "pass":
        time.sleep(1)
        parent.kill()
    parent.wait(SECONDS)
    deadline = time.monotonic() + SECONDS
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """True if there is such a process that is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_bug_is_described_in_one_line() -> None:
    try:
        {}["a\nb"]
    except KeyError as error:
        line = describe_bug(error)
    assert line.startswith("KeyError at test_pool.py:")
    assert "\n" not in line
