"""Limits, tokens and slow clients."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import uvicorn
from servers import cvrp, ended, serving, submit, tsp, wait_until
from starlette.datastructures import Headers

from elgo.serve.app import create_app
from elgo.serve.limits import Limits
from elgo.serve.metrics import CountResponses
from elgo.serve.runner import Runner
from elgo.serve.security import is_cross_site
from elgo.serve.store import Store


def test_a_full_queue(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs.sqlite", "--workers", 1, "--max-queue", 2) as server:
        client = server.client()
        first = submit(client, cvrp(), seconds=50)
        wait_until(lambda: client.get(f"/jobs/{first}").json()["solution"])
        waiting = [submit(client, tsp(), seconds=20) for _ in range(2)]
        for path in ("/jobs", "/solve"):
            answer = client.post(path, json={"instance": tsp()})
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "20"  # half of what waits
            assert "2 jobs wait already" in answer.json()["error"]
        with socket.create_connection((client.base_url.host, client.base_url.port)) as slow:  # its body never comes
            slow.sendall(b"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
            assert slow.recv(100).startswith(b"HTTP/1.1 429 ")
        assert client.delete(f"/jobs/{waiting[0]}").json()["state"] == "stopped"
        assert client.get(f"/jobs/{waiting[0]}").json()["solution"] is None
        assert client.get(f"/jobs/{waiting[0]}/solution.sol").status_code == 404
        with ThreadPoolExecutor(8) as threads:  # there is one place again
            answers = list(threads.map(lambda _: client.post("/jobs", json={"instance": cvrp(1000)}), range(8)))
        assert sorted(answer.status_code for answer in answers) == [202, *[429] * 7]


def test_a_token(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs.sqlite", "--token", "söcret") as server:
        plain = server.client()
        assert plain.get("/health").status_code == 200
        basic = base64.b64encode("any:söcret".encode()).decode()
        for value in ("", "Bearer wrong", "Basic !", "Basic d3Jvbmc6d3Jvbmc=", "Digest x"):
            for path in (
                "/",
                "/jobs",
                "/docs",
                "/docs/files/start.js",
                "/openapi.json",
                "/metrics",
                "/nope",
                "//health",
            ):
                answer = plain.get(path, headers={"Authorization": value})
                assert answer.status_code == 401, path
                assert answer.json()["error"] == "the token is missing or wrong"
        assert plain.post("/jobs", json={"instance": tsp()}).status_code == 401
        for value in ("Bearer söcret".encode(), f"Basic {basic}".encode()):
            assert plain.get("/jobs", headers={b"Authorization": value}).status_code == 200


def test_cross_site_requests(client: httpx.Client) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = client.post("/jobs", json={"instance": tsp()}, headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    assert "access-control-allow-origin" not in client.get("/jobs", headers={"Origin": "https://evil.example"}).headers


@pytest.mark.parametrize(
    ("headers", "cross"),
    [
        ({}, False),
        ({"origin": "http://here:8000", "host": "here:8000"}, False),
        ({"origin": "http://there", "host": "here:8000"}, True),
        ({"origin": "null", "host": "here:8000"}, True),
        ({"origin": "http://[", "host": "here:8000"}, True),
        ({"origin": "https://allowed.example", "host": "here"}, False),
        ({"origin": "https://public.example", "host": "here", "sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "none"}, False),
    ],
)
def test_is_cross_site(headers: dict[str, str], cross: bool) -> None:
    assert is_cross_site(Headers(headers), ["https://allowed.example"]) is cross


def test_cors_if_told(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs.sqlite", "--cors", "https://shop.example") as server:
        client = server.client()
        answer = client.get("/jobs", headers={"Origin": "https://shop.example"})
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        allowed = client.post("/jobs", json={"instance": tsp()}, headers={"Origin": "https://shop.example"})
        assert allowed.status_code == 202


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[str]:
    """The URL of a server in this process, which gives a client half a second for its body."""
    store, limits = Store(tmp_path / "jobs.sqlite"), Limits(body_seconds=0.5)
    runner = Runner(store, 1, limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(create_app(runner, limits), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=asyncio.run, args=(server.serve(sockets=[listener]),))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()
    runner.close()
    store.close()


def test_slow_clients(impatient: str) -> None:
    client = httpx.Client(base_url=impatient, timeout=60)

    def trickle() -> Iterator[bytes]:
        for _ in range(100):
            yield b" "
            time.sleep(0.1)

    answer = client.post("/jobs", content=trickle(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 408
    id = submit(client, cvrp(), seconds=0.3)
    with client.stream("GET", f"/jobs/{id}/events"):  # never reads what comes
        assert ended(client, id)["state"] == "finished"


def test_a_client_that_goes_away_does_not_end_the_job(impatient: str) -> None:
    client = httpx.Client(base_url=impatient, timeout=60)
    with pytest.raises(httpx.ReadTimeout):
        client.post("/solve", json={"instance": cvrp(), "options": {"seconds": 1.5}}, timeout=0.5)
    (row,) = wait_until(lambda: client.get("/jobs").json())
    assert ended(client, row["id"])["state"] == "finished"


def test_errors_are_counted() -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError

    counts: Counter[int] = Counter()
    with pytest.raises(RuntimeError):
        asyncio.run(CountResponses(broken, counts)({}, None, None))  # type: ignore[arg-type]
    assert counts == {500: 1}
