"""Engines that call a function on batches of work, and the loop that feeds them.

`LocalEngine` has worker processes on this machine, `RayEngine` actors on the machines of a Ray cluster. Both say how a
call ended and nothing more: what to do about a worker that died is decided here, once for both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from elgo.solve.worker import WorkerError

TRIES = 2  # workers that may die of a batch before its items are tried one by one, and of a single item
AHEAD = 2  # batches for each worker that are handed over: the one at work, and the next

T = TypeVar("T")
R = TypeVar("R")


class Ended(NamedTuple):
    """How a call ended: what the function returned or raised; WorkerError if its process died."""

    ticket: int
    outcome: Any


class Engine(Protocol):
    """Workers that call functions. A function, its arguments and what it returns are pickled."""

    workers: int

    def put(self, ticket: int, function: Callable[..., Any], *arguments: Any) -> None:
        """Hand over a call; the next free worker takes it."""

    def get(self) -> Ended:
        """Wait for a call to end."""

    def close(self) -> None:
        """End the workers; calls that have not ended are dropped."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class _Batch(NamedTuple):
    items: Sequence[Any]
    deaths: int = 0  # of workers


def run(
    engine: Engine, function: Callable[[Sequence[T]], Sequence[R]], batches: Iterable[Sequence[T]]
) -> Iterator[tuple[Sequence[T], Sequence[R] | Exception]]:
    """Yield batches with what the function returns for them, or raises, in the order in which they end.

    Batches are taken from the iterable only when there is a worker for them. If a worker dies, its batch is tried again
    as it is; if a second one does, its items are tried one by one, so that the cause is found: an item of which
    workers die yields a WorkerError.
    """
    source, again = iter(batches), deque[_Batch]()
    running: dict[int, _Batch] = {}
    ticket = 0
    while True:
        while len(running) < AHEAD * engine.workers:
            batch = again.popleft() if again else _next(source)
            if batch is None:
                break
            ticket += 1
            running[ticket] = batch
            engine.put(ticket, function, batch.items)
        if not running:
            return
        ended, outcome = engine.get()
        batch = running.pop(ended)
        deaths = batch.deaths + 1
        if not isinstance(outcome, WorkerError) or (len(batch.items) == 1 and deaths >= TRIES):
            yield batch.items, outcome
        elif deaths < TRIES:
            again.append(_Batch(batch.items, deaths))
        else:
            again += [_Batch([item]) for item in batch.items]


def _next(source: Iterator[Sequence[Any]]) -> _Batch | None:
    items = next(source, None)
    return None if items is None else _Batch(items)
