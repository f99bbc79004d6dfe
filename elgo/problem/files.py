"""Text <-> Instance and Solution: TSPLIB / CVRPLIB (.tsp .vrp .sol .tour) and CSV.

parse_* and format_* only handle text; read* and write* only open files. Whatever is wrong with a file becomes a
ValueError of one line that names the file, the field and the value.
"""

from __future__ import annotations

import csv
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from elgo.problem.instance import LARGEST_NUMBER, FloatArray, Instance, IntArray, Metric, embed
from elgo.problem.solution import Solution

COST_TABLES = ("optima.csv", "solutions.csv")  # rows `NAME,...,cost` beside the problem files

_Path = str | os.PathLike[str]

# Reading files.


def read(path: _Path, capacity: float | None = None) -> Instance:
    """The problem in a .tsp, .vrp or .csv file, with its best known cost if the folder or the file tells one.

    capacity is for a CSV file that has demands but does not state it.
    """
    text = _load(path, (".tsp", ".vrp", ".csv"))
    if _suffix(path) == ".csv":
        instance = parse_csv(text, os.fspath(path), capacity)
    elif capacity is not None:
        raise ValueError(f"{os.fspath(path)}: capacity is given as {capacity:g}, but only CSV takes it from outside")
    else:
        instance = parse_tsplib(text, os.fspath(path))
    return replace(instance, best_known=_best_known(Path(path), instance))


def read_solution(path: _Path, instance: Instance) -> Solution:
    """The routes in a .sol file (CVRP) or .tour file (TSP). A cost stated there is not compared with ours."""
    text = _load(path, (".sol", ".tour"))
    parse = parse_sol if _suffix(path) == ".sol" else parse_tour
    return parse(text, instance, os.fspath(path))


def best_known(path: _Path) -> float | None:
    """The best known cost of the problem file at path, in its own units.

    Looked for in this order: the routes in NAME.sol or NAME.opt.tour beside it (costed by our rule, since published
    costs are not always rounded as the file says), a row `NAME,cost` in optima.csv or solutions.csv beside it, and
    'Optimal value: 784' in a comment.
    """
    return read(path).best_known


def _suffix(path: _Path) -> str:
    return Path(path).suffix.lower()


def _load(path: _Path, suffixes: Sequence[str]) -> str:
    """Text of the file; latin-1 where it is not UTF-8, because the old collections have umlauts in comments."""
    path = Path(path)
    try:
        if not path.exists():
            raise ValueError(f"{path}: no such file")
        if path.is_dir():
            raise ValueError(f"{path}: is a folder, expected a file")
        if _suffix(path) not in suffixes:
            raise ValueError(f"{path}: suffix is {path.suffix!r}, expected {' or '.join(suffixes)}")
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    if b"\0" in data:
        raise ValueError(f"{path}: not a text file (byte {data.index(0)} is zero)")
    if not data.strip():
        raise ValueError(f"{path}: the file is empty")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


@contextmanager
def _naming(source: str) -> Iterator[None]:
    """Put the name of the source in front of every complaint."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _lines(text: str) -> Iterator[str]:
    """Lines without surrounding space, the blank ones left out. (str.splitlines would also cut at odd characters.)"""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line := line.strip():
            yield line


def _shown(text: str) -> str:
    """A value as error messages show it: quoted, in one line, not too long."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _numbers(tokens: Iterable[str], field: str) -> FloatArray:
    tokens = list(tokens)
    try:
        return np.array(list(map(float, tokens)), dtype=np.float64)
    except ValueError:
        bad = next(token for token in tokens if not _is_number(token))
        raise ValueError(f"{field} has {_shown(bad)} where a number should be") from None


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _whole_numbers(tokens: Iterable[str], field: str) -> IntArray:
    tokens = list(tokens)
    values = _numbers(tokens, field)
    bad = ~(np.abs(values) < 2**53) | (values != np.rint(values))
    if bad.any():
        raise ValueError(f"{field} has {_shown(tokens[int(bad.argmax())])} where a whole number should be")
    return values.astype(np.int64)


# TSPLIB: a header of `KEYWORD : value` lines, then sections of numbers, each under its keyword.


@dataclass(frozen=True)
class _Document:
    fields: dict[str, str]  # keyword -> value
    sections: dict[str, list[str]]  # keyword -> its lines
    comments: list[str]

    def field(self, key: str) -> str:
        if not self.fields.get(key):
            raise ValueError(f"{key} is missing")
        return self.fields[key]

    def number(self, key: str) -> float:
        value = self.field(key)
        if not _is_number(value):
            raise ValueError(f"{key} is {_shown(value)}, expected a number")
        return float(value)

    def count(self, key: str) -> int:
        value = self.number(key)
        if not value.is_integer() or value < 1:
            raise ValueError(f"{key} is {_shown(self.fields[key])}, expected a whole number above 0")
        return int(value)

    def section(self, key: str) -> list[str]:
        if key not in self.sections:
            raise ValueError(f"{key} is missing")
        return self.sections[key]


_KEYWORD = re.compile(r"([^\s:]+)\s*:?\s*(.*)")
_FIELDS = {
    *("NAME", "TYPE", "DIMENSION", "CAPACITY", "VEHICLES", "DISTANCE", "SERVICE_TIME"),
    *("EDGE_WEIGHT_TYPE", "EDGE_WEIGHT_FORMAT", "NODE_COORD_TYPE", "DISPLAY_DATA_TYPE"),
}
_SECTIONS = {"NODE_COORD_SECTION", "DISPLAY_DATA_SECTION", "EDGE_WEIGHT_SECTION", "DEMAND_SECTION", "DEPOT_SECTION"}

# Where the numbers of an EDGE_WEIGHT_SECTION go. Its matrices are symmetric, so a column-wise triangle is the
# opposite one row by row.
_TRIANGLES: dict[str, Callable[[int], tuple[IntArray, IntArray]]] = {
    "UPPER_ROW": lambda n: np.triu_indices(n, 1),
    "LOWER_ROW": lambda n: np.tril_indices(n, -1),
    "UPPER_DIAG_ROW": lambda n: np.triu_indices(n),
    "LOWER_DIAG_ROW": lambda n: np.tril_indices(n),
    "UPPER_COL": lambda n: np.tril_indices(n, -1),
    "LOWER_COL": lambda n: np.triu_indices(n, 1),
    "UPPER_DIAG_COL": lambda n: np.tril_indices(n),
    "LOWER_DIAG_COL": lambda n: np.triu_indices(n),
}


def parse_tsplib(text: str, source: str = "text") -> Instance:
    """TSPLIB / CVRPLIB text -> Instance. source names the text in errors, and the instance if there is no NAME.

    VEHICLES is read over: the number of routes is free. The depot becomes index 0.
    """
    with _naming(source):
        document = _scan(text)
        problem = _problem(document)
        size = document.count("DIMENSION")
        metric = _metric(document)
        matrix = _matrix(document, size) if metric is Metric.EXPLICIT else None
        labels, coords = _points(document, size, metric)
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
            assert matrix is not None, "_points only goes without coordinates for a matrix"
            coords = embed(matrix)
        return Instance(
            name=document.fields.get("NAME") or Path(source).stem,
            coords=coords,
            metric=metric,
            demand=demand,
            capacity=capacity,
            matrix=matrix,
            labels=np.arange(1, size + 1) if labels is None else labels,
            best_known=_stated_optimum(document.comments, metric),
            has_coords=has_coords,
        )


def _scan(text: str) -> _Document:
    """Cut the text into header fields and sections, nothing interpreted yet."""
    document = _Document({}, {}, [])
    rows: list[str] | None = None
    for line in _lines(text):
        if line[0] in "0123456789+-." or line.split(None, 1)[0].lower() in ("nan", "inf"):
            if rows is None:
                raise ValueError(f"line {_shown(line)} stands outside of any section")
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
            raise ValueError(f"{_shown(key)} is given twice")
        if key.endswith("_SECTION"):
            rows = document.sections[key] = [value] if value else []
        else:
            rows, document.fields[key] = None, value
    return document


def _problem(document: _Document) -> str:
    """TSP or CVRP; everything that would make it another problem is refused."""
    demands = [key for key in ("CAPACITY", "DEMAND_SECTION") if key in document.fields or key in document.sections]
    problem = _kind(document, "CVRP" if demands else "TSP")
    if problem not in ("TSP", "CVRP"):
        raise ValueError(f"TYPE is {_shown(problem)}, expected TSP or CVRP")
    for key in ("DISTANCE", "SERVICE_TIME"):
        if key in document.fields and document.number(key) != 0:
            raise ValueError(f"{key} is {document.fields[key]}, but route duration limits are not supported")
    if problem == "TSP" and demands:
        raise ValueError(f"TYPE is TSP, but the file has {demands[0]}")
    if "VEHICLES" in document.fields:
        document.number("VEHICLES")  # not used, see parse_tsplib, but it must make sense
    for key in (*document.fields, *document.sections):
        if key not in _FIELDS and key not in _SECTIONS:
            raise ValueError(f"{_shown(key)} is not a supported keyword")
    return problem


def _kind(document: _Document, default: str) -> str:
    """The first word of TYPE; some files go on behind it, as in `TYPE: TSP (M. Hofmeister)`."""
    return next(iter(document.fields.get("TYPE", "").upper().split()), default)


def _metric(document: _Document) -> Metric:
    value = document.field("EDGE_WEIGHT_TYPE").upper()
    try:
        metric = Metric(value)
    except ValueError:
        known = ", ".join(metric.value for metric in Metric)
        raise ValueError(f"EDGE_WEIGHT_TYPE is {_shown(value)}, expected one of {known}") from None
    if metric is not Metric.EXPLICIT and "EDGE_WEIGHT_SECTION" in document.sections:
        raise ValueError(f"EDGE_WEIGHT_TYPE is {value}, but the file has an EDGE_WEIGHT_SECTION")
    if document.fields.get("NODE_COORD_TYPE", "").upper() == "THREED_COORDS":
        raise ValueError("NODE_COORD_TYPE is THREED_COORDS, expected TWOD_COORDS")
    return metric


def _matrix(document: _Document, size: int) -> FloatArray:
    """EDGE_WEIGHT_SECTION -> (n, n). Its line breaks mean nothing, and neither does the diagonal: it becomes 0."""
    layout = document.field("EDGE_WEIGHT_FORMAT").upper()
    if layout != "FULL_MATRIX" and layout not in _TRIANGLES:
        known = ", ".join(("FULL_MATRIX", *_TRIANGLES))
        raise ValueError(f"EDGE_WEIGHT_FORMAT is {_shown(layout)}, expected one of {known}")
    weights = _numbers(" ".join(document.section("EDGE_WEIGHT_SECTION")).split(), "EDGE_WEIGHT_SECTION")
    diagonal = size if "DIAG" in layout else -size
    wanted = size * size if layout == "FULL_MATRIX" else (size * size + diagonal) // 2
    if len(weights) != wanted:
        needs = f"{layout} with DIMENSION {size} needs {wanted}"
        raise ValueError(f"EDGE_WEIGHT_SECTION has {len(weights)} numbers, but {needs}")
    if layout == "FULL_MATRIX":
        matrix = weights.reshape(size, size)
    else:
        rows, columns = _TRIANGLES[layout](size)
        matrix = np.zeros((size, size))
        matrix[rows, columns] = matrix[columns, rows] = weights
    np.fill_diagonal(matrix, 0.0)
    bad = matrix[~((matrix >= 0) & (matrix <= LARGEST_NUMBER))]
    if len(bad):
        raise ValueError(f"EDGE_WEIGHT_SECTION has {bad[0]:g}, expected finite costs >= 0")
    return matrix


def _points(document: _Document, size: int, metric: Metric) -> tuple[IntArray | None, FloatArray | None]:
    """Node numbers and coordinates. Either is None if a matrix comes without it."""
    if metric is not Metric.EXPLICIT:
        return _table(document, "NODE_COORD_SECTION", size, 2)
    labels = None
    for section in ("NODE_COORD_SECTION", "DISPLAY_DATA_SECTION"):
        if section in document.sections:
            labels, coords = _table(document, section, size, 2)
            order = np.argsort(labels)  # a matrix counts the nodes by their number
            labels, coords = labels[order], coords[order]
            if not np.all(coords == coords[0]):  # equal points are placeholders: the matrix says more
                return labels, coords
    return labels, None


def _demand(document: _Document, size: int, labels: IntArray | None) -> tuple[IntArray, FloatArray]:
    """Node numbers and demands, in the order of the coordinates; of a bare matrix in the order of the numbers."""
    numbers, amounts = _table(document, "DEMAND_SECTION", size, 1)
    if labels is None:
        labels = np.sort(numbers)
    demand = np.empty(size)
    demand[_indices(labels, numbers, "DEMAND_SECTION")] = amounts[:, 0]
    return labels, demand


def _depot_first(document: _Document, labels: IntArray) -> IntArray:
    """The order of nodes that puts the depot in front and leaves the others as they are."""
    tokens = " ".join(document.section("DEPOT_SECTION")).split()
    depots = _whole_numbers(tokens[: tokens.index("-1") if "-1" in tokens else None], "DEPOT_SECTION")
    if len(depots) != 1:
        named = ", ".join(map(str, depots[:5])) or "none"
        raise ValueError(f"DEPOT_SECTION names {len(depots)} depots ({named}), expected one")
    depot = _indices(labels, depots, "DEPOT_SECTION")[0]
    return np.concatenate([[depot], np.delete(np.arange(len(labels)), depot)])


def _table(document: _Document, section: str, size: int, width: int) -> tuple[IntArray, FloatArray]:
    """Rows `node value ...` -> node numbers (n,) and values (n, width)."""
    rows = [line.split() for line in document.section(section)]
    if len(rows) != size:
        raise ValueError(f"DIMENSION is {size} but {section} has {len(rows)} rows")
    for row in rows:
        if len(row) != width + 1:
            raise ValueError(f"{section} has the row {_shown(' '.join(row))}, expected a node and {width} numbers")
    labels = _whole_numbers((row[0] for row in rows), section)
    seen, counts = np.unique(labels, return_counts=True)
    if len(seen) < size:
        raise ValueError(f"{section} has node {seen[counts > 1][0]} more than once")
    return labels, _numbers((token for row in rows for token in row[1:]), section).reshape(size, width)


def _indices(labels: IntArray, wanted: IntArray, section: str) -> IntArray:
    """Where in labels each of the wanted node numbers stands."""
    order = np.argsort(labels)
    places = np.searchsorted(labels, wanted, sorter=order)
    indices = order[np.minimum(places, len(labels) - 1)]
    unknown = labels[indices] != wanted
    if unknown.any():
        raise ValueError(f"{section} has node {wanted[unknown][0]}, which is not among the {len(labels)} nodes")
    return indices


_OPTIMUM = re.compile(r"(?:optimal|best known) value\s*:?\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?)", re.IGNORECASE)


def _stated_optimum(comments: Iterable[str], metric: Metric) -> float | None:
    """The cost in 'Optimal value: 784'. ('Best value' is left alone: in the old files it is often long beaten.)"""
    for match in map(_OPTIMUM.search, comments):
        if match:
            return _in_units_of(metric, float(match[1]))
    return None


def _in_units_of(metric: Metric, cost: float) -> float | None:
    """A cost from elsewhere, unless it cannot be one of this metric: a fraction where all costs are whole."""
    return None if not 0 < cost < np.inf or (metric.rounded and not cost.is_integer()) else cost


# CSV: a header x,y or lat,lon with optional demand, capacity and id; the depot is the first row.

_COLUMN_NAMES = {"latitude": "lat", "longitude": "lon", "lng": "lon", "node": "id", "label": "id"}
_NOTE = re.compile(r"#\s*(name|capacity)\s*:\s*(.*)", re.IGNORECASE)


def parse_csv(text: str, source: str = "text", capacity: float | None = None) -> Instance:
    """CSV text -> Instance: TSP without a demand column, CVRP with one; x,y is exact Euclid, lat,lon metres.

    The capacity comes from the argument, a line `# capacity: 100` or a column `capacity` in the first row. A column
    id, node or label of whole numbers gives the node numbers; other columns are not used.
    """
    with _naming(source):
        comments = [line for line in _lines(text) if line.startswith("#")]
        notes = {match[1].lower(): match[2] for match in map(_NOTE.match, comments) if match}
        columns = _csv_columns([line for line in _lines(text) if not line.startswith("#")])
        metric, axes = _csv_axes(columns)
        return Instance(
            name=notes.get("name") or Path(source).stem,
            coords=np.stack([_numbers(columns[axis], f"column {axis}") for axis in axes], axis=1),
            metric=metric,
            demand=_csv_demand(columns),
            capacity=_csv_capacity(columns, notes, capacity),
            labels=_csv_labels(columns),
            best_known=_stated_optimum(comments, metric),
        )


def _csv_columns(lines: Sequence[str]) -> dict[str, list[str]]:
    """Column name -> its cells."""
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


def _csv_axes(columns: dict[str, list[str]]) -> tuple[Metric, tuple[str, str]]:
    plane, globe = {"x", "y"} <= columns.keys(), {"lat", "lon"} <= columns.keys()
    if plane == globe:
        has = _shown(",".join(columns))
        raise ValueError(f"the header is {has}, expected {'only one of ' if plane else ''}x,y or lat,lon")
    return (Metric.EXACT, ("x", "y")) if plane else (Metric.HAVERSINE, ("lat", "lon"))


def _csv_demand(columns: dict[str, list[str]]) -> FloatArray | None:
    if "demand" not in columns:
        return None
    cells = columns["demand"]
    return _numbers([cell or "0" for cell in cells[:1]] + cells[1:], "column demand")


def _csv_capacity(columns: dict[str, list[str]], notes: dict[str, str], given: float | None) -> float | None:
    cell = next(iter(columns.get("capacity", [])), "")
    stated = notes.get("capacity") or cell
    if "demand" not in columns:
        if given is not None or stated:
            raise ValueError(f"capacity is {given if given is not None else stated}, but there is no column demand")
        return None
    if given is not None:
        return float(given)
    if not stated:
        raise ValueError("capacity is missing: give a line '# capacity: 100', a column or an argument")
    return float(_numbers([stated], "capacity")[0])


def _csv_labels(columns: dict[str, list[str]]) -> IntArray:
    try:
        return _whole_numbers(columns.get("id", []), "column id")
    except ValueError:
        return np.empty(0, np.int64)  # names, not numbers


# Solutions.


def parse_sol(text: str, instance: Instance, source: str = "text") -> Solution:
    """CVRPLIB text with lines `Route #1: 5 3` -> Solution. Customers count from 1 in the order of the instance."""
    with _naming(source):
        if instance.problem != "cvrp":
            raise ValueError(f"a .sol file holds CVRP routes, but {instance.name} is a TSP")
        routes = [_sol_route(line, instance) for line in _lines(text) if line[:5].lower() == "route"]
        if stray := [line for line in _lines(text) if line[0] in "0123456789+-."]:
            raise ValueError(f"line {_shown(stray[0])} is neither 'Route #1: ...' nor 'Cost ...'")
        if not routes:
            raise ValueError("has no line 'Route #1: ...'")
        return Solution(instance, tuple(routes))


def _sol_route(line: str, instance: Instance) -> tuple[int, ...]:
    head, colon, tail = line.partition(":")
    if not colon:
        raise ValueError(f"line {_shown(line)} has no colon, expected 'Route #1: 5 3'")
    customers = _whole_numbers(tail.split(), head)
    unknown = (customers < 1) | (customers >= instance.size)
    if unknown.any():
        raise ValueError(f"{head} has customer {customers[unknown][0]}, but the customers are 1..{instance.customers}")
    return tuple(customers.tolist())


def parse_tour(text: str, instance: Instance, source: str = "text") -> Solution:
    """TSPLIB text with a TOUR_SECTION of the instance's node numbers -> Solution."""
    with _naming(source):
        if instance.problem != "tsp":
            raise ValueError(f"a .tour file holds a TSP tour, but {instance.name} is a CVRP")
        document = _scan(text)
        if (kind := _kind(document, "TOUR")) != "TOUR":
            raise ValueError(f"TYPE is {_shown(kind)}, expected TOUR")
        size = document.count("DIMENSION") if "DIMENSION" in document.fields else instance.size
        if size != instance.size:
            raise ValueError(f"DIMENSION is {size}, but {instance.name} has {instance.size} nodes")
        nodes = _whole_numbers(" ".join(document.section("TOUR_SECTION")).split(), "TOUR_SECTION")
        ends = np.flatnonzero(nodes == -1)
        tour, rest = (nodes[: ends[0]], nodes[ends[0] :]) if len(ends) else (nodes, nodes[:0])
        if (rest != -1).any():
            raise ValueError("TOUR_SECTION has more than one tour")
        return Solution(instance, (tuple(_indices(instance.labels, tour, "TOUR_SECTION").tolist()),))


def _best_known(path: Path, instance: Instance) -> float | None:
    """See best_known. A file beside that is absent or useless is passed over: it is no fault of the problem file."""
    for name in (f"{path.stem}.sol", f"{path.stem}.opt.tour"):
        if (cost := _cost_of_routes(path.with_name(name), instance)) is not None:
            return cost
    for table in COST_TABLES:
        if (cost := _cost_in_table(path.with_name(table), {path.stem, instance.name}, instance.metric)) is not None:
            return cost
    return instance.best_known


def _cost_of_routes(path: Path, instance: Instance) -> float | None:
    """Cost of the solution in a file, None if that holds no feasible one."""
    try:
        solution = read_solution(path, instance)
    except ValueError:
        return None
    return solution.cost if solution.feasible else None


def _cost_in_table(path: Path, names: set[str], metric: Metric) -> float | None:
    """The last cell of the row that starts with one of the names."""
    try:
        rows = list(csv.reader(_lines(_load(path, (".csv",)))))
    except (ValueError, csv.Error):
        return None
    costs = (row[-1] for row in rows if row and row[0].strip() in names)
    return next((_in_units_of(metric, float(cost)) for cost in costs if _is_number(cost)), None)


# Writing. Numbers are written so that they read back as the very same ones.


def write_instance(path: _Path, instance: Instance) -> None:
    """Write a .tsp, .vrp or .csv file that `read` turns into an equal instance."""
    suffix = _suffix(path)
    with _naming(os.fspath(path)):
        if suffix not in (".tsp", ".vrp", ".csv"):
            raise ValueError(f"suffix is {suffix!r}, expected .tsp, .vrp or .csv")
        if suffix != ".csv" and suffix != (".tsp" if instance.problem == "tsp" else ".vrp"):
            raise ValueError(f"suffix is {suffix!r}, but {instance.name} is a {instance.problem.upper()}")
        text = format_csv(instance) if suffix == ".csv" else format_tsplib(instance)
    atomic_write(path, text)


def write_solution(path: _Path, solution: Solution) -> None:
    """Write a .sol file (CVRP) or a .tour file (TSP)."""
    formats = {".sol": format_sol, ".tour": format_tour}
    with _naming(os.fspath(path)):
        if _suffix(path) not in formats:
            raise ValueError(f"suffix is {_suffix(path)!r}, expected .sol or .tour")
        text = formats[_suffix(path)](solution)
    atomic_write(path, text)


def format_tsplib(instance: Instance) -> str:
    """Instance -> TSPLIB / CVRPLIB text. The nodes of a matrix are written in the order of their numbers."""
    explicit = instance.matrix is not None
    order = np.argsort(instance.labels) if explicit else np.arange(instance.size)
    labels = instance.labels[order]
    carried = instance.demand is not None or instance.has_coords
    if not carried and not np.array_equal(labels, np.arange(1, instance.size + 1)):
        raise ValueError("node numbers other than 1..n cannot be written without coordinates or demands")
    lines = [f"NAME : {instance.name}", f"TYPE : {instance.problem.upper()}"]
    if instance.best_known is not None:
        lines.append(f"COMMENT : Best known value: {_number(instance.best_known)}")
    lines += [f"DIMENSION : {instance.size}", f"EDGE_WEIGHT_TYPE : {instance.metric.value}"]
    if explicit:
        lines.append("EDGE_WEIGHT_FORMAT : FULL_MATRIX")
    if instance.capacity is not None:
        lines.append(f"CAPACITY : {_number(instance.capacity)}")
    if instance.matrix is not None:
        lines += ["EDGE_WEIGHT_SECTION", *_rows(instance.matrix[np.ix_(order, order)])]
    if instance.has_coords:
        lines += ["NODE_COORD_SECTION", *_rows(instance.coords[order], labels)]
    if instance.demand is not None:
        lines += ["DEMAND_SECTION", *_rows(instance.demand[order, None], labels)]
        lines += ["DEPOT_SECTION", str(instance.labels[0]), "-1"]
    return "\n".join([*lines, "EOF", ""])


def format_csv(instance: Instance) -> str:
    """Instance -> CSV text; only for the metrics that CSV files have: exact Euclidean and haversine."""
    axes = {Metric.EXACT: "x,y", Metric.HAVERSINE: "lat,lon"}.get(instance.metric)
    if axes is None:
        raise ValueError(f"metric is {instance.metric.value}, but CSV only carries EXACT_2D and HAVERSINE")
    lines = [f"# name: {instance.name}"]
    if instance.best_known is not None:
        lines.append(f"# best known value: {_number(instance.best_known)}")
    values = instance.coords
    if instance.demand is not None and instance.capacity is not None:
        lines.append(f"# capacity: {_number(instance.capacity)}")
        values = np.column_stack([values, instance.demand])
    lines.append(f"id,{axes}" + (",demand" if instance.demand is not None else ""))
    return "\n".join([*lines, *_rows(values, instance.labels, ","), ""])


def format_sol(solution: Solution) -> str:
    """Solution of a CVRP -> CVRPLIB text."""
    if solution.instance.problem != "cvrp":
        raise ValueError(f"a .sol file holds CVRP routes, but {solution.instance.name} is a TSP: write a .tour file")
    routes = [f"Route #{i}: {' '.join(map(str, route))}" for i, route in enumerate(solution.routes, start=1)]
    return "\n".join([*routes, f"Cost {_number(solution.cost)}", ""])


def format_tour(solution: Solution) -> str:
    """Solution of a TSP -> TSPLIB tour text, in the file's own node numbers."""
    instance = solution.instance
    if instance.problem != "tsp":
        raise ValueError(f"a .tour file holds a TSP tour, but {instance.name} is a CVRP: write a .sol file")
    if len(solution.routes) != 1:
        raise ValueError(f"a .tour file holds one tour, but the solution has {len(solution.routes)} routes")
    head = [f"NAME : {instance.name}", f"COMMENT : Length {_number(solution.cost)}", "TYPE : TOUR"]
    nodes = map(str, instance.labels[list(solution.routes[0])])
    return "\n".join([*head, f"DIMENSION : {instance.size}", "TOUR_SECTION", *nodes, "-1", "EOF", ""])


def _number(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _rows(values: FloatArray, labels: IntArray | None = None, separator: str = " ") -> list[str]:
    """One line of text for each row, with the node number in front if labels are given."""
    cells = [list(map(_number, row)) for row in values.tolist()]
    if labels is not None:
        cells = [[str(label), *row] for label, row in zip(labels, cells, strict=True)]
    return [separator.join(row) for row in cells]


def atomic_write(path: _Path, content: str | bytes) -> None:
    """Write a file so that it is either complete or as it was before: a new file beside it takes its place."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        try:
            part.write_bytes(content.encode() if isinstance(content, str) else content)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(f"{path}: cannot be written ({error.strerror})") from None
