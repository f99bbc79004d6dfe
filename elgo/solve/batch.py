"""Solving several instances: one after the other, or several at once, each in a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from elgo.problem.instance import Instance
from elgo.problem.solution import Solution

if TYPE_CHECKING:
    from elgo.solve.solver import Improvement, Result, SolveConfig

Act = Callable[[], None]


class Job(NamedTuple):
    """What `solve` is given."""

    instance: Instance
    config: SolveConfig
    warm_start: Solution | None = None


class Watcher(Protocol):
    """Is told what happens to each job."""

    def begin(self, number: int) -> None: ...
    def improved(self, number: int, improvement: Improvement) -> None: ...
    def advanced(self, number: int, fraction: float) -> None: ...


class Stop:
    """The wish to stop, told by a signal: what to do then is said by whoever is at work. The second time it raises."""

    def __init__(self) -> None:
        self.wished = False
        self._act: Act | None = None

    @contextmanager
    def on(self, number: signal.Signals) -> Iterator[None]:
        """Listen to a signal."""
        before = signal.signal(number, self._heard)
        try:
            yield
        finally:
            signal.signal(number, before)

    @contextmanager
    def calls(self, act: Act) -> Iterator[None]:
        """What to do as soon as stopping is wished; at once if it was before."""
        self._act = act
        try:
            if self.wished:
                act()
            yield
        finally:
            self._act = None

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.wished:
            _interrupt()
        self.wished = True
        if self._act is not None:
            self._act()


def solve_all(jobs: Sequence[Job], at_once: int, stop: Stop, watcher: Watcher) -> Iterator[tuple[int, Result]]:
    """Results with the numbers of their jobs, in this order, each as soon as it is ready.

    When stopping is wished, the jobs at work give their best so far, and no other is begun. What goes wrong in a job is
    raised in its turn.
    """
    at_once = min(at_once, len(jobs))
    return _side_by_side(jobs, at_once, stop, watcher) if at_once > 1 else _in_turn(jobs, stop, watcher)


def share(config: SolveConfig, at_once: int) -> SolveConfig:
    """What each of so many processes may use, of all cores unless their number is given, and of the memory."""
    if at_once == 1:
        return config
    threads = config.threads or max(1, config.workers // at_once)
    return replace(config, threads=threads, memory_gb=config.memory_gb / at_once)


def _in_turn(jobs: Sequence[Job], stop: Stop, watcher: Watcher) -> Iterator[tuple[int, Result]]:
    for number, job in enumerate(jobs):
        if stop.wished:
            return
        watcher.begin(number)
        result = _solve(number, job, stop, watcher)
        if result is not None:
            yield number, result


def _solve(number: int, job: Job, stop: Stop, watcher: Watcher) -> Result | None:
    """The result in this process; None if stopping was wished before there was a solution."""
    from elgo.solve.solver import solve

    try:
        with stop.calls(_interrupt):
            return solve(
                job.instance,
                job.config,
                warm_start=job.warm_start,
                on_improvement=lambda improvement, solution: watcher.improved(number, improvement),
                on_progress=lambda fraction: watcher.advanced(number, fraction),
            )
    except KeyboardInterrupt:
        if not stop.wished:
            raise
        return None


def _interrupt() -> None:
    raise KeyboardInterrupt


# --- several processes -----------------------------------------------------------------------------------------------
# A worker says that it is ready, is given a job, tells how it goes on, gives the result, is given the next job.

READY = "ready"


class _Failure(NamedTuple):
    """What went wrong in a job."""

    error: Exception


def _side_by_side(jobs: Sequence[Job], at_once: int, stop: Stop, watcher: Watcher) -> Iterator[tuple[int, Result]]:
    from elgo.solve.solver import Improvement

    busy: dict[Connection, int] = {}  # the job that each worker has
    done: dict[int, Result | _Failure | None] = {}
    begun = given = 0
    with _workers(at_once) as workers, stop.calls(lambda: _signal(workers[pipe] for pipe in busy)):
        while given < begun or (begun < len(jobs) and not stop.wished):
            for pipe in wait(list(workers)):
                assert isinstance(pipe, Connection)
                message = _receive(pipe, workers, jobs, busy)
                if isinstance(message, Improvement):
                    watcher.improved(busy[pipe], message)
                    continue
                if isinstance(message, float):
                    watcher.advanced(busy[pipe], message)
                    continue
                if message != READY:
                    done[busy.pop(pipe)] = message
                if isinstance(message, _Failure):  # the end, as soon as it is its turn
                    jobs = jobs[:begun]
                if begun < len(jobs):
                    begun += _give(pipe, begun, jobs[begun], busy, stop, watcher)
            while given in done:
                result = done.pop(given)
                given += 1
                if isinstance(result, _Failure):
                    raise result.error
                if result is not None:
                    solution = Solution(jobs[given - 1].instance, result.solution.routes)  # of our own instance
                    yield given - 1, replace(result, solution=solution)


def _receive(
    pipe: Connection, workers: dict[Connection, BaseProcess], jobs: Sequence[Job], busy: dict[Connection, int]
) -> Any:
    """What a worker says. That it has died is the failure of its job."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        process = workers.pop(pipe)
        process.join()
        fault = f"the process ended with code {process.exitcode}"
        if pipe not in busy:
            raise ChildProcessError(fault) from None
        return _Failure(ChildProcessError(f"{jobs[busy[pipe]].instance.name}: {fault}"))


def _give(pipe: Connection, number: int, job: Job, busy: dict[Connection, int], stop: Stop, watcher: Watcher) -> bool:
    """Give a job to a worker, unless stopping is wished."""
    busy[pipe] = number  # first: from now on the worker is told to stop
    if stop.wished:
        del busy[pipe]
        return False
    pipe.send((number, job))
    watcher.begin(number)
    return True


@contextmanager
def _workers(count: int) -> Iterator[dict[Connection, BaseProcess]]:
    """Processes by the pipes to them; ended in the end."""
    context = get_context("spawn")
    workers: dict[Connection, BaseProcess] = {}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # they inherit it: Ctrl-C on a terminal is for us alone
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            workers[ours] = process
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield workers
    finally:
        for worker in workers.values():
            worker.terminate()


def _signal(processes: Iterable[BaseProcess]) -> None:
    for process in processes:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGUSR1)


class _Teller:
    """A worker's watcher: what it sees goes through the pipe, in messages so short that no signal tears them."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.said = 0.0

    def begin(self, number: int) -> None:
        self.said = 0.0

    def improved(self, number: int, improvement: Improvement) -> None:
        self.pipe.send(improvement)

    def advanced(self, number: int, fraction: float) -> None:
        if fraction >= self.said + 0.01:
            self.said = fraction
            self.pipe.send(fraction)


def _work(pipe: Connection) -> None:
    """The life of a worker: solve what comes through the pipe until its other end is closed."""
    import elgo.solve.solver  # noqa: F401  before the first job: loading is not on its time

    stop, teller = Stop(), _Teller(pipe)
    with stop.on(signal.SIGUSR1), suppress(EOFError, ConnectionError):
        pipe.send(READY)
        while True:
            number, job = pipe.recv()
            teller.begin(number)
            pipe.send(_outcome(number, job, stop, teller))


def _outcome(number: int, job: Job, stop: Stop, teller: _Teller) -> Result | _Failure | None:
    try:
        return _solve(number, job, stop, teller)
    except (ValueError, OSError) as error:
        return _Failure(error)
