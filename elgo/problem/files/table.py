"""CSV text -> header and rows: any usual delimiter, comments, cells of several lines, decimal commas."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elgo.problem.distances import FloatArray
from elgo.problem.errors import ElgoError
from elgo.problem.files.text import printable, quoted

DELIMITERS = (",", ";", "\t", "|")
_SEPARATOR_LINE = re.compile(r"sep=(.)\s*$", re.IGNORECASE)  # how Excel is told the delimiter
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+$")


class Row(NamedTuple):
    """The cells of a row, its number among the rows below the header, and its line in the file."""

    number: int
    line: int
    cells: list[str]

    def __str__(self) -> str:
        return f"row {self.number} (line {self.line})"


@dataclass(frozen=True)
class Table:
    """A CSV text: names of the columns, rows with as many cells, the delimiter and the comments."""

    header: tuple[str, ...]
    rows: tuple[Row, ...]
    delimiter: str
    comments: tuple[str, ...] = ()

    def column(self, index: int) -> list[str]:
        """Return the cells of a column."""
        return [row.cells[index] for row in self.rows]


def comment_lines(text: str) -> list[str]:
    """Return the lines that begin with #, stripped."""
    return [line.strip() for line in _lines(text) if line.lstrip().startswith("#")]


def parse_table(text: str, known: Callable[[str], bool]) -> Table:
    """Return a text with a header as a table. Of the delimiters, the one that gives most known column names is taken.

    Rows without any text are left out, and so are columns without a name and text, which spreadsheets add.
    """
    text, delimiter = _delimiter(text, known)
    records = list(_records(text, delimiter))
    if not records:
        raise ElgoError("is not CSV (no header)")
    (_, header), *rows = records
    width = len(header)
    while width and not header[width - 1] and not any(any(cells[width - 1 :]) for _, cells in rows):
        width -= 1
    table = []
    for number, (line, cells) in enumerate(rows, start=1):
        table.append(Row(number, line, cells[:width]))
        if len(cells) < width or any(cells[width:]):
            raise ElgoError(f"{table[-1]} has {len(cells)} cells, but the header has {width}")
    names = [name or f"column {i}" for i, name in enumerate(header[:width], start=1)]
    return Table(tuple(names), tuple(table), delimiter, tuple(comment_lines(text)))


def parse_cells(text: str) -> tuple[list[list[str]], str]:
    """Return the cells of a text without a known header, row by row, and its delimiter: the most frequent one."""
    text, delimiter = _delimiter(text, known=lambda name: False)
    return [cells for _, cells in _records(text, delimiter)], delimiter


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _delimiter(text: str, known: Callable[[str], bool]) -> tuple[str, str]:
    """Return the text without a line `sep=;`, and the delimiter."""
    first, _, _ = text.partition("\n")
    if match := _SEPARATOR_LINE.match(first.strip("\r")):
        return "\n" + text.partition("\n")[2], match[1]  # the line stays, empty: line numbers are those of the file
    scores = {}
    for delimiter in DELIMITERS:
        try:
            _, header = next(_records(text, delimiter))
        except (StopIteration, ValueError):
            continue
        several = delimiter != "," and len(header) > 1  # then commas are likely those of decimals
        scores[delimiter] = (sum(map(known, header)), several, len(header))
    return text, max(scores, key=lambda delimiter: scores[delimiter], default=",")


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the stripped cells of each record that has text. A cell in quotes may have lines."""
    begin = 0  # line of the record that is being read; 0 before its first line

    def lines() -> Iterator[str]:
        nonlocal begin
        for number, line in enumerate(_lines(text), start=1):
            if not begin:
                if not line.strip() or line.lstrip().startswith("#"):
                    continue
                begin = number
            yield line + "\n"

    reader = csv.reader(lines(), delimiter=delimiter, strict=True, skipinitialspace=delimiter != "\t")
    while True:
        begin = 0
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise ElgoError(f"is not CSV ({printable(str(error))})") from None
        if any(cells):
            yield begin, cells


def decimal_mark(cells: Sequence[str], delimiter: str) -> str:
    """Return the decimal mark of most of these numbers, "." or ","."""
    commas, points = ([cell for cell in cells if mark in cell] for mark in ",.")
    thousands = delimiter == "," and all(map(_THOUSANDS.match, commas))
    return "," if len(commas) > len(points) and not thousands else "."


def to_number(cell: str, decimal: str) -> float:
    """Return a cell as a number, NaN if it is none, infinite, or has another decimal mark."""
    if decimal == ",":
        cell = "" if "." in cell else cell.replace(",", ".")
    try:
        value = float(cell)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def parse_column(rows: Sequence[Row], cells: Sequence[str], column: str, decimal: str) -> FloatArray:
    """Return the cells of a column as finite numbers; errors name row and column."""
    values = np.array([to_number(cell, decimal) for cell in cells], dtype=np.float64)
    if np.isnan(values).any():
        i = int(np.isnan(values).argmax())
        expected = "a number with a decimal comma" if decimal == "," else "a number"
        raise ElgoError(f"{rows[i]}: column {column} has {quoted(cells[i])}, expected {expected}")
    return values
