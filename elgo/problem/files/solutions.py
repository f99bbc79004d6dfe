"""Solutions: CVRP routes in .sol files of CVRPLIB, TSP tours in .tour files of TSPLIB, and best known costs."""

import csv
import os
from pathlib import Path

import numpy as np

from elgo.problem.errors import ElgoError
from elgo.problem.files.atomic import atomic_write
from elgo.problem.files.text import (
    PathLike,
    errors_name,
    format_number,
    is_number,
    is_possible_cost,
    parse_integers,
    quoted,
    read_text,
    split_lines,
    suffix_of,
)
from elgo.problem.files.tsplib import node_indices, parse_document
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution

COST_TABLES = ("optima.csv", "solutions.csv")  # rows `NAME,...,cost`, in the same folder as the problem files


def read_solution(path: PathLike, instance: Instance) -> Solution:
    """Return the routes in a .sol file (CVRP) or .tour file (TSP). A cost stated there is ignored."""
    text = read_text(path, (".sol", ".tour"))
    parse = parse_sol if suffix_of(path) == ".sol" else parse_tour
    return parse(text, instance, os.fspath(path))


def write_solution(path: PathLike, solution: Solution) -> None:
    """Write a .sol file (CVRP) or a .tour file (TSP)."""
    formats = {".sol": format_sol, ".tour": format_tour}
    suffix = suffix_of(path)
    with errors_name(path):
        if suffix not in formats:
            raise ElgoError(f"suffix is {suffix!r}, expected .sol or .tour")
        text = formats[suffix](solution)
    atomic_write(path, text)


def parse_sol(text: str, instance: Instance, source: str = "text") -> Solution:
    """Return the solution in lines like `Route #1: 5 3`. Customers are numbered from 1 in the instance's order."""
    with errors_name(source):
        if instance.problem != "cvrp":
            raise ElgoError(f"a .sol file holds CVRP routes, but {instance.name} is a TSP")
        routes = [_parse_route(line, instance) for line in split_lines(text) if line[:5].lower() == "route"]
        if stray := [line for line in split_lines(text) if line[0] in "0123456789+-."]:
            raise ElgoError(f"line {quoted(stray[0])} is neither 'Route #1: ...' nor 'Cost ...'")
        if not routes and instance.customers:
            raise ElgoError("has no line 'Route #1: ...'")
        return Solution(instance, tuple(routes))


def _parse_route(line: str, instance: Instance) -> tuple[int, ...]:
    head, colon, tail = line.partition(":")
    if not colon:
        raise ElgoError(f"line {quoted(line)} has no colon, expected 'Route #1: 5 3'")
    customers = parse_integers(tail.split(), head)
    unknown = (customers < 1) | (customers >= instance.size)
    if unknown.any():
        raise ElgoError(f"{head} has customer {customers[unknown][0]}, but the customers are 1..{instance.customers}")
    return tuple(customers.tolist())


def format_sol(solution: Solution) -> str:
    """Return the solution of a CVRP as CVRPLIB text."""
    if solution.instance.problem != "cvrp":
        raise ElgoError(f"a .sol file holds CVRP routes, but {solution.instance.name} is a TSP: write a .tour file")
    routes = [f"Route #{i}: {' '.join(map(str, route))}" for i, route in enumerate(solution.routes, start=1)]
    return "\n".join([*routes, f"Cost {format_number(solution.cost)}", ""])


def parse_tour(text: str, instance: Instance, source: str = "text") -> Solution:
    """Return the tour in a TSPLIB text whose TOUR_SECTION lists the instance's node numbers."""
    with errors_name(source):
        if instance.problem != "tsp":
            raise ElgoError(f"a .tour file holds a TSP tour, but {instance.name} is a CVRP")
        document = parse_document(text)
        if (kind := document.type("TOUR")) != "TOUR":
            raise ElgoError(f"TYPE is {quoted(kind)}, expected TOUR")
        size = document.count("DIMENSION") if "DIMENSION" in document.fields else instance.size
        if size != instance.size:
            raise ElgoError(f"DIMENSION is {size}, but {instance.name} has {instance.size} nodes")
        nodes = parse_integers(" ".join(document.section("TOUR_SECTION")).split(), "TOUR_SECTION")
        ends = np.flatnonzero(nodes == -1)
        tour, rest = (nodes[: ends[0]], nodes[ends[0] :]) if len(ends) else (nodes, nodes[:0])
        if (rest != -1).any():
            raise ElgoError("TOUR_SECTION has more than one tour")
        return Solution(instance, (tuple(node_indices(instance.labels, tour, "TOUR_SECTION").tolist()),))


def format_tour(solution: Solution) -> str:
    """Return the solution of a TSP as TSPLIB text, in the file's own node numbers."""
    instance = solution.instance
    if instance.problem != "tsp":
        raise ElgoError(f"a .tour file holds a TSP tour, but {instance.name} is a CVRP: write a .sol file")
    if len(solution.routes) != 1:
        raise ElgoError(f"a .tour file holds one tour, but the solution has {len(solution.routes)} routes")
    head = [f"NAME : {instance.name}", f"COMMENT : Length {format_number(solution.cost)}", "TYPE : TOUR"]
    nodes = map(str, instance.labels[list(solution.routes[0])])
    return "\n".join([*head, f"DIMENSION : {instance.size}", "TOUR_SECTION", *nodes, "-1", "EOF", ""])


def find_best_known(path: Path, instance: Instance) -> float | None:
    """Return the best known cost of the instance in the problem file at path, see `elgo.read`.

    Routes are evaluated by our distance rule, because published costs are not always rounded as the file says. Missing
    and broken files are ignored: the problem file itself is valid.
    """
    for name in (f"{path.stem}.sol", f"{path.stem}.opt.tour"):
        try:
            solution = read_solution(path.with_name(name), instance)
        except (ValueError, OSError):
            continue
        if solution.feasible:
            return solution.cost
    for table in COST_TABLES:
        try:
            rows = list(csv.reader(split_lines(read_text(path.with_name(table), (".csv",)))))
        except (ValueError, OSError, csv.Error):
            continue
        costs = (row[-1] for row in rows if row and row[0].strip() in (path.stem, instance.name))
        cost = next((float(cost) for cost in costs if is_number(cost)), None)
        if cost is not None and is_possible_cost(cost, instance.metric):
            return cost
    return instance.best_known
