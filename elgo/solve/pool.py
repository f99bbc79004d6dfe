"""A pool of worker processes that solve jobs, each with kernels and models loaded once.

The standard library's executor fails everything that waits when one process dies. Here that is one failed job, and a
new process takes the place of the dead one. A job can be stopped alone, which keeps its best solution so far.

    with Pool(2) as pool:
        jobs = [pool.submit(instance, SolveConfig(time_limit=60)) for instance in instances]
        jobs[0].stop()
        results = [job.future.result() for job in jobs]
"""

from __future__ import annotations

import atexit
import logging
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import RLock, Thread
from typing import Any

from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.solve.config import SolveConfig
from elgo.solve.incumbent import OnImprovement, OnProgress
from elgo.solve.result import CallbackError
from elgo.solve.worker import (
    BEGUN,
    READY,
    Call,
    Improved,
    Logged,
    Message,
    Request,
    Returned,
    Solved,
    Task,
    WorkerError,
    work,
)

CLOSE_SECONDS = 1.0  # for a worker to end by itself

log = logging.getLogger("elgo")


@dataclass(eq=False)
class Job:
    """A call of `solve`, or of another function, in a pool. The future has its result, or raises its error.

    Errors are those of the function, CallbackError also for `on_start`; WorkerError if the process died; CancelledError
    if the job was stopped before it had a solution.
    """

    number: int
    request: Request | Call
    pool: Pool = field(repr=False)
    on_start: Callable[[], None] | None = None
    on_improvement: OnImprovement | None = None
    on_progress: OnProgress | None = None
    future: Future[Any] = field(default_factory=Future)  # of a Result, or of what the function returns
    begun: bool = False  # a worker has said so
    fault: CallbackError | None = None  # of a function of the caller's, which ends the job
    tries: int = 0  # how many workers it was sent to

    def stop(self) -> None:
        """End the search of this job: its result is the best solution so far. A job that waits is cancelled."""
        self.pool._stop(self)


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    listener: Thread | None = None
    ready: bool = False
    job: Job | None = None


class Pool:
    """Worker processes, and the jobs that wait for them. All methods can be called from any thread."""

    def __init__(self, processes: int, low_priority: bool = False) -> None:
        """Start the processes; with `low_priority` they give way to other programs, where the system has priorities."""
        self.processes, self.low_priority = processes, low_priority
        self._lock = RLock()
        self._workers: list[_Worker] = []
        self._waiting: deque[Job] = deque()
        self._submitted = 0
        self._closed = False
        atexit.register(self.close)
        with self._lock:
            self._start_workers(processes)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def submit(
        self,
        instance: Instance,
        config: SolveConfig,
        warm_start: Solution | None = None,
        *,
        on_start: Callable[[], None] | None = None,
        on_improvement: OnImprovement | None = None,
        on_progress: OnProgress | None = None,
    ) -> Job:
        """Return a job, which the next free worker takes.

        The functions are called on a thread of the pool. One that raises an exception ends the job by a CallbackError.
        """
        return self._submit(Request(instance, config, warm_start), on_start, on_improvement, on_progress)

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Job:
        """Return a job that calls any function; it and its arguments are pickled."""
        return self._submit(Call(name, function, arguments))

    def _submit(
        self,
        request: Request | Call,
        on_start: Callable[[], None] | None = None,
        on_improvement: OnImprovement | None = None,
        on_progress: OnProgress | None = None,
    ) -> Job:
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            job = Job(self._submitted, request, self, on_start, on_improvement, on_progress)
            self._submitted += 1
            self._waiting.append(job)
            self._assign()
        return job

    def close(self) -> None:
        """End the processes. Jobs that have no result yet are cancelled: stop them before, to keep their best."""
        with self._lock:
            self._closed = True
            workers, waiting = self._workers.copy(), list(self._waiting)
            self._waiting.clear()
            for worker in workers:
                with suppress(OSError):
                    worker.pipe.send(None)
        for job in waiting:
            _cancel(job)
        for worker in workers:
            assert worker.listener is not None
            worker.listener.join(CLOSE_SECONDS)
            if worker.listener.is_alive():
                worker.process.kill()
                worker.listener.join()
        atexit.unregister(self.close)

    def _stop(self, job: Job) -> None:
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
                _cancel(job)
            for worker in self._workers:
                if worker.job is job:
                    with suppress(OSError):  # it has just died
                        worker.pipe.send(job.number)

    def _assign(self) -> None:
        """Hand jobs that wait to free workers, and start workers that are missing."""
        for worker in self._workers:
            while worker.ready and worker.job is None and self._waiting:
                job = self._waiting.popleft()
                if _set_running(job):
                    self._hand_over(worker, job)
        busy = sum(worker.job is not None for worker in self._workers)
        self._start_workers(min(self.processes, busy + len(self._waiting)))

    def _hand_over(self, worker: _Worker, job: Job) -> None:
        try:
            task = Task(job.number, pickle.dumps(job.request))
        except Exception as error:  # whatever a model of the caller's raises
            job.future.set_exception(_not_to_be_sent(job.request, error))
            return
        worker.job = job
        job.tries += 1
        with suppress(OSError):  # it has just died, which its listener will notice
            worker.pipe.send(task)

    def _start_workers(self, count: int) -> None:
        """Start workers until there are this many."""
        context = get_context("spawn")
        while len(self._workers) < count:
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, self.low_priority), daemon=True)
            try:
                with _blocked_signals():
                    process.start()
            except OSError as error:
                ours.close()
                self._fail_waiting(error)
                return
            finally:
                theirs.close()
            worker = _Worker(process, ours)
            self._workers.append(worker)
            worker.listener = Thread(target=self._listen, args=(worker,), daemon=True)
            worker.listener.start()

    def _fail_waiting(self, error: OSError) -> None:
        """No process can be started: if there is no other, nothing would ever take the jobs that wait."""
        while self._waiting and not self._workers:
            job = self._waiting.popleft()
            if _set_running(job):
                job.future.set_exception(WorkerError(f"no worker process can be started: {error}"))

    def _listen(self, worker: _Worker) -> None:
        """Take the messages of a worker until it ends; then fail its job and let another one take its place."""
        with suppress(EOFError, OSError):
            while True:
                self._take(worker, worker.pipe.recv())
        worker.process.join()
        with self._lock:
            worker.pipe.close()
            self._workers.remove(worker)
            job, worker.job = worker.job, None
            if job is None and not worker.ready and self._waiting:  # or workers that cannot start would do so forever
                job = self._waiting.popleft()
                job = job if _set_running(job) else None
            if job is not None and worker.ready and not job.begun and job.tries == 1 and not self._closed:
                self._waiting.appendleft(job)  # it was sent to a worker that was dead already
                job = None
            if not self._closed:
                self._assign()
        if job is not None:
            reason = f"{job.request.name}: {_end_of(worker.process)}"
            job.future.set_exception(CancelledError() if self._closed else WorkerError(reason))

    def _take(self, worker: _Worker, message: Message) -> None:
        """Take note of one message."""
        job = worker.job
        if isinstance(message, Logged):
            log.log(message.level, message.text)
        elif message == READY:
            with self._lock:
                worker.ready = True
                self._assign()
        elif job is None:
            pass
        elif message == BEGUN:
            job.begun = True
            _call(job, "on_start")
        elif isinstance(message, Improved):
            if job.on_improvement is not None and isinstance(job.request, Request):
                _call(job, "on_improvement", message.improvement, Solution(job.request.instance, message.routes))
        elif isinstance(message, float):
            _call(job, "on_progress", message)
        else:
            with self._lock:
                worker.job = None
                self._assign()
            assert message is None or isinstance(message, Exception | Solved | Returned)
            _set_outcome(job, message)


def _set_running(job: Job) -> bool:
    """Return whether a job that waits is to be solved: False if its future was cancelled."""
    return job.tries > 0 or job.future.set_running_or_notify_cancel()


def _cancel(job: Job) -> None:
    """Cancel a job that waits."""
    if job.future.cancel():
        job.future.set_running_or_notify_cancel()  # wakes those that wait for it
    else:  # it waits for the second time
        job.future.set_exception(CancelledError())


def _set_outcome(job: Job, outcome: Solved | Returned | Exception | None) -> None:
    """Give the future its result or error; the error of a function of the caller's has the result."""
    result = None
    if isinstance(outcome, Solved) and isinstance(job.request, Request):
        result = outcome.result(job.request.instance)
    if job.fault is not None:
        job.fault.result = result
        job.future.set_exception(job.fault)
    elif result is not None:
        job.future.set_result(result)
    elif isinstance(outcome, Returned):
        job.future.set_result(outcome.value)
    else:
        job.future.set_exception(outcome if isinstance(outcome, Exception) else CancelledError())


def _call(job: Job, name: str, *arguments: Any) -> None:
    """Call a function of the caller's, if there is one and none has failed; one that fails ends the job."""
    function = getattr(job, name)
    try:
        if function is not None and job.fault is None:
            function(*arguments)
    except Exception as error:
        job.fault = CallbackError(name, error)
        job.fault.__cause__ = error
        job.stop()


def _not_to_be_sent(request: Request | Call, error: Exception) -> ElgoError:
    """Return the error of a request that cannot be pickled; it names the field of the config."""
    if isinstance(request, Call):
        return ElgoError(f"{request.name} cannot be sent to another process: {error}")
    for item in fields(request.config):
        value = getattr(request.config, item.name)
        try:
            pickle.dumps(value)
        except Exception as reason:
            what = getattr(value, "__qualname__", type(value).__qualname__)
            why = "functions must be defined at the top of a module" if callable(value) else str(reason)
            return ElgoError(f"{item.name} is {what}, which cannot be sent to another process: {why}")
    return ElgoError(f"{request.instance.name} cannot be sent to another process: {error}")


def _end_of(process: BaseProcess) -> str:
    """Return how a process ended, in words."""
    code = process.exitcode or 0
    if code >= 0:
        return f"its process ended with code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        return f"its process was ended by {name}" + ", perhaps for lack of memory" * (name == "SIGKILL")
    return f"its process was ended by signal {-code}"


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block SIGINT and SIGTERM, where that is possible: processes that are started inherit it.

    A terminal and `timeout` send them to all processes of a command; the parent alone decides what to do.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
