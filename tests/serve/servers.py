"""Real servers on loopback, in processes of their own, and clients of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds that a busy machine may take


class ServerProcess:
    """`elgo serve` on a free port."""

    def __init__(self, store: Path, *options: object, **popen: Any) -> None:
        command = [sys.executable, "-m", "elgo", "serve", "--port", "0", "--store", str(store), *map(str, options)]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, **popen)
        self.lines: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"http://\S+", line):
                self.url = found[0]
                break
        else:
            raise RuntimeError(f"the server did not start: {self.lines}")

    def client(self, **options: Any) -> httpx.Client:
        """Return a client of the server."""
        return httpx.Client(base_url=self.url, timeout=PATIENCE, **options)

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def terminate(self) -> int:
        """End it by SIGTERM, and return its exit code."""
        self.process.terminate()
        _, rest = self.process.communicate(timeout=PATIENCE)
        self.lines += rest.splitlines()
        return self.process.returncode


@contextmanager
def serving(store: Path, *options: object, **popen: Any) -> Iterator[ServerProcess]:
    """Run a server within the block."""
    server = ServerProcess(store, *options, **popen)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


def wait_until(condition: Callable[[], Any]) -> Any:
    """Return what a condition gives as soon as it is true."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)
    return value


def cvrp(customers: int = 20, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a random CVRP as JSON."""
    rng = np.random.default_rng(seed)
    coordinates = rng.integers(0, 1000, (customers + 1, 2)).tolist()
    return {"coordinates": coordinates, "demand": [0, *[1] * customers], "capacity": 5} | changes


def tsp(nodes: int = 20, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a random TSP as JSON."""
    return {"coordinates": np.random.default_rng(seed).integers(0, 1000, (nodes, 2)).tolist()} | changes


def submit(client: httpx.Client, instance: dict[str, Any], seconds: float = 0.1, **options: Any) -> str:
    """Add a job and return its id."""
    answer = client.post("/jobs", json={"instance": instance, "options": {"seconds": seconds, **options}})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def ended(client: httpx.Client, id: str) -> dict[str, Any]:
    """Return the job when it has ended."""

    def job() -> dict[str, Any] | None:
        found: dict[str, Any] = client.get(f"/jobs/{id}").json()
        return found if found["state"] not in ("waiting", "running") else None

    return wait_until(job)  # type: ignore[no-any-return]


def check_solution(job: dict[str, Any]) -> None:
    """Check feasibility and cost of a job's solution, independently of the package."""
    coordinates, solution = np.array(job["instance"]["coordinates"], float), job["solution"]
    nodes = sorted(node for route in solution["routes"] for node in route)
    depot = [] if job["problem"] == "tsp" else [0]
    assert nodes == list(range(len(depot), len(coordinates)))
    lengths = []
    for route in solution["routes"]:
        stops = coordinates[depot + route]
        lengths.append(float(np.linalg.norm(stops - np.roll(stops, -1, axis=0), axis=1).sum()))
        if depot:
            assert sum(job["instance"]["demand"][node] for node in route) <= job["instance"]["capacity"]
    np.testing.assert_allclose(solution["lengths"], lengths)
    np.testing.assert_allclose(solution["cost"], sum(lengths))


def events_of(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """Yield the names and the data of server-sent events."""
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
