"""Work that may not be ready in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class Late(Exception):
    """The work was not done in time; it goes on in the background, and nobody waits for it."""


def in_time(work: Callable[[], T], until: float) -> T:
    """What `work` gives, on a thread of its own, or Late at that moment of time.perf_counter(). Ctrl-C is not kept
    waiting either.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(0.0, until - time.perf_counter()))
    if failed:
        raise failed[0]
    if not found:
        raise Late
    return found[0]
