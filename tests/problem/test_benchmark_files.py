"""`elgo solve` on the benchmark files, checked with vrplib and numpy only."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vrplib
from typer.testing import CliRunner

from elgo.cli.main import app

SMALL = ("tsplib/eil51.tsp", "tsplib/berlin52.tsp", "cvrplib/X/X-n101-k25.vrp", "cvrplib/X/X-n106-k14.vrp")


def solve(json_file: Path, *args: object) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """`elgo solve ARGS`: the records that it writes, and the words of the printed table's rows by name."""
    words = ("solve", *args, "--quiet", "--json", json_file)
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines()]
    return json.loads(json_file.read_text()), {row[0]: row for row in rows if len(row) == 9}


def check(record: dict[str, Any], row: list[str], file: Path) -> None:
    """The record and the printed row are of a solution of this file, at the cost that follows from its routes."""
    problem = vrplib.read_instance(file, compute_edge_weights=False)
    coords, n = problem["node_coord"], problem["dimension"]
    tsp = file.suffix == ".tsp"
    assert (record["name"], record["problem"]) == (file.stem, "tsp" if tsp else "cvrp")
    nodes = sorted(node for route in record["routes"] for node in route)
    assert nodes == list(range(0 if tsp else 1, n))
    if tsp:
        assert len(record["routes"]) == 1
        best = optima(file.parent)[file.stem]
    else:
        assert all(problem["demand"][route].sum() <= problem["capacity"] for route in record["routes"])
        best = vrplib.read_solution(file.with_suffix(".sol"))["cost"]
    cost = 0
    for route in record["routes"]:
        stops = coords[route if tsp else [0, *route]]
        lengths = np.hypot(*(stops - np.roll(stops, -1, axis=0)).T)
        cost += int(np.floor(lengths + 0.5).sum())
    gap = 100 * (cost - best) / best
    assert record["cost"] == cost
    assert record["gap"] == pytest.approx(gap)
    assert record["feasible"] is True
    assert gap >= 0
    assert row[1:7] == [record["problem"], str(n), str(len(record["routes"])), str(cost), str(best), f"{gap:.2f}"]


def optima(folder: Path) -> dict[str, int]:
    with open(folder / "optima.csv", newline="") as table:
        return {row["name"]: int(row["optimum"]) for row in csv.DictReader(table)}


def test_four_small_files(data: Path, weights: Callable[[str], Path], tmp_path: Path) -> None:
    for problem, names in (("tsp", SMALL[:2]), ("cvrp", SMALL[2:])):
        files = [data / name for name in names]
        few = "--policy-only", "--starts", 8, "--symmetries", 1, "--threads", 1
        for options in (("--model", weights(problem), *few), ("--time-limit", 1)):
            records, rows = solve(tmp_path / "out.json", *files, *options)
            for record, file in zip(records, files, strict=True):
                check(record, rows[file.stem], file)


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--policy-only", "--starts", 8, "--symmetries", 1), ("--time-limit", 2)])
def test_all_149_files(data: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    """Both folders in one command, with the weights of the package."""
    folders = data / "tsplib", data / "cvrplib" / "X"
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.suffix in (".tsp", ".vrp")]
    assert len(files) == 149
    records, rows = solve(tmp_path / "out.json", *folders, *options)
    for record, file in zip(records, files, strict=True):
        check(record, rows[file.stem], file)
