"""Outputs that grow while a run goes on, and tell the next one what is done: JSONL, or a folder of Parquet files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self

from elgo.bulk.parquet import import_pyarrow
from elgo.bulk.work import MOST_INSTANCES, Item, Row
from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_file, lock_file, parse_json, remove_partial_files

ROW_BEGIN = b'{"input": "'  # of a line of JSONL
PART_ROWS = 1000  # of a Parquet file
PART_SECONDS = 60.0  # after which it is written with fewer


class Key(NamedTuple):
    """What a row tells about its origin."""

    input: str
    number: int
    settings: str


def make_key(input: Any, number: Any, settings: Any) -> Key:
    """Return the key; ElgoError if these are no fields of a row."""
    typed = isinstance(input, str) and isinstance(settings, str) and type(number) is int
    if not typed or not 0 <= number < MOST_INSTANCES:
        raise ElgoError("no row of `elgo bulk`")
    return Key(input, number, settings)


class Writer(Protocol):
    """Keeps rows on disk, locked against other processes."""

    def read(self) -> Iterator[Key]:
        """Yield the keys of the rows that are there."""

    def write(self, rows: Sequence[Row]) -> None:
        """Add rows of one batch."""

    def flush(self) -> None:
        """Write to disk what is not there yet."""

    def close(self) -> None:
        """Let other processes open the output."""


class Done:
    """Which instances have a row: a byte for each one up to the last."""

    def __init__(self) -> None:
        self._flags: dict[str, bytearray] = {}

    def add(self, input: str, number: int) -> None:
        """Take note of a row."""
        flags = self._flags.setdefault(input, bytearray())
        if number >= len(flags):
            flags.extend(bytes(number + 1 + len(flags) // 8 - len(flags)))
        flags[number] = 1

    def count(self, input: str, size: int) -> int:
        """Return how many of the first instances of an input have a row."""
        return sum(self._flags.get(input, b"")[:size])

    def __contains__(self, item: Item) -> bool:
        flags = self._flags.get(item.input, b"")
        return item.number < len(flags) and flags[item.number] == 1


class Output:
    """The rows of a run, each instance once: NAME.jsonl, or NAME.parquet, which is a folder. Continued if it exists.

    ElgoError if rows in it were made with other settings, or if another process is writing to it.
    """

    def __init__(self, path: Path, settings: str) -> None:
        self.settings, self.done = settings, Done()
        if path.suffix.lower() not in (".jsonl", ".parquet"):
            raise ElgoError(f"{path}: suffix is {path.suffix!r}, expected .jsonl or .parquet")
        self._writer: Writer = JsonlWriter(path) if path.suffix.lower() == ".jsonl" else ParquetWriter(path)
        for input, number, made_with in self._writer.read():
            if made_with != settings:
                self._writer.close()
                raise ElgoError(f"{path}: has rows of a run with {made_with}, not with {settings}; name another file")
            self.done.add(input, number)

    def write(self, rows: Sequence[Row]) -> None:
        """Add rows of one batch."""
        self._writer.write(rows)
        for row in rows:
            self.done.add(row.input, row.number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._writer.flush()
        finally:
            self._writer.close()


def _lock(file: IO[Any], path: Path) -> None:
    if not lock_file(file):
        file.close()
        raise ElgoError(f"{path}: another process is writing to it")


class JsonlWriter:
    """A file with a line of JSON for each row, flushed to disk after each batch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_symlink():
            raise ElgoError(f"{path}: is a symbolic link, which is never written to")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "ab+")  # noqa: SIM115
        except OSError as error:
            raise ElgoError(f"{path}: cannot be written ({error.strerror})") from None
        _lock(self._file, path)

    def read(self) -> Iterator[Key]:
        """Yield the keys of the rows that are there; drop a last line that was cut short."""
        self._file.seek(0)
        length = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n") and line.startswith(ROW_BEGIN[: len(line)]):
                break
            try:
                key = make_key(*map(parse_json(line).__getitem__, Key._fields))
            except (AttributeError, KeyError, TypeError, ValueError):
                raise ElgoError(f"{self.path}: line {number} is no row of `elgo bulk`; name another file") from None
            length += len(line)
            yield key
        self._file.truncate(length)

    def write(self, rows: Sequence[Row]) -> None:
        """Add rows of one batch."""
        try:
            self._file.write("".join(json.dumps(row._asdict()) + "\n" for row in rows).encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ElgoError(f"{self.path}: cannot be written ({error.strerror})") from None

    def flush(self) -> None:
        """Do nothing: all rows are on disk."""

    def close(self) -> None:
        """Let other processes open the output."""
        with suppress(OSError):  # of rows that could not be written, which has been said
            self._file.close()


class ParquetWriter:
    """A folder of Parquet files, which most programs read as one table; the last rows are held back for a minute."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrow, self._parquet = import_pyarrow(), import_pyarrow("pyarrow.parquet")
        if path.exists() and not path.is_dir():
            raise ElgoError(f"{path}: is a file; Parquet output is a folder of files")
        path.mkdir(parents=True, exist_ok=True)
        self._locked = open(path / ".lock", "ab")  # noqa: SIM115
        _lock(self._locked, path)
        remove_partial_files(path)
        self._rows: list[Row] = []
        self._begin = time.monotonic()
        self._parts = 0

    def read(self) -> Iterator[Key]:
        """Yield the keys of the rows that are there."""
        for file in sorted(self.path.glob("*.parquet")):
            try:
                self._parts = int(file.stem) + 1
                table = self._parquet.read_table(file, columns=list(Key._fields))
                columns = [table[name].to_pylist() for name in Key._fields]
                keys = [make_key(*row) for row in zip(*columns, strict=True)]
            except (KeyError, OSError, TypeError, ValueError):
                raise ElgoError(f"{file}: is no output of `elgo bulk`; name another folder") from None
            yield from keys

    def write(self, rows: Sequence[Row]) -> None:
        """Add rows of one batch, at the latest after a minute or a thousand rows."""
        self._rows += rows
        if len(self._rows) >= PART_ROWS or time.monotonic() - self._begin > PART_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write to disk what is not there yet."""
        self._begin = time.monotonic()
        if self._rows:
            table = self._arrow.Table.from_pylist([row._asdict() for row in self._rows], self._schema())
            with atomic_file(self.path / f"{self._parts:08d}.parquet") as file:
                self._parquet.write_table(table, file)
            self._parts += 1
            self._rows = []

    def close(self) -> None:
        """Let other processes open the output."""
        self._locked.close()

    def _schema(self) -> Any:
        arrow = self._arrow
        types = {"number": arrow.int64(), "nodes": arrow.int64(), "routes": arrow.list_(arrow.list_(arrow.int32()))}
        types |= dict.fromkeys(("cost", "best_known", "gap", "seconds"), arrow.float64())
        return arrow.schema([(name, types.get(name, arrow.string())) for name in Row._fields])
