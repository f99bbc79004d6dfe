"""Numbers for Prometheus, in its text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elgo.serve.runner import Runner


class CountResponses:
    """Counts the responses by their status."""

    def __init__(self, app: ASGIApp, counts: Counter[int]) -> None:
        self.app, self.counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, and count its response."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.counts[message["status"]] += 1
            await send(message)

        try:
            await self.app(scope, receive, counted)
        except Exception:  # which becomes a response further out
            self.counts[500] += 1
            raise


def metrics_text(runner: Runner, responses: Counter[int]) -> str:
    """Return the metrics."""
    totals = runner.totals
    waiting, _ = runner.store.waiting()
    lines: list[str] = []

    def add(name: str, kind: str, meaning: str, values: Mapping[str, float]) -> None:
        lines.extend([f"# HELP elgo_{name} {meaning}", f"# TYPE elgo_{name} {kind}"])
        lines.extend(f"elgo_{name}{labels} {value:g}" for labels, value in values.items())

    states = {f'{{state="{state}"}}': totals.states[state] for state in ("finished", "stopped", "failed")}
    statuses = {f'{{status="{status}"}}': count for status, count in sorted(responses.items())}
    add("workers", "gauge", "Worker processes.", {"": runner.workers})
    add("jobs_waiting", "gauge", "Jobs that wait.", {"": waiting})
    add("jobs_running", "gauge", "Jobs that are being solved.", {"": runner.running_count})
    add("jobs_total", "counter", "Jobs that ended since the start.", states)
    add("job_wait_seconds_total", "counter", "Time that finished jobs had waited.", {"": totals.wait_seconds})
    add("job_late_seconds_total", "counter", "Time beyond their limits of finished jobs.", {"": totals.late_seconds})
    add("responses_total", "counter", "HTTP responses by status.", statuses)
    return "\n".join([*lines, ""])
