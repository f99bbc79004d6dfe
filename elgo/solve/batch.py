"""Solve several instances: one after the other, or several at once, each in a process of its own."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Protocol

from elgo.solve import solver
from elgo.solve.config import SolveConfig
from elgo.solve.pool import Job, Pool
from elgo.solve.result import CallbackError, Improvement, Result
from elgo.solve.worker import Request

POLL_SECONDS = 0.1  # between looks at a request to stop, since not every system can interrupt a thread that waits

BatchItem = Request
Outcome = tuple[int, Result | BaseException]  # the number of an item, and its result or error


class Observer(Protocol):
    """Is called when something happens to an item of the batch, which is given by its number."""

    def started(self, number: int) -> None:
        """Take note that the item is being solved."""

    def improved(self, number: int, improvement: Improvement) -> None:
        """Take note of a better solution."""

    def advanced(self, number: int, fraction: float) -> None:
        """Take note of the fraction of the policy's rollouts that are done."""


@contextmanager
def signals_handled(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    """Call the handler for these signals, within the block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


class Stop:
    """A request to stop, made by a signal. The first signal calls the current handler, the second one interrupts."""

    def __init__(self) -> None:
        self.signal = 0  # the number of the signal that has made the request
        self._handler: Callable[[], None] | None = None

    @property
    def requested(self) -> bool:
        """True if the request has been made."""
        return self.signal > 0

    @contextmanager
    def listen(self, *numbers: signal.Signals) -> Iterator[None]:
        """Take these signals as the request, within the block."""
        with signals_handled(self._receive, *numbers):
            yield

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
        self.signal = number
        if self._handler is not None:
            self._handler()


def solve_batch(items: Sequence[BatchItem], processes: int, stop: Stop, observer: Observer) -> Iterator[Outcome]:
    """Yield the number and the result of each item, in their order, each as soon as it is ready.

    After a request to stop, items that are being solved yield their best solution so far, and no other is started.
    An item that fails yields its error; the others go on.
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


def _one_by_one(items: Sequence[BatchItem], stop: Stop, observer: Observer) -> Iterator[Outcome]:
    for number, item in enumerate(items):
        if stop.requested:
            return
        observer.started(number)
        try:
            result = _solve(item, stop, partial(observer.improved, number), partial(observer.advanced, number))
        except Exception as error:
            yield number, error
            continue
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


def _in_parallel(items: Sequence[BatchItem], processes: int, stop: Stop, observer: Observer) -> Iterator[Outcome]:
    if stop.requested:
        return
    with Pool(processes) as pool:
        jobs = [_submit(pool, item, number, observer) for number, item in enumerate(items)]
        told = False
        for number, job in enumerate(jobs):
            while not wait([job.future], POLL_SECONDS).done:
                if stop.requested and not told:
                    told = True
                    for other in reversed(jobs):  # those that wait before those that make a worker free
                        other.stop()
            with suppress(CancelledError):  # stopped before it had a solution
                error = job.future.exception()
                if isinstance(error, CallbackError):
                    error = error.__cause__ or error
                if not isinstance(error, CancelledError):
                    yield number, job.future.result() if error is None else error


def _submit(pool: Pool, item: BatchItem, number: int, observer: Observer) -> Job:
    return pool.submit(
        *item,
        on_start=partial(observer.started, number),
        on_improvement=lambda improvement, _: observer.improved(number, improvement),
        on_progress=partial(observer.advanced, number),
    )
