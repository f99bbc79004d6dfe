"""The engine of one machine: the pool of worker processes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Self

from elgo.bulk.engine import Ended
from elgo.solve.batch import POLL_SECONDS
from elgo.solve.pool import Pool


class LocalEngine:
    """Calls functions in processes of this machine."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool, self._ended = Pool(workers), SimpleQueue[Ended]()

    def put(self, ticket: int, function: Callable[..., Any], *arguments: Any) -> None:
        """Hand over a call; the next free worker takes it."""
        job = self._pool.call(f"batch {ticket}", function, *arguments)
        job.future.add_done_callback(partial(self._end, ticket))

    def get(self) -> Ended:
        """Wait for a call to end."""
        while True:
            try:
                return self._ended.get(timeout=POLL_SECONDS)
            except Empty:
                continue

    def close(self) -> None:
        """End the workers; calls that have not ended are dropped."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _end(self, ticket: int, future: Future[Any]) -> None:
        try:
            outcome = future.result()
        except CancelledError:  # the pool was closed
            return
        except Exception as error:
            outcome = error
        self._ended.put(Ended(ticket, outcome))
