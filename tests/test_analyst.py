"""From a spreadsheet to a map, as an analyst goes: the command by subprocess, the page in a real browser."""

import csv
import json
import math
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FLAGS = (
    *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"),
    *("disable-component-update", "disable-sync", "window-size=1280,900"),
)
HOSTILE = "<img src=x onerror=alert(1)> & </script><script>alert(2)</script>"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

pytestmark = pytest.mark.slow


def stops_text() -> str:
    """60 customers around a depot in the last row, as Excel writes it where the comma is the decimal mark."""
    rows = ["Customer ID;Name;Latitude;Lng;Demand_kg;Phone"]
    for i in range(60):
        angle, radius = 2.4 * i, 0.013 * math.sqrt(i + 1)
        lat, lon = 52.5 + radius * math.sin(angle), 13.4 + 1.6 * radius * math.cos(angle)
        name = HOSTILE if i == 7 else f"Bäckerei {i + 1}"
        rows.append(f"C{i + 1};{name};{lat:.5f};{lon:.5f};{10 + i % 9};030/{i}".replace(".", ","))
    return "\r\n".join([*rows, "HQ;Lager;52,5;13,4;;", ""])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stops.csv and all that `elgo solve` makes of it."""
    path = tmp_path_factory.mktemp("analyst")
    (path / "stops.csv").write_bytes(stops_text().encode("utf-16"))
    outputs = ["--map", "map.html", "--routes", "routes.csv", "--geojson", "routes.geojson", "--json", "out.json"]
    words = ["solve", "stops.csv", "--capacity", "150", "--depot", "HQ", "--time-limit", "1", *outputs]
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from elgo.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), *words], cwd=path, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert "elgo: warning: stops.csv: not used: column 'Phone'" in done.stderr.splitlines()
    return path


def test_routes_add_up(folder: Path) -> None:
    (result,) = json.loads((folder / "out.json").read_text())
    text = (folder / "routes.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(text.splitlines(), delimiter=";"))

    def number(row: dict[str, str], column: str) -> float:
        return float(row[column].replace(",", "."))

    routes = {row["route"]: [other for other in rows if other["route"] == row["route"]] for row in rows}
    assert len(routes) == len(result["routes"])
    visited = []
    for route, cost, load in zip(routes.values(), result["route_costs"], result["route_loads"], strict=True):
        assert [row["position"] for row in route] == [str(i) for i in range(len(route))]
        assert route[0]["id"] == route[-1]["id"] == "HQ"
        visited += [row["id"] for row in route[1:-1]]
        assert sum(number(row, "leg_km") for row in route) == pytest.approx(cost / 1000, abs=1e-4)
        assert number(route[-1], "distance_km") == pytest.approx(cost / 1000, abs=1e-5)
        assert sum(number(row, "Demand_kg") for row in route[1:-1]) == number(route[-1], "load") == load <= 150
    assert sorted(visited) == sorted(f"C{i}" for i in range(1, 61))
    assert sum(result["route_costs"]) == pytest.approx(result["cost"])
    assert {row["Phone"] for row in rows} == {"", *(f"030/{i}" for i in range(60))}


class Browser:
    """A page in chromium, driven through chromedriver's HTTP interface (W3C WebDriver)."""

    def __init__(self, url: str, profile: Path) -> None:
        self.url = url
        arguments = [f"--{flag}" for flag in (*FLAGS, f"user-data-dir={profile}")]
        options = {"args": arguments, "binary": CHROMIUM}
        logs = {"browser": "ALL", "performance": "ALL"}
        always = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logs}
        session = self._post("/session", {"capabilities": {"alwaysMatch": always}})
        self.url += f"/session/{session['sessionId']}"

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, page: Path) -> None:
        self._post("/url", {"url": "about:blank"})
        self.requests()  # forget those of the browser's own first page
        self._post("/url", {"url": page.as_uri()})

    def run(self, script: str) -> Any:
        """Return what JavaScript returns."""
        return self._post("/execute/sync", {"script": script, "args": []})

    def console(self) -> list[str]:
        """Return the messages of the console, errors of the network and the policy included."""
        return [entry["message"] for entry in self._post("/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """Return the addresses that the page has asked for."""
        events = [json.loads(entry["message"])["message"] for entry in self._post("/se/log", {"type": "performance"})]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in sent]

    def close(self) -> None:
        urllib.request.urlopen(urllib.request.Request(self.url, method="DELETE"), timeout=60).close()


@contextmanager
def chromedriver() -> Iterator[str]:
    """Yield the address of a running chromedriver; skip the test where there is no browser."""
    driver = shutil.which("chromedriver")
    if not driver or not CHROMIUM:
        pytest.skip("no chromium and chromedriver here (Debian: apt-get install chromium chromium-driver)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromedriver() as url:
        page = Browser(url, tmp_path_factory.mktemp("profile"))
        yield page
        page.close()


SHOWN = "return [...document.querySelectorAll('.name.shown')].map(e => e.textContent)"


def test_the_map_in_a_browser(folder: Path, browser: Browser) -> None:
    browser.open(folder / "map.html")
    (result,) = json.loads((folder / "out.json").read_text())
    shown = browser.run(SHOWN)
    assert len(shown) >= 40  # names with room
    assert "Lager" in shown
    assert any(name.startswith("<img src=x onerror") for name in shown)
    badges = browser.run("return [...document.querySelectorAll('.stop')].map(e => e.textContent)")
    numbers = [str(i) for route in result["routes"] for i in range(1, len(route) + 1)]
    assert sorted(badges) == sorted([*numbers, "D"])
    paths = browser.run("return [...document.querySelectorAll('#map path')].map(e => e.getBBox().width)")
    assert len(paths) == len(result["routes"])
    assert min(paths) > 20
    text = browser.run("return document.getElementById('panel').textContent")
    assert f"{result['cost'] / 1000:.1f} km" in text
    assert all(f"load {load:g} / 150" in text for load in result["route_loads"])
    assert "not roads" in text
    assert HOSTILE in text  # in the list of stops, in full
    assert all(f"Bäckerei {i}" in text for i in range(1, 61) if i != 8)
    assert "km" in browser.run("return document.querySelector('.leaflet-control-scale').textContent")
    assert browser.run("return document.images.length") == 0
    hidden = browser.run("document.querySelector('#panel input').click(); " + SHOWN.replace(".shown", ""))
    assert len(hidden) == 61
    assert browser.console() == []
    assert browser.requests() == [(folder / "map.html").as_uri()]


@pytest.mark.parametrize("size", [4, 5000])
def test_planes_in_a_browser(size: int, tmp_path: Path, browser: Browser) -> None:
    """Few stops and many: then they are dots on a canvas."""
    from elgo.problem.files.csv import parse_stops
    from elgo.problem.solution import Solution
    from elgo.view.map import format_map

    rows = [f"{1e6 * math.sin(i * i)},{1e6 * math.cos(i)}" for i in range(size)]
    instance, stops, _ = parse_stops("\n".join(["x,y", *rows]))
    (tmp_path / "map.html").write_text(format_map(Solution(instance, (tuple(range(size)),)), stops), encoding="utf-8")
    browser.open(tmp_path / "map.html")
    assert browser.run("return document.querySelectorAll('.stop').length") == (size if size < 1000 else 1)
    assert browser.run("return document.querySelectorAll('#map canvas').length") == int(size > 1000)
    scale = browser.run("return document.querySelector('.plane-scale').textContent")
    assert float(scale.replace(",", "")) >= 1e5
    assert browser.console() == []
