"""CSV instances: every way to write them, round trips, and one broken text per error message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from texts import DATA, assert_rejected, assert_same, instances

from elgo.problem.files import read
from elgo.problem.files.csv import format_csv, parse_csv
from elgo.problem.instance import Instance, Metric


def test_of_points() -> None:
    instance = parse_csv("x,y\n0,0\n3,0\n3,4.5\n", "some/where/spots.csv")
    assert (instance.name, instance.problem, instance.metric) == ("spots", "tsp", Metric.EXACT)
    assert instance.coords.tolist() == [[0, 0], [3, 0], [3, 4.5]]


@pytest.mark.parametrize(
    "text",
    [
        "# capacity: 10\nx,y,demand\n0,0,0\n3,0,4\n3,4,5\n",
        "#Capacity : 1e1\nDemand, Y ,X\n,0,0\n4,0,3\n5,4,3\n",
        "x,y,demand,capacity\n0,0,,10\n3,0,4,\n3,4,5,\n",
        '\ufeffname,x,y,demand\r\ndepot,0,0,0\r\n\r\n# capacity: 10\r\n"a, b",3,0,4\r\nc,3,4,5\r\n'.lstrip("\ufeff"),
        "id,x,y,demand\n1,0,0,0\n2,3,0,4\n3,3,4,5\n#capacity:10",
        "id,x,y,demand\na,0,0,0\nb,3,0,4\nc,3,4,5\n# capacity: 10",
    ],
)
def test_with_demand(text: str) -> None:
    expected = Instance("text", np.array([[0.0, 0], [3, 0], [3, 4]]), Metric.EXACT, np.array([0.0, 4, 5]), 10)
    assert_same(parse_csv(text), expected)


def test_of_places() -> None:
    instance = read(DATA / "places.csv")
    assert (instance.metric, instance.capacity) == (Metric.HAVERSINE, 12.5)
    assert instance.coords[1].tolist() == [52.6, 13.4]
    assert instance.demand is not None
    assert instance.demand.tolist() == [0, 4, 2.5, 6]
    assert float(instance.distances(0, 1)) == pytest.approx(8902, rel=1e-3)  # 0.08 degrees north are 8.9 km


def test_capacity_may_come_from_outside() -> None:
    text = "x,y,demand\n0,0,0\n3,0,4\n3,4,5\n"
    assert parse_csv(text, capacity=7).capacity == 7
    assert parse_csv("# capacity: 10\n" + text, capacity=7).capacity == 7


def test_id_gives_the_node_numbers() -> None:
    assert parse_csv("node,x,y\n10,0,0\n30,1,0\n20,1,1\n").labels.tolist() == [10, 30, 20]


@settings(deadline=None)  # the machine may be busy
@given(instances((Metric.EXACT, Metric.HAVERSINE)))
def test_round_trip(instance: Instance) -> None:
    assert_same(parse_csv(format_csv(instance)), instance)


BROKEN = [
    ("a,b\n1,2\n", "the header is 'a,b', expected x,y or lat,lon"),
    ("x;y\n1;2\n", "the header is 'x;y', expected x,y or lat,lon"),
    ("1,2\n3,4\n", "the header is '1,2', expected x,y or lat,lon"),
    ("x,y,lat,lon\n1,2,3,4\n", "the header is 'x,y,lat,lon', expected only one of x,y or lat,lon"),
    ("x,y,X\n1,2,3\n", "the header has the column x twice"),
    ("# only this\n", "is not CSV (no header)"),
    ('x,y\n1,"2\n', "is not CSV (unexpected end of data)"),
    ("x,y\n1,2\n3\n", "row 2 has 1 cells, but the header has 2"),
    ("x,y\n1,2\n3,4,5\n", "row 2 has 3 cells, but the header has 2"),
    ("x,y\n1,2\n3,\n", "column y has '', expected a number"),
    ("x,y\n1,2\n3,four\n", "column y has 'four', expected a number"),
    ("x,y\n1,2\n3,nan\n4,5\n", "COORDS of node 2 are (3, nan), expected finite numbers"),
    ("x,y\n", "DIMENSION is 0, expected at least one node"),
    ("lat,lon\n0,0\n95,0\n1,1\n", "LAT of node 2 is 95, outside -90..90"),
    ("id,x,y\n1,0,0\n1,1,0\n2,1,1\n", "node number 1 is used 2 times"),
    (
        "x,y,demand\n0,0,0\n1,0,4\n1,1,5\n",
        "capacity is missing: add a line '# capacity: 100' or a column, or pass it as an argument",
    ),
    ("# capacity: lots\nx,y,demand\n0,0,0\n1,0,4\n1,1,5\n", "capacity has 'lots', expected a number"),
    ("# capacity: 9\nx,y\n0,0\n1,0\n1,1\n", "capacity is 9, but there is no column demand"),
    ("# capacity: 9\nx,y,demand\n0,0,0\n1,0,\n1,1,5\n", "column demand has '', expected a number"),
    (
        "# capacity: 9\nx,y,demand\n0,0,2\n1,0,1\n1,1,5\n",
        "DEMAND of node 1 is 2, expected 0 because it is the depot",
    ),
    ("# capacity: 4\nx,y,demand\n0,0,0\n1,0,1\n1,1,5\n", "DEMAND of node 3 is 5, more than CAPACITY 4"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_broken_files(tmp_path: Path, text: str, message: str) -> None:
    assert_rejected(tmp_path / "x.csv", text, message)
