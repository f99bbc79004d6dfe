"""What `elgo solve` writes: JSON, solutions and pictures."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from elgo.problem.files import atomic_write, write_solution
from elgo.solve.plot import save_history, save_plot
from elgo.solve.result import Result

Solved = tuple[Path, Result]  # a problem file, and the result


class PlotFormat(StrEnum):
    """Formats of pictures."""

    png = "png"
    svg = "svg"


@dataclass(frozen=True)
class Outputs:
    """Where results are written; each output is optional. A plot is one picture, or a folder of pictures."""

    json_file: Path | None
    solutions: Path | None
    plot: Path | None
    plot_history: Path | None
    plot_format: PlotFormat

    def prepare(self, files: Sequence[Path]) -> None:
        """Create the folders; raise ValueError or OSError now for what could not be written after the solving."""
        if self.solutions:
            _check_names(files)
        folder = self.solutions and self.solutions.resolve()
        for file in files:
            if file.suffix.lower() == ".vrp" and file.parent.resolve() == folder:
                raise ValueError(f"{file}: --solutions is its own folder, where NAME.sol is the best-known solution")
        plots = [path.resolve() for path in self._pictures(files[0]) if path]
        if len(set(plots)) < len(plots):
            raise ValueError(f"{self.plot}: --plot and --plot-history name the same file")
        for option, path in (("--plot", self.plot), ("--plot-history", self.plot_history)):
            if path:
                _check_plot(option, path, files)
        if self.json_file:
            check_file("--json", self.json_file)
        if self.solutions:
            _make_folder("--solutions", self.solutions)

    def write(self, solved: Sequence[Solved]) -> None:
        """Write the last result, and the list of all so far: they are kept if the run is stopped later."""
        file, result = solved[-1]
        if self.json_file:
            lines = ",\n".join(json.dumps(_record(*pair)) for pair in solved)
            atomic_write(self.json_file, f"[\n{lines}\n]\n")
        if self.solutions:
            suffix = ".tour" if result.instance.problem == "tsp" else ".sol"
            write_solution(self.solutions / (file.stem + suffix), result.solution)
        plot, history = self._pictures(file)
        if plot:
            save_plot(result.solution, plot)
        if history:
            save_history(result, history)

    def _pictures(self, file: Path) -> list[Path | None]:
        """Return the pictures of a problem file: of the solution, and of the cost over time."""
        suffix = f".{self.plot_format.value}"
        asked = ((self.plot, file.stem + suffix), (self.plot_history, f"{file.stem}.history{suffix}"))
        return [path / name if path and not _is_picture(path) else path for path, name in asked]


def _is_picture(path: Path) -> bool:
    """True if a path names one picture, not a folder of pictures."""
    return path.suffix.lower()[1:] in list(PlotFormat)


def _check_plot(option: str, path: Path, files: Sequence[Path]) -> None:
    """Create the folder; raise ValueError if pictures of these files cannot be written there."""
    if _is_picture(path):
        if len(files) > 1:
            raise ValueError(f"{path}: {option} names one picture for {len(files)} problem files; name a folder")
        check_file(option, path)
    else:
        if path.suffix and not path.is_dir():
            raise ValueError(f"{path}: {option} ends in {path.suffix!r}; name a .png or .svg file, or a folder")
        _check_names(files)
        _make_folder(option, path)


def check_file(option: str, file: Path) -> None:
    """Create the folder of a file; raise ValueError if the file could not be written."""
    if file.exists() and not file.is_file():  # a folder, or a device that an atomic write would replace
        raise ValueError(f"{file}: {option} is not a regular file")
    _make_folder(option, file.parent)


def _make_folder(option: str, folder: Path) -> None:
    """Create the folder, or raise ValueError if that is impossible or it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder}: {option} folder cannot be created: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder}: {option} folder is not writable")


def _check_names(files: Sequence[Path]) -> None:
    """Raise ValueError if two files would have outputs of the same name."""
    stems: dict[str, Path] = {}
    for file in files:
        other = stems.setdefault(file.stem, file)
        if other != file:
            raise ValueError(f"{file}: output name {file.stem!r} is that of {other} too")


def _record(file: Path, result: Result) -> dict[str, Any]:
    """Return the JSON object of one result."""
    instance = result.instance
    return {
        "name": instance.name,
        "file": str(file),
        "problem": instance.problem,
        "nodes": instance.size,
        "open": instance.open,
        "cost": _number(result.cost),
        "best_known": _number(instance.best_known),
        "gap": result.gap,
        "feasible": result.solution.feasible,
        "routes": [[int(node) for node in route] for route in result.solution.routes],
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
