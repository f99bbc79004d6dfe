"""Tables of stops and GeoJSON: hand-computed rows, columns carried along, dialects."""

import csv
import json
from io import StringIO

import pytest

from elgo.problem.files.csv import parse_stops
from elgo.problem.solution import Solution
from elgo.problem.stops import Stops
from elgo.view.routes import format_geojson, format_routes

PLANE = "id,name,x,y,demand,Note\nd,Depot,0,0,,n0\na,Ann,3,0,0.1,n1\nb,Bob,3,4,0.2,n2\nc,Cy,0,4,5,n3\n"
GLOBE = "id,name,lat,lon,load,name_2\n1,D,0,179,,p\n2,A,0,-179,4,q\n3,B,1,180,5,r\n"


def rows(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text), delimiter=delimiter))


def test_rows_of_a_cvrp() -> None:
    instance, stops, _ = parse_stops(PLANE, capacity=6)
    text = format_routes(Solution(instance, ((1, 2), (3,))), stops)
    assert text.splitlines()[:5] == [
        "route,position,id,name,demand,load,leg,distance,x,y,input demand,Note",
        "1,0,d,Depot,0,0,0,0,0,0,,n0",
        "1,1,a,Ann,0.1,0.1,3,3,3,0,0.1,n1",
        "1,2,b,Bob,0.2,0.3,4,7,3,4,0.2,n2",
        "1,3,d,Depot,0,0.3,5,12,0,0,,n0",
    ]
    assert [row["route"] for row in rows(text)] == ["1"] * 4 + ["2"] * 3


def test_a_tour_has_no_loads() -> None:
    instance, stops, _ = parse_stops("x,y\n0,0\n3,0\n3,4\n")
    found = rows(format_routes(Solution(instance, ((1, 0, 2),)), stops))
    assert [row["id"] for row in found] == ["1", "3", "2", "1"]
    assert [row["load"] for row in found] == [""] * 4
    assert [row["distance"] for row in found] == ["0", "5", "9", "12"]


def test_kilometres_on_the_earth_and_the_dialect_of_the_input() -> None:
    instance, stops, _ = parse_stops(GLOBE.replace(",", ";").replace("0;179", "0,5;179"), capacity=9)
    solution = Solution(instance, ((1, 2),))
    text = format_routes(solution, stops)
    assert text.startswith("\ufeffroute;")  # Excel asks for the mark
    found = rows(text.lstrip("\ufeff"), ";")
    legs = [float(row["leg_km"].replace(",", ".")) for row in found]
    assert sum(legs) * 1000 == pytest.approx(solution.cost, abs=0.01)
    assert found[-1]["distance_km"].replace(",", ".") == f"{solution.cost / 1000:.6f}".rstrip("0")
    assert [row["load"] for row in found] == ["0", "4", "9", "9"]
    assert [row["input load"] for row in found] == ["", "4", "5", ""]


def test_geojson() -> None:
    instance, stops, _ = parse_stops(GLOBE, capacity=9)
    solution = Solution(instance, ((2, 1),))
    line, *points = json.loads(format_geojson(solution, stops))["features"]
    assert line["geometry"]["type"] == "LineString"
    assert line["geometry"]["coordinates"] == [[179, 0], [-180, 1], [-179, 0], [179, 0]]
    assert line["properties"]["load"] == 9
    assert line["properties"]["stops"] == 2
    assert line["properties"]["distance_km"] * 1000 == pytest.approx(solution.cost, abs=0.01)
    assert [point["properties"]["name"] for point in points] == ["D", "B", "A"]
    assert [point["properties"]["name_2"] for point in points] == ["p", "r", "q"]
    assert [point["properties"]["position"] for point in points] == [0, 1, 2]


def test_geojson_of_a_tour_counts_its_start_and_has_no_load() -> None:
    instance, stops, _ = parse_stops("lat,lon\n0,0\n0,1\n1,1\n")
    for one in (instance, instance.with_ends(open=True)):
        line, *points = json.loads(format_geojson(Solution(one, ((0, 1, 2),)), stops))["features"]
        assert line["properties"]["stops"] == len(points) == 3
        assert line["properties"]["load"] is None


def test_geojson_needs_places_on_the_earth() -> None:
    instance, stops, _ = parse_stops(PLANE, capacity=6)
    with pytest.raises(ValueError, match="needs latitude and longitude, but the stops have x, y"):
        format_geojson(Solution(instance, ((1, 2, 3),)), stops)


def test_files_without_columns_have_node_numbers() -> None:
    instance, _, _ = parse_stops(PLANE, capacity=6)
    found = rows(format_routes(Solution(instance, ((1, 2), (3,))), Stops.of(instance)))
    assert [row["id"] for row in found] == ["1", "2", "3", "1", "1", "4", "1"]
    assert list(found[0]) == ["route", "position", "id", "name", "demand", "load", "leg", "distance"]
