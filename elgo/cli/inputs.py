"""The inputs of `elgo solve`, read and checked before any work is done."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from elgo.model.device import check_device, find_device
from elgo.problem.errors import ElgoError
from elgo.problem.files import ProblemFile, problem_files, read_problem, read_solution
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.search.fallback import fallback_routes
from elgo.solve.config import ModelName


def check_device_option(name: str) -> str:
    """Return the name of a device; BadParameter if there is no such device."""
    try:
        check_device(name)
        if name.startswith("cuda"):  # others need no look at torch
            find_device(name)
    except (ValueError, ModuleNotFoundError) as error:
        raise typer.BadParameter(str(error)) from None
    return name


DeviceOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        callback=check_device_option,
        help="Where the model runs: cpu, cuda, cuda:NUMBER, or auto: a GPU if there is one.",
    ),
]


def expand_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the files that the paths name, each once; a folder stands for the problem files in it, sorted."""
    return list(dict.fromkeys(file for path in paths for file in (problem_files(path) if path.is_dir() else [path])))


def read_all(
    files: Sequence[Path], capacity: float | None, depot: str | None = None, matrix: Path | None = None
) -> list[ProblemFile]:
    """Return what is in the files; capacity, depot and matrix are those of the CSV files."""
    is_csv = [file.suffix.lower() == ".csv" for file in files]
    given = {"--capacity": None if capacity is None else f"{capacity:g}", "--depot": depot, "--matrix": matrix}
    for option, value in given.items():
        if value is not None and not any(is_csv):
            raise ElgoError(f"{files[0]}: {option} is {value}, but only CSV files take it")
    if matrix is not None and len(files) > 1:
        raise ElgoError(f"{matrix}: --matrix belongs to one file of stops, but there are {len(files)}")
    return [
        read_problem(file, capacity, depot, matrix) if csv else read_problem(file)
        for file, csv in zip(files, is_csv, strict=True)
    ]


def set_ends(
    instances: Sequence[Instance], files: Sequence[Path], open_routes: bool, first: int | None, last: int | None
) -> list[Instance]:
    """Return the instances with open routes, or with the first or last stop that is named by its number in the file."""
    ends: dict[str, int | None] = {"first": first, "last": last}
    changed = []
    for file, instance in zip(files, instances, strict=True):
        nodes: dict[str, int | None] = {}
        for name, number in ends.items():
            if number is not None and instance.problem == "cvrp":
                raise ElgoError(
                    f"{file}: --{name} is {number}, but only a TSP takes it: CVRP routes begin at the depot"
                )
            found = np.flatnonzero(instance.labels == number)
            if number is not None and len(found) == 0:
                raise ElgoError(f"{file}: --{name} is {number}, but no node has this number")
            nodes[name] = None if number is None else int(found[0])
        if first is not None and first == last and instance.size > 1:
            raise ElgoError(f"{file}: --first and --last are both {first}; for a tour that returns give --first alone")
        changed.append(instance.with_ends(open=open_routes, **nodes))
    return changed


def check_vehicles(vehicles: int, files: Sequence[Path], instances: Sequence[Instance], must_fit: bool) -> None:
    """Raise ElgoError if all files are TSPs, or if `must_fit` and an instance needs more vehicles."""
    if all(instance.problem == "tsp" for instance in instances):
        raise ElgoError(f"{files[0]}: --vehicles is {vehicles}, but only a CVRP takes it")
    if must_fit:
        for instance in instances:
            fallback_routes(instance, vehicles)


def read_warm_start(file: Path, files: Sequence[Path], instances: Sequence[Instance], vehicles: int | None) -> Solution:
    """Return the solution of the one problem file to start from."""
    if len(files) > 1:
        raise ElgoError(f"{file}: --warm-start is a solution of one problem file, but there are {len(files)}")
    solution = read_solution(file, instances[0])
    if solution.violations:
        raise ElgoError(f"{file}: --warm-start is not a solution of {files[0]}: {solution.violations[0]}")
    if vehicles is not None and len(solution.routes) > vehicles:
        raise ElgoError(f"{file}: --warm-start has {len(solution.routes)} routes, --vehicles is {vehicles}")
    return solution


def check_model(name: ModelName, instances: Sequence[Instance]) -> None:
    """Raise ElgoError if the model does not exist for the problem of an instance."""
    from elgo.model.checkpoint import load_weights

    for problem in {instance.problem for instance in instances}:
        load_weights(name, problem)
