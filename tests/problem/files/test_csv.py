"""CSV instances: every way to write them, round trips, and one broken text per error message."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from texts import DATA, assert_rejected, assert_same, instances

from elgo.problem.errors import ElgoError
from elgo.problem.files import read, read_problem
from elgo.problem.files.csv import MatrixText, ProblemFile, format_csv, parse_csv, parse_stops
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


# --- spreadsheets

EXPECTED = """# capacity: 10
id,lat,lon,demand
1,52.52,13.405,0
2,52.6,13.4,4.5
3,52.51,13.5,5
"""


@pytest.mark.parametrize(
    "text",
    [
        "id;Latitude;lng;demand_kg;capacity\n1;52,52;13,405;;10\n2;52,6;13,4;4,5;\n3;52,51;13,5;5;\n",  # Excel
        "sep=;\nid;LAT;Lon;Weight (kg)\n1;52,52;13,405;0\n2;52,6;13,4;4,5\n3;52,51;13,5;5\n# capacity: 10",
        "id\tlatitude\tlongitude\tqty\n1\t52.52\t13.405\t0\n2\t52.6\t13.4\t4.5\n3\t52.51\t13.5\t5\n#capacity:10",
        "node|lat|long|Load\n1|52.52|13.405|\n2|52.6|13.4|4.5\n3|52.51|13.5|5\n# capacity: 10\n",
        'ID,"lat","lon",Quantity\n1,"52,52","13,405",0\n2,"52,6","13,4","4,5"\n3,"52,51","13,5",5\n# capacity: 10',
        "id,lat,lon,demand,,\n1,52.52,13.405,0,,\n,,,,,\n2,52.6,13.4,4.5,,\n3,52.51,13.5,5,,\n,,,,,\n# capacity: 10",
    ],
)
def test_dialects_of_spreadsheets(text: str) -> None:
    assert_same(parse_csv(text), parse_csv(EXPECTED))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_encodings_of_spreadsheets(tmp_path: Path, encoding: str) -> None:
    text = "Straße;Name;x;y\r\nAllee 1;Café €;0;0,5\r\nWeg 2;Ümit;1;0\r\nRing 3;b;1;1\r\n"
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    problem = read_problem(tmp_path / "a.csv")
    assert problem.instance.coords[0].tolist() == [0, 0.5]
    assert problem.stops.names == ("Café €", "Ümit", "b")
    assert problem.stops.columns["Straße"] == ("Allee 1", "Weg 2", "Ring 3")
    assert (problem.stops.delimiter, problem.stops.decimal) == (";", ",")
    assert problem.warnings == ("not used: column 'Straße'",)


def test_cells_of_several_lines_and_with_hashes() -> None:
    problem = parse_stops('name,address,x,y\na,"Street 1\n\n#2, Town",0,0\n#b,-,9,9\n"say ""c""",5" pipe,1,0\nd,,1,1\n')
    assert problem.stops.names == ("a", 'say "c"', "d")
    assert problem.stops.columns["address"] == ("Street 1\n\n#2, Town", '5" pipe', "")
    assert problem.warnings == ()


def test_columns_that_are_not_used_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "id,name,x,y,phone,qty,weight_kg,phone\nd,Depot,0,0,1,,,2\na,A,1,0,3,7,4,4\nb,B,1,1,5,7,5,6\n"
    problem = parse_stops(text, capacity=9)
    assert problem.warnings == ("not used: columns 'phone', 'qty', 'phone'",)
    assert problem.instance.demand is not None
    assert problem.instance.demand.tolist() == [0, 4, 5]
    assert problem.stops.columns["phone"] == ("1", "3", "5")
    assert problem.stops.columns["phone (8)"] == ("2", "4", "6")
    (tmp_path / "a.csv").write_text(text)
    read(tmp_path / "a.csv", capacity=9)
    assert caplog.messages == [f"{tmp_path / 'a.csv'}: not used: columns 'phone', 'qty', 'phone'"]


DEPOT_LAST = "id,x,y,demand,kind\na,1,0,4,shop\nb,1,1,5,shop\nhome,0,0,,depot\n"


@pytest.mark.parametrize(
    ("text", "depot"),
    [
        (DEPOT_LAST, None),
        (DEPOT_LAST.replace("kind", "Is Depot").replace("shop", "0").replace(",depot", ",1"), None),
        (DEPOT_LAST.replace(",depot", ",X").replace("shop", "").replace("kind", "depot"), None),
        (DEPOT_LAST.replace("kind", "note"), "home"),
        (DEPOT_LAST.replace("kind", "note"), "3"),
        (DEPOT_LAST.replace("home", "Depot").replace(",depot", ",shop"), None),
        (DEPOT_LAST.replace("kind", "type").replace(",depot", ",shop"), "home"),
    ],
)
def test_the_depot_by_option_or_column(text: str, depot: str | None) -> None:
    instance, stops, warnings = parse_stops(text, capacity=9, depot=depot)
    assert instance.coords.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert instance.demand is not None
    assert instance.demand.tolist() == [0, 4, 5]
    assert instance.labels.tolist() == [3, 1, 2]  # rows of the file
    assert stops.ids[1:] == ("a", "b")
    marks = text.splitlines()[0].split(",")[-1]
    by_column = depot is None and stops.ids[0] == "home"
    assert warnings == (() if by_column else (f"not used: column '{marks}'",))


def test_equal_ids_are_a_warning() -> None:
    instance, stops, warnings = parse_stops("id,x,y\n7,0,0\n7,1,0\n2,1,1\n")
    assert instance.labels.tolist() == [1, 2, 3]
    assert stops.ids == ("7", "7", "2")
    assert warnings == ("column 'id' has '7' more than once",)


# --- matrices


def with_matrix(matrix: str, stops: str = "id,demand\nd,\na,4\nb,5\n", depot: str | None = None) -> ProblemFile:
    return parse_stops(stops, "stops.csv", 9, depot, MatrixText(matrix, "m.csv"))


@pytest.mark.parametrize(
    "text",
    [
        "0,1,2\n3,0,4.5\n5,6,0\n",
        "-;1;2\n3;;4,5\n5;6;0\n",
        "d,a,b\n0,1,2\n3,0,4.5\n5,6,0\n",
        "from,d,a,b\nd,0,1,2\na,3,0,4.5\nb,5,6,0\n",
        ",b,a,d\na,4.5,0,3\nb,0,6,5\nd,2,1,0\n",
        "d,0,1,2\na,3,0,4.5\nb,5,6,0\n",
        ",0,1,2\n0,0,1,2\n1,3,0,4.5\n2,5,6,0\n",  # positions
    ],
)
def test_a_matrix_in_every_layout(text: str) -> None:
    instance, _, _ = with_matrix(text)
    assert (instance.metric, instance.has_coords) == (Metric.EXPLICIT, False)
    assert instance.distance_matrix().tolist() == [[0, 1, 2], [3, 0, 4.5], [5, 6, 0]]


def test_a_matrix_without_stops() -> None:
    with pytest.raises(ElgoError, match=r"stops\.csv: has a header, but no stops$"):
        with_matrix("id\n", stops="id,demand\n")


def test_a_matrix_follows_the_depot_and_keeps_the_places() -> None:
    stops = "id,lat,lon,demand\na,52,13,4\nb,53,13,5\nd,52,14,\n"
    instance, places, _ = with_matrix("0,1,2\n3,0,4\n5,6,0\n", stops, depot="d")
    assert instance.distance_matrix().tolist() == [[0, 5, 6], [2, 0, 1], [4, 3, 0]]
    assert places.degrees is not None
    assert places.degrees.tolist() == [[52, 14], [52, 13], [53, 13]]
    assert instance.has_coords
    assert instance.plane()[0, 0] > instance.plane()[1, 0]  # the depot is in the east


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1,0\n", "has 2 rows, but there are 3 stops: expected 3, and a header if any"),
        ("0,1\n1,0\n1,1\n", "row 1 has 2 cells, expected 3 for 3 stops"),
        ("0,1,2\n1,0\n1,1,0\n", "row 2 has 2 cells, expected 3 for 3 stops"),
        ("0,1,2\n1,0,far\n1,1,0\n", "row 2, column 3 has 'far', expected a finite number >= 0"),
        ("0,1,2\n1,0,-3\n1,1,0\n", "row 2, column 3 has '-3', expected a finite number >= 0"),
        ("0,1,2\n1,0,inf\n1,1,0\n", "row 2, column 3 has 'inf', expected a finite number >= 0"),
        ("0,1,2\n1,0,\n1,1,0\n", "row 2, column 3 has '', expected a finite number >= 0"),
        ("d,a,c\n0,1,2\n3,0,4\n5,6,0\n", "column 'c': the labels are not the ids of the stops, each once"),
    ],
)
def test_broken_matrices(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"m.csv: {re.escape(message)}$"):
        with_matrix(text)


@settings(deadline=None)  # the machine may be busy
@given(instances((Metric.EXACT, Metric.HAVERSINE)))
def test_round_trip(instance: Instance) -> None:
    assert_same(parse_csv(format_csv(instance)), instance)


BROKEN = [
    ("a,b\n1,2\n", "the header is 'a,b', expected x,y or lat,lon"),
    ("x;z\n1;2\n", "the header is 'x;z', expected x,y or lat,lon"),
    ("1,2\n3,4\n", "the header is '1,2', expected x,y or lat,lon"),
    ("x,y,lat,lon\n1,2,3,4\n", "the header is 'x,y,lat,lon', expected only one of x,y or lat,lon"),
    ("x,y,X\n1,2,3\n", "the header has the column x twice"),
    ("# only this\n", "is not CSV (no header)"),
    ('x,y\n1,"2\n', "is not CSV (unexpected end of data)"),
    ("x,y\n1,2\n3\n", "row 2 (line 3) has 1 cells, but the header has 2"),
    ("x,y\n1,2\n3,4,5\n", "row 2 (line 3) has 3 cells, but the header has 2"),
    ("x,y\n1,2\n3,\n", "row 2 (line 3): column y has '', expected a number"),
    ("x,y\n1,2\n3,four\n", "row 2 (line 3): column y has 'four', expected a number"),
    ("x,y\n1,2\n3,nan\n4,5\n", "row 2 (line 3): column y has 'nan', expected a number"),
    ("x,y\n", "has a header, but no stops"),
    ("lat,lon\n0,0\n95,0\n1,1\n", "row 2 (line 3): column lat has 95, outside -90..90"),
    (
        "x,y,demand\n0,0,0\n1,0,4\n1,1,5\n",
        "capacity is missing: add a line '# capacity: 100' or a column, or pass it as an argument (--capacity)",
    ),
    ("# capacity: lots\nx,y,demand\n0,0,0\n1,0,4\n1,1,5\n", "capacity has 'lots', expected a number"),
    ("# capacity: 9\nx,y\n0,0\n1,0\n1,1\n", "capacity is 9, but there is no column demand"),
    ("# capacity: 9\nx,y,demand\n0,0,0\n1,0,\n1,1,5\n", "row 2 (line 4): column demand has '', expected a number"),
    (
        "# capacity: 9\nx,y,demand\n0,0,2\n1,0,1\n1,1,5\n",
        "row 1 (line 3) is the depot, but its demand is 2; another depot: --depot ID|ROW",
    ),
    ('x,y\n1,2\n3,4.5\n"5,5",6\n', "row 3 (line 4): column x has '5,5', expected a number"),
    (
        "x;y\n1,5;2,5\n3,5;4.5\n",
        "row 2 (line 3): column y has '4.5', expected a number with a decimal comma",
    ),
    ('x,y\n1,2\n"1,234",5\n', "row 2 (line 3): column x has '1,234', expected a number"),
    (
        "x,y,Weight [kg]\n0,0,\n1,0,4\n",
        "the column 'Weight [kg]' is the demand, but capacity is missing: add a line '# capacity: 100' or a column, or"
        " pass it as an argument (--capacity)",
    ),
    (
        "x,y,demand,capacity\n0,0,,5\n1,0,4,6\n",
        "column capacity has 5 and 6, but mixed fleets are not supported",
    ),
    (
        "x,y,depot\n0,0,1\n1,0,0\n1,1,1\n",
        "row 1 (line 2) and row 3 (line 4) are both depots, but several depots are not supported",
    ),
    ("# capacity: 4\nx,y,demand\n0,0,0\n1,0,1\n1,1,5\n", "DEMAND of node 3 is 5, more than CAPACITY 4"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_broken_files(tmp_path: Path, text: str, message: str) -> None:
    assert_rejected(tmp_path / "x.csv", text, message)


@pytest.mark.parametrize(
    ("column", "constraint"),
    [
        ("time_window", "time windows"),
        ("TW start", "time windows"),
        ("ready", "time windows"),
        ("Due Date", "time windows"),
        ("earliest", "time windows"),
        ("service", "service times"),
        ("Service-Time", "service times"),
        ("stop_min", "service times"),
        ("vehicle_type", "mixed fleets"),
        ("skills", "mixed fleets"),
        ("pickup", "pickups with deliveries"),
        ("prize", "prizes"),
    ],
)
def test_columns_of_other_constraints_are_refused(tmp_path: Path, column: str, constraint: str) -> None:
    text = f"x,y,{column}\n0,0,0\n1,0,8:00-9:00\n1,1,\n"
    remedy = "which are not supported; remove the column to solve without them"
    assert_rejected(tmp_path / "x.csv", text, f"the column '{column}' is about {constraint}, {remedy}")
    problem = parse_stops(text.replace("8:00-9:00", "0"))  # no constraint at all
    assert problem.warnings == (f"not used: column '{column}'",)


@pytest.mark.parametrize(
    ("depot", "message"),
    [
        ("z", "depot is 'z', which is neither an id nor a row from 1 to 3"),
        ("4", "depot is '4', which is neither an id nor a row from 1 to 3"),
        ("a", "depot is 'a', but row 1 (line 2) and row 2 (line 3) have this id"),
    ],
)
def test_unknown_depots(depot: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_stops("id,x,y\na,0,0\na,1,0\nb,1,1\n", depot=depot)
