"""TSPLIB / CVRPLIB instances: every way to write them, round trips, and one broken text per error message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from texts import CVRP, DATA, TSP, assert_rejected, assert_same, explicit, instances

from elgo.problem.files import read, read_solution
from elgo.problem.files.tsplib import format_tsplib, parse_tsplib
from elgo.problem.instance import Instance, Metric
from elgo.problem.plane import FULL_EIGH_LIMIT, embed
from elgo.problem.solution import Solution


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
    instance = read(DATA / "odd.vrp")
    assert instance.name == "odd"
    assert instance.coords.tolist() == [[0, 0], [3, 0], [3, 4], [0, 4], [-3, 0]]
    assert instance.demand is not None
    assert instance.demand.tolist() == [0, 4, 3, 6, 6]
    assert instance.capacity == 10
    solution = read_solution(DATA / "odd.sol", instance)
    assert solution.routes == ((1, 2, 3), (4,))
    assert solution.violations == ("route 1 carries 13, more than CAPACITY 10",)
    assert instance.best_known == 12  # from the comment, because that solution is not feasible


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
    instance = read(DATA / "display.tsp")
    assert instance.has_coords
    assert instance.coords.tolist() == [[0, 0], [10, 0], [10, 10], [0, 10]]
    assert instance.distances(0, [1, 2, 3]).tolist() == [1, 2, 3]
    assert instance.best_known == 14


def test_set_d_layout() -> None:
    instance = read(DATA / "matrix.vrp")
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
    text = (DATA / "matrix.vrp").read_text().replace("DEPOT_SECTION\n1", "DEPOT_SECTION\n3")
    instance = parse_tsplib(text.replace("1 0\n2 5\n3 5", "1 5\n2 5\n3 0"))
    assert instance.labels.tolist() == [3, 1, 2, 4]
    assert instance.distances(0, [1, 2, 3]).tolist() == [9, 2, 4]
    assert instance.coords[0].tolist() == [-459, 317]
    assert_same(parse_tsplib(format_tsplib(instance)), instance)


def test_a_matrix_counts_nodes_by_their_number() -> None:
    text = (DATA / "matrix.vrp").read_text()
    shuffled = text.replace("2 -460 318\n3 -459 317", "3 -459 317\n2 -460 318")
    assert text != shuffled
    assert_same(parse_tsplib(shuffled), parse_tsplib(text))


def test_node_numbers_may_be_any() -> None:
    text = CVRP.replace("\n4 ", "\n70 ").replace("\n3 ", "\n0 ").replace("\n2 ", "\n5 ")
    instance = parse_tsplib(text)
    assert instance.labels.tolist() == [1, 5, 0, 70]
    assert_same(parse_tsplib(format_tsplib(instance)), instance)


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


@settings(deadline=None)  # the machine may be busy
@given(instances())
def test_round_trip(instance: Instance) -> None:
    assert_same(parse_tsplib(format_tsplib(instance)), instance)


def test_round_trip_of_a_large_matrix() -> None:
    """Beyond the limit of the full eigendecomposition the embedding is still the same each time."""
    size = FULL_EIGH_LIMIT + 20
    matrix = np.random.default_rng(0).integers(1, 1000, (size, size)).astype(float)
    np.fill_diagonal(matrix, 0.0)
    instance = Instance("large", embed(matrix), Metric.EXPLICIT, matrix=matrix, has_coords=False)
    assert_same(parse_tsplib(format_tsplib(instance)), instance)


def test_node_numbers_that_no_section_would_carry() -> None:
    instance = replace(parse_tsplib(explicit("UPPER_ROW", "1 2 3 4 5 6")), labels=np.array([1, 2, 3, 9]))
    with pytest.raises(ValueError, match=r"node numbers other than 1\.\.n cannot be written"):
        format_tsplib(instance)


# One broken file per error message: (text to replace in CVRP, its replacement, the message).

BROKEN_CVRP = [
    ("DIMENSION : 4", "DIMENSION : 5", "DIMENSION is 5 but NODE_COORD_SECTION has 4 rows"),
    ("DIMENSION : 4", "DIMENSION : four", "DIMENSION is 'four', expected a number"),
    ("DIMENSION : 4", "DIMENSION : 4.5", "DIMENSION is '4.5', expected an integer above 0"),
    ("DIMENSION : 4", "DIMENSION : -4", "DIMENSION is '-4', expected an integer above 0"),
    ("DIMENSION : 4", "DIMENSION : inf", "DIMENSION is 'inf', expected an integer above 0"),
    ("DIMENSION : 4\n", "", "DIMENSION is missing"),
    ("DIMENSION : 4", "DIMENSION :", "DIMENSION is missing"),
    ("DIMENSION : 4", "DIMENSION : 4\nDIMENSION : 4", "'DIMENSION' is given twice"),
    ("DIMENSION : 4", "DIMENSION : 4\n7 7 7", "line '7 7 7' is not in any section"),
    (
        "DIMENSION",
        "MAX_DURATION : 8\nDIMENSION",
        "it has MAX_DURATION, but route duration limits are not supported",
    ),
    ("DIMENSION", "VEHICLES : few\nDIMENSION", "VEHICLES is 'few', expected a number"),
    ("DIMENSION", "DISTANCE : 160\nDIMENSION", "DISTANCE is 160, but route duration limits are not supported"),
    ("DIMENSION", "SERVICE_TIME : 10\nDIMENSION", "SERVICE_TIME is 10, but route duration limits are not supported"),
    (
        "DIMENSION",
        "NODE_COORD_TYPE : THREED_COORDS\nDIMENSION",
        "NODE_COORD_TYPE is THREED_COORDS, expected TWOD_COORDS",
    ),
    ("TYPE : CVRP", "TYPE : VRPTW", "TYPE is VRPTW, but time windows are not supported, only TSP and CVRP"),
    ("TYPE : CVRP", "TYPE : ATSP", "TYPE is 'ATSP', expected TSP or CVRP"),
    ("TYPE : CVRP", "TYPE : HCP", "TYPE is HCP, but Hamiltonian cycles are not supported, only TSP and CVRP"),
    ("TYPE : CVRP", "TYPE : SOP", "TYPE is SOP, but precedences are not supported, only TSP and CVRP"),
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
    ("3 3 4", "3 3", "NODE_COORD_SECTION has the row '3 3', expected 3 numbers"),
    ("3 3 4", "3 3 4 5", "NODE_COORD_SECTION has the row '3 3 4 5', expected 3 numbers"),
    ("3 3 4", "3 3 four", "NODE_COORD_SECTION has 'four', expected a number"),
    ("3 3 4", "3 3 1,5", "NODE_COORD_SECTION has '1,5', expected a number"),
    ("3 3 4", "3.5 3 4", "NODE_COORD_SECTION has '3.5', expected an integer"),
    ("3 3 4", "1 3 4", "NODE_COORD_SECTION has node 1 more than once"),
    ("3 3 4\n4 0 4", "3 3 4\n-4 0 4", "DEMAND_SECTION has node 4, which is not among the 4 nodes"),
    ("3 3 4", "3 3 nan", "COORDS of node 3 are (3, nan), expected finite numbers"),
    ("3 3 4", "3 3 1e999", "COORDS of node 3 are (3, inf), expected finite numbers"),
    ("3 3 4", f"3 3 {'x' * 90}", f"NODE_COORD_SECTION has '{'x' * 39}…', expected a number"),
    ("DEMAND_SECTION\n1 0\n2 4\n3 5\n4 6\n", "", "DEMAND_SECTION is missing"),
    ("3 5\n4 6", "3 5", "DIMENSION is 4 but DEMAND_SECTION has 3 rows"),
    ("3 5\n", "3 5 6\n", "DEMAND_SECTION has the row '3 5 6', expected 2 numbers"),
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
    ("DEPOT_SECTION\n1", "DEPOT_SECTION\n0.5", "DEPOT_SECTION has '0.5', expected an integer"),
    (
        "EOF",
        "FIXED_EDGES_SECTION\n1 2\n-1\nEOF",
        "it has FIXED_EDGES_SECTION, but fixed edges are not supported",
    ),
    (
        "EOF",
        "TIME_WINDOW_SECTION\n1 0 9\nEOF",
        "it has TIME_WINDOW_SECTION, but time windows are not supported",
    ),
    ("EOF", "DEPOT_SECTION\n1\n-1\nEOF", "'DEPOT_SECTION' is given twice"),
    ("NAME : small", ":\nNAME : small", "':' is not a supported keyword"),
    ("NAME : small", "<!DOCTYPE html>\nNAME : small", "'<!DOCTYPE' is not a supported keyword"),
    ("NAME : small", "NAME : sm\x01all", r"NAME is 'sm\x01all', expected one line of printable text"),
]
ONE_CUSTOMER = CVRP.replace("\n3 3 4\n4 0 4", "").replace("\n3 5\n4 6", "").replace("DIMENSION : 4", "DIMENSION : 2")
NO_CUSTOMER = ONE_CUSTOMER.replace("\n2 3 0", "").replace("\n2 4", "").replace("DIMENSION : 2", "DIMENSION : 1")
BROKEN_TEXTS = [
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
    (explicit("UPPER_ROW", "1 2 3 four 5 6"), "EDGE_WEIGHT_SECTION has 'four', expected a number"),
    (explicit("UPPER_ROW", "1 2 3 -4 5 6"), "EDGE_WEIGHT_SECTION has -4, expected finite costs >= 0"),
    (explicit("UPPER_ROW", "nan 2 3 4 5 6"), "EDGE_WEIGHT_SECTION has nan, expected finite costs >= 0"),
    (explicit("FULL_MATRIX", "0").replace("EDGE_WEIGHT_SECTION\n0\n", ""), "EDGE_WEIGHT_SECTION is missing"),
    ("hello\n", "'HELLO' is not a supported keyword"),
    ("COMMENT : nothing else\n", "DIMENSION is missing"),
]


BROKEN = [
    *(("x.vrp", CVRP.replace(old, new, 1), message) for old, new, message in BROKEN_CVRP),
    *(("x.tsp", text, message) for text, message in BROKEN_TEXTS),
]


@pytest.mark.parametrize(("name", "text", "message"), BROKEN)
def test_broken_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    assert_rejected(tmp_path / name, text, message)


def test_every_broken_file_differs_from_the_good_one() -> None:
    assert all(old in CVRP for old, _, _ in BROKEN_CVRP)


@pytest.mark.parametrize(
    ("text", "customers"),
    [
        (ONE_CUSTOMER, 1),
        (NO_CUSTOMER, 0),
        (explicit("UPPER_ROW", "0 0 0 0 0 0"), 4),
        (explicit("UPPER_ROW", "1", size=2), 2),
        (explicit("FULL_MATRIX", "0", size=1), 1),
    ],
)
def test_trivial_problems(text: str, customers: int) -> None:
    assert parse_tsplib(text).customers == customers
