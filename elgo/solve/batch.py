"""Solve several instances: one after the other, or several at once, each in a process of its own."""

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
from typing import Any, NamedTuple, Protocol

from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.solve import solver
from elgo.solve.config import SolveConfig
from elgo.solve.result import Improvement, Result


class BatchItem(NamedTuple):
    """The arguments of one call of `solve`."""

    instance: Instance
    config: SolveConfig
    warm_start: Solution | None = None


class Observer(Protocol):
    """Is called when something happens to an item of the batch, which is given by its number."""

    def started(self, number: int) -> None:
        """Take note that the item is being solved."""

    def improved(self, number: int, improvement: Improvement) -> None:
        """Take note of a better solution."""

    def advanced(self, number: int, fraction: float) -> None:
        """Take note of the fraction of the policy's rollouts that are done."""


class Stop:
    """A request to stop, made by a signal. The first signal calls the current handler, the second one interrupts."""

    def __init__(self) -> None:
        self.requested = False
        self._handler: Callable[[], None] | None = None

    @contextmanager
    def listen(self, number: signal.Signals) -> Iterator[None]:
        """Take this signal as the request, within the block."""
        before = signal.signal(number, self._receive)
        try:
            yield
        finally:
            signal.signal(number, before)

    @contextmanager
    def handled_by(self, handler: Callable[[], None]) -> Iterator[None]:
        """Call `handler` when the request comes, within the block; at once if it has come before."""
        self._handler = handler
        try:
            if self.requested:
                handler()
            yield
        finally:
            self._handler = None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            _interrupt()
        self.requested = True
        if self._handler is not None:
            self._handler()


def solve_batch(
    items: Sequence[BatchItem], processes: int, stop: Stop, observer: Observer
) -> Iterator[tuple[int, Result]]:
    """Yield the number and the result of each item, in their order, each as soon as it is ready.

    After a request to stop, items that are being solved yield their best solution so far, and no other is started.
    An error in an item is raised when it is its turn.
    """
    processes = min(processes, len(items))
    if processes > 1:
        return _in_parallel(items, processes, stop, observer)
    return _one_by_one(items, stop, observer)


def share_resources(config: SolveConfig, processes: int) -> SolveConfig:
    """Return the config of one of several processes that share all cores (unless threads are given) and the memory."""
    if processes == 1:
        return config
    threads = config.threads or max(1, config.workers // processes)
    return replace(config, threads=threads, memory_gb=config.memory_gb / processes)


def _one_by_one(items: Sequence[BatchItem], stop: Stop, observer: Observer) -> Iterator[tuple[int, Result]]:
    for number, item in enumerate(items):
        if stop.requested:
            return
        observer.started(number)
        result = _solve(number, item, stop, observer)
        if result is not None:
            yield number, result


def _solve(number: int, item: BatchItem, stop: Stop, observer: Observer) -> Result | None:
    """Return the result, found in this process; None if a stop was requested before there was a solution."""
    try:
        with stop.handled_by(_interrupt):
            return solver.solve(
                item.instance,
                item.config,
                warm_start=item.warm_start,
                on_improvement=lambda improvement, solution: observer.improved(number, improvement),
                on_progress=lambda fraction: observer.advanced(number, fraction),
            )
    except KeyboardInterrupt:
        if not stop.requested:
            raise
        return None


def _interrupt() -> None:
    raise KeyboardInterrupt


# --- several processes -----------------------------------------------------------------------------------------------
# A worker sends READY, receives an item, sends improvements and fractions, sends the result, receives the next item.

READY = "ready"


class _Failure(NamedTuple):
    """An error in an item."""

    error: Exception


def _in_parallel(
    items: Sequence[BatchItem], processes: int, stop: Stop, observer: Observer
) -> Iterator[tuple[int, Result]]:
    busy: dict[Connection, int] = {}  # the item that each worker solves
    outcomes: dict[int, Result | _Failure | None] = {}
    started = yielded = 0
    with _workers(processes) as workers, stop.handled_by(lambda: _signal(workers[pipe] for pipe in busy)):
        while yielded < started or (started < len(items) and not stop.requested):
            for pipe in wait(list(workers)):
                assert isinstance(pipe, Connection)
                message = _receive(pipe, workers, items, busy)
                if isinstance(message, Improvement):
                    observer.improved(busy[pipe], message)
                    continue
                if isinstance(message, float):
                    observer.advanced(busy[pipe], message)
                    continue
                if message != READY:
                    outcomes[busy.pop(pipe)] = message
                if isinstance(message, _Failure):  # raised when it is its turn: no other item is started
                    items = items[:started]
                if started < len(items):
                    started += _send(pipe, started, items[started], busy, stop, observer)
            while yielded in outcomes:
                outcome = outcomes.pop(yielded)
                yielded += 1
                if isinstance(outcome, _Failure):
                    raise outcome.error
                if outcome is not None:  # its instance is a copy that went through the pipe
                    solution = Solution(items[yielded - 1].instance, outcome.solution.routes)
                    yield yielded - 1, replace(outcome, solution=solution)


def _receive(
    pipe: Connection, workers: dict[Connection, BaseProcess], items: Sequence[BatchItem], busy: dict[Connection, int]
) -> Any:
    """Return the next message of a worker; if the worker has died, that is the failure of its item."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        process = workers.pop(pipe)
        process.join()
        fault = f"the process ended with code {process.exitcode}"
        if pipe not in busy:
            raise ChildProcessError(fault) from None
        return _Failure(ChildProcessError(f"{items[busy[pipe]].instance.name}: {fault}"))


def _send(
    pipe: Connection, number: int, item: BatchItem, busy: dict[Connection, int], stop: Stop, observer: Observer
) -> bool:
    """Send an item to a worker, unless a stop is requested; True if it was sent."""
    busy[pipe] = number  # first: from now on a request to stop is passed on to the worker
    if stop.requested:
        del busy[pipe]
        return False
    pipe.send((number, item))
    observer.started(number)
    return True


@contextmanager
def _workers(count: int) -> Iterator[dict[Connection, BaseProcess]]:
    """Start worker processes, as a dictionary by the pipes to them, and end them after the block."""
    context = get_context("spawn")
    workers: dict[Connection, BaseProcess] = {}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C in a terminal goes to this process only
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


class _Reporter:
    """The observer in a worker: sends what happens through the pipe, in messages too short to be cut by a signal."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.sent = 0.0

    def started(self, number: int) -> None:
        self.sent = 0.0

    def improved(self, number: int, improvement: Improvement) -> None:
        self.pipe.send(improvement)

    def advanced(self, number: int, fraction: float) -> None:
        if fraction >= self.sent + 0.01:
            self.sent = fraction
            self.pipe.send(fraction)


def _work(pipe: Connection) -> None:
    """Solve the items that come through the pipe, until its other end is closed."""
    stop, reporter = Stop(), _Reporter(pipe)
    with stop.listen(signal.SIGUSR1), suppress(EOFError, ConnectionError):
        pipe.send(READY)
        while True:
            number, item = pipe.recv()
            reporter.started(number)
            pipe.send(_outcome(number, item, stop, reporter))


def _outcome(number: int, item: BatchItem, stop: Stop, reporter: _Reporter) -> Result | _Failure | None:
    try:
        return _solve(number, item, stop, reporter)
    except (ValueError, OSError) as error:
        return _Failure(error)
