"""What the file formats share: reading text, lines, numbers, and costs stated in comments."""

import errno
import json
import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from elgo.problem.distances import FloatArray, IntArray, Metric
from elgo.problem.errors import ElgoError

PathLike = str | os.PathLike[str]

# For text whose whitespace is single blanks: `\s*:?\s*` would take quadratic time on a long run of them.
_STATED_COST = re.compile(r"(?:optimal|best known) value ?:? ?(\d+(?:\.\d*)?(?:e[+-]?\d+)?)", re.IGNORECASE)


def suffix_of(path: PathLike) -> str:
    """Return the suffix of a path in lower case, with its dot."""
    return Path(path).suffix.lower()


def read_text(path: PathLike, suffixes: Sequence[str]) -> str:
    """Return the text of a regular file with one of these suffixes: UTF-8, UTF-16, or one byte per character.

    A missing file is a FileNotFoundError, whatever else is wrong with it an ElgoError.
    """
    path = Path(path)
    try:
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        if path.is_dir():
            raise ElgoError(f"{path}: is a folder, expected a file")
        if not path.is_file():  # reading a FIFO or a device may never end
            raise ElgoError(f"{path}: is not a regular file")
        if suffix_of(path) not in suffixes:
            raise ElgoError(f"{path}: suffix is {path.suffix!r}, expected {' or '.join(suffixes)}")
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ElgoError(f"{path}: cannot be read ({error.strerror})") from None
    with errors_name(path):
        text = decode_text(data)
        if not text.strip():
            raise ElgoError("the file is empty")
        return text


def decode_text(data: bytes) -> str:
    """Return the text of a file's bytes. Excel writes UTF-8 or UTF-16 with a byte-order mark, or Windows-1252."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            text = data.decode("utf-16")
        except UnicodeDecodeError as error:
            raise ElgoError(f"not a text file (byte {error.start} is not UTF-16)") from None
        if "\0" in text:
            raise ElgoError("not a text file (it has zero characters)")
        return text
    if b"\0" in data:
        raise ElgoError(f"not a text file (byte {data.index(0)} is zero)")
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError as error:
            if data.startswith(BOM_UTF8):
                raise ElgoError(f"not a text file (byte {error.start} is not UTF-8)") from None
    return data.decode("latin-1")  # never fails; comments of old collections contain umlauts


@contextmanager
def errors_name(source: PathLike) -> Iterator[None]:
    """Raise every ValueError of the block as an ElgoError whose message begins with the name of the source."""
    try:
        yield
    except ValueError as error:
        raise ElgoError(f"{os.fspath(source)}: {error}") from None


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; ElgoError if it is none, or nested too deeply for the parser."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ElgoError("not JSON (nested too deeply)") from None
    except ValueError as error:
        raise ElgoError(f"not JSON ({error})") from None


def split_lines(text: str) -> Iterator[str]:
    """Yield the lines that are not blank, stripped. (str.splitlines would also split at form feeds and the like.)"""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line := line.strip():
            yield line


def quoted(text: str) -> str:
    """Return a value as error messages show it: in quotes, on one line, at most 40 characters."""
    return repr(shortened(text, 40))


def shortened(text: str, length: int) -> str:
    """Return a text of at most so many characters; an ellipsis stands for what is cut off."""
    return text if len(text) <= length else text[: length - 1] + "…"


def printable(text: str) -> str:
    """Return text that is safe to print: line breaks and control characters are blanks, as are broken encodings."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def is_number(token: str) -> bool:
    """True if float() accepts the token."""
    try:
        float(token)
    except ValueError:
        return False
    return True


def parse_numbers(tokens: Iterable[str], field: str) -> FloatArray:
    """Return the tokens as floats; errors name the field."""
    tokens = list(tokens)
    try:
        return np.array(list(map(float, tokens)), dtype=np.float64)
    except ValueError:
        bad = next(token for token in tokens if not is_number(token))
        raise ElgoError(f"{field} has {quoted(bad)}, expected a number") from None


def parse_integers(tokens: Iterable[str], field: str) -> IntArray:
    """Return the tokens as integers; `3.0` and `3e0` are accepted, errors name the field."""
    tokens = list(tokens)
    values = parse_numbers(tokens, field)
    bad = ~(np.abs(values) < 2**53) | (values != np.rint(values))
    if bad.any():
        raise ElgoError(f"{field} has {quoted(tokens[int(bad.argmax())])}, expected an integer")
    return values.astype(np.int64)


def format_number(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def format_rows(values: FloatArray, labels: IntArray | None = None, separator: str = " ") -> list[str]:
    """Return one line of text per row of values, preceded by its node number if labels are given."""
    cells = [list(map(format_number, row)) for row in values.tolist()]
    if labels is not None:
        cells = [[str(label), *row] for label, row in zip(labels, cells, strict=True)]
    return [separator.join(row) for row in cells]


def cost_in_comments(comments: Iterable[str], metric: Metric) -> float | None:
    """Return the cost in a comment like 'Optimal value: 784'.

    'Best value' is ignored: in the old files such values have often been improved since.
    """
    for match in (_STATED_COST.search(" ".join(comment.split())) for comment in comments):
        if match:
            cost = float(match[1])
            return cost if is_possible_cost(cost, metric) else None
    return None


def is_possible_cost(cost: float, metric: Metric) -> bool:
    """True if the metric can give this cost; one that rounds never gives fractions."""
    return 0 < cost < np.inf and (not metric.rounded or cost.is_integer())
