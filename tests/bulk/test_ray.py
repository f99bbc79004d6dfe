"""The engine of Ray, on a small Ray of this machine: the answers of the local engine, and actors that die."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import bulk_work
import pytest
from bulk_work import rows_of
from samples import random_instance

import elgo
from elgo.bulk import ray_engine
from elgo.bulk.engine import Engine, run
from elgo.bulk.engines import open_engine
from elgo.bulk.inputs import open_inputs
from elgo.bulk.many import describe_settings, solve_inputs, solve_many
from elgo.bulk.outputs import Output
from elgo.bulk.ray_engine import RayEngine
from elgo.solve.config import SolveConfig
from elgo.solve.worker import WorkerError

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

STORE = 80 * 2**20  # bytes, the least that Ray takes
POLICY = SolveConfig(policy_only=True, starts=1, symmetries=1)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray with two CPUs; the processes of Ray find the modules of the tests."""
    import ray

    os.environ.setdefault("RAY_worker_niceness", "0")
    path = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])}
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=STORE,
        log_to_driver=False,
        runtime_env={"env_vars": path},
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def engine(ray: Any) -> Iterator[Engine]:
    with open_engine("ray", 2) as made:
        yield made


def values(outcomes: Iterator[Any]) -> list[Any]:
    return [value for items, out in outcomes for value in ([out] if isinstance(out, Exception) else out)]


def test_calls(engine: Engine) -> None:
    assert sorted(values(run(engine, bulk_work.double, [[1, 2], [3], [4]]))) == [2, 4, 6, 8]
    processes: set[int] = set()
    until_two = ([i] for i in range(300) if len(processes) < 2)  # the second actor may take long to start
    for _, found in run(engine, bulk_work.process_of, until_two):
        processes.update(found)
    assert len(processes) == 2
    (error,) = values(run(engine, bulk_work.raise_error, [[7]]))
    assert repr(error) == "ValueError('items are 7')"


def test_actors_that_die_are_replaced(engine: Engine, tmp_path: Path) -> None:
    once = partial(bulk_work.die_once, str(tmp_path / "marker"))
    assert sorted(values(run(engine, once, [[i] for i in range(8)]))) == list(range(0, 16, 2))
    found = values(run(engine, bulk_work.die_of_poison, [[1, 2], [12, bulk_work.POISON, 14], [3]]))
    assert sorted(value for value in found if isinstance(value, int)) == [2, 4, 6, 24, 28]
    (error,) = [value for value in found if isinstance(value, WorkerError)]
    assert "its actor died" in str(error)


def test_answers_are_those_of_the_local_engine(ray: Any) -> None:
    instances = [random_instance("cvrp", 30, seed=seed) for seed in range(20)]
    for config in (POLICY, SolveConfig(stop=elgo.MaxIterations(200))):
        routes = []
        for name in ("local", "ray"):
            found = sorted(solve_many(instances, config, engine=name, jobs=2, batch=5), key=lambda one: one.number)  # type: ignore[arg-type]
            routes.append([one.result.solution.routes for one in found if one.result])
        assert len(routes[0]) == 20
        assert routes[0] == routes[1]


def test_an_actor_that_is_killed_costs_nothing(engine: Engine, tmp_path: Path) -> None:
    assert isinstance(engine, RayEngine)
    pids: list[int] = []

    def kill_one(progress: Any) -> None:
        if progress.done >= 100 and not pids:
            pids.append(engine._ray.get(engine._actors[0].handle.ready.remote()))
            os.kill(pids[0], signal.SIGKILL)

    for name, callback in (("killed", kill_one), ("undisturbed", None)):
        with Output(tmp_path / f"{name}.jsonl", describe_settings(POLICY)) as output:
            sources = open_inputs(["random:cvrp:30:400"])
            solve_inputs(sources, output, POLICY, engine=engine, batch=10, on_progress=callback)
    found, expected = (rows_of(tmp_path / f"{name}.jsonl") for name in ("killed", "undisturbed"))
    assert pids
    assert len(found) == 400
    assert {row["number"]: row["routes"] for row in found} == {row["number"]: row["routes"] for row in expected}


def test_a_node_that_is_lost(tmp_path: Path) -> None:
    """Two nodes on this machine; one is removed while both are at work."""
    import ray
    from ray.cluster_utils import Cluster

    if ray.is_initialized():
        ray.shutdown()
    os.environ.setdefault("RAY_worker_niceness", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE})
    try:
        second = cluster.add_node(num_cpus=1, object_store_memory=STORE)
        with open_engine("ray", 2, cluster.address) as engine:
            removed: list[float] = []

            def remove(progress: Any) -> None:
                if progress.done >= 100 and not removed:
                    removed.append(time.monotonic())
                    cluster.remove_node(second, allow_graceful=False)

            with Output(tmp_path / "out.jsonl", describe_settings(POLICY)) as output:
                sources = open_inputs(["random:cvrp:30:400"])
                progress = solve_inputs(sources, output, POLICY, engine=engine, batch=10, on_progress=remove)
        assert removed
        assert (progress.done, progress.failed) == (400, 0)
        assert sorted(row["number"] for row in rows_of(tmp_path / "out.jsonl")) == list(range(400))
    finally:
        cluster.shutdown()


def test_no_cluster_at_the_address() -> None:
    import ray

    if ray.is_initialized():
        ray.shutdown()
    with pytest.raises(ValueError, match=r"address is '127.0.0.1:1', where nothing answers"):
        open_engine("ray", 1, "127.0.0.1:1")


def test_something_else_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says nothing, and one that speaks HTTP/1.1, as Ray's own dashboard does."""
    monkeypatch.setattr(ray_engine, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ValueError, match=rf"address is '{address}', where nothing answers \(timed out\)"):
            open_engine("ray", 1, address)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as web:
        threading.Thread(target=web.handle_request, daemon=True).start()
        with pytest.raises(ValueError, match=r"where something else than Ray answers"):
            open_engine("ray", 1, f"ray://127.0.0.1:{web.server_port}")
