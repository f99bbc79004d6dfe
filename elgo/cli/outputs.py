"""What `elgo solve` writes: JSON, solutions, tables of routes, maps and pictures."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from elgo import __version__
from elgo.problem.errors import ElgoError
from elgo.problem.files import ROUTES_SUFFIX, ProblemFile, append_line, atomic_write, write_solution
from elgo.problem.files.text import errors_name
from elgo.problem.itinerary import itineraries
from elgo.problem.stops import Stops
from elgo.solve.plot import FORMATS, save_history, save_plot
from elgo.solve.result import Result
from elgo.view.map import format_map, tile_url
from elgo.view.routes import format_geojson, format_routes

STDOUT = Path("-")
NEVER_JSON = (".tsp", ".vrp", ".csv", ".sol", ".tour", ".safetensors")  # endings of what is read: likely a slip


class Solved(NamedTuple):
    """A problem file, what it says about its nodes, the time limit (None for the policy alone) and the result."""

    file: Path
    stops: Stops
    limit: float | None
    result: Result


class PlotFormat(StrEnum):
    """Formats of pictures."""

    png = "png"
    svg = "svg"


class _Kind(NamedTuple):
    """An output of one file for each problem file: a path that has one of the suffixes, or a folder."""

    option: str
    path: Path
    suffixes: tuple[str, ...]
    ending: str  # of the names in a folder

    @property
    def is_file(self) -> bool:
        return self.path.suffix.lower() in self.suffixes

    def target(self, file: Path) -> Path:
        """Return where the output of a problem file goes."""
        return self.path if self.is_file else self.path / (file.stem + self.ending)


@dataclass(frozen=True)
class Outputs:
    """Where results are written; each output is optional. All but JSON are one file, or a folder of files."""

    json_file: Path | None = None  # - is stdout; FILE.jsonl grows by a line for each result
    solutions: Path | None = None
    plot: Path | None = None
    plot_history: Path | None = None
    plot_format: PlotFormat | None = None  # of pictures in a folder; default: png
    routes: Path | None = None
    geojson: Path | None = None
    map_file: Path | None = None
    tiles: str | None = None

    def prepare(self, files: Sequence[Path], problems: Sequence[ProblemFile], inputs: Sequence[Path]) -> None:
        """Create the folders; raise ElgoError or OSError now for what could not be written after the solving.

        `inputs` are all files that are read: no output may replace one.
        """
        if self.tiles is not None and self.map_file is None:
            raise ElgoError(f"--tiles is {self.tiles}, but there is no --map")
        for file, problem in zip(files, problems, strict=True):
            self._check_places(file, problem)
        if self.solutions:
            _check_names(files)
        folder = self.solutions and os.path.realpath(self.solutions)
        for file in files:
            if file.suffix.lower() in (".vrp", ".csv") and os.path.realpath(file.parent) == folder:
                raise ElgoError(f"{file}: --solutions is its own folder, where NAME.sol is the best-known solution")
        kinds = list(self._kinds())
        for kind in kinds:
            _check_kind(kind, files)
        seen: dict[str, str] = {}
        sources = file_ids(inputs)
        for option, path in self._all_files(files, problems, kinds):
            check_file(option, path, sources)
            other = seen.setdefault(os.path.realpath(path), option)
            if other != option:
                raise ElgoError(f"{path}: {other} and {option} name the same file")
        if self.json_file and not self.json_on_stdout and self.json_file.suffix.lower() in NEVER_JSON:
            raise ElgoError(f"{self.json_file}: --json ends in {self.json_file.suffix!r}; name a .json or .jsonl file")
        if self.solutions:
            _make_folder("--solutions", self.solutions)

    def write(self, solved: Solved) -> None:
        """Write all of a result that can be written now: it is kept if the run is stopped later."""
        file, stops, _, result = solved
        if self.json_file and self._is_jsonl:
            append_line(self.json_file, json.dumps(_record(solved)))
        if self.solutions:
            write_solution(_solution_file(self.solutions, file, result.instance.problem), result.solution)
        for kind in self._kinds():
            target = kind.target(file)
            if kind.option == "--plot":
                save_plot(result.solution, target, stops)
            elif kind.option == "--plot-history":
                save_history(result, target)
            elif kind.option == "--routes":
                atomic_write(target, format_routes(result.solution, stops))
            elif kind.option == "--geojson":
                atomic_write(target, format_geojson(result.solution, stops))
            else:
                atomic_write(target, format_map(result.solution, stops, self.tiles))

    def finish(self, solved: Sequence[Solved]) -> None:
        """Write the JSON list of all results, once, at the end or when the run is stopped."""
        if self.json_file and solved and not self._is_jsonl and not self.json_on_stdout:
            atomic_write(self.json_file, format_json(solved))

    @property
    def has_picture_folder(self) -> bool:
        """True if pictures go into a folder, in the format that is asked for."""
        return any(kind.suffixes == FORMATS and not kind.is_file for kind in self._kinds())

    @property
    def json_on_stdout(self) -> bool:
        """True if JSON goes to stdout, and the table to stderr."""
        return self.json_file == STDOUT

    @property
    def _is_jsonl(self) -> bool:
        return self.json_file is not None and self.json_file.suffix.lower() == ".jsonl"

    def _kinds(self) -> Iterator[_Kind]:
        picture = f".{(self.plot_format or PlotFormat.png).value}"
        for option, path, suffixes, ending in (
            ("--plot", self.plot, FORMATS, picture),
            ("--plot-history", self.plot_history, FORMATS, f".history{picture}"),
            ("--routes", self.routes, (".csv",), ROUTES_SUFFIX),
            ("--geojson", self.geojson, (".geojson", ".json"), ".geojson"),
            ("--map", self.map_file, (".html", ".htm"), ".html"),
        ):
            if path:
                yield _Kind(option, path, suffixes, ending)

    def _all_files(
        self, files: Sequence[Path], problems: Sequence[ProblemFile], kinds: Sequence[_Kind]
    ) -> Iterator[tuple[str, Path]]:
        """Yield option and path of every file that will be written."""
        if self.json_file and not self.json_on_stdout:
            yield "--json", self.json_file
        for file, problem in zip(files, problems, strict=True):
            for kind in kinds:
                yield kind.option, kind.target(file)
            if self.solutions:
                yield "--solutions", _solution_file(self.solutions, file, problem.instance.problem)

    def _check_places(self, file: Path, problem: ProblemFile) -> None:
        """Raise ElgoError if a map or GeoJSON is asked for and the file has no places for it."""
        instance, stops, _ = problem
        if self.geojson and stops.degrees is None:
            found = "x, y" if instance.has_coords else "no coordinates"
            raise ElgoError(f"{file}: --geojson needs latitude and longitude, but the file has {found}")
        if self.map_file and stops.degrees is None and not instance.has_coords:
            raise ElgoError(f"{file}: --map needs coordinates, but the file has none")
        if self.tiles is not None:
            with errors_name(f"{file}: --tiles"):
                tile_url(self.tiles, stops)


def _solution_file(folder: Path, file: Path, problem: str) -> Path:
    return folder / (file.stem + (".tour" if problem == "tsp" else ".sol"))


def _check_kind(kind: _Kind, files: Sequence[Path]) -> None:
    """Create the folder; raise ElgoError if outputs of these files cannot be written there."""
    option, path, suffixes, _ = kind
    if kind.is_file:
        if len(files) > 1:
            raise ElgoError(f"{path}: {option} names one file for {len(files)} problem files; name a folder")
        return
    if path.suffix and not path.is_dir():
        raise ElgoError(f"{path}: {option} ends in {path.suffix!r}; name a {' or '.join(suffixes)} file, or a folder")
    _check_names(files)
    _make_folder(option, path)


def file_ids(paths: Iterable[Path]) -> set[tuple[int, int]]:
    """Return what tells the files that exist from each other, whatever links lead to them."""
    found = set()
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            found.add((status.st_dev, status.st_ino))
    return found


def check_file(option: str, file: Path, inputs: Set[tuple[int, int]] = frozenset()) -> None:
    """Create the folder of a file; raise ElgoError if the file could not be written, or is one of the inputs.

    The inputs are given by their `file_ids`.
    """
    if file.is_symlink():
        raise ElgoError(f"{file}: {option} is a symbolic link, which is never replaced")
    if file.exists() and not file.is_file():  # a folder, or a device that an atomic write would replace
        raise ElgoError(f"{file}: {option} is not a regular file")
    if file_ids([file]) & inputs:
        raise ElgoError(f"{file}: {option} is an input, which is never overwritten")
    _make_folder(option, file.parent)


def _make_folder(option: str, folder: Path) -> None:
    """Create the folder, or raise ElgoError if that is impossible or it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElgoError(f"{folder}: {option} folder cannot be created: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ElgoError(f"{folder}: {option} folder is not writable")


def _check_names(files: Sequence[Path]) -> None:
    """Raise ElgoError if two files would have outputs of the same name."""
    stems: dict[str, Path] = {}
    for file in files:
        other = stems.setdefault(file.stem, file)
        if other != file:
            raise ElgoError(f"{file}: output name {file.stem!r} is that of {other} too")


def format_json(solved: Sequence[Solved]) -> str:
    """Return the JSON list of results, one to a line."""
    return "[\n" + ",\n".join(json.dumps(_record(one)) for one in solved) + "\n]\n"


def _record(solved: Solved) -> dict[str, Any]:
    """Return the JSON object of one result."""
    file, _, limit, result = solved
    instance = result.instance
    routes = itineraries(result.solution)
    return {
        "version": __version__,
        "name": instance.name,
        "file": str(file),
        "problem": instance.problem,
        "nodes": instance.size,
        "capacity": _number(instance.capacity),
        "open": instance.open,
        "cost": _number(result.cost),
        "unit": instance.metric.unit or None,
        "best_known": _number(instance.best_known),
        "gap": result.gap,
        "feasible": result.solution.feasible,
        "routes": [[int(node) for node in route] for route in result.solution.routes],
        "route_costs": [_number(route.cost) for route in routes],
        "route_loads": [_number(route.load) for route in routes] if instance.problem == "cvrp" else None,
        "time_limit": limit,
        "seconds": result.seconds.total,
        "load_seconds": result.seconds.load,
        "source": result.source,
        "warnings": list(result.warnings),
        "history": [[found.seconds, _number(found.cost), found.source] for found in result.history],
        "interrupted": result.interrupted,
        "seed": result.seed,
        "starts": result.starts,
        "symmetries": result.symmetries,
    }


def _number(value: float | None) -> float | int | None:
    """Return an integral cost as an int, so that it is written without a decimal point."""
    return int(value) if value is not None and float(value).is_integer() else value
