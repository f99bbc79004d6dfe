"""Instances as CSV: stops with x,y or lat,lon, and usual columns such as demand, capacity, id, name and depot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elgo.problem.errors import ElgoError
from elgo.problem.files.columns import find_roles, is_known, marked_depots, refuse_unsupported
from elgo.problem.files.matrix import parse_matrix
from elgo.problem.files.table import Row, Table, decimal_mark, parse_column, parse_table
from elgo.problem.files.text import (
    cost_in_comments,
    errors_name,
    format_number,
    format_rows,
    parse_integers,
    parse_numbers,
    quoted,
)
from elgo.problem.instance import FloatArray, Instance, IntArray, Metric
from elgo.problem.plane import embed, project
from elgo.problem.stops import Stops

_SETTING = re.compile(r"#\s*(name|capacity)\s*:\s*(.*)", re.IGNORECASE)
_NO_CAPACITY = "add a line '# capacity: 100' or a column, or pass it as an argument (--capacity)"


class ProblemFile(NamedTuple):
    """An instance, what its file says about the nodes, and warnings, such as columns that are not used."""

    instance: Instance
    stops: Stops
    warnings: tuple[str, ...] = ()


class MatrixText(NamedTuple):
    """The text of a file of costs between stops, and the file's name."""

    text: str
    source: str


def parse_csv(text: str, source: str = "text", capacity: float | None = None) -> Instance:
    """Return the instance in a CSV text, see parse_stops."""
    return parse_stops(text, source, capacity).instance


def parse_stops(
    text: str,
    source: str = "text",
    capacity: float | None = None,
    depot: str | None = None,
    matrix: MatrixText | None = None,
) -> ProblemFile:
    """Return the instance in a CSV text: a CVRP if it has a column of demands, else a TSP.

    Costs are unrounded Euclidean distances for x,y, metres for lat,lon, or those of a matrix. The capacity comes from
    the argument, a line `# capacity: 100` or a column. The depot is the stop with this id or row number, else the one
    that a column marks, else the first. Integers in a column id are the node numbers.
    """
    with errors_name(source):
        return _Reader(parse_table(text, is_known)).problem(Path(source).stem, capacity, depot, matrix)


class _Reader:
    """A table whose columns are known; cells are in the order of the file, the depot is moved to the front."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.roles = find_roles(table.header)
        self.settings = {match[1].lower(): match[2] for match in map(_SETTING.match, table.comments) if match}
        columns = [table.column(i) for i in range(len(table.header))]
        refuse_unsupported(table.header, columns, set(self.roles.values()))
        self.cells = {role: columns[i] for role, i in self.roles.items()}
        numeric = [cell for role in ("x", "y", "lat", "lon", "demand") for cell in self.cells.get(role, [])]
        self.decimal = decimal_mark(numeric, table.delimiter)

    def problem(self, name: str, capacity: float | None, depot: str | None, matrix: MatrixText | None) -> ProblemFile:
        """Return the problem; the name is for files that state none."""
        table = self.table
        if not table.rows:
            raise ElgoError("has a header, but no stops")
        place, degrees = self._places(needed=matrix is None)
        first, by_column = self._depot(depot)
        order = np.array([first, *(i for i in range(len(table.rows)) if i != first)], np.int64)
        demand = self._demand(first)
        labels, warnings = self._labels()
        costs = None if matrix is None else parse_matrix(*matrix, *self._ids_and_names())
        if costs is not None:
            coords = embed(costs) if place is None else project(place) if degrees else place
            metric, costs = Metric.EXPLICIT, costs[np.ix_(order, order)]
        else:
            assert place is not None, "only a matrix may come without coordinates, see _places"
            coords, metric = place, Metric.HAVERSINE if degrees else Metric.EXACT
        instance = Instance(
            name=self.settings.get("name") or name,
            coords=coords[order],
            metric=metric,
            demand=None if demand is None else demand[order],
            capacity=self._capacity(capacity),
            matrix=costs,
            labels=labels[order],
            best_known=cost_in_comments(table.comments, metric),
            has_coords=place is not None,
        )
        stops = self._stops(order, place if degrees else None)
        return ProblemFile(instance, stops, (*warnings, *self._unused(by_column)))

    def _places(self, needed: bool) -> tuple[FloatArray | None, bool]:
        """Return the coordinates (n, 2), None if there are none, and whether they are latitude and longitude."""
        plane, globe = {"x", "y"} <= self.cells.keys(), {"lat", "lon"} <= self.cells.keys()
        if plane == globe:
            if not plane and not needed:
                return None, False
            header = quoted(self.table.delimiter.join(self.table.header).lower())
            raise ElgoError(f"the header is {header}, expected {'only one of ' if plane else ''}x,y or lat,lon")
        axes = ("x", "y") if plane else ("lat", "lon")
        values = np.stack([self._numbers(axis, self.cells[axis]) for axis in axes], axis=1)
        if globe:
            for axis, (name, limit) in enumerate((("lat", 90), ("lon", 360))):
                for i in np.flatnonzero(np.abs(values[:, axis]) > limit):
                    found = f"column {self._header(name)} has {values[i, axis]:g}"
                    raise ElgoError(f"{self.table.rows[i]}: {found}, outside -{limit}..{limit}")
        return values, globe

    def _header(self, role: str) -> str:
        return self.table.header[self.roles[role]]

    def _numbers(self, role: str, cells: Sequence[str]) -> FloatArray:
        return parse_column(self.table.rows, cells, self._header(role), self.decimal)

    def _depot(self, given: str | None) -> tuple[int, bool]:
        """Return the index of the row that is the depot, and whether the column of the role `depot` says so."""
        rows = self.table.rows
        if given is not None:
            return _named_row(given, rows, self.cells), False
        for role in ("depot", "id", "name"):
            yes_or_no = role == "depot" and "depot" in self._header(role).lower() if role in self.cells else False
            marked = marked_depots(self.cells.get(role, []), yes_or_no)
            if len(marked) > 1:
                first, second = (rows[i] for i in marked[:2])
                raise ElgoError(f"{first} and {second} are both depots, but several depots are not supported")
            if marked:
                return marked[0], role == "depot"
        return 0, False

    def _demand(self, depot: int) -> FloatArray | None:
        """Return the demands, None for a TSP. The depot's cell may be empty."""
        if "demand" not in self.cells:
            return None
        cells = [cell or "0" if i == depot else cell for i, cell in enumerate(self.cells["demand"])]
        demand = self._numbers("demand", cells)
        if demand[depot]:
            row, name = self.table.rows[depot], self._header("demand")
            raise ElgoError(f"{row} is the depot, but its {name} is {demand[depot]:g}; another depot: --depot ID|ROW")
        return demand

    def _capacity(self, given: float | None) -> float | None:
        column = [cell for cell in self.cells.get("capacity", []) if cell]
        if len(set(column)) > 1:
            raise ElgoError(f"column capacity has {column[0]} and {column[1]}, but mixed fleets are not supported")
        stated = self.settings.get("capacity") or next(iter(column), "")
        if "demand" not in self.cells:
            if given is not None or stated:
                raise ElgoError(f"capacity is {given if given is not None else stated}, but there is no column demand")
            return None
        if given is not None:
            return float(given)
        if not stated:
            header = self._header("demand")
            found = "" if header.lower() == "demand" else f"the column {quoted(header)} is the demand, but "
            raise ElgoError(f"{found}capacity is missing: {_NO_CAPACITY}")
        return float(parse_numbers([stated.replace(",", ".") if self.decimal == "," else stated], "capacity")[0])

    def _labels(self) -> tuple[IntArray, list[str]]:
        """Return the node numbers: the ids if they are integers and differ, else the rows' numbers; and warnings."""
        rows = np.arange(1, len(self.table.rows) + 1)
        ids = self.cells.get("id", [])
        warnings = []
        if len(set(ids)) < len(ids):
            twice = Counter(ids).most_common(1)[0][0]
            warnings = [f"column {quoted(self._header('id'))} has {quoted(twice)} more than once"]
        try:
            numbers = parse_integers(ids, "column id")
        except ValueError:
            return rows, warnings
        usable = len(ids) > 0 and len(np.unique(numbers)) == len(rows) and numbers.min() >= 0
        return numbers if usable else rows, warnings

    def _ids_and_names(self) -> tuple[list[str], list[str]]:
        """Return ids, or the rows' numbers, and names, or addresses, or empty texts."""
        rows = [str(row.number) for row in self.table.rows]
        names = self.cells.get("name") or self.cells.get("address") or [""] * len(rows)
        return self.cells.get("id", rows), names

    def _stops(self, order: IntArray, degrees: FloatArray | None) -> Stops:
        def ordered(cells: Sequence[str]) -> tuple[str, ...]:
            return tuple(cells[i] for i in order)

        ids, names = self._ids_and_names()
        columns: dict[str, tuple[str, ...]] = {}
        for i, header in enumerate(self.table.header):
            columns[f"{header} ({i + 1})" if header in columns else header] = ordered(self.table.column(i))
        return Stops(
            ids=ordered(ids),
            names=ordered(names),
            degrees=None if degrees is None else degrees[order],
            columns=columns,
            delimiter=self.table.delimiter,
            decimal=self.decimal,
        )

    def _unused(self, depot_by_column: bool) -> list[str]:
        """Return a warning that names the columns that are not used, if there are any."""
        used = {index for role, index in self.roles.items() if role != "depot" or depot_by_column}
        unused = [quoted(name) for i, name in enumerate(self.table.header) if i not in used]
        return [f"not used: column{'s' if len(unused) > 1 else ''} {', '.join(unused)}"] if unused else []


def _named_row(given: str, rows: Sequence[Row], cells: dict[str, list[str]]) -> int:
    """Return the index of the row with this id, name or number."""
    for role in ("id", "name"):
        found = [i for i, cell in enumerate(cells.get(role, [])) if cell == given]
        if len(found) > 1:
            raise ElgoError(f"depot is {quoted(given)}, but {rows[found[0]]} and {rows[found[1]]} have this {role}")
        if found:
            return found[0]
    if given.isdecimal() and 1 <= int(given) <= len(rows):
        return int(given) - 1
    raise ElgoError(f"depot is {quoted(given)}, which is neither an id nor a row from 1 to {len(rows)}")


def format_csv(instance: Instance) -> str:
    """Return an instance as CSV text. Raises ElgoError for metrics other than EXACT_2D and HAVERSINE."""
    axes = {Metric.EXACT: "x,y", Metric.HAVERSINE: "lat,lon"}.get(instance.metric)
    if axes is None:
        raise ElgoError(f"metric is {instance.metric.value}, but CSV files only have EXACT_2D and HAVERSINE")
    lines = [f"# name: {instance.name}"]
    if instance.best_known is not None:
        lines.append(f"# best known value: {format_number(instance.best_known)}")
    values = instance.coords
    if instance.demand is not None and instance.capacity is not None:
        lines.append(f"# capacity: {format_number(instance.capacity)}")
        values = np.column_stack([values, instance.demand])
    lines.append(f"id,{axes}" + (",demand" if instance.demand is not None else ""))
    return "\n".join([*lines, *format_rows(values, instance.labels, ","), ""])
