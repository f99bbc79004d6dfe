"""Nothing that is sent is ignored: what cannot be done is refused in one line that names the field."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import httpx
import pytest
from servers import cvrp, ended, submit, tsp

from elgo.serve.errors import Refused
from elgo.serve.intake import _parse
from elgo.serve.models import JobBody

TIME_WINDOWS = "x,y,demand,ready_time,due_date\n0,0,0,0,9\n1,1,2,0,5\n2,2,2,1,4\n"
SQUARE = [[0, 0], [0, 1], [1, 1], [1, 0]]

BODIES: list[tuple[dict[str, Any], str, str]] = [
    ({"options": {}}, "instance", "Field required"),
    ({"instance": tsp(), "choices": {}}, "choices", "not permitted"),
    ({"instance": tsp(time_windows=[])}, "instance.time_windows", "not permitted"),
    ({"instance": tsp(), "options": {"time_limit": 3}}, "options.time_limit", "not permitted"),
    ({"instance": {}}, "instance.coordinates", "missing"),
    ({"instance": {"coordinates": []}}, "instance.coordinates", ""),
    ({"instance": {"matrix": []}}, "instance.coordinates", ""),
    ({"instance": tsp(coordinates=[[0, 0], [1, "2"], [3, 3]])}, "instance.coordinates", "valid number"),
    ({"instance": tsp(coordinates=[[0, 0, 0]] * 4)}, "instance.coordinates", "at most 2"),
    ({"instance": tsp(coordinates=[[91, 0], [0, 1], [1, 1]], latlon=True)}, "instance.coordinates", "outside -90..90"),
    ({"instance": {"matrix": [[0, 1, 2], [1, 0]]}}, "instance.matrix", "2 rows, but 3 numbers in row 0"),
    ({"instance": {"matrix": [[0, -1, 2], [1, 0, 2], [1, 2, 0]]}}, "instance.matrix", "-1"),
    ({"instance": {"matrix": [[0, 1, 2], [1, 0, 2], [1, 2, 0]], "latlon": True}}, "instance.latlon", "no coordinates"),
    ({"instance": cvrp(5, demand=[0, 1, 2])}, "instance.demand", "shape (3,), expected (6,)"),
    ({"instance": cvrp(5, demand=[1, *[1] * 5])}, "instance.demand", "depot"),
    ({"instance": cvrp(5, demand=[0, 9, *[1] * 4])}, "instance.demand", "9"),
    ({"instance": cvrp(5, capacity=0)}, "instance.capacity", "CAPACITY is 0"),
    ({"instance": tsp(capacity=5)}, "instance.demand", "missing"),
    ({"instance": tsp(vehicles=2)}, "instance.vehicles", "only a CVRP"),
    ({"instance": cvrp(10, vehicles=1)}, "instance.vehicles", "vehicles is 1"),
    ({"instance": tsp(names=["a"])}, "instance.names", "NAMES has 1 names, expected 20"),
    ({"instance": tsp(name="a\u0000b")}, "instance.name", "NAME"),
    ({"instance": tsp(), "options": {"seconds": 61}}, "options.seconds", "at most 60"),
    ({"instance": tsp(), "options": {"seconds": 0}}, "options.seconds", "greater than 0"),
    ({"instance": tsp(), "options": {"seconds": 1, "policy_only": True}}, "options.seconds", "no time limit"),
    ({"instance": tsp(), "options": {"seed": -1}}, "options.seed", "greater than or equal to 0"),
    ({"instance": tsp(), "options": {"seed": True}}, "options.seed", "valid integer"),
    ({"instance": tsp(), "options": {"start": "/etc/passwd"}}, "options.start", "there are elg"),
    ({"instance": tsp(), "options": {"start": "x.safetensors"}}, "options.start", "there are elg"),
    ({"instance": tsp(), "options": {"model": "elg"}}, "options.model", "needs policy_only"),
    ({"instance": tsp(4, coordinates=SQUARE), "options": {"warm_start": [[0, 1, 2]]}}, "options.warm_start", "missing"),
    ({"instance": tsp(4), "options": {"warm_start": [[0, 1, 2, 3]], "start": "elg"}}, "options.warm_start", "both"),
    ({"instance": tsp(first=20)}, "instance.first", "FIRST is 20, expected a node of 0..19"),
    ({"instance": tsp(first=3, last=3)}, "instance.first", "both 3"),
    ({"instance": cvrp(last=1)}, "instance.last", "only a TSP takes it"),
    ({"instance": tsp(open=1)}, "instance.open", "valid boolean"),
    ({"instance": tsp(2001)}, "instance.coordinates", "at most 2000 nodes"),
]


@pytest.mark.parametrize(("body", "field", "words"), BODIES, ids=[f"{field}-{words}" for _, field, words in BODIES])
def test_bodies(client: httpx.Client, body: dict[str, Any], field: str, words: str) -> None:
    for path in ("/jobs", "/solve"):
        answer = client.post(path, json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["field"] == field, answer.text
        assert words in answer.json()["error"]
        assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ('{"instance": {"matrix": [[0]]}, "instance": {"matrix": [[0]]}}', "instance"),
        ('{"instance": {"matrix": [[0]], "matrix" : [[0]]}}', "matrix"),
        (r'{"instance": {"matrix": [[0]]}, "options": {"seed": 1, "s\u0065ed": 2}}', "seed"),
    ],
)
def test_keys_that_are_sent_twice(client: httpx.Client, body: str, key: str) -> None:
    answer = client.post("/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json() == {"error": f"{key}: is sent twice", "field": key}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"instance": {"coordinates": [' + "[]," * 600_000 + "[]]}}", "instance.coordinates.0.0"),
        ('{"instance": {"matrix": [[' + '"",' * 600_000 + '""]]}}', "instance.matrix.0.0"),
        ('{"instance": {"names": [' + "1," * 900_000 + "1]}}", "instance.names.0"),
        ('{"instance": {' + ",".join(f'"{i}":0' for i in range(150_000)) + "}}", "more than 100 keys"),
    ],
    ids=["coordinates", "matrix", "names", "keys"],
)
def test_a_million_mistakes_take_no_memory(text: str, words: str) -> None:
    tracemalloc.start()
    with pytest.raises(Refused, match=re.escape(words)):
        _parse(text.encode(), JobBody)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 * len(text)


def test_a_name_may_look_like_a_key(client: httpx.Client) -> None:
    body = {"instance": {"name": '"seed": 1, "seed"', "matrix": [[0]]}, "options": {"seed": 1, "seconds": 0.1}}
    assert client.post("/jobs", json=body).status_code == 202


FORMS: list[tuple[dict[str, Any], dict[str, str], str, str]] = [
    ({}, {"options": "{}"}, "file", "missing"),
    ({"file": ("a.txt", b"x")}, {}, "file", "suffix is '.txt'"),
    ({"file": ("a.csv", b"x,y\n0,zero\n")}, {}, "file", "a.csv: row 1"),
    ({"file": ("a.csv", b"x,y\n" + b"0,0\n" * 30_000)}, {}, "file", "has 30001 lines, but at most 2000 nodes"),
    ({"file": ("a.csv", b"\x00\x01")}, {}, "file", "not a text file"),
    ({"file": ("a.csv", TIME_WINDOWS.encode())}, {}, "file", "ready_time"),
    ({"file": ("../../etc/passwd", b"x")}, {}, "file", "passwd: suffix is ''"),
    ({"file": ("a.vrp", b"NAME : a\nTYPE : CVRP\nSERVICE_TIME_SECTION\n1 3\n")}, {}, "file", "a.vrp"),
    ({"file": ("a.vrp", b"NAME : a\n")}, {"capacity": "3"}, "file", "only CSV files"),
    ({"file": ("a.csv", b"x,y\n0,0\n1,1\n2,0\n")}, {"vehicles": "many"}, "vehicles", "'many', expected a number"),
    ({"file": ("a.csv", b"x,y\n0,0\n1,1\n2,0\n")}, {"open": "yes"}, "open", "'yes', expected true or false"),
    ({"file": ("a.csv", b"x,y\n0,0\n1,1\n2,0\n")}, {"last": "nine"}, "file", "last is nine, but no stop has this id"),
    ({"file": ("a.csv", b"x,y\n0,0\n1,1\n2,0\n")}, {"options": "{"}, "options", "Invalid JSON"),
    ({"file": ("a.csv", b"x,y\n0,0\n1,1\n2,0\n")}, {"options": '{"fast": 1}'}, "options.fast", "not permitted"),
    ({"file": ("a.csv", b"x,y\n0,0\n1,1\n2,0\n")}, {"options": '{"seed": 1, "seed": 2}'}, "seed", "sent twice"),
    ({"file": ("a.csv", b"x,y\n0,0\n1,1\n2,0\n")}, {"fast": "1"}, "fast", "expected file, options"),
]


@pytest.mark.parametrize(("files", "fields", "field", "words"), FORMS, ids=[f"{f[2]}-{f[3]}" for f in FORMS])
def test_forms(client: httpx.Client, files: dict[str, Any], fields: dict[str, str], field: str, words: str) -> None:
    answer = client.post("/jobs", files=files or {"none": (None, b"")}, data=fields)
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["error"] or not files
    assert answer.json()["field"] == field or not files


def test_other_requests(client: httpx.Client) -> None:
    for answer, status in (
        (client.post("/jobs", content=b"{", headers={"Content-Type": "application/json"}), 422),
        (client.post("/jobs", content=b"[" * 100_000, headers={"Content-Type": "application/json"}), 422),
        (client.post("/jobs", content=b"NaN", headers={"Content-Type": "application/json"}), 422),
        (client.post("/jobs", content=b"x", headers={"Content-Type": "text/plain"}), 415),
        (client.post("/jobs", content=b"x", headers={"Content-Type": "multipart/form-data; boundary=b"}), 400),
        (client.post("/jobs?fast=1", json={}), 422),
        (client.get("/jobs?limit=0"), 422),
        (client.get("/jobs?limit=x"), 422),
        (client.get("/jobs?limits=5"), 422),
        (client.get("/jobs?limit=5&limit=6"), 422),
        (client.put("/jobs"), 405),
        (client.post("/solve", json={"instance": tsp(1001)}), 422),
        (client.post("/solve", json={"instance": tsp(), "options": {"seconds": 11}}), 422),
    ):
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]


def test_large_bodies(client: httpx.Client) -> None:
    large = b" " * 5_000_000
    headers = {"Content-Type": "application/json"}
    assert client.post("/jobs", content=large, headers=headers).status_code == 413
    assert client.post("/jobs", content=iter([large]), headers=headers).status_code == 413  # without Content-Length
    assert client.post("/generate", content=large, headers=headers).status_code == 413
    assert client.get("/health").status_code == 200


def test_geojson_needs_places(client: httpx.Client) -> None:
    id = submit(client, tsp())
    ended(client, id)
    answer = client.get(f"/jobs/{id}/solution.geojson")
    assert answer.status_code == 422
    assert "latitude" in answer.json()["error"]
