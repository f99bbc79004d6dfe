"""The page of the service in Chromium: what a reader does with it, its accessibility, and which hosts it asks."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser import CHROMIUM, DRIVER, Page
from servers import ROOT, cvrp, ended, serving, submit, tsp, wait_until

import elgo

pytest.importorskip("selenium", reason="selenium is not installed")
pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium or chromedriver is missing: see make browser-test"),
]

EXAMPLE = ROOT / "examples" / "mixed-n116-k13.vrp"
AXE = ROOT / ".venv" / "node" / "node_modules" / "axe-core" / "axe.min.js"
STOPS = "50, 50, 0\n10, 10, 3\n90, 10, 4\n90, 90, 5\n10, 90, 6\n50, 90, 2\n"

DROP = """
const transfer = new DataTransfer();
transfer.items.add(new File([arguments[0]], arguments[1]));
document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running service whose kernels are loaded."""
    with serving(tmp_path_factory.mktemp("service") / "jobs.sqlite") as server:
        with server.client() as client:
            ended(client, submit(client, cvrp()))
        yield server.url


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    page = Page(tmp_path_factory.mktemp("chromium"))
    yield page
    page.close()


@pytest.fixture
def page(chromium: Page, address: str) -> Iterator[Page]:
    """The page, just opened. In the end: no errors in the console, and no request to another host."""
    shutil.rmtree(chromium.downloads, ignore_errors=True)
    chromium.look()
    chromium.open(f"{address}/")
    chromium.wait("#health", "worker")
    yield chromium
    assert chromium.errors() == []
    assert chromium.requested_hosts() == {address.removeprefix("http://")}


def get(url: str) -> Any:
    """Return the JSON at an address."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def job_on_screen(page: Page, address: str) -> dict[str, Any]:
    """Return the job that the page's address names."""
    number = page.driver.current_url.partition("#job=")[2].partition("&")[0]
    found: dict[str, Any] = get(f"{address}/jobs/{number}")
    return found


def solve_generated(
    page: Page, size: int = 40, seconds: str = "1", problem: str = "CVRP", button: str = "#start"
) -> None:
    """Generate an instance and solve it to the end."""
    page.choose("generate")
    page.find("#generate-problem").send_keys(problem)
    page.fill("#generate-size", str(size))
    page.fill("#seconds", seconds)
    page.click(button)
    runs = 2 if button == "#compare" else 1
    wait_until(lambda: page.texts(".state") == ["finished"] * runs)


def painted(page: Page) -> str:
    """Return the picture of the plane."""
    return str(page.run("return document.querySelector('.plan canvas').toDataURL()"))


def number(text: str) -> float:
    return float(text.replace(",", "").split()[0])


def test_dropped_file_improves_live_and_the_download_is_the_checked_solution(page: Page, address: str) -> None:
    text = EXAMPLE.read_text().replace("generated for elg", "(Optimal value: 15000)")
    page.run(DROP, text, EXAMPLE.name)
    page.wait("#file-name", EXAMPLE.name)
    page.fill("#seconds", "3")
    page.click("#start")
    page.wait(".cost", "1")
    seen = set()
    while page.text(".state") != "finished":
        seen.add(page.text(".cost"))
    assert len(seen - {""}) > 1  # it was seen to improve

    page.click(".downloads .sol")
    solution = elgo.read_solution(page.downloaded(), elgo.read(EXAMPLE))
    assert number(page.text(".cost")) == solution.cost == job_on_screen(page, address)["solution"]["cost"]
    assert page.text(".gap") == f"{100 * (solution.cost / 15000 - 1):.2f} % above the best known"
    assert len(page.find_all(".routes > li")) == len(solution.routes)
    page.wait("#chart canvas")
    assert f"{solution.cost:,.0f}" in page.text("#chart-text")


def test_clicked_stops_are_solved(page: Page, address: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    plane = page.find(".plan")
    for x, y in ((0, 0), (-150, -100), (150, -100), (150, 100), (-150, 100)):
        ActionChains(page.driver).move_to_element_with_offset(plane, x, y).click().pause(0.3).perform()
    page.wait(".title", "5 stops on the plane")
    page.click("#click-undo")
    page.wait(".title", "4 stops on the plane")
    page.fill("#seconds", "0.5")
    page.click("#start")
    page.wait(".state", "finished")
    job = job_on_screen(page, address)
    assert len(job["instance"]["coordinates"]) == 4
    assert job["instance"]["coordinates"][0] == pytest.approx([500, 500], abs=1)
    assert sorted(node for route in job["solution"]["routes"] for node in route) == [1, 2, 3]


def test_typed_stops_with_a_capacity(page: Page, address: str) -> None:
    page.choose("click")
    page.fill("#click-stops", STOPS)
    page.fill("#click-capacity", "10")
    page.fill("#seconds", "0.5")
    page.click("#start")
    page.wait(".state", "finished")
    job = job_on_screen(page, address)
    assert job["instance"]["demand"] == [0, 3, 4, 5, 6, 2]
    assert page.text(".routes .amount").endswith("/ 10")


def test_open_routes(page: Page, address: str) -> None:
    page.choose("click")
    page.fill("#click-stops", STOPS)
    page.fill("#seconds", "0.5")
    page.click("#open")
    page.click("#start")
    page.wait(".state", "finished")
    job = job_on_screen(page, address)
    assert job["instance"]["open"]
    assert '"open":true' in str(page.run("return document.querySelector('#curl').textContent"))


def test_stop_keeps_the_best(page: Page, address: str) -> None:
    page.choose("generate")
    page.fill("#generate-size", "300")
    page.fill("#seconds", "50")
    page.click("#start")
    wait_until(lambda: page.text(".cost"))
    page.click(".view .stop")
    page.wait(".state", "stopped")
    assert job_on_screen(page, address)["solution"]["cost"] == pytest.approx(number(page.text(".cost")), rel=1e-3)
    assert page.texts(".view .stop") == []


def test_hover_works_both_ways(page: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    solve_generated(page)
    before = painted(page)
    ActionChains(page.driver).move_to_element(page.find(".routes li:nth-child(2)")).perform()
    assert page.text(".route.marked .name") == "2"
    assert painted(page) != before
    ActionChains(page.driver).move_to_element(page.find("h1")).perform()
    assert painted(page) == before

    plane, size = page.find(".plan"), page.find(".plan").size
    spots = [(x, y) for x in range(-size["width"] // 3, size["width"] // 3, 20) for y in range(-100, 100, 20)]
    for x, y in spots:  # somewhere there is a stop
        ActionChains(page.driver, duration=0).move_to_element_with_offset(plane, x, y).perform()
        if page.find_all(".route.marked") and page.find_all(".leaflet-tooltip"):
            break
    assert f"route {page.text('.route.marked .name')}" in page.text(".leaflet-tooltip")


def test_keyboard_reaches_routes(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    solve_generated(page)
    before = painted(page)
    page.run("document.querySelector('.side input').focus()")
    page.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert page.driver.switch_to.active_element.get_attribute("class").startswith("route")
    assert page.text(".route.marked .name") == "1"
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)  # zooms to the route
    wait_until(lambda: painted(page) != before)
    assert page.run("return document.getElementById('status').textContent").startswith("Search finished: cost ")


def test_replay_goes_through_the_construction(page: Page, address: str) -> None:
    from selenium.webdriver.common.keys import Keys

    solve_generated(page, size=30)
    before = painted(page)
    page.choose("replay")
    page.wait(".where", "Step 1 of")
    trace = get(f"{address}/jobs/{job_on_screen(page, address)['id']}/trace")
    for step in (0, 1, 2):
        expected = trace["steps"][step]
        assert page.text(".where").startswith(f"Step {step + 1} of {len(trace['steps'])}: from ")
        assert len(page.find_all(".scores tbody tr")) == len(expected["candidates"])
        assert page.text(".scores .chosen th") == str(expected["chosen"])
        page.click(".replay .forward")
    assert painted(page) != before
    page.find(".steps").send_keys(Keys.END)
    assert page.text(".where").endswith("complete.")
    page.find(".steps").send_keys(Keys.HOME)
    page.click(".replay .play")
    wait_until(lambda: int(page.text(".where").split()[1]) >= 3)
    page.click("h1")  # the pointer leaves the place where routes are listed
    page.choose("routes")
    assert painted(page) == before


def test_two_runs_side_by_side(page: Page) -> None:
    solve_generated(page, button="#compare")
    assert [title.partition(": ")[2] for title in page.texts(".view .title")] == ["ELG alone", "Search"]
    assert all(number(cost) > 0 for cost in page.texts(".cost"))
    assert page.texts(".u-series .u-label")[-2:] == ["ELG alone", "Search"]


def test_a_row_of_the_list_of_jobs_keeps_the_focus(page: Page, address: str) -> None:
    page.choose("generate")
    page.fill("#seconds", "3")
    page.click("#start")
    page.wait(".jobs li:first-child", "running")
    link = page.driver.current_url
    page.run("document.querySelector('.jobs a').focus()")
    page.wait(".jobs li:first-child", "cost")
    wait_until(lambda: "running" not in page.text(".jobs li:first-child"))
    with httpx.Client(base_url=address) as client:
        submit(client, tsp(name="another"))
    page.wait(".jobs li:first-child", "another")
    assert page.run("return document.activeElement.href") == link == page.link(".jobs li:nth-child(2) a")


def test_a_link_shows_a_job_again(page: Page, address: str) -> None:
    solve_generated(page)
    cost, link = page.text(".cost"), page.driver.current_url
    page.click(".view .link")
    wait_until(lambda: page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])") == link)
    page.open(link)
    page.wait(".cost", cost)
    wait_until(lambda: page.link(".jobs [aria-current]") == link)


def test_errors_are_the_services_line(page: Page) -> None:
    page.click("#start")
    page.wait("#error", "choose a file first")
    page.run(DROP, "NAME : x\nTYPE : HCP\nEOF\n", "bad.tsp")
    page.click("#start")
    page.wait("#error", "bad.tsp")
    assert "HCP" in page.text("#error")
    assert "\n" not in page.text("#error")
    refused = [line for line in page.errors() if "422" not in line]  # Chromium notes every 4xx
    assert refused == []


def test_ten_thousand_stops_are_drawn(page: Page) -> None:
    page.choose("generate")
    page.fill("#generate-size", "10000")
    before = painted(page)
    page.click("#generate")
    page.wait(".title", "10000")
    wait_until(lambda: painted(page) != before)


@pytest.mark.parametrize("kind", ["file", "generate", "click"])
def test_the_curl_command_sends_what_is_on_the_screen(page: Page, address: str, kind: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    page.choose(kind)
    page.fill("#seconds", "0.5")
    if kind == "file":
        page.run(DROP, EXAMPLE.read_text(), EXAMPLE.name)
    if kind == "click":
        page.fill("#click-stops", STOPS)
    page.click("details summary")
    text = page.text("#curl").partition("\n")[2]
    sent = subprocess.run(["sh", "-c", text], cwd=EXAMPLE.parent, capture_output=True, text=True, check=True)
    job = get(f"{address}/jobs/{json.loads(sent.stdout)['id']}")
    assert job["options"]["seconds"] == 0.5
    assert len(job["instance"]["coordinates"]) == {"file": 116, "generate": 101, "click": 6}[kind]
    assert shlex.split(text)[0] == "curl"


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (1400, "dark"), (390, "light"), (390, "dark")])
def test_accessibility(page: Page, width: int, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: see make browser-test")
    page.look(width, 900, scheme)
    for kind in ("generate", "click", "file"):
        page.choose(kind)
        assert findings(page) == []
    solve_generated(page)
    page.run("document.querySelector('details').open = true")
    assert findings(page) == []
    page.choose("replay")
    page.wait(".where", "Step 1 of")
    assert findings(page) == []
    solve_generated(page, button="#compare")
    assert findings(page) == []
    assert page.run("return document.documentElement.scrollWidth") <= width


def findings(page: Page) -> list[str]:
    """Return what axe-core finds serious or critical."""
    page.run(AXE.read_text(encoding="utf-8"))
    found = page.driver.execute_async_script("axe.run().then(arguments[0])")["violations"]
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def test_the_reference_of_the_api_needs_no_network(page: Page, address: str) -> None:
    page.open(f"{address}/docs")
    page.wait("body", "/jobs/{id}/events")


def test_a_service_with_a_token(chromium: Page, tmp_path: Path) -> None:
    with serving(tmp_path / "jobs.sqlite", "--token", "secret") as server:
        chromium.look()
        chromium.open(server.url.replace("http://", "http://user:secret@"))
        chromium.wait("#health", "worker")
        assert "Bearer $ELGO_TOKEN" in str(chromium.run("return document.querySelector('#curl').textContent"))
        solve_generated(chromium)
        assert chromium.errors() == []
