"""Instances as CSV: a header x,y or lat,lon, optional columns demand, capacity and id; the depot is the first row."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elgo.problem.files.text import (
    cost_in_comments,
    errors_name,
    format_number,
    format_rows,
    parse_integers,
    parse_numbers,
    quoted,
    split_lines,
)
from elgo.problem.instance import FloatArray, Instance, IntArray, Metric

Columns = dict[str, list[str]]  # column name -> its cells

_COLUMN_NAMES = {"latitude": "lat", "longitude": "lon", "lng": "lon", "node": "id", "label": "id"}
_SETTING = re.compile(r"#\s*(name|capacity)\s*:\s*(.*)", re.IGNORECASE)


def parse_csv(text: str, source: str = "text", capacity: float | None = None) -> Instance:
    """Return the instance in a CSV text: a CVRP if it has a demand column, else a TSP.

    Costs are unrounded Euclidean distances for x,y and metres for lat,lon. The capacity comes from the argument, a
    line `# capacity: 100` or a column `capacity` in the first row. A column id, node or label of integers gives the
    node numbers; other columns are ignored.
    """
    with errors_name(source):
        comments = [line for line in split_lines(text) if line.startswith("#")]
        settings = {match[1].lower(): match[2] for match in map(_SETTING.match, comments) if match}
        columns = _columns([line for line in split_lines(text) if not line.startswith("#")])
        metric, axes = _metric(columns)
        return Instance(
            name=settings.get("name") or Path(source).stem,
            coords=np.stack([parse_numbers(columns[axis], f"column {axis}") for axis in axes], axis=1),
            metric=metric,
            demand=_demand(columns),
            capacity=_capacity(columns, settings, capacity),
            labels=_labels(columns),
            best_known=cost_in_comments(comments, metric),
        )


def _columns(lines: Sequence[str]) -> Columns:
    try:
        header, *rows = csv.reader(lines, strict=True, skipinitialspace=True)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"is not CSV ({'no header' if isinstance(error, ValueError) else error})") from None
    names = [_COLUMN_NAMES.get(name, name) for name in (cell.strip().lower() for cell in header)]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise ValueError(f"row {number} has {len(row)} cells, but the header has {len(names)}")
    if twice := [name for name in ("x", "y", "lat", "lon", "demand", "capacity", "id") if names.count(name) > 1]:
        raise ValueError(f"the header has the column {twice[0]} twice")
    return {name: [row[i].strip() for row in rows] for i, name in enumerate(names)}


def _metric(columns: Columns) -> tuple[Metric, tuple[str, str]]:
    """Return the metric and the names of the two coordinate columns."""
    plane, globe = {"x", "y"} <= columns.keys(), {"lat", "lon"} <= columns.keys()
    if plane == globe:
        header = quoted(",".join(columns))
        raise ValueError(f"the header is {header}, expected {'only one of ' if plane else ''}x,y or lat,lon")
    return (Metric.EXACT, ("x", "y")) if plane else (Metric.HAVERSINE, ("lat", "lon"))


def _demand(columns: Columns) -> FloatArray | None:
    """Return the demands, None for a TSP. The depot's cell may be empty."""
    if "demand" not in columns:
        return None
    cells = columns["demand"]
    return parse_numbers([cell or "0" for cell in cells[:1]] + cells[1:], "column demand")


def _capacity(columns: Columns, settings: dict[str, str], given: float | None) -> float | None:
    stated = settings.get("capacity") or next(iter(columns.get("capacity", [])), "")
    if "demand" not in columns:
        if given is not None or stated:
            raise ValueError(f"capacity is {given if given is not None else stated}, but there is no column demand")
        return None
    if given is not None:
        return float(given)
    if not stated:
        raise ValueError("capacity is missing: add a line '# capacity: 100' or a column, or pass it as an argument")
    return float(parse_numbers([stated], "capacity")[0])


def _labels(columns: Columns) -> IntArray:
    try:
        return parse_integers(columns.get("id", []), "column id")
    except ValueError:
        return np.empty(0, np.int64)  # the ids are names, so nodes are numbered 1..n


def format_csv(instance: Instance) -> str:
    """Return an instance as CSV text. Raises ValueError for metrics other than EXACT_2D and HAVERSINE."""
    axes = {Metric.EXACT: "x,y", Metric.HAVERSINE: "lat,lon"}.get(instance.metric)
    if axes is None:
        raise ValueError(f"metric is {instance.metric.value}, but CSV files only have EXACT_2D and HAVERSINE")
    lines = [f"# name: {instance.name}"]
    if instance.best_known is not None:
        lines.append(f"# best known value: {format_number(instance.best_known)}")
    values = instance.coords
    if instance.demand is not None and instance.capacity is not None:
        lines.append(f"# capacity: {format_number(instance.capacity)}")
        values = np.column_stack([values, instance.demand])
    lines.append(f"id,{axes}" + (",demand" if instance.demand is not None else ""))
    return "\n".join([*lines, *format_rows(values, instance.labels, ","), ""])
