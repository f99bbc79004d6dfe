"""Solve several instances: one after the other, or several at once, each in a process of its own."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, NamedTuple, Protocol

from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.solve import solver
from elgo.solve.config import SolveConfig
from elgo.solve.result import CallbackError, Improvement, Result


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
        result = _solve(item, stop, partial(observer.improved, number), partial(observer.advanced, number))
        if result is not None:
            yield number, result


def _solve(
    item: BatchItem, stop: Stop, improved: Callable[[Improvement], None], advanced: Callable[[float], None]
) -> Result | None:
    """Return the result, found in this process; None if a stop was requested before there was a solution."""
    instance, config, warm_start = item
    try:
        with stop.handled_by(_interrupt):
            return solver.solve(
                instance, config, warm_start=warm_start, on_improvement=lambda it, _: improved(it), on_progress=advanced
            )
    except CallbackError as error:
        raise error.__cause__ or error from None
    except KeyboardInterrupt:
        if not stop.requested:
            raise
        return None


def _interrupt() -> None:
    raise KeyboardInterrupt


# --- several processes -----------------------------------------------------------------------------------------------
# A worker sends READY, receives an item, sends improvements and fractions, sends the result or an error, receives the
# next item. Its messages during a solve are too short to be cut by a signal.

READY, NO_ITEM = "ready", -1


@dataclass
class _Worker:
    process: BaseProcess
    item: int = NO_ITEM  # number of the item that it was sent last


def _in_parallel(
    items: Sequence[BatchItem], processes: int, stop: Stop, observer: Observer
) -> Iterator[tuple[int, Result]]:
    outcomes: dict[int, Result | Exception | None] = {}
    started = yielded = 0
    with _workers(processes) as workers, stop.handled_by(lambda: _signal(workers.values())):
        while yielded < started or (started < len(items) and not stop.requested):
            for pipe in wait(list(workers)):
                assert isinstance(pipe, Connection)
                worker, message = workers[pipe], _receive(pipe, workers, items)
                if isinstance(message, Improvement):
                    observer.improved(worker.item, message)
                    continue
                if isinstance(message, float):
                    observer.advanced(worker.item, message)
                    continue
                outcomes[worker.item] = message
                if isinstance(message, Exception):  # raised when it is its turn: no other item is started
                    items = items[:started]
                if started < len(items) and not stop.requested:
                    worker.item = started
                    pipe.send(items[started])
                    observer.started(started)
                    started += 1
            while yielded in outcomes:
                outcome = outcomes.pop(yielded)
                yielded += 1
                if isinstance(outcome, Exception):
                    raise outcome
                if outcome is not None:  # its instance is a copy that went through the pipe
                    solution = Solution(items[yielded - 1].instance, outcome.solution.routes)
                    yield yielded - 1, replace(outcome, solution=solution)


def _receive(pipe: Connection, workers: dict[Connection, _Worker], items: Sequence[BatchItem]) -> Any:
    """Return the next message of a worker; if the worker has died, that is an error in its item."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        worker = workers.pop(pipe)
        worker.process.join()
        fault = f"the process ended with code {worker.process.exitcode}"
        if worker.item == NO_ITEM:
            raise ChildProcessError(fault) from None
        return ChildProcessError(f"{items[worker.item].instance.name}: {fault}")


@contextmanager
def _workers(count: int) -> Iterator[dict[Connection, _Worker]]:
    """Start worker processes, as a dictionary by the pipes to them, and end them after the block."""
    context = get_context("spawn")
    workers: dict[Connection, _Worker] = {}
    # Inherited: Ctrl-C in a terminal goes to this process only, and SIGUSR1 does not end a worker that is not ready.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGUSR1)}
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            workers[ours] = _Worker(context.Process(target=_work, args=(theirs,), daemon=True))
            workers[ours].process.start()
            theirs.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    try:
        yield workers
    finally:
        for worker in workers.values():
            worker.process.terminate()


def _signal(workers: Iterable[_Worker]) -> None:
    for worker in workers:
        assert worker.process.pid is not None
        os.kill(worker.process.pid, signal.SIGUSR1)


def _work(pipe: Connection) -> None:
    """Solve the items that come through the pipe, until its other end is closed."""
    stop = Stop()
    with stop.listen(signal.SIGUSR1), suppress(EOFError, ConnectionError):
        pipe.send(READY)
        while True:
            item = pipe.recv()
            try:
                outcome: Result | Exception | None = _solve(item, stop, pipe.send, pipe.send)
            except (ValueError, OSError) as error:
                outcome = error
            pipe.send(outcome)
