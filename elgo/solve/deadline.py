"""Run a function on a thread and give up at a deadline."""

import atexit
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

POLL_SECONDS = 0.1  # after which an interrupt is seen that another thread has asked for (_thread.interrupt_main)

T = TypeVar("T")


class DeadlineExceeded(Exception):
    """The work was not done in time. It goes on in the background, and its result is dropped."""


def run_with_deadline(work: Callable[[], T], until: float, exit_seconds: float = 0.0) -> T:
    """Return the result of `work`; raise DeadlineExceeded at the given value of time.perf_counter().

    The work runs on a thread of its own, so that Ctrl-C is answered at once, too. What it raises is raised here.
    If it is still running at the exit of the interpreter, it has `exit_seconds` to end: inside some libraries (torch)
    the end of the thread would abort the process.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive() and (left := until - time.perf_counter()) > 0:
            thread.join(min(left, POLL_SECONDS))
    finally:
        if exit_seconds and thread.is_alive():
            atexit.register(thread.join, exit_seconds)
    if not future.done():
        raise DeadlineExceeded
    return future.result()
