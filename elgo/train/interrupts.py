"""Ctrl-C during training: put off while weights and counters change, so that what is saved then fits together."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """Puts off SIGINT and SIGTERM between `hold` and `release`, for as long as it is installed."""

    def __init__(self) -> None:
        self._held = False
        self._pending: list[tuple[int, FrameType | None]] = []
        self._before: dict[int, Callable[[int, FrameType | None], Any]] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals within the block: those with a handler in Python, and on the main thread alone."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if callable(handler := signal.getsignal(number)):
                    self._before[number] = handler
                    signal.signal(number, self._handle)
        try:
            yield
        finally:
            for each, previous in self._before.items():
                signal.signal(each, previous)
            self._before.clear()

    def hold(self) -> None:
        """Put signals off from now on."""
        self._held = True

    def release(self) -> None:
        """Handle what was put off, and signals from now on at once."""
        self._held = False
        pending, self._pending = self._pending, []
        for number, frame in pending:
            self._handle(number, frame)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._pending.append((number, frame))
        else:
            self._before[number](number, frame)
