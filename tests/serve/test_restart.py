"""Nothing is lost and nothing is done twice: servers that are killed or ended, workers that die, full disks."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from commands import elgo_command
from servers import ROOT, check_solution, cvrp, ended, events_of, serving, submit, tsp, wait_until

from elgo.problem.errors import ElgoError
from elgo.serve.models import InstanceBody, Options, StoredRequest
from elgo.serve.store import Change, Store


def workers_of(pid: int) -> list[int]:
    """Return the worker processes of a server."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("the system does not tell a process's children")
    found = [int(child) for child in children.read_text().split()]
    return [child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_killed_in_the_middle_of_20_jobs(tmp_path: Path) -> None:
    store = tmp_path / "jobs.sqlite"
    with serving(store) as server:
        client = server.client()
        ids = [submit(client, (cvrp if i % 2 else tsp)(15, seed=i), seconds=0.3) for i in range(20)]
        wait_until(lambda: sum(row["state"] == "finished" for row in client.get("/jobs").json()) >= 3)
        before = {row["id"]: row for row in client.get("/jobs").json()}
        server.kill()
    with serving(store) as server:
        client = server.client()
        wait_until(lambda: sum(row["state"] == "finished" for row in client.get("/jobs").json()) >= 10)
        server.kill()
    with serving(store) as server:
        client = server.client()
        jobs = [ended(client, id) for id in ids]
        assert [row["id"] for row in client.get("/jobs").json()] == ids[::-1]  # none lost, none doubled
    for job in jobs:
        assert job["state"] == "finished", job["error"]
        check_solution(job)
        earlier = before[job["id"]]
        if earlier["state"] == "finished":
            assert {key: job[key] for key in earlier} == earlier
        elif earlier["cost"] is not None:
            assert job["cost"] <= earlier["cost"]


def test_an_interrupted_job_goes_on_from_its_best(tmp_path: Path) -> None:
    store = tmp_path / "jobs.sqlite"
    with serving(store, "--workers", 1) as server:
        client = server.client()
        id = submit(client, cvrp(80), seconds=3)
        wait_until(lambda: client.get(f"/jobs/{id}").json()["solution"])
        time.sleep(0.5)  # more than it takes to store it
        before = client.get(f"/jobs/{id}").json()
        server.kill()
    with serving(store, "--workers", 1) as server:
        assert any("1 interrupted jobs go on" in line for line in server.lines)
        job = ended(server.client(), id)
    assert job["state"] == "finished"
    assert [cost for _, cost, _ in job["history"]] == sorted({cost for _, cost, _ in job["history"]}, reverse=True)
    stored = before["history"][0]
    assert job["history"][0] == stored  # its history goes on
    assert [source for _, _, source in job["history"]].count("fallback") == 1
    check_solution(job)


def test_sigterm_stores_the_best_and_answers_who_waits(tmp_path: Path) -> None:
    store = tmp_path / "jobs.sqlite"
    with serving(store, "--workers", 1) as server:
        client = server.client()
        id = submit(client, cvrp(60), seconds=4)
        with client.stream("GET", f"/jobs/{id}/events") as answer:
            events = events_of(answer.iter_lines())
            assert "improved" in (name for name, _ in events)
            assert server.terminate() == 0
            assert "end" not in [name for name, _ in events]  # the stream ends, but not the job
        assert not [line for line in server.lines if "Traceback" in line]
    with serving(store, "--workers", 1) as server:
        job = ended(server.client(), id)
    assert job["state"] == "finished"
    check_solution(job)


def test_a_dead_worker_is_one_failed_job(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs.sqlite", "--workers", 1) as server:
        client = server.client()
        id, other = submit(client, cvrp(40), seconds=50), submit(client, tsp())
        wait_until(lambda: client.get(f"/jobs/{id}").json()["solution"])
        (worker,) = workers_of(server.process.pid)
        os.kill(worker, signal.SIGKILL)
        job = ended(client, id)
        assert job["state"] == "failed"
        assert "SIGKILL" in job["error"]
        check_solution(job)  # the best until then is kept
        assert ended(client, other)["state"] == "finished"


def test_workers_end_with_their_server(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs.sqlite") as server:
        workers = wait_until(lambda: workers_of(server.process.pid))
        server.kill()
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def test_a_store_has_one_server(tmp_path: Path) -> None:
    store = tmp_path / "jobs.sqlite"
    with serving(store):
        done = elgo_command("serve", "--port", 0, "--store", store)
    assert done.returncode == 2
    assert done.stderr == f"elgo: {store}: the store cannot be opened: another server uses it\n"


def test_stores_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("this is no database" * 100)
    for store in (tmp_path / "text.sqlite", tmp_path, tmp_path / "text.sqlite" / "jobs.sqlite"):
        done = elgo_command("serve", "--port", 0, "--store", store)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert str(store) in done.stderr


def test_a_full_disk(tmp_path: Path) -> None:
    """Files that cannot grow: new jobs are refused, and the server goes on."""
    limit = (400_000, 400_000)
    with serving(
        tmp_path / "jobs.sqlite",
        *("--max-seconds", 0.1),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    ) as server:
        client = server.client()
        first = submit(client, tsp())
        assert ended(client, first)["state"] == "finished"

        def refused() -> httpx.Response | None:
            answer = client.post("/jobs", json={"instance": cvrp(5000, seed=int(time.time() * 1000))})
            return answer if answer.status_code not in (202, 429) else None

        answer = wait_until(refused)
        assert answer.status_code == 507
        assert "the store cannot be written" in answer.json()["error"]
        assert client.get(f"/jobs/{first}").json()["state"] == "finished"
        assert client.get("/health").status_code == 200


def test_importing_elgo_imports_no_server() -> None:
    code = "import elgo, elgo.cli.main, sys; print([m for m in ('fastapi', 'uvicorn', 'pydantic') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True).stdout == "[]\n"


def test_old_jobs_are_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    request = StoredRequest(instance=InstanceBody(coordinates=[(0.0, 0.0), (1.0, 1.0)]), options=Options())
    for id, age in (("old", 40), ("young", 20), ("newest", 50)):  # days
        store.add(id, request, id, "tsp", 2, 5.0, [])
        job = store.claim()
        assert job is not None
        store.finish(Change(job.number, 1.0, None), time.time() - 86_400 * age, "finished", (), None)
    store.close()
    with serving(tmp_path / "jobs.sqlite") as server:
        client = server.client()
        wait_until(lambda: client.get("/jobs/old").status_code == 404)
        assert [job["id"] for job in client.get("/jobs").json()] == ["newest", "young"]


def test_a_damaged_store_fails_its_jobs_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "jobs.sqlite"
    store = Store(file)
    request = StoredRequest(instance=InstanceBody.model_validate_json(json.dumps(cvrp())), options=Options(seconds=0.1))
    for id in ("request", "routes", "state", "whole"):
        store.add(id, request, id, "cvrp", 21, 0.1, [])
    store.close()
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE jobs SET request = x'00' WHERE id = 'request'")
        connection.execute("UPDATE jobs SET routes = x'00' WHERE id = 'routes'")
        connection.execute("UPDATE jobs SET state = 'odd' WHERE id = 'state'")
    with serving(file) as server:
        client = server.client()
        assert ended(client, "whole")["state"] == "finished"
        for id in ("request", "routes", "state"):
            wait_until(lambda: client.get("/metrics").text.count('elgo_jobs_total{state="failed"} 2'))
            answer = client.get(f"/jobs/{id}")
            assert answer.status_code == 507
            assert answer.json()["error"].startswith("the store cannot be read: ")
        assert ended(client, submit(client, tsp()))["state"] == "finished"
        assert server.terminate() == 0
    assert not [line for line in server.lines if "Traceback" in line]


@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE jobs DROP COLUMN spent", "CREATE TABLE bookmarks (name TEXT)", "PRAGMA user_version = 99"],
)
def test_a_store_of_another_program_or_version(tmp_path: Path, change: str) -> None:
    Store(tmp_path / "jobs.sqlite").close()
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite", isolation_level=None)) as connection:
        connection.execute(change)
    with pytest.raises(ElgoError, match=r"jobs.sqlite: the store cannot be opened: (no such column|it is of another)"):
        Store(tmp_path / "jobs.sqlite")
