"""The map page: its data, and that nothing of a file becomes HTML. tests/test_analyst.py looks at it in a browser."""

import json
import re

import numpy as np
import pytest

from elgo.problem.files.csv import MatrixText, parse_stops
from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.problem.stops import Stops
from elgo.view.map import OPEN_STREET_MAP, format_map, map_data

HOSTILE = "</script><script>alert(1)</script>&<b>%%SCRIPT%%'\u2028\x1b[31m\u202e"
GLOBE = "id,name,lat,lon,demand\nd,Depot,52.5,13.4,\na,Ann,52.6,13.5,4\nb,Bob,52.4,13.3,5\n"


def solved(text: str = GLOBE, **options) -> tuple[Solution, Stops]:
    instance, stops, _ = parse_stops(text, capacity=9, **options)
    return Solution(instance, ((1, 2),)), stops


def test_data() -> None:
    solution, stops = solved()
    data = map_data(solution, stops)
    (route,) = data["routes"]
    assert data["title"] == "text"
    assert data["summary"] == f"2 stops, 1 route, {solution.cost / 1000:.1f} km"
    assert data["names"] == ["Depot", "Ann", "Bob"]
    assert route["count"] == 2
    assert data["places"] == [[52.5, 13.4], [52.6, 13.5], [52.4, 13.3]]
    assert (route["nodes"], route["load"], route["loads"]) == ([0, 1, 2, 0], "9 / 9", ["0", "4", "9", "9"])
    assert route["distances"][-1] == route["length"] == f"{solution.cost / 1000:.1f} km"
    assert not data["plane"]
    assert "not roads" in data["note"]


def test_a_plane_fits_into_a_square() -> None:
    instance, stops, _ = parse_stops("x,y\n-5e8,0\n5e8,2e8\n0,1e8\n")
    data = map_data(Solution(instance, ((0, 1, 2),)), stops)
    assert data["plane"]
    assert data["places"] == [[0, 0], [200, 1000], [100, 500]]
    assert data["perUnit"] == 1e6
    assert data["start"] == "Start"
    assert data["summary"].startswith("3 stops")
    assert data["routes"][0]["count"] == 3


def test_the_date_line_is_no_edge() -> None:
    instance, stops, _ = parse_stops("lat,lon\n0,179\n0,-179\n1,180\n")
    east = np.array(map_data(Solution(instance, ((0, 1, 2),)), stops)["places"])[:, 1]
    assert np.ptp(east) == 2


def test_notes_on_distances() -> None:
    solution, stops = solved(matrix=MatrixText("0,1,2\n3,0,4\n5,6,0\n", "m.csv"))
    data = map_data(solution, stops)
    assert "matrix" in data["note"]
    assert data["routes"][0]["length"] == "10"
    instance = Instance("a", [[0, 0], [3, 0], [3, 4]], Metric.EUC_2D)
    assert "rounded" in map_data(Solution(instance, ((0, 1, 2),)), Stops.of(instance))["note"]


def test_nothing_in_a_file_is_html() -> None:
    quoted = '"' + HOSTILE + '"'
    solution, stops = solved(GLOBE.replace("Ann", quoted).replace("\na,", f"\n{quoted},"))
    solution = Solution(Instance(HOSTILE[:40], solution.instance.coords, Metric.EXACT), ((0, 1, 2),))
    page = format_map(solution, stops)
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert page.count("alert(1)") == 4  # as text: in the title, in JSON
    assert "<title>&lt;/script&gt;" in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert data["names"][1].startswith("</script><script>alert(1)</script>&<b>%%SCRIPT%%' ")
    assert data["names"][1].isprintable()


def test_the_page_needs_no_network() -> None:
    page = format_map(*solved())
    assert "default-src 'none'" in page
    assert "sourceMappingURL" not in page
    written = re.sub(r"<!--.*?-->|<script>.*?</script>|/\*.*?\*/", "", page, flags=re.S)
    assert "http" not in written.replace("http-equiv", "")
    assert "BSD 2-Clause License" in page


def test_street_tiles_by_option() -> None:
    page = format_map(*solved(), tiles="osm")
    assert "img-src data: tile.openstreetmap.org" in page
    assert map_data(*solved(), tiles="osm")["tiles"] == OPEN_STREET_MAP
    assert "img-src data: *.tiles.org:8080" in format_map(*solved(), tiles="http://{s}.tiles.org:8080/{z}/{x}/{y}.png")
    for wrong in (
        "here",
        "https://a.org/{z}/{x}.png",
        "https://a.org/{z}/{x}/{y}.png; script-src *",
        "file:///{z}{x}{y}",
    ):
        with pytest.raises(ValueError, match="expected osm or a URL"):
            format_map(*solved(), tiles=wrong)


def test_maps_that_cannot_be_made() -> None:
    instance, stops, _ = parse_stops("x,y\n0,0\n1,0\n1,1\n")
    with pytest.raises(ValueError, match="street tiles need latitude and longitude"):
        format_map(Solution(instance, ((0, 1, 2),)), stops, tiles="osm")
    instance, stops, _ = parse_stops("id\na\nb\nc\n", matrix=MatrixText("0,1,2\n3,0,4\n5,6,0\n", "m.csv"))
    with pytest.raises(ValueError, match="a map needs coordinates"):
        format_map(Solution(instance, ((0, 1, 2),)), stops)
