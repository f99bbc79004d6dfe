"""Solution files: parsing, round trips, and one broken text per error message."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import CVRP, TSP, instances

from elgo.problem.files import parse_tsplib, read_solution, write_solution
from elgo.problem.files.solutions import format_sol, format_tour, parse_sol, parse_tour
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution


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


@settings(deadline=None)  # the machine may be busy
@given(instances(), st.data())
def test_round_trip(instance: Instance, data: st.DataObject) -> None:
    nodes = data.draw(st.permutations(range(instance.size - instance.customers, instance.size)))
    if instance.problem == "tsp":
        solution = Solution(instance, (tuple(nodes),))
        assert parse_tour(format_tour(solution), instance) == solution
    else:
        cut = data.draw(st.integers(0, len(nodes)))
        solution = Solution(instance, (tuple(nodes[:cut]), tuple(nodes[cut:])))
        assert parse_sol(format_sol(solution), instance) == solution


BROKEN_SOLUTIONS = [
    (CVRP, "x.sol", "", "the file is empty"),
    (CVRP, "x.sol", "Cost 12\n", "has no line 'Route #1: ...'"),
    (CVRP, "x.sol", "Route #1 1 2\n", "line 'Route #1 1 2' has no colon, expected 'Route #1: 5 3'"),
    (CVRP, "x.sol", "Route #1: 1 two\n", "Route #1 has 'two', expected a number"),
    (CVRP, "x.sol", "Route #1: 1 2.5\n", "Route #1 has '2.5', expected an integer"),
    (CVRP, "x.sol", "Route #1: 1 2\nRoute #2: 4\n", "Route #2 has customer 4, but the customers are 1..3"),
    (CVRP, "x.sol", "Route #1: 0 1 2 0\n", "Route #1 has customer 0, but the customers are 1..3"),
    (CVRP, "x.sol", "Route #1: 1 2\n3\n", "line '3' is neither 'Route #1: ...' nor 'Cost ...'"),
    (TSP, "x.sol", "Route #1: 1 2\n", "a .sol file holds CVRP routes, but small is a TSP"),
    (CVRP, "x.tour", "TOUR_SECTION\n1 2 3 4 -1", "a .tour file holds a TSP tour, but small is a CVRP"),
    (TSP, "x.tour", "NAME : x\n", "TOUR_SECTION is missing"),
    (TSP, "x.tour", "TYPE : TSP\nTOUR_SECTION\n1 2 3 4 -1", "TYPE is 'TSP', expected TOUR"),
    (TSP, "x.tour", "DIMENSION : 5\nTOUR_SECTION\n1 2 3 4 -1", "DIMENSION is 5, but small has 4 nodes"),
    (TSP, "x.tour", "TOUR_SECTION\n1 2 3 5 -1", "TOUR_SECTION has node 5, which is not among the 4 nodes"),
    (TSP, "x.tour", "TOUR_SECTION\n1 2 3 x -1", "TOUR_SECTION has 'x', expected a number"),
    (TSP, "x.tour", "TOUR_SECTION\n1 2 -1 3 4 -1", "TOUR_SECTION has more than one tour"),
    (TSP, "x.opt", "TOUR_SECTION\n1 2 3 4 -1", "suffix is '.opt', expected .sol or .tour"),
]


@pytest.mark.parametrize(("problem", "name", "text", "message"), BROKEN_SOLUTIONS)
def test_broken_solutions(tmp_path: Path, problem: str, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {message}')}$"):
        read_solution(path, parse_tsplib(problem))


def test_wrong_routes_are_read_and_reported() -> None:
    assert parse_tour("TOUR_SECTION\n1 2 2 -1", parse_tsplib(TSP)).violations == (
        "missing nodes: 2, 3",
        "repeated nodes: 1",
    )


def test_solutions_that_cannot_be_written(tmp_path: Path) -> None:
    tour, routes = Solution(parse_tsplib(TSP), ((0, 1, 2, 3),)), Solution(parse_tsplib(CVRP), ((1, 2), (3,)))
    two = replace(tour, routes=((0, 1), (2, 3)))
    cases = [
        ("x.txt", tour, "suffix is '.txt', expected .sol or .tour"),
        ("x.sol", tour, "a .sol file holds CVRP routes, but small is a TSP: write a .tour file"),
        ("x.tour", routes, "a .tour file holds a TSP tour, but small is a CVRP: write a .sol file"),
        ("x.tour", two, "a .tour file holds one tour, but the solution has 2 routes"),
    ]
    for name, solution, message in cases:
        with pytest.raises(ValueError, match=f"^{re.escape(f'{tmp_path / name}: {message}')}$"):
            write_solution(tmp_path / name, solution)
    assert not list(tmp_path.iterdir())
