"""Load a service with many clients at once, and check every answer.

    python benchmarks/load.py            elgo serve, 200 clients for 60 s
    python benchmarks/load.py vroom      VROOM behind a minimal server, under the same load

Options: --clients 200, --seconds 60, --workers 2, --queue 100. Clients send random instances of 20 to 1,000 customers
with limits of 0.5 to 2 s one after the other, and wait as long as a 429 tells them. Printed are the jobs that were
accepted, answered and feasible with the stated cost; how long a 429 takes; how late answers are (finished - started -
seconds); how long they waited; and the memory of the server and its workers over time.

The clients share one process, so each waits for the others, too. A probe in a process of its own shows what a single
client sees at the same time: all the while it asks for what is refused with 429 if the queue is full, else as invalid.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from elgo.problem.generate import as_instance, generate
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution

SIZES, SHARES = (20, 50, 100, 300, 1000), (0.3, 0.3, 0.2, 0.15, 0.05)  # customers
LIMITS = (0.5, 1.0, 2.0)  # seconds
INSTANCES = 100
JSON = {"Content-Type": "application/json"}
POLL_SECONDS = 0.5
PROBE_SECONDS = 0.05
SAMPLE_SECONDS = 5.0


@dataclass
class Measured:
    """What the clients saw."""

    accepted: int = 0
    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)  # seconds that a 429 took
    probed: list[float] = field(default_factory=list)  # and those that it took the probe
    lateness: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # MB


def make_instances() -> list[Instance]:
    """Return the instances that clients choose from."""
    rng = np.random.default_rng(0)
    sizes = rng.choice(SIZES, INSTANCES, p=SHARES)
    return [
        as_instance(generate(rng, "cvrp" if i % 2 else "tsp", int(n), "uniform"), f"{i}") for i, n in enumerate(sizes)
    ]


def as_body(instance: Instance, seconds: float) -> bytes:
    """Return a request to solve an instance."""
    body: dict[str, Any] = {"name": instance.name, "coordinates": instance.coords.tolist()}
    if instance.demand is not None:
        body |= {"demand": instance.demand.tolist(), "capacity": instance.capacity}
    return json.dumps({"instance": body, "options": {"seconds": seconds}}).encode()


async def run_client(
    number: int, http: httpx.AsyncClient, jobs: Sequence[tuple[Instance, float, bytes]], end: float, measured: Measured
) -> None:
    """Send one job after the other until the end; what was accepted is waited for."""
    rng = np.random.default_rng(number)
    while time.monotonic() < end:
        instance, seconds, body = jobs[int(rng.integers(len(jobs)))]
        begin = time.perf_counter()
        answer = await http.post("/jobs", content=body, headers=JSON)
        if answer.status_code == 429:
            measured.refusals.append(time.perf_counter() - begin)
            await asyncio.sleep(min(float(answer.headers["retry-after"]), max(0.0, end - time.monotonic())))
            continue
        answer.raise_for_status()
        measured.accepted += 1
        id = answer.json()["id"]
        while (job := (await http.get(f"/jobs/{id}")).json())["state"] in ("waiting", "running"):
            await asyncio.sleep(POLL_SECONDS)
        check(job, instance, seconds, measured)


def check(job: dict[str, Any], instance: Instance, seconds: float, measured: Measured) -> None:
    """Check the answer to a job, and note its times."""
    measured.answered += 1
    if job["state"] != "finished":
        measured.wrong.append(f"{job['state']}: {job['error']}")
        return
    solution = Solution(instance, tuple(map(tuple, job["solution"]["routes"])))
    if solution.violations or not math.isclose(solution.cost, job["solution"]["cost"], rel_tol=1e-9):
        measured.wrong.append(f"{instance.name}: {solution.violations or solution.cost}")
    created, started, finished = (
        datetime.fromisoformat(job[name]).timestamp() for name in ("created", "started", "finished")
    )
    measured.lateness.append(finished - started - seconds)
    measured.waits.append(started - created)


def probe(url: str, seconds: float) -> list[float]:
    """Return how long each 429 took to one more client, which asks for an invalid job from time to time."""
    address, taken = urlsplit(url).netloc, []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.perf_counter()
        with closing(HTTPConnection(address, timeout=60)) as connection:
            connection.request("POST", "/jobs", b"{}", JSON)
            if connection.getresponse().status == 429:
                taken.append(time.perf_counter() - begin)
        time.sleep(PROBE_SECONDS)
    return taken


async def sample_memory(pid: int, measured: Measured) -> None:
    """Note the memory of a process and its children from time to time."""
    while True:
        measured.memory.append(sum(map(_megabytes, [pid, *_children(pid)])))
        await asyncio.sleep(SAMPLE_SECONDS)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _megabytes(pid: int) -> float:
    try:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:  # it has just ended
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


async def load(url: str, pid: int, clients: int, seconds: float) -> Measured:
    """Return what so many clients see within so many seconds."""
    measured = Measured()
    jobs = [(instance, limit, as_body(instance, limit)) for instance in make_instances() for limit in LIMITS]
    # The service closes connections that are idle for 5 s: a client that is late would use a closed one.
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients, keepalive_expiry=2)
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        process.submit(probe, url, 0.0).result()  # it has started
        async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as http:
            memory = asyncio.create_task(sample_memory(pid, measured))
            probed = process.submit(probe, url, seconds)
            end = time.monotonic() + seconds
            await asyncio.gather(*(run_client(i, http, jobs, end, measured) for i in range(clients)))
            memory.cancel()
        measured.probed = probed.result()
    return measured


def report(name: str, measured: Measured) -> str:
    """Return the measurements as text."""

    def quantiles(values: list[float], *shares: float) -> str:
        return ", ".join(f"p{100 * q:g} {np.quantile(values, q):.3f} s" for q in shares) if values else "none"

    memory = measured.memory
    lines = [
        f"{name}: {measured.accepted} accepted, {measured.answered} answered, {len(measured.wrong)} wrong",
        f"  429: {len(measured.refusals)}, {quantiles(measured.refusals, 0.5, 0.95)}",
        f"  429 of the probe: {len(measured.probed)}, {quantiles(measured.probed, 0.5, 0.95, 0.99)}",
        f"  lateness: {quantiles(measured.lateness, 0.5, 0.99)}; waited: {quantiles(measured.waits, 0.5, 0.95)}",
        f"  memory MB: first {memory[0]:.0f}, middle {memory[len(memory) // 2]:.0f}, last {memory[-1]:.0f}",
        *measured.wrong[:5],
    ]
    return "\n".join(lines)


def solve_by_vroom(instance: Instance, seconds: float) -> tuple[float, Any, float]:
    """Return when VROOM started, its routes and when it ended; on one thread, as the workers of elgo."""
    from elgo.solve.external import Budget, vroom

    started = time.time()
    routes = vroom(instance, Budget(seconds, threads=1))
    return started, routes, time.time()


def serve_vroom(workers: int, queue: int) -> None:
    """Serve the two endpoints that the clients use, with VROOM in processes."""
    import uvicorn
    from pydantic import ValidationError
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from elgo.serve.models import JobBody, StoredRequest
    from elgo.serve.problems import make_problem

    jobs, executor = dict[str, dict[str, Any]](), ProcessPoolExecutor(workers, get_context("spawn"))

    def iso(seconds: float) -> str:
        return datetime.fromtimestamp(seconds).astimezone().isoformat()

    async def submit(request: Request) -> JSONResponse:
        if sum(job["state"] == "waiting" for job in jobs.values()) >= queue + workers:
            return JSONResponse({"error": "busy"}, 429, {"Retry-After": "10"})
        try:
            body = JobBody.model_validate_json(await request.body())
        except ValidationError:
            return JSONResponse({"error": "invalid"}, 422)
        instance = make_problem(StoredRequest(instance=body.instance, options=body.options)).instance
        job = jobs[str(len(jobs))] = {"state": "waiting", "error": None, "created": iso(time.time())}

        async def run() -> None:
            loop = asyncio.get_running_loop()
            started, routes, finished = await loop.run_in_executor(
                executor, solve_by_vroom, instance, body.options.seconds or 1.0
            )
            cost = Solution(instance, tuple(map(tuple, routes))).cost if routes else None
            job.update(
                state="finished" if routes else "failed", started=iso(started), finished=iso(finished),
                solution={"routes": routes, "cost": cost},
            )  # fmt: skip

        job["task"] = asyncio.create_task(run())
        return JSONResponse({"id": str(len(jobs) - 1)}, 202)

    async def show(request: Request) -> JSONResponse:
        job = jobs[request.path_params["id"]]
        return JSONResponse({name: value for name, value in job.items() if name != "task"})

    routes = [Route("/jobs", submit, methods=["POST"]), Route("/jobs/{id}", show)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
        uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error")).run(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("service", nargs="?", default="elgo", choices=["elgo", "vroom", "vroom-server"])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--queue", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.service == "vroom-server":
        serve_vroom(arguments.workers, arguments.queue)
        return
    with tempfile.TemporaryDirectory() as folder:
        options = [f"--workers={arguments.workers}"]
        if arguments.service == "elgo":
            command = [
                "-m",
                "elgo",
                "serve",
                "--port=0",
                f"--store={folder}/jobs.sqlite",
                f"--max-queue={arguments.queue}",
            ]
        else:
            command = [__file__, "vroom-server", f"--queue={arguments.queue}"]
        log = Path(folder) / "server.log"
        with log.open("w") as file:
            command = [sys.executable, *command, *options]
            server = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        try:
            while not (found := re.search(r"http://\S+", log.read_text())):
                if server.poll() is not None:
                    sys.exit(log.read_text())
                time.sleep(0.1)
            time.sleep(5)  # workers load their kernels
            measured = asyncio.run(load(found[0], server.pid, arguments.clients, arguments.seconds))
        finally:
            server.terminate()
            server.wait()
            with suppress(ProcessLookupError):  # processes of its own, if it has left any
                os.killpg(server.pid, signal.SIGKILL)
    print(report(arguments.service, measured))


if __name__ == "__main__":
    main()
