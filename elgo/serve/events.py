"""Server-sent events of a job. A client that reads slowly misses solutions, but no memory is taken for it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from threading import Event

from anyio.to_thread import run_sync

from elgo.problem.solution import Solution
from elgo.serve.runner import Runner
from elgo.serve.views import Jobs, solution_view
from elgo.solve.result import Improvement

POLL_SECONDS = 0.05  # between looks at a running job
WAITING_SECONDS = 0.25  # between looks at the store
PROGRESS_SECONDS = 1.0


async def job_events(jobs: Jobs, runner: Runner, id: str, closing: Event) -> AsyncIterator[str]:
    """Yield "improved" for the current best and each later one, "progress" once a second, and "end"."""
    seen = 0  # improvements
    reported = 0.0
    while not closing.is_set():
        running = runner.running(id)
        if running is None:
            job, solution, history = await run_sync(jobs.best, id)
            ended = job.state not in ("waiting", "running")
        else:
            (solution, history), ended = running.best(), False
        if len(history) > seen:
            yield await run_sync(_improved, solution, history[seen if seen else -1 :])
            seen = len(history)
        if ended:
            yield _event("end", {"state": job.state})
            return
        if time.monotonic() - reported >= PROGRESS_SECONDS:
            reported = time.monotonic()
            yield _event("progress", {"fraction": 0.0 if running is None else running.progress})
        await asyncio.sleep(WAITING_SECONDS if running is None else POLL_SECONDS)


def _improved(solution: Solution | None, improvements: Sequence[Improvement]) -> str:
    """Return events of improvements; the last has the solution."""
    events = [_event("improved", {**found._asdict(), "solution": None}) for found in improvements[:-1]]
    last = improvements[-1]
    view = None if solution is None else solution_view(solution, last.source).model_dump()
    return "".join([*events, _event("improved", {**last._asdict(), "solution": view})])


def _event(name: str, data: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
