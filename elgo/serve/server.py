"""A server with its store and its workers, until a signal ends it."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType

import uvicorn
from platformdirs import user_data_path

from elgo.problem.errors import ElgoError
from elgo.serve.app import create_app
from elgo.serve.limits import Limits
from elgo.serve.runner import Runner
from elgo.serve.store import Store
from elgo.solve.batch import signals_handled

CONNECTIONS = 1000  # at once; more are answered with 503
BACKLOG = 2048  # connections that the system holds until they are accepted
SHUTDOWN_SECONDS = 3  # for responses that are being sent

log = logging.getLogger("elgo")


class _Server(uvicorn.Server):
    """Tells the service when it is asked to end, so that clients that wait get an answer; then returns.

    (uvicorn's own would raise the signal again, which ends the process before the last improvements are stored.)
    """

    def __init__(self, config: uvicorn.Config, closing: Event) -> None:
        super().__init__(config)
        self._closing = closing

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on SIGINT and SIGTERM, within the block."""
        with signals_handled(self.handle_exit, signal.SIGINT, signal.SIGTERM):
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        self._closing.set()
        super().handle_exit(sig, frame)


def default_store() -> Path:
    """Return the store in the user's data folder."""
    return user_data_path("elgo", appauthor=False) / "jobs.sqlite"


def run_server(
    host: str, port: int, store_file: Path, workers: int, limits: Limits, token: str | None, origins: Sequence[str]
) -> None:
    """Serve until SIGTERM or Ctrl-C; jobs that are running then go on after the next start."""
    listener = _listen(host, port)
    with listener:
        store = Store(store_file)
        try:
            runner = Runner(store, workers, limits)
            try:
                closing = Event()
                config = uvicorn.Config(
                    create_app(runner, limits, token, origins, closing),
                    log_level="warning",
                    access_log=False,
                    limit_concurrency=CONNECTIONS,
                    timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                    server_header=False,
                    lifespan="off",
                )
                address = f"[{host}]" if ":" in host else host
                port = listener.getsockname()[1]
                log.info("http://%s:%d with %d workers, jobs in %s", address, port, workers, store_file)
                _Server(config, closing).run(sockets=[listener])
            finally:
                runner.close()
        finally:
            store.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ElgoError(f"{host}:{port} cannot be used: {error.strerror or error}") from None
