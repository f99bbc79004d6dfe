"""A CSV file of road distances or times between stops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elgo.problem.distances import FloatArray
from elgo.problem.errors import ElgoError
from elgo.problem.files.table import decimal_mark, parse_cells, to_number
from elgo.problem.files.text import errors_name, quoted


def parse_matrix(text: str, source: str, ids: Sequence[str], names: Sequence[str]) -> FloatArray:
    """Return the costs (n, n), row = from, in the order of the ids.

    The text has n rows of n numbers in that order. A header, or a first column, or both may name the stops by id or
    by name; then their order is free. The diagonal has no meaning.
    """
    with errors_name(source):
        cells, delimiter = parse_cells(text)
        size = len(ids)
        header = cells[0] if cells and len(cells) == size + 1 else None
        rows = cells[1:] if header is not None else cells
        if len(rows) != size:
            raise ElgoError(f"has {len(cells)} rows, but there are {size} stops: expected {size}, and a header if any")
        labelled = len(rows[0]) == size + 1
        width = size + labelled
        for number, row in enumerate(rows, start=1):
            if len(row) != width:
                raise ElgoError(f"row {number} has {len(row)} cells, expected {width} for {size} stops")
        to = None if header is None else _order(header[-size:], ids, names, "column")
        start = _order([row[0] for row in rows], ids, names, "row") if labelled else to
        start = list(range(size)) if start is None else start
        # Where only the rows or only the columns are labelled, both are in that order.
        return _numbers([row[labelled:] for row in rows], delimiter, start, start if to is None else to)


def _order(labels: Sequence[str], ids: Sequence[str], names: Sequence[str], what: str) -> list[int]:
    """Return the index of the stop that each label names, by id or by name."""
    for known in (ids, names):
        index = {label: i for i, label in enumerate(known)}
        if len(index) == len(known) and set(labels) == set(index):
            return [index[label] for label in labels]
    if list(labels) == [str(i) for i in range(len(ids))]:  # positions, as pandas writes them
        return list(range(len(ids)))
    unknown = next((label for label in labels if label not in ids), labels[0])
    raise ElgoError(f"{what} {quoted(unknown)}: the labels are not the ids of the stops, each once")


def _numbers(rows: Sequence[Sequence[str]], delimiter: str, start: list[int], to: list[int]) -> FloatArray:
    """Return the matrix whose rows are from the stops `start` and whose columns are to the stops `to`."""
    decimal = decimal_mark([cell for row in rows for cell in row], delimiter)
    matrix = np.zeros((len(rows), len(rows)))
    for number, (i, row) in enumerate(zip(start, rows, strict=True), start=1):
        for column, (j, cell) in enumerate(zip(to, row, strict=True), start=1):
            value = 0.0 if i == j else to_number(cell, decimal)
            if not value >= 0:
                raise ElgoError(f"row {number}, column {column} has {quoted(cell)}, expected a finite number >= 0")
            matrix[i, j] = value
    return matrix
