"""Instances as TSPLIB / CVRPLIB text: a header of `KEYWORD : value` lines, then sections of numbers.

Each section follows its keyword. TSPLIB's own description is "TSPLIB 95" by G. Reinelt.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elgo.problem.errors import ElgoError
from elgo.problem.files.text import (
    cost_in_comments,
    errors_name,
    format_number,
    format_rows,
    is_number,
    parse_integers,
    parse_numbers,
    quoted,
    split_lines,
)
from elgo.problem.files.unsupported import TYPES, unsupported_section
from elgo.problem.instance import LARGEST_NUMBER, FloatArray, Instance, IntArray, Metric
from elgo.problem.plane import embed

_KEYWORD = re.compile(r"([^\s:]+)\s*:?\s*(.*)")
_FIELDS = {
    *("NAME", "TYPE", "DIMENSION", "CAPACITY", "VEHICLES", "DISTANCE", "SERVICE_TIME"),
    *("EDGE_WEIGHT_TYPE", "EDGE_WEIGHT_FORMAT", "NODE_COORD_TYPE", "DISPLAY_DATA_TYPE"),
}
_SECTIONS = {"NODE_COORD_SECTION", "DISPLAY_DATA_SECTION", "EDGE_WEIGHT_SECTION", "DEMAND_SECTION", "DEPOT_SECTION"}

_TRIANGLES = ("UPPER_ROW", "LOWER_ROW", "UPPER_DIAG_ROW", "LOWER_DIAG_ROW")
_LAYOUTS = ("FULL_MATRIX", *_TRIANGLES, *(name.replace("ROW", "COL") for name in _TRIANGLES))


@dataclass(frozen=True)
class Document:
    """A TSPLIB text, split but not interpreted. The methods raise ElgoError for what is missing or no number."""

    fields: dict[str, str]  # keyword -> value
    sections: dict[str, list[str]]  # keyword -> its lines
    comments: list[str]

    def field(self, key: str) -> str:
        if not self.fields.get(key):
            raise ElgoError(f"{key} is missing")
        return self.fields[key]

    def number(self, key: str) -> float:
        value = self.field(key)
        if not is_number(value):
            raise ElgoError(f"{key} is {quoted(value)}, expected a number")
        return float(value)

    def count(self, key: str) -> int:
        value = self.number(key)
        if not value.is_integer() or value < 1:
            raise ElgoError(f"{key} is {quoted(self.fields[key])}, expected an integer above 0")
        return int(value)

    def type(self, default: str) -> str:
        """Return the first word of TYPE: some files add more to it, as in `TYPE: TSP (M. Hofmeister)`."""
        return next(iter(self.fields.get("TYPE", "").upper().split()), default)

    def section(self, key: str) -> list[str]:
        if key not in self.sections:
            raise ElgoError(f"{key} is missing")
        return self.sections[key]


def parse_document(text: str) -> Document:
    """Split a TSPLIB text into header fields, sections and comments."""
    document = Document({}, {}, [])
    rows: list[str] | None = None
    for line in split_lines(text):
        if line[0] in "0123456789+-." or line.split(None, 1)[0].lower() in ("nan", "inf"):
            if rows is None:
                raise ElgoError(f"line {quoted(line)} is not in any section")
            rows.append(line)
            continue
        match = _KEYWORD.match(line)
        key, value = (match[1].upper(), match[2]) if match else (line, "")
        if key == "EOF":
            break
        if key == "COMMENT":
            document.comments.append(value)
            continue
        if key in document.fields or key in document.sections:
            raise ElgoError(f"{quoted(key)} is given twice")
        if key.endswith("_SECTION"):
            rows = document.sections[key] = [value] if value else []
        else:
            rows, document.fields[key] = None, value
    return document


def parse_tsplib(text: str, source: str = "text") -> Instance:
    """Return the instance in a TSPLIB / CVRPLIB text; the depot gets index 0.

    source is the name in error messages, and of the instance if the text has no NAME. VEHICLES is ignored: the number
    of routes is free.
    """
    with errors_name(source):
        document = parse_document(text)
        problem = _problem(document)
        size = document.count("DIMENSION")
        metric = _metric(document)
        matrix = _matrix(document, size) if metric is Metric.EXPLICIT else None
        labels, coords = _coords(document, size, metric)
        demand = capacity = None
        if problem == "CVRP":
            capacity = document.number("CAPACITY")
            labels, demand = _demand(document, size, labels)
            order = _depot_first(document, labels)
            labels, demand = labels[order], demand[order]
            coords = None if coords is None else coords[order]
            matrix = None if matrix is None else matrix[np.ix_(order, order)]
        has_coords = coords is not None
        if coords is None:
            assert matrix is not None, "only a matrix may come without coordinates, see _coords"
            coords = embed(matrix)
        return Instance(
            name=document.fields.get("NAME") or Path(source).stem,
            coords=coords,
            metric=metric,
            demand=demand,
            capacity=capacity,
            matrix=matrix,
            labels=np.arange(1, size + 1) if labels is None else labels,
            best_known=cost_in_comments(document.comments, metric),
            has_coords=has_coords,
        )


def _problem(document: Document) -> str:
    """Return TSP or CVRP. Raises ElgoError for keywords of any other problem."""
    demands = [key for key in ("CAPACITY", "DEMAND_SECTION") if key in document.fields or key in document.sections]
    problem = document.type("CVRP" if demands else "TSP")
    if problem in TYPES:
        raise ElgoError(f"TYPE is {problem}, but {TYPES[problem]} are not supported, only TSP and CVRP")
    if problem not in ("TSP", "CVRP"):
        raise ElgoError(f"TYPE is {quoted(problem)}, expected TSP or CVRP")
    for key in ("DISTANCE", "SERVICE_TIME"):
        if key in document.fields and document.number(key) != 0:
            raise ElgoError(f"{key} is {document.fields[key]}, but route duration limits are not supported")
    if problem == "TSP" and demands:
        raise ElgoError(f"TYPE is TSP, but the file has {demands[0]}")
    if "VEHICLES" in document.fields:
        document.number("VEHICLES")  # ignored, see parse_tsplib, but it must be a number
    for key in (*document.fields, *document.sections):
        if constraint := unsupported_section(key):
            raise ElgoError(f"it has {key}, but {constraint} are not supported")
        if key not in _FIELDS and key not in _SECTIONS:
            raise ElgoError(f"{quoted(key)} is not a supported keyword")
    return problem


def _metric(document: Document) -> Metric:
    value = document.field("EDGE_WEIGHT_TYPE").upper()
    try:
        metric = Metric(value)
    except ValueError:
        known = ", ".join(metric.value for metric in Metric)
        raise ElgoError(f"EDGE_WEIGHT_TYPE is {quoted(value)}, expected one of {known}") from None
    if metric is not Metric.EXPLICIT and "EDGE_WEIGHT_SECTION" in document.sections:
        raise ElgoError(f"EDGE_WEIGHT_TYPE is {value}, but the file has an EDGE_WEIGHT_SECTION")
    if document.fields.get("NODE_COORD_TYPE", "").upper() == "THREED_COORDS":
        raise ElgoError("NODE_COORD_TYPE is THREED_COORDS, expected TWOD_COORDS")
    return metric


def _matrix(document: Document, size: int) -> FloatArray:
    """Return the costs (n, n) of EDGE_WEIGHT_SECTION. Its line breaks and its diagonal have no meaning."""
    layout = document.field("EDGE_WEIGHT_FORMAT").upper()
    if layout not in _LAYOUTS:
        raise ElgoError(f"EDGE_WEIGHT_FORMAT is {quoted(layout)}, expected one of {', '.join(_LAYOUTS)}")
    weights = parse_numbers(" ".join(document.section("EDGE_WEIGHT_SECTION")).split(), "EDGE_WEIGHT_SECTION")
    first = 0 if "DIAG" in layout else 1  # diagonal of a triangle
    wanted = size * size if layout == "FULL_MATRIX" else size * (size + 1 - 2 * first) // 2
    if len(weights) != wanted:
        needs = f"{layout} with DIMENSION {size} needs {wanted}"
        raise ElgoError(f"EDGE_WEIGHT_SECTION has {len(weights)} numbers, but {needs}")
    if layout == "FULL_MATRIX":
        matrix = weights.reshape(size, size)
    else:  # a symmetric matrix: its upper triangle column by column is the lower one row by row
        upper = layout.startswith("UPPER") == layout.endswith("ROW")
        rows, columns = np.triu_indices(size, first) if upper else np.tril_indices(size, -first)
        matrix = np.zeros((size, size))
        matrix[rows, columns] = matrix[columns, rows] = weights
    np.fill_diagonal(matrix, 0.0)
    bad = matrix[~((matrix >= 0) & (matrix <= LARGEST_NUMBER))]
    if len(bad):
        raise ElgoError(f"EDGE_WEIGHT_SECTION has {bad[0]:g}, expected finite costs >= 0")
    return matrix


def _coords(document: Document, size: int, metric: Metric) -> tuple[IntArray | None, FloatArray | None]:
    """Return node numbers and coordinates. For a matrix, either is None if the file does not have it."""
    if metric is not Metric.EXPLICIT:
        return _table(document, "NODE_COORD_SECTION", size, 2)
    labels = None
    for section in ("NODE_COORD_SECTION", "DISPLAY_DATA_SECTION"):
        if section in document.sections:
            labels, coords = _table(document, section, size, 2)
            order = np.argsort(labels)  # the rows of a matrix are in the order of the node numbers
            labels, coords = labels[order], coords[order]
            if not np.all(coords == coords[0]):  # equal points are placeholders: embedding the matrix is better
                return labels, coords
    return labels, None


def _demand(document: Document, size: int, labels: IntArray | None) -> tuple[IntArray, FloatArray]:
    """Return node numbers and demands in the order of labels, or of the node numbers if labels is None."""
    numbers, amounts = _table(document, "DEMAND_SECTION", size, 1)
    if labels is None:
        labels = np.sort(numbers)
    demand = np.empty(size)
    demand[node_indices(labels, numbers, "DEMAND_SECTION")] = amounts[:, 0]
    return labels, demand


def _depot_first(document: Document, labels: IntArray) -> IntArray:
    """Return the order of nodes that moves the depot to the front and keeps the order of the others."""
    tokens = " ".join(document.section("DEPOT_SECTION")).split()
    depots = parse_integers(tokens[: tokens.index("-1") if "-1" in tokens else None], "DEPOT_SECTION")
    if len(depots) != 1:
        named = ", ".join(map(str, depots[:5])) or "none"
        raise ElgoError(f"DEPOT_SECTION names {len(depots)} depots ({named}), expected one")
    depot = node_indices(labels, depots, "DEPOT_SECTION")[0]
    return np.concatenate([[depot], np.delete(np.arange(len(labels)), depot)])


def _table(document: Document, section: str, size: int, width: int) -> tuple[IntArray, FloatArray]:
    """Return the node numbers (n,) and values (n, width) of a section with rows `node value ...`."""
    rows = [line.split() for line in document.section(section)]
    if len(rows) != size:
        raise ElgoError(f"DIMENSION is {size} but {section} has {len(rows)} rows")
    for row in rows:
        if len(row) != width + 1:
            raise ElgoError(f"{section} has the row {quoted(' '.join(row))}, expected {width + 1} numbers")
    labels = parse_integers((row[0] for row in rows), section)
    seen, counts = np.unique(labels, return_counts=True)
    if len(seen) < size:
        raise ElgoError(f"{section} has node {seen[counts > 1][0]} more than once")
    return labels, parse_numbers((token for row in rows for token in row[1:]), section).reshape(size, width)


def node_indices(labels: IntArray, wanted: IntArray, section: str) -> IntArray:
    """Return the index in labels of each wanted node number; errors name the section."""
    order = np.argsort(labels)
    places = np.searchsorted(labels, wanted, sorter=order)
    indices = order[np.minimum(places, len(labels) - 1)]
    unknown = labels[indices] != wanted
    if unknown.any():
        raise ElgoError(f"{section} has node {wanted[unknown][0]}, which is not among the {len(labels)} nodes")
    return indices


def format_tsplib(instance: Instance) -> str:
    """Return an instance as TSPLIB / CVRPLIB text. The rows of a matrix are in the order of the node numbers."""
    explicit = instance.matrix is not None
    order = np.argsort(instance.labels) if explicit else np.arange(instance.size)
    labels = instance.labels[order]
    has_labels = instance.demand is not None or instance.has_coords
    if not has_labels and not np.array_equal(labels, np.arange(1, instance.size + 1)):
        raise ElgoError("node numbers other than 1..n cannot be written without coordinates or demands")
    lines = [f"NAME : {instance.name}", f"TYPE : {instance.problem.upper()}"]
    if instance.best_known is not None:
        lines.append(f"COMMENT : Best known value: {format_number(instance.best_known)}")
    lines += [f"DIMENSION : {instance.size}", f"EDGE_WEIGHT_TYPE : {instance.metric.value}"]
    if explicit:
        lines.append("EDGE_WEIGHT_FORMAT : FULL_MATRIX")
    if instance.capacity is not None:
        lines.append(f"CAPACITY : {format_number(instance.capacity)}")
    if instance.matrix is not None:
        lines += ["EDGE_WEIGHT_SECTION", *format_rows(instance.matrix[np.ix_(order, order)])]
    if instance.has_coords:
        lines += ["NODE_COORD_SECTION", *format_rows(instance.coords[order], labels)]
    if instance.demand is not None:
        lines += ["DEMAND_SECTION", *format_rows(instance.demand[order, None], labels)]
        lines += ["DEPOT_SECTION", str(instance.labels[0]), "-1"]
    return "\n".join([*lines, "EOF", ""])
