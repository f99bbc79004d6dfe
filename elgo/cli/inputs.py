"""The inputs of `elgo solve`, read and checked before any work is done."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from elgo.model.device import check_device, find_device
from elgo.problem.errors import ElgoError
from elgo.problem.files import ProblemFile, problem_files, read_problem, read_solution
from elgo.problem.files.text import errors_name
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.problem.stops import with_named_ends
from elgo.search.fallback import fallback_routes
from elgo.solve.config import ModelName, SolveConfig, check_warm_start

# The fields of SolveConfig in its messages, which are options here; what is quoted stays as it is.
_FIELDS = re.compile(
    r"'[^']*'|^\w+|\w+_\w+|(?<=with )model|(?<=[;:] )start\b|(?<=and )(start|last)\b"
    r"|(?<=, )vehicles|(?<=give )first"
)


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
    problems: Sequence[ProblemFile], files: Sequence[Path], open_routes: bool, first: str | None, last: str | None
) -> list[Instance]:
    """Return the instances with open routes, or with the first or last stop that is named."""
    changed = []
    for file, problem in zip(files, problems, strict=True):
        with errors_name(file), options_named():
            changed.append(with_named_ends(problem.instance, problem.stops, open_routes, first, last))
    return changed


def check_vehicles(vehicles: int, files: Sequence[Path], instances: Sequence[Instance], must_fit: bool) -> None:
    """Raise ElgoError if all files are TSPs, or if `must_fit` and an instance needs more vehicles."""
    if all(instance.problem == "tsp" for instance in instances):
        raise ElgoError(f"{files[0]}: --vehicles is {vehicles}, but only a CVRP takes it")
    if must_fit:
        for instance in instances:
            fallback_routes(instance, vehicles)


@contextmanager
def options_named() -> Iterator[None]:
    """Name the options in messages about fields of SolveConfig that are raised within the block."""
    try:
        yield
    except ElgoError as error:
        raise ElgoError(_FIELDS.sub(_option, str(error))) from None


def _option(field: re.Match[str]) -> str:
    return field[0] if field[0].startswith("'") else f"--{field[0].replace('_', '-')}"


def read_warm_start(file: Path, files: Sequence[Path], instances: Sequence[Instance], config: SolveConfig) -> Solution:
    """Return the solution of the one problem file to start from."""
    if len(files) > 1:
        raise ElgoError(f"{file}: --warm-start is a solution of one problem file, but there are {len(files)}")
    solution = read_solution(file, instances[0])
    with errors_name(file), options_named():
        return check_warm_start(solution, instances[0], config)


def check_model(name: ModelName, instances: Sequence[Instance]) -> None:
    """Raise ElgoError if the model does not exist for the problem of an instance."""
    from elgo.model.checkpoint import load_weights

    for problem in {instance.problem for instance in instances}:
        load_weights(name, problem)
