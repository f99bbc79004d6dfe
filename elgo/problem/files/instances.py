"""Problem files: the suffix decides on the format. A new format gets a module of its own and a line in `read`."""

import logging
import os
from dataclasses import replace
from pathlib import Path

from elgo.problem.errors import ElgoError
from elgo.problem.files.atomic import atomic_write
from elgo.problem.files.csv import MatrixText, ProblemFile, format_csv, parse_stops
from elgo.problem.files.solutions import COST_TABLES, find_best_known
from elgo.problem.files.text import PathLike, errors_name, read_text, suffix_of
from elgo.problem.files.tsplib import format_tsplib, parse_tsplib
from elgo.problem.instance import Instance
from elgo.problem.stops import Stops

SUFFIXES = (".tsp", ".vrp", ".csv")
ROUTES_SUFFIX = ".routes.csv"  # of solutions, which may lie beside the problem files

_log = logging.getLogger(__name__)


def problem_files(folder: Path) -> list[Path]:
    """Return the problem files in a folder, sorted; ElgoError if there are none."""
    inside = [file for file in sorted(folder.iterdir()) if suffix_of(file) in SUFFIXES]
    names = [file.name.lower() for file in inside]
    no_problem = [name in COST_TABLES or name.endswith(ROUTES_SUFFIX) for name in names]
    files = [file for file, other in zip(inside, no_problem, strict=True) if not other]
    if not files:
        raise ElgoError(f"{folder}: no problem files ({', '.join(SUFFIXES)}) in this folder")
    return files


def read(
    path: PathLike, capacity: float | None = None, depot: str | None = None, matrix: PathLike | None = None
) -> Instance:
    """Return the instance in a .tsp, .vrp or .csv file.

    For CSV files: `capacity` if they do not state it; `depot`, the id or row of the depot, if it is not the first
    row; `matrix`, a CSV file of road distances or times. Columns that are not used are logged as a warning.

    The best known cost is that of NAME.sol or NAME.opt.tour in the same folder, else from a row `NAME,cost` of
    optima.csv or solutions.csv there, else from a comment like 'Optimal value: 784' in the file.
    """
    problem = read_problem(path, capacity, depot, matrix)
    for warning in problem.warnings:
        _log.warning("%s: %s", os.fspath(path), warning)
    return problem.instance


def read_problem(
    path: PathLike, capacity: float | None = None, depot: str | None = None, matrix: PathLike | None = None
) -> ProblemFile:
    """Return the instance in a file as `read` does, with ids, names and other columns of its nodes, and warnings."""
    text = read_text(path, SUFFIXES)
    if suffix_of(path) == ".csv":
        table = None if matrix is None else MatrixText(read_text(matrix, (".csv", ".txt", ".tsv")), os.fspath(matrix))
        problem = parse_stops(text, os.fspath(path), capacity, depot, table)
        instance = replace(problem.instance, best_known=find_best_known(Path(path), problem.instance))
        return problem._replace(instance=instance)
    for name, value in (("capacity", capacity), ("depot", depot), ("matrix", matrix)):
        if value is not None:
            given = f"{value:g}" if isinstance(value, float | int) else value
            raise ElgoError(f"{os.fspath(path)}: {name} is given as {given}, but only CSV files accept it")
    instance = parse_tsplib(text, os.fspath(path))
    instance = replace(instance, best_known=find_best_known(Path(path), instance))
    return ProblemFile(instance, Stops.of(instance))


def write_instance(path: PathLike, instance: Instance) -> None:
    """Write a .tsp, .vrp or .csv file that `read` turns into an equal instance."""
    suffix = suffix_of(path)
    with errors_name(path):
        if suffix not in SUFFIXES:
            raise ElgoError(f"suffix is {suffix!r}, expected .tsp, .vrp or .csv")
        if suffix != ".csv" and suffix != (".tsp" if instance.problem == "tsp" else ".vrp"):
            raise ElgoError(f"suffix is {suffix!r}, but {instance.name} is a {instance.problem.upper()}")
        text = format_csv(instance) if suffix == ".csv" else format_tsplib(instance)
    atomic_write(path, text)
