"""The engine of a Ray cluster: one actor for each worker.

Ray restarts nothing here. An actor that dies, alone or with its node, is replaced; the batch that it worked on has
failed, the one that waited behind it goes to another actor. A replacement that finds no place waits for one while the
others go on.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from elgo.bulk.engine import AHEAD, Ended
from elgo.problem.errors import ElgoError
from elgo.solve.worker import WorkerError, sendable

POLL_SECONDS = 1.0
CONNECT_SECONDS = 10.0
HTTP2_BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # the second part: no settings
STARTS = 3  # actors in a row that may fail to start


class _Work:
    """The actor: a process of Ray that calls functions, and keeps what they have loaded."""

    def ready(self) -> int:
        return os.getpid()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            return _Raised(sendable(error))


class _Raised(NamedTuple):
    error: Exception


class _Call(NamedTuple):
    ticket: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(eq=False)
class _Actor:
    handle: Any
    starting: Any  # the reference to the result of `ready`; None once it is ready
    calls: dict[Any, _Call] = field(default_factory=dict)  # by reference; the first one is at work


class RayEngine:
    """Calls functions in actors of a Ray cluster, each of which has one CPU."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        """Connect to the cluster at the address, or start Ray on this machine, unless this process has done so."""
        self._ray = _import_ray()
        self._started = not self._ray.is_initialized()
        if self._started:
            _connect(self._ray, address, workers)
        self.workers = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._make = self._ray.remote(num_cpus=1, max_restarts=0)(_Work).remote
        self._waiting: deque[_Call] = deque()
        self._failed_starts = 0
        self._actors = [self._new_actor() for _ in range(self.workers)]

    def put(self, ticket: int, function: Callable[..., Any], *arguments: Any) -> None:
        """Hand over a call; the next free actor takes it."""
        self._waiting.append(_Call(ticket, function, arguments))
        self._assign()

    def get(self) -> Ended:
        """Wait for a call to end."""
        while True:
            # An actor's calls end in their order, so the oldest one is all that can be waited for.
            waited_for = {it.starting or next(iter(it.calls)): it for it in self._actors if it.starting or it.calls}
            ready, _ = self._ray.wait(list(waited_for), timeout=POLL_SECONDS)
            for reference in ready:
                ended = self._take(waited_for[reference], reference)
                self._assign()
                if ended is not None:
                    return ended

    def close(self) -> None:
        """End the actors, and Ray if it was started here."""
        for actor in self._actors:
            self._ray.kill(actor.handle)
        self._actors = []
        if self._started:
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _new_actor(self) -> _Actor:
        handle = self._make()
        return _Actor(handle, handle.ready.remote())

    def _assign(self) -> None:
        """Hand calls that wait to actors that are ready, the least busy one first."""
        while self._waiting:
            able = [actor for actor in self._actors if actor.starting is None and len(actor.calls) < AHEAD]
            if not able:
                return
            actor = min(able, key=lambda it: len(it.calls))
            call = self._waiting.popleft()
            actor.calls[actor.handle.call.remote(call.function, *call.arguments)] = call

    def _take(self, actor: _Actor, reference: Any) -> Ended | None:
        """Take note of a reference that has a value, or an error; return the call that ended, if one did."""
        try:
            value = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return self._replace(actor, error)
        if reference == actor.starting:
            actor.starting, self._failed_starts = None, 0
            return None
        return Ended(actor.calls.pop(reference).ticket, value.error if isinstance(value, _Raised) else value)

    def _replace(self, actor: _Actor, error: Exception) -> Ended | None:
        """Let another actor take the place of a dead one; return its call, which has failed."""
        reason = " ".join(str(error).split())
        if actor.starting is not None:
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                raise ElgoError(f"no actor of Ray can be started: {reason[:300]}")
        self._ray.kill(actor.handle)  # if it is only out of reach
        self._actors[self._actors.index(actor)] = self._new_actor()
        calls = list(actor.calls.values())
        self._waiting.extendleft(reversed(calls[1:]))
        return Ended(calls[0].ticket, WorkerError(f"its actor died: {reason[:300]}")) if calls else None


def _import_ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a note about GPUs
    try:
        import ray
    except ModuleNotFoundError:
        raise ElgoError("the engine ray needs Ray: pip install 'elgo[ray]'") from None
    return ray


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    """Connect this process to a cluster; ElgoError if there is none at the address."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is not None:
        _check_address(address)
    try:
        if address is None:
            os.environ.setdefault("RAY_worker_niceness", "0")  # by default Ray's workers give way to everything else
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ElgoError(f"address is {address!r}: {' '.join(str(error).split())[:200]}") from None


def _check_address(address: str) -> None:
    """Raise ElgoError if what is at HOST:PORT does not speak as Ray does: Ray would try for a quarter of an hour."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        with socket.create_connection((host, int(port)), CONNECT_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            connection.settimeout(CONNECT_SECONDS)
            connection.sendall(HTTP2_BEGIN)
            frame = connection.makefile("rb").read(4)  # its length, and that these are settings
    except (OSError, OverflowError) as error:
        raise ElgoError(f"address is {address!r}, where nothing answers ({error})") from None
    if frame[3:] != bytes((4,)):
        raise ElgoError(f"address is {address!r}, where something else than Ray answers")
