"""Readers and writers: every format by hand, round trips, real collections, and one broken file for each complaint."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elgo.problem.files import (
    atomic_write,
    best_known,
    format_csv,
    format_sol,
    format_tour,
    format_tsplib,
    parse_csv,
    parse_sol,
    parse_tour,
    parse_tsplib,
    read,
    read_solution,
    write_instance,
    write_solution,
)
from elgo.problem.instance import FULL_EIGH_LIMIT, Instance, Metric, embed
from elgo.problem.solution import Solution

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parents[1] / "data"
SHARED = Path(os.environ.get("ELGO_DATA", ROOT.parent / "shared" / "data"))

TSP = """NAME : small
TYPE : TSP
DIMENSION : 4
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
1 0 0
2 3 0
3 3 4
4 0 4
EOF
"""
CVRP = TSP.replace("TYPE : TSP", "TYPE : CVRP\nCAPACITY : 10").replace(
    "EOF", "DEMAND_SECTION\n1 0\n2 4\n3 5\n4 6\nDEPOT_SECTION\n1\n-1\nEOF"
)


def explicit(layout: str, numbers: str, size: int = 4) -> str:
    return f"""NAME : matrix
TYPE : TSP
DIMENSION : {size}
EDGE_WEIGHT_TYPE : EXPLICIT
EDGE_WEIGHT_FORMAT : {layout}
EDGE_WEIGHT_SECTION
{numbers}
EOF
"""


def assert_same(a: Instance, b: Instance) -> None:
    """Every field equal, bit for bit."""
    for name in ("name", "metric", "capacity", "best_known", "has_coords"):
        assert getattr(a, name) == getattr(b, name), name
    for name in ("coords", "demand", "matrix", "labels"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left is None) == (right is None), name
        assert left is None or np.array_equal(left, right), name


# TSPLIB text, accepted.


def test_small_tsp() -> None:
    instance = parse_tsplib(TSP)
    assert (instance.name, instance.problem, instance.metric) == ("small", "tsp", Metric.EUC_2D)
    assert instance.coords.tolist() == [[0, 0], [3, 0], [3, 4], [0, 4]]
    assert instance.demand is instance.capacity is instance.matrix is instance.best_known is None
    assert instance.has_coords


def test_small_cvrp() -> None:
    instance = parse_tsplib(CVRP)
    assert instance.problem == "cvrp"
    assert instance.demand is not None
    assert instance.demand.tolist() == [0, 4, 5, 6]
    assert instance.capacity == 10


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" : ", ": "),
        (" : ", ":"),
        (" : ", " "),
        (" : ", "\t:\t"),
        ("\n", "\r\n"),
        ("\n", "\r"),
        ("\n", "\n\n"),
        ("\n", " \t\n\t "),
        ("EOF\n", ""),
        ("EOF\n", "EOF\nwhatever follows 1 2 3\nNAME : twice"),
        ("TYPE", "type"),
        ("EUC_2D", "euc_2d"),
        ("_SECTION", "_Section:"),
        ("DIMENSION", "COMMENT : EOF\nCOMMENT\nDIMENSION"),
        ("DEPOT_SECTION\n1\n-1", "DEPOT_SECTION\n1"),
        ("DEPOT_SECTION\n1\n-1", "DEPOT_SECTION 1 -1"),
        ("TYPE : CVRP\n", ""),
        ("TYPE : CVRP", "TYPE : CVRP (by hand)"),
        ("CAPACITY : 10", "CAPACITY : 1.0000e+01"),
        ("3 3 4", "3 +3.0 4.00000e+00"),
        ("2 4\n3 5\n4 6", "4 6\n2 4\n3 5"),
        ("DIMENSION", "VEHICLES : 5\nDIMENSION"),
        ("DIMENSION", "VEHICLES : 0\nDIMENSION"),
        ("DIMENSION", "SERVICE_TIME : 0\nDISTANCE : 0\nDIMENSION"),
        ("DIMENSION", "NODE_COORD_TYPE : TWOD_COORDS\nDISPLAY_DATA_TYPE : COORD_DISPLAY\nDIMENSION"),
        ("DIMENSION", "EDGE_WEIGHT_FORMAT : FUNCTION\nDIMENSION"),
    ],
)
def test_every_way_to_write_the_same(old: str, new: str) -> None:
    assert old in CVRP
    assert_same(parse_tsplib(CVRP.replace(old, new)), parse_tsplib(CVRP))


def test_odd_file() -> None:
    instance = read(HERE / "odd.vrp")
    assert instance.name == "odd"
    assert instance.coords.tolist() == [[0, 0], [3, 0], [3, 4], [0, 4], [-3, 0]]
    assert instance.demand is not None
    assert instance.demand.tolist() == [0, 4, 3, 6, 6]
    assert instance.capacity == 10
    solution = read_solution(HERE / "odd.sol", instance)
    assert solution.routes == ((1, 2, 3), (4,))
    assert solution.violations == ("route 1 carries 13, more than CAPACITY 10",)
    assert instance.best_known == 12  # from the comment, because that solution is not feasible


def test_name_is_the_files_if_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "nameless.tsp").write_text(TSP.replace("NAME : small\n", ""))
    assert read(tmp_path / "nameless.tsp").name == "nameless"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.tsp").write_bytes(TSP.replace("TYPE", "COMMENT : Grötschel\nTYPE", 1).encode(encoding))
    assert_same(read(tmp_path / "a.tsp"), parse_tsplib(TSP))


@pytest.mark.parametrize("metric", [metric for metric in Metric if metric is not Metric.EXPLICIT])
def test_every_edge_weight_type(metric: Metric) -> None:
    instance = parse_tsplib(TSP.replace("EUC_2D", metric.value))
    assert instance.metric is metric
    diagonal = {Metric.ATT: 2, Metric.GEO: 557, Metric.HAVERSINE: 555_812}.get(metric, 5)  # from (0, 0) to (3, 4)
    assert float(instance.distances(0, 2)) == pytest.approx(diagonal, abs=0 if metric.rounded else 1)


SYMMETRIC = [[0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]]


@pytest.mark.parametrize(
    ("layout", "numbers"),
    [
        ("FULL_MATRIX", "0 1 2 3\n1 0 4 5\n2 4 0 6\n3 5 6 0"),
        ("FULL_MATRIX", "9999 1 2 3\n1 -1 4 5\n2 4 1e9 6\n3 5 6 7"),  # the diagonal means nothing
        ("FULL_MATRIX", "0 1 2\n3 1 0 4 5 2 4\n\n0 6 3 5 6\n0"),  # neither do line breaks
        ("FULL_MATRIX", "0.0 1.0e+00 2 3\t1 0 4 5   2 4 0 6 3 5 6 0"),
        ("UPPER_ROW", "1 2 3\n4 5\n6"),
        ("UPPER_ROW", "1\n2 3 4\n5 6"),
        ("LOWER_ROW", "1\n2 4\n3 5 6"),
        ("LOWER_ROW", "1 2 4 3 5 6"),
        ("UPPER_DIAG_ROW", "0 1 2 3\n0 4 5\n0 6\n0"),
        ("LOWER_DIAG_ROW", "0\n1 0\n2 4 0\n3 5 6 0"),
        ("LOWER_DIAG_ROW", "0 1 0 2 4\n0 3 5 6 0"),
        ("UPPER_COL", "1\n2 4\n3 5 6"),
        ("LOWER_COL", "1 2 3\n4 5\n6"),
        ("UPPER_DIAG_COL", "0\n1 0\n2 4 0\n3 5 6 0"),
        ("LOWER_DIAG_COL", "0 1 2 3\n0 4 5\n0 6\n0"),
        ("lower_row", "1\n2 4\n3 5 6"),
    ],
)
def test_every_edge_weight_format(layout: str, numbers: str) -> None:
    instance = parse_tsplib(explicit(layout, numbers))
    assert instance.matrix is not None
    assert instance.matrix.tolist() == SYMMETRIC
    assert np.array_equal(instance.coords, embed(np.array(SYMMETRIC, float)))
    assert not instance.has_coords


def test_full_matrix_may_be_asymmetric() -> None:
    instance = parse_tsplib(explicit("FULL_MATRIX", "0 1 2  3 0 4  5 6 0", size=3))
    assert instance.distances([0, 1], [1, 0]).tolist() == [1, 3]


def test_e_n13_k4_is_read_by_rows() -> None:
    """CVRPLIB's optimum of 247 comes out only if LOWER_ROW means what it says; read by columns it would be 290."""
    weights = """9 14 21 23 22 25 32 36 38 42 50 52 5 12 22 21 24 31 35 37 41 49 51 7 17 16 23 26 30 36
        36 44 46 10 21 30 27 37 43 31 37 39 19 28 25 35 41 29 31 29 9 10 16 22 20 28 30 7 11 13
        17 25 27 10 16 10 18 20 6 6 14 16 12 12 20 8 10 10"""
    demand = [0, 1200, 1700, 1500, 1400, 1700, 1400, 1200, 1900, 1800, 1600, 1700, 1100]
    rows = "\n".join(f"{i} {amount}" for i, amount in enumerate(demand, start=1))
    comment = "COMMENT : (Eilon et al, Min no of trucks: 4, Best value: 290)\nCAPACITY : 6000"
    text = explicit("LOWER_ROW", weights, size=13).replace("TYPE : TSP", f"TYPE : CVRP\n{comment}")
    instance = parse_tsplib(text.replace("EOF", f"DEMAND_SECTION\n{rows}\nDEPOT_SECTION\n1\n-1\nEOF"))
    solution = Solution(instance, ((1,), (2, 7, 4, 11), (3, 5, 8), (6, 10, 12, 9)))
    assert solution.feasible
    assert solution.cost == 247
    assert instance.best_known is None  # 'Best value' was beaten long ago


def test_display_data_serves_as_coordinates_of_a_matrix() -> None:
    instance = read(HERE / "display.tsp")
    assert instance.has_coords
    assert instance.coords.tolist() == [[0, 0], [10, 0], [10, 10], [0, 10]]
    assert instance.distances(0, [1, 2, 3]).tolist() == [1, 2, 3]
    assert instance.best_known == 14


def test_set_d_layout() -> None:
    instance = read(HERE / "matrix.vrp")
    assert instance.has_coords
    assert instance.matrix is not None
    assert instance.matrix.tolist() == [[0, 7, 9, 12], [7, 0, 2, 6], [9, 2, 0, 4], [12, 6, 4, 0]]
    assert Solution(instance, ((1, 2), (3,))).cost == 7 + 2 + 9 + 24


def test_placeholder_coordinates_of_a_matrix_are_not_used() -> None:
    points = "NODE_COORD_SECTION\n1 0 0\n2 0 0\n3 0 0\n4 0 0\nEOF"
    instance = parse_tsplib(explicit("UPPER_ROW", "1 2 3 4 5 6").replace("EOF", points))
    assert not instance.has_coords
    assert np.ptp(instance.coords) > 0


def test_depot_is_moved_to_the_front() -> None:
    text = CVRP.replace("DEPOT_SECTION\n1", "DEPOT_SECTION\n3").replace("1 0\n2 4\n3 5", "1 5\n2 4\n3 0")
    instance = parse_tsplib(text)
    assert instance.labels.tolist() == [3, 1, 2, 4]
    assert instance.coords.tolist() == [[3, 4], [0, 0], [3, 0], [0, 4]]
    assert instance.demand is not None
    assert instance.demand.tolist() == [0, 5, 4, 6]
    assert_same(parse_tsplib(format_tsplib(instance)), instance)


def test_depot_of_a_matrix_is_moved_to_the_front() -> None:
    text = (HERE / "matrix.vrp").read_text().replace("DEPOT_SECTION\n1", "DEPOT_SECTION\n3")
    instance = parse_tsplib(text.replace("1 0\n2 5\n3 5", "1 5\n2 5\n3 0"))
    assert instance.labels.tolist() == [3, 1, 2, 4]
    assert instance.distances(0, [1, 2, 3]).tolist() == [9, 2, 4]
    assert instance.coords[0].tolist() == [-459, 317]
    assert_same(parse_tsplib(format_tsplib(instance)), instance)


def test_a_matrix_counts_nodes_by_their_number() -> None:
    text = (HERE / "matrix.vrp").read_text()
    shuffled = text.replace("2 -460 318\n3 -459 317", "3 -459 317\n2 -460 318")
    assert text != shuffled
    assert_same(parse_tsplib(shuffled), parse_tsplib(text))


def test_node_numbers_may_be_any() -> None:
    text = CVRP.replace("\n4 ", "\n70 ").replace("\n3 ", "\n0 ").replace("\n2 ", "\n5 ")
    instance = parse_tsplib(text)
    assert instance.labels.tolist() == [1, 5, 0, 70]
    assert_same(parse_tsplib(format_tsplib(instance)), instance)


# Best known costs.


@pytest.mark.parametrize(
    ("comment", "cost"),
    [
        ("(Augerat et al, No of trucks: 5, Optimal value: 784)", 784),
        ("(Christophides and Eilon, Min no of trucks: 4, Optimal value: 375)", 375),
        ("optimal value 12", 12),
        ("Best known value: 13", 13),
        ("Best value: 290", None),
        ("Optimal value: 555.43", None),  # not a cost that EUC_2D could have
        ("Optimal value: 0", None),
        ("Optimal value: unknown", None),
        ("5623.47", None),
    ],
)
def test_best_known_in_a_comment(comment: str, cost: float | None) -> None:
    assert parse_tsplib(CVRP.replace("DIMENSION", f"COMMENT : {comment}\nDIMENSION")).best_known == cost


def test_best_known_beside_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.vrp"
    file.write_text(CVRP.replace("DIMENSION", "COMMENT : Optimal value: 99\nDIMENSION"))
    assert best_known(file) == 99
    (tmp_path / "solutions.csv").write_text("other,1\nsmall,77\n")
    assert best_known(file) == 77  # by the name of the instance
    (tmp_path / "optima.csv").write_text("name,n,optimum\na,4,88\n")
    assert best_known(file) == 88  # by the name of the file
    (tmp_path / "a.sol").write_text("Route #1: 1 2\nRoute #2: 3\nCost 20.5\n")
    assert best_known(file) == 20  # 3 + 4 + 5 and 8: our cost of these routes, whatever is stated
    assert read(file).best_known == 20
    (tmp_path / "a.sol").write_text("Route #1: 1 2 3\nCost 1\n")
    assert best_known(file) == 88  # over capacity


def test_best_known_tour(tmp_path: Path) -> None:
    (tmp_path / "a.tsp").write_text(TSP)
    assert best_known(tmp_path / "a.tsp") is None
    (tmp_path / "a.opt.tour").write_text("TYPE : TOUR\nTOUR_SECTION\n1 2 3 4 -1\n")
    assert best_known(tmp_path / "a.tsp") == 14


@pytest.mark.parametrize("rubbish", ["", "\0", "small,many\nsmall", 'small,"', "small,nan", "small,-3", "small,7.5"])
def test_useless_files_beside_are_passed_over(tmp_path: Path, rubbish: str) -> None:
    (tmp_path / "small.vrp").write_text(CVRP)
    (tmp_path / "small.sol").write_text(rubbish)
    (tmp_path / "optima.csv").write_text(rubbish)
    assert best_known(tmp_path / "small.vrp") is None


# CSV.


def test_csv_of_points() -> None:
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
def test_csv_with_demand(text: str) -> None:
    expected = Instance("text", np.array([[0.0, 0], [3, 0], [3, 4]]), Metric.EXACT, np.array([0.0, 4, 5]), 10)
    assert_same(parse_csv(text), expected)


def test_csv_of_places() -> None:
    instance = read(HERE / "places.csv")
    assert (instance.metric, instance.capacity) == (Metric.HAVERSINE, 12.5)
    assert instance.coords[1].tolist() == [52.6, 13.4]
    assert instance.demand is not None
    assert instance.demand.tolist() == [0, 4, 2.5, 6]
    assert float(instance.distances(0, 1)) == pytest.approx(8902, rel=1e-3)  # 0.08 degrees north are 8.9 km


def test_csv_capacity_may_come_from_outside() -> None:
    text = "x,y,demand\n0,0,0\n3,0,4\n3,4,5\n"
    assert parse_csv(text, capacity=7).capacity == 7
    assert parse_csv("# capacity: 10\n" + text, capacity=7).capacity == 7


def test_csv_id_gives_the_node_numbers() -> None:
    assert parse_csv("node,x,y\n10,0,0\n30,1,0\n20,1,1\n").labels.tolist() == [10, 30, 20]


# Solutions.


def test_sol_and_back() -> None:
    instance = parse_tsplib(CVRP)
    solution = parse_sol("Route #1: 1 2\n\nRoute #2: 3 \nCost 123\nTime 4.5\n", instance)
    assert solution.routes == ((1, 2), (3,))
    assert format_sol(solution) == "Route #1: 1 2\nRoute #2: 3\nCost 20\n"


def test_tour_and_back() -> None:
    instance = parse_tsplib(TSP.replace("\n4 0 4", "\n9 0 4"))
    text = "NAME : x\nTYPE : TOUR\nDIMENSION : 4\nTOUR_SECTION\n9 1 2\n3\n-1\n-1\nEOF"
    solution = parse_tour(text, instance)
    assert solution.routes == ((3, 0, 1, 2),)
    assert parse_tour(text.replace("-1\n-1\nEOF", ""), instance) == solution
    assert "TOUR_SECTION\n9\n1\n2\n3\n-1\nEOF\n" in format_tour(solution)
    assert "Length 14\n" in format_tour(solution)


@pytest.mark.parametrize("name", ["a.sol", "A.SOL"])
def test_write_and_read_solution(tmp_path: Path, name: str) -> None:
    solution = Solution(parse_tsplib(CVRP), ((3,), (2, 1)))
    write_solution(tmp_path / name, solution)
    assert read_solution(tmp_path / name, solution.instance) == solution


@pytest.mark.parametrize("name", ["a.tour", "a.opt.tour"])
def test_write_and_read_tour(tmp_path: Path, name: str) -> None:
    solution = Solution(parse_tsplib(TSP), ((3, 1, 0, 2),))
    write_solution(tmp_path / name, solution)
    assert read_solution(tmp_path / name, solution.instance) == solution


# Round trips of everything.

NUMBER = st.floats(-1e6, 1e6) | st.integers(-1000, 1000).map(float)


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Any instance: each metric, TSP and CVRP, whole and broken numbers, own node numbers."""
    size = draw(st.integers(3, 9))
    metric = draw(st.sampled_from(list(Metric)))
    limit = 80.0 if metric in (Metric.HAVERSINE, Metric.GEO) else 1e6
    number = NUMBER.map(lambda value: value % limit)
    coords = np.array(draw(st.lists(number, min_size=2 * size, max_size=2 * size))).reshape(size, 2)
    coords[0] = 90.0  # so that the points are not all equal
    labels = draw(st.lists(st.integers(0, 10**9), min_size=size, max_size=size, unique=True))
    demand = capacity = matrix = None
    has_coords = True
    if draw(st.booleans()):
        demand = np.abs(draw(st.lists(NUMBER, min_size=size, max_size=size)))
        demand[0], capacity = 0.0, draw(st.sampled_from([1e6, 1234567.25]))
    if metric is Metric.EXPLICIT:
        matrix = np.abs(draw(st.lists(NUMBER, min_size=size * size, max_size=size * size))).reshape(size, size)
        np.fill_diagonal(matrix, 0.0)
        matrix[0, 1] = 1.0
        labels = sorted(labels)
        has_coords = draw(st.booleans())
        if not has_coords:
            coords = embed(matrix)
            labels = labels if demand is not None else list(range(1, size + 1))
    name = draw(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=12))
    best = draw(st.none() | st.integers(1, 10**6).map(float))
    return Instance(name, coords, metric, demand, capacity, matrix, np.array(labels), best, has_coords)


@settings(deadline=None)  # the machine may be busy
@given(instances())
def test_instance_round_trip(instance: Instance) -> None:
    assert_same(parse_tsplib(format_tsplib(instance)), instance)
    if instance.metric in (Metric.EXACT, Metric.HAVERSINE):
        assert_same(parse_csv(format_csv(instance)), instance)


@settings(deadline=None)
@given(instances(), st.data())
def test_solution_round_trip(instance: Instance, data: st.DataObject) -> None:
    nodes = data.draw(st.permutations(range(instance.size - instance.customers, instance.size)))
    if instance.problem == "tsp":
        solution = Solution(instance, (tuple(nodes),))
        assert parse_tour(format_tour(solution), instance) == solution
    else:
        cut = data.draw(st.integers(0, len(nodes)))
        solution = Solution(instance, (tuple(nodes[:cut]), tuple(nodes[cut:])))
        assert parse_sol(format_sol(solution), instance) == solution


@pytest.mark.parametrize("name", ["a.vrp", "a.csv"])
def test_write_and_read_instance(tmp_path: Path, name: str) -> None:
    instance = replace(parse_tsplib(CVRP.replace("EUC_2D", "EXACT_2D")), best_known=20.0)
    write_instance(tmp_path / name, instance)
    assert_same(read(tmp_path / name), instance)


def test_round_trip_of_a_large_matrix() -> None:
    """Beyond the limit of the full eigendecomposition the embedding is still the same each time."""
    size = FULL_EIGH_LIMIT + 20
    matrix = np.random.default_rng(0).integers(1, 1000, (size, size)).astype(float)
    np.fill_diagonal(matrix, 0.0)
    instance = Instance("large", embed(matrix), Metric.EXPLICIT, matrix=matrix, has_coords=False)
    assert_same(parse_tsplib(format_tsplib(instance)), instance)


# One broken file for each complaint: (what to change in the good file, the line that must come out).

BROKEN_CVRP = [
    ("DIMENSION : 4", "DIMENSION : 5", "DIMENSION is 5 but NODE_COORD_SECTION has 4 rows"),
    ("DIMENSION : 4", "DIMENSION : four", "DIMENSION is 'four', expected a number"),
    ("DIMENSION : 4", "DIMENSION : 4.5", "DIMENSION is '4.5', expected a whole number above 0"),
    ("DIMENSION : 4", "DIMENSION : -4", "DIMENSION is '-4', expected a whole number above 0"),
    ("DIMENSION : 4", "DIMENSION : inf", "DIMENSION is 'inf', expected a whole number above 0"),
    ("DIMENSION : 4\n", "", "DIMENSION is missing"),
    ("DIMENSION : 4", "DIMENSION :", "DIMENSION is missing"),
    ("DIMENSION : 4", "DIMENSION : 4\nDIMENSION : 4", "'DIMENSION' is given twice"),
    ("DIMENSION : 4", "DIMENSION : 4\n7 7 7", "line '7 7 7' stands outside of any section"),
    ("DIMENSION", "MAX_DURATION : 8\nDIMENSION", "'MAX_DURATION' is not a supported keyword"),
    ("DIMENSION", "VEHICLES : few\nDIMENSION", "VEHICLES is 'few', expected a number"),
    ("DIMENSION", "DISTANCE : 160\nDIMENSION", "DISTANCE is 160, but route duration limits are not supported"),
    ("DIMENSION", "SERVICE_TIME : 10\nDIMENSION", "SERVICE_TIME is 10, but route duration limits are not supported"),
    (
        "DIMENSION",
        "NODE_COORD_TYPE : THREED_COORDS\nDIMENSION",
        "NODE_COORD_TYPE is THREED_COORDS, expected TWOD_COORDS",
    ),
    ("TYPE : CVRP", "TYPE : VRPTW", "TYPE is 'VRPTW', expected TSP or CVRP"),
    ("TYPE : CVRP", "TYPE : ATSP", "TYPE is 'ATSP', expected TSP or CVRP"),
    ("TYPE : CVRP", "TYPE : HCP", "TYPE is 'HCP', expected TSP or CVRP"),
    ("TYPE : CVRP", "TYPE : SOP", "TYPE is 'SOP', expected TSP or CVRP"),
    ("TYPE : CVRP", "TYPE : TOUR", "TYPE is 'TOUR', expected TSP or CVRP"),
    ("TYPE : CVRP", "TYPE : TSP", "TYPE is TSP, but the file has CAPACITY"),
    ("CAPACITY : 10\n", "", "CAPACITY is missing"),
    ("CAPACITY : 10", "CAPACITY : much", "CAPACITY is 'much', expected a number"),
    ("CAPACITY : 10", "CAPACITY : 0", "CAPACITY is 0, expected more than 0 and at most 1e+12"),
    ("CAPACITY : 10", "CAPACITY : 5", "DEMAND of node 4 is 6, more than CAPACITY 5"),
    ("EDGE_WEIGHT_TYPE : EUC_2D\n", "", "EDGE_WEIGHT_TYPE is missing"),
    *(
        (
            "EUC_2D",
            kind,
            f"EDGE_WEIGHT_TYPE is '{kind}', expected one of EUC_2D, CEIL_2D, GEO, ATT, EXACT_2D, HAVERSINE, EXPLICIT",
        )
        for kind in ("EUC_3D", "XRAY1", "SPECIAL", "MAN_2D", "MAX_2D")
    ),
    ("EUC_2D", "EXPLICIT", "EDGE_WEIGHT_FORMAT is missing"),
    ("EOF", "EDGE_WEIGHT_SECTION\n1\nEOF", "EDGE_WEIGHT_TYPE is EUC_2D, but the file has an EDGE_WEIGHT_SECTION"),
    ("NODE_COORD_SECTION\n1 0 0\n2 3 0\n3 3 4\n4 0 4\n", "", "NODE_COORD_SECTION is missing"),
    ("4 0 4\n", "", "DIMENSION is 4 but NODE_COORD_SECTION has 3 rows"),
    ("4 0 4\n", "4 0 4\n5 1 1\n", "DIMENSION is 4 but NODE_COORD_SECTION has 5 rows"),
    ("3 3 4", "3 3", "NODE_COORD_SECTION has the row '3 3', expected a node and 2 numbers"),
    ("3 3 4", "3 3 4 5", "NODE_COORD_SECTION has the row '3 3 4 5', expected a node and 2 numbers"),
    ("3 3 4", "3 3 four", "NODE_COORD_SECTION has 'four' where a number should be"),
    ("3 3 4", "3 3 1,5", "NODE_COORD_SECTION has '1,5' where a number should be"),
    ("3 3 4", "3.5 3 4", "NODE_COORD_SECTION has '3.5' where a whole number should be"),
    ("3 3 4", "1 3 4", "NODE_COORD_SECTION has node 1 more than once"),
    ("3 3 4\n4 0 4", "3 3 4\n-4 0 4", "DEMAND_SECTION has node 4, which is not among the 4 nodes"),
    ("3 3 4", "3 3 nan", "COORDS of node 3 are (3, nan), expected finite numbers"),
    ("3 3 4", "3 3 1e999", "COORDS of node 3 are (3, inf), expected finite numbers"),
    ("3 3 4", f"3 3 {'x' * 90}", f"NODE_COORD_SECTION has '{'x' * 37}...' where a number should be"),
    ("2 3 0\n3 3 4\n4 0 4", "2 0 0\n3 0 0\n4 0 0", "COORDS of all 4 nodes are equal (0, 0)"),
    ("DEMAND_SECTION\n1 0\n2 4\n3 5\n4 6\n", "", "DEMAND_SECTION is missing"),
    ("3 5\n4 6", "3 5", "DIMENSION is 4 but DEMAND_SECTION has 3 rows"),
    ("3 5\n", "3 5 6\n", "DEMAND_SECTION has the row '3 5 6', expected a node and 1 numbers"),
    ("3 5\n", "2 5\n", "DEMAND_SECTION has node 2 more than once"),
    ("3 5\n", "8 5\n", "DEMAND_SECTION has node 8, which is not among the 4 nodes"),
    ("3 5\n", "3 -5\n", "DEMAND of node 3 is -5, expected 0 or more"),
    ("3 5\n", "3 nan\n", "DEMAND of node 3 is nan, expected a finite number"),
    ("3 5\n", "3 11\n", "DEMAND of node 3 is 11, more than CAPACITY 10"),
    ("1 0\n2 4", "1 3\n2 4", "DEMAND of node 1 is 3, expected 0 because it is the depot"),
    ("DEPOT_SECTION\n1\n-1\n", "", "DEPOT_SECTION is missing"),
    ("DEPOT_SECTION\n1\n-1", "DEPOT_SECTION\n-1", "DEPOT_SECTION names 0 depots (none), expected one"),
    ("DEPOT_SECTION\n1\n-1", "DEPOT_SECTION\n1\n2\n-1", "DEPOT_SECTION names 2 depots (1, 2), expected one"),
    ("DEPOT_SECTION\n1", "DEPOT_SECTION\n9", "DEPOT_SECTION has node 9, which is not among the 4 nodes"),
    ("DEPOT_SECTION\n1", "DEPOT_SECTION\n0.5", "DEPOT_SECTION has '0.5' where a whole number should be"),
    ("EOF", "FIXED_EDGES_SECTION\n1 2\n-1\nEOF", "'FIXED_EDGES_SECTION' is not a supported keyword"),
    ("EOF", "TIME_WINDOW_SECTION\n1 0 9\nEOF", "'TIME_WINDOW_SECTION' is not a supported keyword"),
    ("EOF", "DEPOT_SECTION\n1\n-1\nEOF", "'DEPOT_SECTION' is given twice"),
    ("NAME : small", ":\nNAME : small", "':' is not a supported keyword"),
    ("NAME : small", "<!DOCTYPE html>\nNAME : small", "'<!DOCTYPE' is not a supported keyword"),
    ("NAME : small", "NAME : sm\x01all", r"NAME is 'sm\x01all', expected one line of printable text"),
]
ONE_CUSTOMER = CVRP.replace("\n3 3 4\n4 0 4", "").replace("\n3 5\n4 6", "").replace("DIMENSION : 4", "DIMENSION : 2")
NO_CUSTOMER = ONE_CUSTOMER.replace("\n2 3 0", "").replace("\n2 4", "").replace("DIMENSION : 2", "DIMENSION : 1")
BROKEN_TEXTS = [
    (ONE_CUSTOMER, "DIMENSION is 2, but a CVRP needs a depot and at least 2 customers"),
    (NO_CUSTOMER, "DIMENSION is 1, but a CVRP needs a depot and at least 2 customers"),
    (
        explicit("UPPER_ROW", "1 2 3 4 5"),
        "EDGE_WEIGHT_SECTION has 5 numbers, but UPPER_ROW with DIMENSION 4 needs 6",
    ),
    (
        explicit("LOWER_DIAG_ROW", "1 2 3 4 5 6"),
        "EDGE_WEIGHT_SECTION has 6 numbers, but LOWER_DIAG_ROW with DIMENSION 4 needs 10",
    ),
    (
        explicit("FULL_MATRIX", "1 2", size=10**12),
        f"EDGE_WEIGHT_SECTION has 2 numbers, but FULL_MATRIX with DIMENSION {10**12} needs {10**24}",
    ),
    (
        explicit("FUNCTION", "1 2 3"),
        "EDGE_WEIGHT_FORMAT is 'FUNCTION', expected one of FULL_MATRIX, UPPER_ROW, LOWER_ROW, UPPER_DIAG_ROW, "
        "LOWER_DIAG_ROW, UPPER_COL, LOWER_COL, UPPER_DIAG_COL, LOWER_DIAG_COL",
    ),
    (explicit("UPPER_ROW", "1 2 3 four 5 6"), "EDGE_WEIGHT_SECTION has 'four' where a number should be"),
    (explicit("UPPER_ROW", "1 2 3 -4 5 6"), "EDGE_WEIGHT_SECTION has -4, expected finite costs >= 0"),
    (explicit("UPPER_ROW", "nan 2 3 4 5 6"), "EDGE_WEIGHT_SECTION has nan, expected finite costs >= 0"),
    (explicit("UPPER_ROW", "0 0 0 0 0 0"), "MATRIX is 0 for all 4 nodes"),
    (explicit("UPPER_ROW", "1", size=2), "DIMENSION is 2, but a TSP needs at least 3 nodes"),
    (explicit("FULL_MATRIX", "0", size=1), "DIMENSION is 1, but a TSP needs at least 3 nodes"),
    (explicit("FULL_MATRIX", "0").replace("EDGE_WEIGHT_SECTION\n0\n", ""), "EDGE_WEIGHT_SECTION is missing"),
    ("hello\n", "'HELLO' is not a supported keyword"),
    ("COMMENT : nothing else\n", "DIMENSION is missing"),
]
BROKEN_CSV = [
    ("a,b\n1,2\n", "the header is 'a,b', expected x,y or lat,lon"),
    ("x;y\n1;2\n", "the header is 'x;y', expected x,y or lat,lon"),
    ("1,2\n3,4\n", "the header is '1,2', expected x,y or lat,lon"),
    ("x,y,lat,lon\n1,2,3,4\n", "the header is 'x,y,lat,lon', expected only one of x,y or lat,lon"),
    ("x,y,X\n1,2,3\n", "the header has the column x twice"),
    ("# only this\n", "is not CSV (no header)"),
    ('x,y\n1,"2\n', "is not CSV (unexpected end of data)"),
    ("x,y\n1,2\n3\n", "row 2 has 1 cells, but the header has 2"),
    ("x,y\n1,2\n3,4,5\n", "row 2 has 3 cells, but the header has 2"),
    ("x,y\n1,2\n3,\n", "column y has '' where a number should be"),
    ("x,y\n1,2\n3,four\n", "column y has 'four' where a number should be"),
    ("x,y\n1,2\n3,nan\n4,5\n", "COORDS of node 2 are (3, nan), expected finite numbers"),
    ("x,y\n", "DIMENSION is 0, but a TSP needs at least 3 nodes"),
    ("x,y\n1,2\n3,4\n", "DIMENSION is 2, but a TSP needs at least 3 nodes"),
    ("lat,lon\n0,0\n95,0\n1,1\n", "LAT of node 2 is 95, outside -90..90"),
    ("id,x,y\n1,0,0\n1,1,0\n2,1,1\n", "node number 1 is used 2 times"),
    (
        "x,y,demand\n0,0,0\n1,0,4\n1,1,5\n",
        "capacity is missing: give a line '# capacity: 100', a column or an argument",
    ),
    ("# capacity: lots\nx,y,demand\n0,0,0\n1,0,4\n1,1,5\n", "capacity has 'lots' where a number should be"),
    ("# capacity: 9\nx,y\n0,0\n1,0\n1,1\n", "capacity is 9, but there is no column demand"),
    ("# capacity: 9\nx,y,demand\n0,0,0\n1,0,\n1,1,5\n", "column demand has '' where a number should be"),
    (
        "# capacity: 9\nx,y,demand\n0,0,2\n1,0,1\n1,1,5\n",
        "DEMAND of node 1 is 2, expected 0 because it is the depot",
    ),
    ("# capacity: 4\nx,y,demand\n0,0,0\n1,0,1\n1,1,5\n", "DEMAND of node 3 is 5, more than CAPACITY 4"),
]
BROKEN_FILES = [
    *(("x.vrp", CVRP.replace(old, new, 1), complaint) for old, new, complaint in BROKEN_CVRP),
    *(("x.tsp", text, complaint) for text, complaint in BROKEN_TEXTS),
    *(("x.csv", text, complaint) for text, complaint in BROKEN_CSV),
    ("x.tsp", "", "the file is empty"),
    ("x.tsp", " \n\n", "the file is empty"),
    ("x.txt", TSP, "suffix is '.txt', expected .tsp or .vrp or .csv"),
    ("x", TSP, "suffix is '', expected .tsp or .vrp or .csv"),
]


@pytest.mark.parametrize(("name", "text", "complaint"), BROKEN_FILES)
def test_broken_files(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {complaint}')}$") as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_every_broken_file_differs_from_the_good_one() -> None:
    assert all(old in CVRP for old, _, _ in BROKEN_CVRP)


BROKEN_SOLUTIONS = [
    (CVRP, "x.sol", "", "the file is empty"),
    (CVRP, "x.sol", "Cost 12\n", "has no line 'Route #1: ...'"),
    (CVRP, "x.sol", "Route #1 1 2\n", "line 'Route #1 1 2' has no colon, expected 'Route #1: 5 3'"),
    (CVRP, "x.sol", "Route #1: 1 two\n", "Route #1 has 'two' where a number should be"),
    (CVRP, "x.sol", "Route #1: 1 2.5\n", "Route #1 has '2.5' where a whole number should be"),
    (CVRP, "x.sol", "Route #1: 1 2\nRoute #2: 4\n", "Route #2 has customer 4, but the customers are 1..3"),
    (CVRP, "x.sol", "Route #1: 0 1 2 0\n", "Route #1 has customer 0, but the customers are 1..3"),
    (CVRP, "x.sol", "Route #1: 1 2\n3\n", "line '3' is neither 'Route #1: ...' nor 'Cost ...'"),
    (TSP, "x.sol", "Route #1: 1 2\n", "a .sol file holds CVRP routes, but small is a TSP"),
    (CVRP, "x.tour", "TOUR_SECTION\n1 2 3 4 -1", "a .tour file holds a TSP tour, but small is a CVRP"),
    (TSP, "x.tour", "NAME : x\n", "TOUR_SECTION is missing"),
    (TSP, "x.tour", "TYPE : TSP\nTOUR_SECTION\n1 2 3 4 -1", "TYPE is 'TSP', expected TOUR"),
    (TSP, "x.tour", "DIMENSION : 5\nTOUR_SECTION\n1 2 3 4 -1", "DIMENSION is 5, but small has 4 nodes"),
    (TSP, "x.tour", "TOUR_SECTION\n1 2 3 5 -1", "TOUR_SECTION has node 5, which is not among the 4 nodes"),
    (TSP, "x.tour", "TOUR_SECTION\n1 2 3 x -1", "TOUR_SECTION has 'x' where a number should be"),
    (TSP, "x.tour", "TOUR_SECTION\n1 2 -1 3 4 -1", "TOUR_SECTION has more than one tour"),
    (TSP, "x.opt", "TOUR_SECTION\n1 2 3 4 -1", "suffix is '.opt', expected .sol or .tour"),
]


@pytest.mark.parametrize(("problem", "name", "text", "complaint"), BROKEN_SOLUTIONS)
def test_broken_solutions(tmp_path: Path, problem: str, name: str, text: str, complaint: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {complaint}')}$"):
        read_solution(path, parse_tsplib(problem))


def test_wrong_routes_are_read_and_reported() -> None:
    assert parse_tour("TOUR_SECTION\n1 2 2 -1", parse_tsplib(TSP)).violations == (
        "missing nodes: 2, 3",
        "repeated nodes: 1",
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\x89PNG\r\n\0\0", "not a text file (byte 6 is zero)"),
        (TSP.encode("utf-16"), "not a text file (byte 3 is zero)"),
        (b"\xff\xfe\xfd garbage", "'ŸÞÝ' is not a supported keyword"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "x.tsp").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(complaint)):
        read(tmp_path / "x.tsp")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.vrp: no such file$"):
        read(tmp_path / "x.vrp")
    with pytest.raises(ValueError, match=r"x\.sol: no such file$"):
        read_solution(tmp_path / "x.sol", parse_tsplib(CVRP))
    (tmp_path / "folder.vrp").mkdir()
    with pytest.raises(ValueError, match=r"folder\.vrp: is a folder, expected a file$"):
        read(str(tmp_path / "folder.vrp"))
    with pytest.raises(ValueError, match=r": cannot be read \(File name too long\)$"):
        read("x" * 5000 + ".vrp")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x.vrp").write_text(CVRP)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ValueError, match=r"x\.vrp: cannot be read \(Permission denied\)$"):
        read(tmp_path / "x.vrp")


def test_capacity_is_only_for_csv(tmp_path: Path) -> None:
    (tmp_path / "x.vrp").write_text(CVRP)
    with pytest.raises(ValueError, match=r"x\.vrp: capacity is given as 5, but only CSV takes it from outside$"):
        read(tmp_path / "x.vrp", capacity=5)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("x.txt", "suffix is '.txt', expected .tsp, .vrp or .csv"),
        ("x.tsp", "suffix is '.tsp', but small is a CVRP"),
        ("x.csv", "metric is EUC_2D, but CSV only carries EXACT_2D and HAVERSINE"),
    ],
)
def test_instances_that_cannot_be_written(tmp_path: Path, name: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'{tmp_path / name}: {complaint}')}$"):
        write_instance(tmp_path / name, parse_tsplib(CVRP))
    assert not list(tmp_path.iterdir())


def test_node_numbers_that_no_section_would_carry() -> None:
    instance = replace(parse_tsplib(explicit("UPPER_ROW", "1 2 3 4 5 6")), labels=np.array([1, 2, 3, 9]))
    with pytest.raises(ValueError, match=r"node numbers other than 1\.\.n cannot be written"):
        format_tsplib(instance)


def test_solutions_that_cannot_be_written(tmp_path: Path) -> None:
    tour, routes = Solution(parse_tsplib(TSP), ((0, 1, 2, 3),)), Solution(parse_tsplib(CVRP), ((1, 2), (3,)))
    two = replace(tour, routes=((0, 1), (2, 3)))
    cases = [
        ("x.txt", tour, "suffix is '.txt', expected .sol or .tour"),
        ("x.sol", tour, "a .sol file holds CVRP routes, but small is a TSP: write a .tour file"),
        ("x.tour", routes, "a .tour file holds a TSP tour, but small is a CVRP: write a .sol file"),
        ("x.tour", two, "a .tour file holds one tour, but the solution has 2 routes"),
    ]
    for name, solution, complaint in cases:
        with pytest.raises(ValueError, match=f"^{re.escape(f'{tmp_path / name}: {complaint}')}$"):
            write_solution(tmp_path / name, solution)
    assert not list(tmp_path.iterdir())


# Atomic writing.


def test_atomic_write_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a.txt", "old")
    atomic_write(tmp_path / "a.txt", "nëw")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "nëw"
    atomic_write(tmp_path / "b.bin", b"\0\1")
    assert (tmp_path / "b.bin").read_bytes() == b"\0\1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.bin"]


def test_atomic_write_keeps_the_old_file_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    atomic_write(tmp_path / "a.txt", "old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ValueError, match=r"a\.txt: cannot be written \(No space left on device\)$"):
        atomic_write(tmp_path / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_atomic_write_leaves_no_litter_when_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "a.txt", "new")
    assert not list(tmp_path.iterdir())


def test_atomic_write_where_it_cannot(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.txt: cannot be written \(No such file or directory\)$"):
        atomic_write(tmp_path / "none" / "a.txt", "new")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=r"folder: cannot be written \(Is a directory\)$"):
        atomic_write(tmp_path / "folder", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


# Speed. The limits are wide, for slow and busy machines; the usual times are a tenth.


def seconds(text: str) -> float:
    start = time.perf_counter()
    parse_tsplib(text)
    return time.perf_counter() - start


def test_large_files_are_read_quickly() -> None:
    rng = np.random.default_rng(0)
    coords = rng.uniform(0, 1000, (7000, 2))
    demand = np.append(0.0, rng.integers(1, 100, 6999))
    assert seconds(format_tsplib(Instance("large", coords, Metric.EUC_2D, demand, 500.0))) < 1
    matrix = rng.integers(1, 10**6, (1000, 1000)).astype(float)
    np.fill_diagonal(matrix, 0.0)
    assert seconds(format_tsplib(Instance("full", coords[:1000], Metric.EXPLICIT, matrix=matrix))) < 3


def test_reading_needs_nothing_but_numpy() -> None:
    code = f"""import sys, elgo.problem.files
elgo.problem.files.read({str(HERE / "odd.vrp")!r})
print([name for name in ("torch", "numba", "scipy", "vrplib", "matplotlib") if name in sys.modules])"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"


# The public collections, where they are at hand, against an independent reader.

needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no benchmark data at {SHARED} (set ELGO_DATA)")
SHARED_FILES = sorted([*SHARED.glob("tsplib/*.tsp"), *SHARED.glob("cvrplib/*/*.vrp")])


@needs_data
def test_pcb442_in_canonical_order() -> None:
    """The TSPLIB documentation gives 221440 for the tour 1, 2, ..., n."""
    instance = read(SHARED / "tsplib" / "pcb442.tsp")
    assert Solution(instance, (tuple(range(442)),)).cost == 221440


@needs_data
def test_the_collections_are_complete() -> None:
    assert len(SHARED_FILES) == 153


def nint_length(coords: np.ndarray, closed: list[int]) -> int:
    steps = np.diff(coords[[*closed, closed[0]]], axis=0)
    return int(np.floor(np.hypot(steps[:, 0], steps[:, 1]) + 0.5).sum())


@needs_data
@pytest.mark.parametrize("path", SHARED_FILES, ids=lambda path: path.stem)
def test_collections_against_vrplib(path: Path) -> None:
    vrplib = pytest.importorskip("vrplib")
    theirs = vrplib.read_instance(path, compute_edge_weights=False)
    ours = read(path)
    assert ours.name == str(theirs["name"])
    assert ours.size == theirs["dimension"]
    assert ours.metric.value == theirs["edge_weight_type"]
    assert np.array_equal(ours.coords, theirs["node_coord"])
    if ours.demand is None:
        optima = dict(line.split(",")[::2] for line in (path.parent / "optima.csv").read_text().split())
        assert ours.best_known == int(optima[path.stem])
        return
    assert np.array_equal(ours.demand, theirs["demand"])
    assert ours.capacity == theirs["capacity"]
    published = vrplib.read_solution(path.with_suffix(".sol"))
    solution = read_solution(path.with_suffix(".sol"), ours)
    assert [list(route) for route in solution.routes] == published["routes"]
    assert solution.violations == ()
    assert solution.cost == published["cost"] == ours.best_known
    assert solution.cost == sum(nint_length(theirs["node_coord"], [0, *route]) for route in published["routes"])
    loads = [theirs["demand"][route].sum() for route in published["routes"]]
    assert max(loads) <= theirs["capacity"]
    assert sorted(node for route in published["routes"] for node in route) == list(range(1, ours.size))


@needs_data
@pytest.mark.parametrize("path", SHARED_FILES[::25], ids=lambda path: path.stem)
def test_collections_round_trip(path: Path, tmp_path: Path) -> None:
    instance = read(path)
    write_instance(tmp_path / path.name, instance)
    assert_same(read(tmp_path / path.name), instance)
