"""Problem files: the suffix decides on the format. A new format gets a module of its own and a line in `read`."""

import os
from dataclasses import replace
from pathlib import Path

from elgo.problem.files.atomic import atomic_write
from elgo.problem.files.csv import format_csv, parse_csv
from elgo.problem.files.solutions import COST_TABLES, find_best_known
from elgo.problem.files.text import PathLike, errors_name, read_text, suffix_of
from elgo.problem.files.tsplib import format_tsplib, parse_tsplib
from elgo.problem.instance import Instance

SUFFIXES = (".tsp", ".vrp", ".csv")


def problem_files(folder: Path) -> list[Path]:
    """Return the problem files in a folder, sorted; ValueError if there are none."""
    inside = [file for file in sorted(folder.iterdir()) if suffix_of(file) in SUFFIXES]
    files = [file for file in inside if file.name.lower() not in COST_TABLES]
    if not files:
        raise ValueError(f"{folder}: no problem files ({', '.join(SUFFIXES)}) in this folder")
    return files


def read(path: PathLike, capacity: float | None = None) -> Instance:
    """Return the instance in a .tsp, .vrp or .csv file.

    capacity is for CSV files that have demands but do not state a capacity. The best known cost is that of NAME.sol or
    NAME.opt.tour in the same folder, else from a row `NAME,cost` of optima.csv or solutions.csv there, else from a
    comment like 'Optimal value: 784' in the file.
    """
    text = read_text(path, SUFFIXES)
    if suffix_of(path) == ".csv":
        instance = parse_csv(text, os.fspath(path), capacity)
    elif capacity is not None:
        raise ValueError(f"{os.fspath(path)}: capacity is given as {capacity:g}, but only CSV files accept it")
    else:
        instance = parse_tsplib(text, os.fspath(path))
    return replace(instance, best_known=find_best_known(Path(path), instance))


def write_instance(path: PathLike, instance: Instance) -> None:
    """Write a .tsp, .vrp or .csv file that `read` turns into an equal instance."""
    suffix = suffix_of(path)
    with errors_name(path):
        if suffix not in SUFFIXES:
            raise ValueError(f"suffix is {suffix!r}, expected .tsp, .vrp or .csv")
        if suffix != ".csv" and suffix != (".tsp" if instance.problem == "tsp" else ".vrp"):
            raise ValueError(f"suffix is {suffix!r}, but {instance.name} is a {instance.problem.upper()}")
        text = format_csv(instance) if suffix == ".csv" else format_tsplib(instance)
    atomic_write(path, text)
