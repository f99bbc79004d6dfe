"""Jobs in an SQLite file: what was asked for, the state, the best solution so far and every improvement.

One process at a time can open a store, so a job is never run twice at once. Every change is on the disk when its method
returns: a killed server loses nothing that it has stored.
"""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

from pydantic import TypeAdapter, ValidationError

from elgo.problem.errors import ElgoError
from elgo.serve.models import Problem, State, StoredRequest
from elgo.solve.result import Improvement

Routes = tuple[tuple[int, ...], ...]

_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created REAL NOT NULL, state TEXT NOT NULL,
    name TEXT NOT NULL, problem TEXT NOT NULL, nodes INTEGER NOT NULL, seconds REAL, request BLOB NOT NULL,
    spent REAL NOT NULL DEFAULT 0, started REAL, finished REAL, cost REAL, routes BLOB,
    warnings TEXT NOT NULL DEFAULT '[]', error TEXT
);
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, number);
CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (finished);
CREATE TABLE IF NOT EXISTS improvements (
    job INTEGER NOT NULL, seconds REAL NOT NULL, cost REAL NOT NULL, source TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS improvements_by_job ON improvements (job);
"""
_COLUMNS = "number, id, created, state, name, problem, nodes, seconds, spent, started, finished, cost, warnings, error"


VERSION = 0  # of the tables


class StoreError(Exception):
    """The store cannot be read or written, for instance because the disk is full."""


@dataclass(frozen=True)
class Job:
    """A row of the table of jobs; the request, routes and improvements are read separately. Times are Unix times."""

    number: int
    id: str
    created: float
    state: State
    name: str
    problem: Problem
    nodes: int
    seconds: float | None  # for the search; None with policy_only
    spent: float  # seconds of it that are over
    started: float | None
    finished: float | None
    cost: float | None
    warnings: tuple[str, ...]
    error: str | None


_JOB = TypeAdapter(Job)


@dataclass(frozen=True)
class Change:
    """What is new about a running job: seconds that are spent, improvements, and the routes of the last of them."""

    number: int
    spent: float
    started: float | None
    improvements: Sequence[Improvement] = ()
    routes: Routes | None = None


class Store:
    """The jobs in a file. All methods can be called from any thread."""

    def __init__(self, file: Path) -> None:
        """Open the file, or create it. Raises ElgoError if that is impossible, or another process has it open."""
        self._lock = RLock()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(file, timeout=0.5, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            _check_kind(self._connection)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_TABLES)
            self._connection.execute(f"SELECT {_COLUMNS}, request, routes FROM jobs LIMIT 0")  # fails if one is missing
            self._connection.execute("BEGIN IMMEDIATE")  # takes the lock, which is kept
            self._connection.execute("COMMIT")
            # In memory, since every refusal looks at it. Only this process changes the file.
            self._waiting: dict[str, float] = self._read_waiting()
        except sqlite3.OperationalError as error:
            reason = "another server uses it" if "locked" in str(error) else str(error)
            raise ElgoError(f"{file}: the store cannot be opened: {reason}") from None
        except (sqlite3.DatabaseError, OSError, ElgoError) as error:
            raise ElgoError(f"{file}: the store cannot be opened: {error}") from None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Do all that happens in the block, or nothing of it if that fails."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                    self._connection.execute("COMMIT")
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise StoreError(f"the store cannot be written: {error}") from error

    def _rows(self, query: str, *values: object) -> list[tuple]:
        with self._lock, _reading():
            return self._connection.execute(query, values).fetchall()

    # New jobs.

    def add(
        self, id: str, request: StoredRequest, name: str, problem: str, nodes: int, seconds: float | None,
        warnings: Sequence[str],
    ) -> None:  # fmt: skip
        """Add a job that waits."""
        blob = zlib.compress(request.model_dump_json(exclude_defaults=True).encode(), 1)
        with self._lock:
            with self._transaction() as connection:
                connection.execute(
                    "INSERT INTO jobs (id, created, state, name, problem, nodes, seconds, request, warnings) "
                    "VALUES (?, ?, 'waiting', ?, ?, ?, ?, ?, ?)",
                    (id, time.time(), name, problem, nodes, seconds, blob, json.dumps(list(warnings))),
                )
            self._waiting[id] = seconds or 0.0

    # What the runner does with them.

    def requeue_interrupted(self) -> int:
        """Let jobs wait that ran when the last server ended; return how many. They keep their best solutions."""
        with self._lock:
            with self._transaction() as connection:
                count = connection.execute("UPDATE jobs SET state = 'waiting' WHERE state = 'running'").rowcount
            self._waiting = self._read_waiting()
            return count

    def claim(self) -> Job | None:
        """Return the job that has waited longest, which is now running; None if none waits."""
        with self._lock:
            if not self._waiting:
                return None
            with self._transaction() as connection:
                found = connection.execute("SELECT min(number) FROM jobs WHERE state = 'waiting'").fetchone()[0]
                connection.execute("UPDATE jobs SET state = 'running' WHERE number = ?", (found,))
                row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE number = ?", (found,)).fetchone()
            job = _job(row)
            del self._waiting[job.id]
            return job

    def save(self, changes: Sequence[Change]) -> None:
        """Store what is new about running jobs."""
        with self._transaction() as connection:
            for change in changes:
                _save(connection, change)

    def finish(self, change: Change, finished: float, state: State, warnings: Sequence[str], error: str | None) -> None:
        """End a job, with the last that is new about it."""
        with self._transaction() as connection:
            _save(connection, change)
            connection.execute(
                "UPDATE jobs SET state = ?, finished = ?, warnings = ?, error = ? WHERE number = ?",
                (state, finished, json.dumps(list(warnings)), error, change.number),
            )

    def stop_waiting(self, id: str) -> bool:
        """Stop a job that waits; return False if it does not."""
        with self._lock:
            if id not in self._waiting:
                return False
            with self._transaction() as connection:
                connection.execute("UPDATE jobs SET state = 'stopped', finished = ? WHERE id = ?", (time.time(), id))
            del self._waiting[id]
            return True

    def delete_ended(self, before: float, most: int) -> int:
        """Delete the oldest jobs that ended before a Unix time, at most so many; return how many.

        The newest job stays, so that no number is given twice.
        """
        ended = "SELECT number FROM jobs WHERE finished < ? AND state NOT IN ('waiting', 'running')"
        with self._transaction() as connection:
            query = f"{ended} AND number < (SELECT max(number) FROM jobs) ORDER BY finished LIMIT ?"
            numbers = connection.execute(query, (before, most)).fetchall()
            connection.executemany("DELETE FROM improvements WHERE job = ?", numbers)
            connection.executemany("DELETE FROM jobs WHERE number = ?", numbers)
        return len(numbers)

    # Reading.

    def job(self, id: str) -> Job | None:
        """Return the job with this id, if there is one."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", id)
        return _job(rows[0]) if rows else None

    def latest(self, limit: int) -> list[Job]:
        """Return the latest jobs, newest first."""
        return [_job(row) for row in self._rows(f"SELECT {_COLUMNS} FROM jobs ORDER BY number DESC LIMIT ?", limit)]

    def request(self, number: int) -> StoredRequest:
        """Return what was asked for."""
        ((blob,),) = self._rows("SELECT request FROM jobs WHERE number = ?", number)
        with _reading():
            return StoredRequest.model_validate_json(zlib.decompress(blob))

    def routes(self, number: int) -> Routes | None:
        """Return the best solution so far."""
        ((blob,),) = self._rows("SELECT routes FROM jobs WHERE number = ?", number)
        with _reading():
            return None if blob is None else tuple(map(tuple, json.loads(zlib.decompress(blob))))

    def improvements(self, number: int) -> list[Improvement]:
        """Return the history of the best solution."""
        query = "SELECT seconds, cost, source FROM improvements WHERE job = ? ORDER BY rowid"
        return [Improvement(*row) for row in self._rows(query, number)]

    def waiting(self) -> tuple[int, float]:
        """Return how many jobs wait, and the seconds that they will take."""
        seconds = list(self._waiting.values())
        return len(seconds), sum(seconds)

    def _read_waiting(self) -> dict[str, float]:
        """Return the seconds that each job that waits will take."""
        return dict(self._rows("SELECT id, coalesce(seconds, 0) - spent FROM jobs WHERE state = 'waiting'"))


def _save(connection: sqlite3.Connection, change: Change) -> None:
    connection.execute(
        "UPDATE jobs SET spent = ?, started = coalesce(started, ?) WHERE number = ?",
        (change.spent, change.started, change.number),
    )
    rows = [(change.number, *improvement) for improvement in change.improvements]
    connection.executemany("INSERT INTO improvements VALUES (?, ?, ?, ?)", rows)
    if change.routes is not None and rows:
        blob = zlib.compress(json.dumps(change.routes).encode(), 1)
        connection.execute("UPDATE jobs SET cost = ?, routes = ? WHERE number = ?", (rows[-1][2], blob, change.number))


def _job(row: tuple) -> Job:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    with _reading():
        return _JOB.validate_python(values | {"warnings": json.loads(values["warnings"])})


@contextmanager
def _reading() -> Iterator[None]:
    """Raise StoreError for what cannot be read or has been damaged."""
    try:
        yield
    except (sqlite3.Error, zlib.error, ValueError) as error:
        reason = "a job in it is damaged" if isinstance(error, ValidationError) else error
        raise StoreError(f"the store cannot be read: {reason}") from error


def _check_kind(connection: sqlite3.Connection) -> None:
    """Raise ElgoError for a database of another program, or of a later version of this one."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not tables <= {"jobs", "improvements"} or version != VERSION:
        raise ElgoError("it is of another program or version")
