"""From the body of a request to what `solve` takes, with the checks and the messages of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from elgo.model.checkpoint import model_names
from elgo.problem.errors import ElgoError
from elgo.problem.files.csv import ProblemFile, parse_stops
from elgo.problem.files.instances import SUFFIXES
from elgo.problem.files.text import suffix_of
from elgo.problem.files.tsplib import parse_tsplib
from elgo.problem.instance import Instance, Metric
from elgo.problem.plane import project
from elgo.problem.solution import Solution
from elgo.problem.stops import Stops, with_named_ends
from elgo.search.fallback import fallback_routes
from elgo.serve.errors import Refused
from elgo.serve.limits import Limits
from elgo.serve.models import FileBody, InstanceBody, Options, StoredRequest
from elgo.solve.config import SolveConfig, check_warm_start

DEFAULT_SECONDS = 5.0
LINES_OF_A_STOP = 10  # of a CSV file, at most: more are refused before they are read

# First words of the messages of Instance, and the fields of a request that they are about.
_FIELDS = {"COORDS": "coordinates", "DIMENSION": "coordinates", "LAT": "coordinates", "LON": "coordinates"}


class Checked(NamedTuple):
    """A request that can be solved."""

    request: StoredRequest
    problem: ProblemFile
    config: SolveConfig
    warm_start: Solution | None


def check_request(request: StoredRequest, limits: Limits) -> Checked:
    """Return what is to be solved; Refused if it cannot be, or is more than the limits allow."""
    problem = make_problem(request, limits)
    instance = problem.instance
    config = make_config(request, limits)
    with _refusing("options"):
        for model, name in ((request.options.start, "start"), (request.options.model, "model")):
            if model is not None and model not in model_names():
                raise ElgoError(f"{name} is {model!r}; there are {', '.join(model_names())}")
        warm_start = _warm_start(request.options, instance, config)
    if config.vehicles is not None:
        with _refusing("file" if request.file else "instance", "vehicles"):
            if instance.problem == "tsp":
                raise ElgoError(f"vehicles is {config.vehicles}, but only a CVRP takes it")
            if warm_start is None and not config.policy_only:
                fallback_routes(instance, config.vehicles)
    return Checked(request, problem, config, warm_start)


def make_problem(request: StoredRequest, limits: Limits | None = None) -> ProblemFile:
    """Return the problem of a request; the limits are those of a new one."""
    if request.file is not None:
        with _refusing("file", "file"):
            file = request.file
            lines = file.text.count("\n")
            if limits is not None and suffix_of(file.name) == ".csv" and lines > LINES_OF_A_STOP * limits.max_nodes:
                raise ElgoError(f"{file.name}: has {lines} lines, but at most {limits.max_nodes} nodes are allowed")
            problem = _parse_file(file)
            _check_size(problem.instance.size, limits)
            ended = with_named_ends(problem.instance, problem.stops, file.open, file.first, file.last)
            return problem._replace(instance=ended)
    body = request.instance
    assert body is not None, "a request has an instance or a file"
    with _refusing("instance"):
        _check_size(max(len(body.coordinates or ()), len(body.matrix or ())), limits)
        instance = _make_instance(body).with_ends(open=body.open, first=body.first, last=body.last)
        if body.names is not None and len(body.names) != instance.size:
            raise ElgoError(f"NAMES has {len(body.names)} names, expected {instance.size}")
    degrees = np.array(body.coordinates) if body.latlon else None
    ids = tuple(map(str, range(instance.size)))  # as in the routes of responses
    return ProblemFile(instance, Stops(ids, tuple(body.names or ("",) * instance.size), degrees))


def vehicles_of(request: StoredRequest) -> int | None:
    """Return the most routes that a request allows."""
    body = request.file or request.instance
    return None if body is None else body.vehicles


def make_config(request: StoredRequest, limits: Limits) -> SolveConfig:
    """Return the options of `solve`; Refused if they contradict each other or the limits."""
    options = request.options
    with _refusing("options"):
        seconds = options.seconds
        if seconds is not None and seconds > limits.max_seconds:
            raise ElgoError(f"seconds is {seconds:g}, but at most {limits.max_seconds:g} are allowed")
        if seconds is not None and options.policy_only:
            raise ElgoError(f"seconds is {seconds:g}, but policy_only has no time limit")
        limit = None if options.policy_only else seconds or min(DEFAULT_SECONDS, limits.max_seconds)
        return SolveConfig(
            time_limit=limit,
            start=options.start,
            policy_only=options.policy_only,
            model=options.model,
            seed=options.seed,
            vehicles=vehicles_of(request),
        )


def _parse_file(file: FileBody) -> ProblemFile:
    """Return the problem in a file; its name is only a name."""
    name = PurePath(file.name.replace("\\", "/")).name
    suffix = suffix_of(name)
    if suffix == ".csv":
        return parse_stops(file.text, name, file.capacity, file.depot)
    for option, value in (("capacity", file.capacity), ("depot", file.depot)):
        if value is not None:
            raise ElgoError(f"{name}: {option} is given as {value}, but only CSV files accept it")
    if suffix not in SUFFIXES:
        raise ElgoError(f"{name}: suffix is {suffix!r}, expected {' or '.join(SUFFIXES)}")
    instance = parse_tsplib(file.text, name)
    return ProblemFile(instance, Stops.of(instance))


def _make_instance(body: InstanceBody) -> Instance:
    if body.coordinates is None and body.matrix is None:
        raise ElgoError("COORDINATES or matrix is missing")
    if body.coordinates is None and body.latlon:
        raise ElgoError("LATLON is true, but there are no coordinates")
    name = body.name or "instance"
    points = None if body.coordinates is None else np.array(body.coordinates, np.float64).reshape(-1, 2)
    if body.matrix is None:
        assert points is not None
        metric = Metric.HAVERSINE if body.latlon else Metric.EXACT
        return Instance.from_coords(points, demand=body.demand, capacity=body.capacity, metric=metric, name=name)
    size = len(body.matrix)
    for number, row in enumerate(body.matrix):
        if len(row) != size:
            raise ElgoError(f"MATRIX has {size} rows, but {len(row)} numbers in row {number}")
    if points is not None and body.latlon:
        points = project(Instance.from_coords(points, metric=Metric.HAVERSINE).coords)  # which checks them
    matrix = np.array(body.matrix, np.float64).reshape(size, size)
    return Instance.from_matrix(matrix, demand=body.demand, capacity=body.capacity, coords=points, name=name)


def _check_size(nodes: int, limits: Limits | None) -> None:
    if limits is not None and nodes > limits.max_nodes:
        raise ElgoError(f"DIMENSION is {nodes}, but at most {limits.max_nodes} nodes are allowed")


def _warm_start(options: Options, instance: Instance, config: SolveConfig) -> Solution | None:
    """Return the solution to start from, if there is one."""
    if options.warm_start is None:
        return None
    return check_warm_start(Solution(instance, tuple(map(tuple, options.warm_start))), instance, config)


@contextmanager
def _refusing(place: str, field: str | None = None) -> Iterator[None]:
    """Turn a ValueError into a refusal; its first word names the field unless that is given."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        word = re.split(r"\W", message, maxsplit=1)[0]
        name = _FIELDS.get(word, word.lower())
        known = {**InstanceBody.model_fields, **Options.model_fields}
        found = field or (name if name in known else None)
        full = place if found is None or found == place else f"{place}.{found}"
        raise Refused(422, message, full) from None
