"""The load benchmark: its clients wait as they are told, and check every answer."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest
from servers import serving

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import load

from elgo.problem.instance import Instance, Metric

SQUARE = Instance("square", np.array([[0, 0], [0, 1], [1, 1], [1, 0]]), Metric.EXACT)


def job(routes: list[list[int]], cost: float, state: str = "finished") -> dict[str, object]:
    """Return an answer whose job started 2 s after it was created, and took 1.25 s."""
    times = {
        "created": "2026-01-01T00:00:00Z",
        "started": "2026-01-01T00:00:02Z",
        "finished": "2026-01-01T00:00:03.25Z",
    }
    return {"state": state, "error": "why", "solution": {"routes": routes, "cost": cost}, **times}


def test_answers_are_checked() -> None:
    measured = load.Measured()
    load.check(job([[0, 1, 2, 3]], 4.0), SQUARE, 1.0, measured)
    assert (measured.answered, measured.wrong) == (1, [])
    assert (measured.lateness, measured.waits) == ([pytest.approx(0.25)], [pytest.approx(2.0)])
    for bad in (job([[0, 1, 2]], 4.0), job([[0, 1, 2, 3]], 3.9), job([], 0.0, "failed")):
        load.check(bad, SQUARE, 1.0, measured)
    assert len(measured.wrong) == 3


def test_clients_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "LIMITS", (0.1,))
    monkeypatch.setattr(load, "SIZES", (10, 12, 14, 16, 18))
    with serving(tmp_path / "jobs.sqlite", "--max-queue", 1) as server:
        measured = asyncio.run(load.load(server.url, server.process.pid, clients=6, seconds=2))
    assert measured.accepted == measured.answered >= 1
    assert measured.wrong == []
    assert len(measured.refusals) >= 1
    assert all(taken > 0 for taken in measured.probed)
    assert "0 wrong" in load.report("elgo", measured)
