"""A worker process of `elgo.solve.pool`: it solves the jobs that come through its pipe, one after the other.

The main thread solves. A second thread reads the pipe, so that a request to stop and the death of the parent are seen
during a search; a third one writes, so that no message is cut short by a stop. No signals between processes: this works
with every operating system.
"""

import _thread
import logging
import os
import pickle
import signal
import traceback
from collections.abc import Callable
from dataclasses import fields
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import FrameType
from typing import Any, NamedTuple

from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.solve import solver
from elgo.solve.config import SolveConfig
from elgo.solve.result import CallbackError, Improvement, Result

NICENESS = 10  # of workers with low priority
READY, BEGUN = "ready", "begun"  # first messages of a worker, and of a job

Routes = tuple[tuple[int, ...], ...]


class WorkerError(RuntimeError):
    """A job failed, but not because of its input: its process died, or the package has a bug."""


class Request(NamedTuple):
    """The arguments of one call of `solve`."""

    instance: Instance
    config: SolveConfig
    warm_start: Solution | None = None

    @property
    def name(self) -> str:
        """What the request is called in messages."""
        return self.instance.name


class Call(NamedTuple):
    """A call of any function that can be pickled; what it returns must be so, too."""

    name: str  # in messages
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Task(NamedTuple):
    """A job on its way to a worker; the request is pickled separately, so that an error in it belongs to the job."""

    number: int
    request: bytes


class Improved(NamedTuple):
    """A better solution."""

    improvement: Improvement
    routes: Routes


class Logged(NamedTuple):
    """A line that the package logged."""

    level: int
    text: str


class Solved(NamedTuple):
    """A result without its instance, which the parent has."""

    routes: Routes
    others: dict[str, Any]  # all other fields of Result

    def result(self, instance: Instance) -> Result:
        """Return the result as one of this very instance."""
        return Result(Solution(instance, self.routes), **self.others)


class Returned(NamedTuple):
    """What the function of a call has returned."""

    value: Any


Outcome = Solved | Returned | Exception | None  # None: stopped before there was a solution
Message = str | float | Improved | Logged | Outcome


def describe_bug(error: BaseException) -> str:
    """Return an unexpected error in one line, with the place where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" at {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
    return " ".join(f"{type(error).__name__}{place}: {error}".split())


def work(pipe: Connection, low_priority: bool) -> None:
    """Solve what comes through the pipe until its other end is closed, which also happens if the parent dies."""
    if low_priority and hasattr(os, "nice"):
        os.nice(NICENESS)
    inbox, outbox = SimpleQueue[Task](), SimpleQueue[Message]()
    interrupter = _Interrupter()
    logging.getLogger("elgo").handlers = [_Forward(outbox)]
    for target, queue in ((_receive, inbox), (_send, outbox)):
        Thread(target=target, args=(pipe, queue, interrupter), daemon=True).start()
    outbox.put(READY)
    while True:
        task = inbox.get()
        outbox.put(BEGUN)
        outbox.put(_solve(task, interrupter, outbox))


class _Interrupter:
    """Raises KeyboardInterrupt on the main thread if the job that it works on is to be stopped.

    Ctrl-C in a terminal reaches workers, too, and is ignored: the parent decides what it means.
    """

    def __init__(self) -> None:
        self._current = self._asked = -1  # numbers of jobs
        signal.signal(signal.SIGINT, self._handle)

    def begin(self, job: int) -> None:
        """Let this job be interrupted from now on; it is at once if that has been asked for."""
        self._current = job
        self._handle()

    def end(self) -> None:
        """Let no job be interrupted from now on."""
        self._current = -1

    def ask(self, job: int) -> None:
        """Interrupt this job, if it is the current one; on any thread."""
        self._asked = job
        _thread.interrupt_main()

    def _handle(self, number: int = 0, frame: FrameType | None = None) -> None:
        if self._current == self._asked != -1:
            self._current = -1
            raise KeyboardInterrupt


class _Forward(logging.Handler):
    """Sends what the package logs to the parent."""

    def __init__(self, outbox: SimpleQueue[Message]) -> None:
        super().__init__()
        self._outbox = outbox

    def emit(self, record: logging.LogRecord) -> None:
        self._outbox.put(Logged(record.levelno, record.getMessage()))


def _receive(pipe: Connection, inbox: SimpleQueue[Task], interrupter: _Interrupter) -> None:
    """Hand on jobs and requests to stop (the number of a job); end the process when the pipe is closed."""
    try:
        while (message := pipe.recv()) is not None:
            if isinstance(message, Task):
                inbox.put(message)
            else:
                interrupter.ask(message)
    finally:
        os._exit(0)


def _send(pipe: Connection, outbox: SimpleQueue[Message], interrupter: _Interrupter) -> None:
    """Send messages; end the process when the pipe is closed."""
    try:
        while True:
            pipe.send(outbox.get())
    finally:
        os._exit(0)


def _solve(task: Task, interrupter: _Interrupter, outbox: SimpleQueue[Message]) -> Outcome:
    """Return the outcome of a job, and report its progress meanwhile."""

    def improved(improvement: Improvement, solution: Solution) -> None:
        outbox.put(Improved(improvement, solution.routes))

    def advanced(fraction: float) -> None:
        outbox.put(float(fraction))

    outcome: Outcome = None
    try:
        try:
            request = _load(task.request)
            interrupter.begin(task.number)
            if isinstance(request, Call):
                outcome = Returned(request.function(*request.arguments))
            else:
                instance, config, warm_start = request
                result = solver.solve(
                    instance, config, warm_start=warm_start, on_improvement=improved, on_progress=advanced
                )
                outcome = without_instance(result)
        except Exception as error:
            outcome = sendable(error)
        interrupter.end()
    except KeyboardInterrupt:  # before there was a solution, or after the end of the search
        pass
    return outcome


def _load(request: bytes) -> Request | Call:
    try:
        loaded: Request | Call = pickle.loads(request)
    except Exception as error:  # of a function that this process does not find, or of a model
        raise ElgoError(f"the job cannot be read by another process: {describe_bug(error)}") from error
    return loaded


def without_instance(result: Result) -> Solved:
    """Return the result as it is sent to a process that has the instance."""
    others = {field.name: getattr(result, field.name) for field in fields(result) if field.name != "solution"}
    return Solved(result.solution.routes, others)


def sendable(error: Exception) -> Exception:
    """Return errors of the caller (wrong input, CallbackError) as they are, others as a WorkerError in one line."""
    if isinstance(error, ValueError | OSError | CallbackError):
        try:
            copy: Exception = pickle.loads(pickle.dumps(error))
        except Exception:  # of another package, with arguments that it cannot be made from again
            return ValueError(str(error))
        return copy
    return WorkerError(describe_bug(error))
