"""Every endpoint of a real server."""

from __future__ import annotations

import csv
import io
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from commands import CVRP, TSP
from servers import check_solution, cvrp, ended, events_of, submit, tsp, wait_until

import elgo
from elgo.problem.files.solutions import parse_sol, parse_tour


@pytest.mark.parametrize("instance", [cvrp(), tsp()], ids=["cvrp", "tsp"])
def test_a_job_from_json(client: httpx.Client, instance: dict[str, Any]) -> None:
    answer = client.post("/jobs", json={"instance": instance, "options": {"seconds": 0.2, "seed": 3}})
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/jobs/{answer.json()['id']}"
    job = ended(client, answer.json()["id"])
    assert job["state"] == "finished"
    assert job["options"]["seed"] == 3
    assert job["solution"]["source"] == "search"
    assert job["started"] < job["finished"]
    check_solution(job)
    costs = [cost for _, cost, _ in job["history"]]
    assert costs == sorted(set(costs), reverse=True)
    assert costs[-1] == job["cost"] == job["solution"]["cost"]


def test_names_vehicles_and_places_come_back(client: httpx.Client) -> None:
    names = [f"stop {i}" for i in range(6)]
    places = [[48.1 + 0.01 * i, 11.5 + 0.02 * (i % 3)] for i in range(6)]
    instance = cvrp(5, coordinates=places, latlon=True, names=names, vehicles=2, capacity=3, name="Munich")
    job = ended(client, submit(client, instance))
    assert job["name"] == "Munich"
    assert job["unit"] == "m"
    assert len(job["solution"]["routes"]) == 2
    assert job["solution"]["loads"] == [sum(1 for _ in route) for route in job["solution"]["routes"]]
    assert job["instance"] | {"best_known": 0} == {
        "coordinates": places, "latlon": True, "names": names, "demand": [0, *[1] * 5], "capacity": 3, "vehicles": 2,
        "best_known": 0, "open": False, "first": None, "last": None,
    }  # fmt: skip
    places_of = client.get(f"/jobs/{job['id']}/solution.geojson")
    assert places_of.headers["content-type"] == "application/geo+json"
    features = places_of.json()["features"]
    assert {feature["properties"].get("name") for feature in features} >= set(names)


def test_a_matrix_may_be_asymmetric(client: httpx.Client) -> None:
    matrix = [[0, 1, 9, 9], [9, 0, 1, 9], [9, 9, 0, 1], [1, 9, 9, 0]]
    job = ended(client, submit(client, {"matrix": matrix}))
    assert job["cost"] == 4
    assert job["instance"]["coordinates"] is None
    (route,) = job["solution"]["routes"]
    assert np.roll(route, -route.index(0)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("instance", "routes"),
    [
        ({"coordinates": [[3, 4]]}, [[0]]),
        ({"matrix": [[0]]}, [[0]]),
        ({"matrix": [[0, 0], [0, 0]]}, [[0, 1]]),
        ({"coordinates": [[3, 4]] * 3}, [[0, 1, 2]]),
        ({"coordinates": [[0, 0]], "demand": [0], "capacity": 1}, []),
        ({"coordinates": [[0, 0], [0, 2]], "demand": [0, 1], "capacity": 1}, [[1]]),
    ],
)
def test_trivial_instances(client: httpx.Client, instance: dict[str, Any], routes: list[list[int]]) -> None:
    job = ended(client, submit(client, instance))
    assert job["state"] == "finished", job["error"]
    assert sorted(map(sorted, job["solution"]["routes"])) == routes
    for suffix in ("sol", "csv", "json"):
        assert client.get(f"/jobs/{job['id']}/solution.{suffix}").status_code == 200
    assert client.get(f"/jobs/{job['id']}/trace").status_code in (200, 422)


def test_a_job_from_a_file(client: httpx.Client) -> None:
    for file in (CVRP, TSP):
        files = {"file": (f"C:\\folder\\{file.name}", file.read_bytes())}
        answer = client.post("/jobs", files=files, data={"options": json.dumps({"seconds": 0.3})})
        assert answer.status_code == 202, answer.text
        job = ended(client, answer.json()["id"])
        instance = elgo.read(file)
        assert job["name"] == instance.name
        text = client.get(f"/jobs/{job['id']}/solution.sol").text
        solution = (parse_sol if instance.problem == "cvrp" else parse_tour)(text, instance)
        assert solution.feasible
        assert solution.cost == job["cost"] < 1.1 * (instance.best_known or 0)


def test_a_csv_file_with_what_it_leaves_open(client: httpx.Client) -> None:
    text = "id,lat,lon,demand_kg,colour\nA,48.1,11.5,2,red\nB,48.2,11.6,2,blue\nD,48.15,11.55,,\nC,48.0,11.4,2,red\n"
    fields = {"capacity": "4", "vehicles": "2", "depot": "D", "options": '{"seconds": 0.1}'}
    answer = client.post("/jobs", files={"file": ("stops.csv", text.encode("utf-16"))}, data=fields)
    job = ended(client, answer.json()["id"])
    assert job["warnings"] == ["not used: column 'colour'"]
    assert len(job["solution"]["routes"]) == 2
    table = client.get(f"/jobs/{job['id']}/solution.csv")
    assert "stops.routes.csv" in table.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert sorted(row["id"] for row in rows if row["id"] != "D") == ["A", "B", "C"]
    assert rows[0]["id"] == "D"
    assert {row["colour"] for row in rows} == {"red", "blue", ""}


def test_open_routes_and_fixed_ends(client: httpx.Client) -> None:
    line = {"coordinates": [[k, 0] for k in range(6)]}
    loads = {"demand": [0, 1, 1, 1, 1, 1], "capacity": 5}
    for changes, cost in (
        ({}, 10),
        ({"open": True}, 5),
        ({"first": 2, "open": True}, 7),
        ({"first": 0, "last": 1}, 9),
        (loads, 10),
        (loads | {"open": True}, 5),
    ):
        job = ended(client, submit(client, line | changes))
        assert job["solution"]["cost"] == sum(job["solution"]["lengths"]) == cost
        assert job["instance"]["open"] == (cost != 10)
        assert (job["instance"]["first"], job["instance"]["last"]) == (changes.get("first"), changes.get("last"))
        if "last" in changes:
            assert (job["solution"]["routes"][0][0], job["solution"]["routes"][0][-1]) == (0, 1)


def test_ends_of_a_file(client: httpx.Client) -> None:
    text = "id,x,y\n" + "".join(f"s{k},{k},0\n" for k in range(6))
    for fields, cost in (({"open": "true"}, 5), ({"first": "s2", "last": "s5", "open": "false"}, 7)):
        answer = client.post("/jobs", files={"file": ("line.csv", text.encode())}, data=fields)
        assert ended(client, answer.json()["id"])["cost"] == cost


def test_solve_waits(client: httpx.Client) -> None:
    answer = client.post("/solve", json={"instance": cvrp(), "options": {"seconds": 0.1}})
    assert answer.status_code == 200
    assert answer.json()["state"] == "finished"
    check_solution(answer.json())


def test_events(client: httpx.Client) -> None:
    id = submit(client, cvrp(60, seed=1), seconds=1.2)
    with client.stream("GET", f"/jobs/{id}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = list(events_of(answer.iter_lines()))
    assert events[-1] == ("end", {"state": "finished"})
    assert {name for name, _ in events} == {"improved", "progress", "end"}
    found = [data for name, data in events if name == "improved"]
    job = client.get(f"/jobs/{id}").json()
    assert [data["cost"] for data in found] == [cost for _, cost, _ in job["history"]][-len(found) :]
    assert found[-1]["solution"] == job["solution"]
    assert all(0 <= data["fraction"] <= 1 for name, data in events if name == "progress")
    with client.stream("GET", f"/jobs/{id}/events") as answer:  # of a job that has ended: its best
        assert [name for name, _ in events_of(answer.iter_lines())] == ["improved", "progress", "end"][::2]


def test_delete_keeps_the_best(client: httpx.Client) -> None:
    id = submit(client, cvrp(60), seconds=50)
    with client.stream("GET", f"/jobs/{id}/events") as answer:
        next(event for event in events_of(answer.iter_lines()) if event[0] == "improved")
    job = client.delete(f"/jobs/{id}").json()
    assert job["state"] == "stopped"
    check_solution(job)
    assert client.delete(f"/jobs/{id}").json() == job  # it has ended already


def test_a_warm_start(client: httpx.Client) -> None:
    routes = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    job = ended(client, submit(client, cvrp(10), warm_start=routes))
    assert job["history"][0][2] == "warm start"
    check_solution(job)


@pytest.mark.parametrize("options", [{"policy_only": True}, {"start": "elg", "seconds": 0.2}])
def test_the_policy(client: httpx.Client, options: dict[str, Any]) -> None:
    answer = client.post("/jobs", json={"instance": cvrp(), "options": options})
    job = ended(client, answer.json()["id"])
    assert job["state"] == "finished", job["error"]
    check_solution(job)
    if options.get("policy_only"):
        assert (job["seconds"], job["solution"]["source"]) == (None, "policy")


@pytest.mark.parametrize("instance", [cvrp(25), tsp(25)], ids=["cvrp", "tsp"])
def test_a_trace_is_the_policys_construction(client: httpx.Client, instance: dict[str, Any]) -> None:
    id = submit(client, instance)
    answer = client.get(f"/jobs/{id}/trace", params={"start": 7}).json()
    steps, depots = answer["steps"], [0] if "demand" in instance else []
    visited = [7, *(step["chosen"] for step in steps)]
    assert [step["current"] for step in steps] == visited[:-1]
    assert sorted(node for node in visited if node or not depots) == list(range(len(depots), len(depots) + 25))
    problem = elgo.Instance("a", instance["coordinates"], "EXACT_2D", instance.get("demand"), instance.get("capacity"))
    expected = elgo.explain_step("elg", problem, visited[:9])
    for candidate in steps[8]["candidates"]:
        assert candidate["probability"] == pytest.approx(float(expected.probability[candidate["node"]]), abs=1e-5)
        assert candidate["local"] == pytest.approx(float(expected.local_scores[candidate["node"]]), abs=1e-4)
    assert steps[8]["chosen"] == int(expected.probability.argmax())
    if depots:
        assert max(step["load"] for step in steps) == 5
        assert [step["load"] for step in steps][:2] == [1, 2]
    tours, _ = elgo.rollouts("elg", problem, starts=[7])
    assert tours[0, : len(visited)].tolist() == visited
    assert client.get(f"/jobs/{id}/trace").json()["steps"][0]["current"] == len(depots)
    for start in (-1, 26, 0 if depots else 25):
        refused = client.get(f"/jobs/{id}/trace", params={"start": start})
        assert (refused.status_code, refused.json()["field"]) == (422, "start")
    ended(client, id)


def test_a_trace_is_short(client: httpx.Client) -> None:
    id = submit(client, tsp(301))
    assert client.get(f"/jobs/{id}/trace").status_code == 422
    client.delete(f"/jobs/{id}")


def test_many_traces_do_not_stop_the_service(client: httpx.Client) -> None:
    id = submit(client, tsp(60))
    ended(client, id)
    with ThreadPoolExecutor(60) as threads:
        traces = [threads.submit(client.get, f"/jobs/{id}/trace") for _ in range(60)]
        wait_until(lambda: any(trace.done() for trace in traces))
        assert client.get("/health").status_code == client.get(f"/jobs/{id}").status_code == 200
        assert sum(trace.done() for trace in traces) < 40
    assert all(trace.result().status_code == 200 for trace in traces)


def test_the_latest_jobs(client: httpx.Client) -> None:
    ids = [submit(client, tsp(name=f"number {i}")) for i in range(3)]
    rows = client.get("/jobs", params={"limit": 2}).json()
    assert [row["id"] for row in rows] == ids[:0:-1]
    assert rows[0]["name"] == "number 2"
    assert (rows[0]["problem"], rows[0]["nodes"]) == ("tsp", 20)
    for id in ids:
        ended(client, id)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_generated_instances_can_be_solved(client: httpx.Client, problem: str) -> None:
    body = {"problem": problem, "size": 30, "distribution": "cluster", "seed": 7}
    answer = client.post("/generate", json=body).json()
    assert answer == client.post("/generate", json=body).json()
    job = ended(client, submit(client, answer["instance"]))
    assert job["nodes"] == 30 + (problem == "cvrp")
    check_solution(job)
    refused = client.post("/generate", json=body | {"distribution": "odd"})
    assert (refused.status_code, refused.json()["field"]) == (422, "distribution")


def test_health_and_metrics(client: httpx.Client) -> None:
    ended(client, submit(client, tsp()))
    assert client.get("/health").json().keys() == {"status", "version", "workers", "waiting", "token"}
    lines = client.get("/metrics").text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(values['elgo_jobs_total{state="finished"}']) >= 1
    assert float(values['elgo_responses_total{status="202"}']) >= 1


def test_docs_are_served_from_the_package(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert "http" not in page.text
    for name in ("docs/files/swagger-ui-bundle.js", "docs/files/swagger-ui.css", "docs/files/start.js", "openapi.json"):
        assert client.get(f"/{name}").status_code == 200
    assert "'unsafe" not in page.headers["content-security-policy"]
    assert set(client.get("/openapi.json").json()["components"]["schemas"]) >= {"JobBody", "InstanceBody", "JobView"}


@pytest.mark.parametrize("path", ["/jobs/nope", "/jobs/nope/events", "/jobs/nope/solution.sol", "/nope"])
def test_what_is_not_there(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json().keys() == {"error", "field"}
