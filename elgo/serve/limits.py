"""What a client may ask for, and reading bodies within these limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from elgo.problem.errors import ElgoError
from elgo.serve.errors import Refused

MEGABYTE = 2**20
BODIES = 8  # of the largest size, that are held at once while they are read and checked
SMALL_NODES, SMALL_SECONDS = 1000, 10.0  # of what POST /solve takes


@dataclass(frozen=True)
class Limits:
    """Bounds of the service; what exceeds them is refused at once."""

    max_seconds: float = 60.0  # for a job
    max_nodes: int = 10_001  # 10,000 customers and a depot
    max_queue: int = 100  # jobs that wait
    max_body: int = 16 * MEGABYTE  # bytes of a request
    body_seconds: float = 30.0  # for a client to send it
    keep_days: float = 30.0  # for which jobs that ended are kept

    def __post_init__(self) -> None:
        for name in ("max_seconds", "max_nodes", "max_queue", "max_body", "body_seconds", "keep_days"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ElgoError(f"{name} is {getattr(self, name)}, must be above 0")


class Bodies:
    """Reads the bodies of requests: each has a largest size, and all together have one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0

    async def read(self, request: Request) -> bytes:
        """Return the body; Refused if it is too large or too slow. `release` must follow when it is not needed."""
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._limits.max_body:
            raise self._too_large()
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    self._held += len(chunk)
                    if size > self._limits.max_body:
                        raise self._too_large()
                    if self._held > BODIES * self._limits.max_body:
                        raise Refused(429, "too many large requests at once", headers={"Retry-After": "1"})
                    chunks.append(chunk)
        except BaseException as error:
            self._held -= size
            if isinstance(error, TimeoutError):
                raise Refused(408, f"the body did not arrive within {self._limits.body_seconds:g} s") from None
            if isinstance(error, ClientDisconnect):
                raise Refused(400, "the client went away") from None
            raise
        return b"".join(chunks)

    def release(self, body: bytes) -> None:
        """Take note that a body is not needed any more."""
        self._held -= len(body)

    def _too_large(self) -> Refused:
        return Refused(413, f"the body has more than {self._limits.max_body} bytes")
