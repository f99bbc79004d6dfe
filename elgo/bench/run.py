"""A benchmark's folder, and the loop that fills it. Killed at any moment, it goes on with what is missing.

config.json    what is run on what, with versions and machine
results.jsonl  one line per row and instance, appended and synced as they come
results.csv    the same by rows, and in the order of the set
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import importlib.metadata
import io
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TextIO

import numpy as np

from elgo import __version__
from elgo.bench.baselines import PEERS
from elgo.bench.methods import Answer, Options, Row, fingerprint, run_row
from elgo.bench.sets import BenchSet, Entry
from elgo.problem.files import atomic_write
from elgo.problem.solution import gap


@dataclass(frozen=True)
class Record:
    """The result of a row on an instance. Without a cost, fault says what went wrong."""

    row: str
    instance: str
    group: str
    problem: str
    nodes: int  # N of the literature: a CVRP's customers
    cost: float | None
    best_known: float | None
    gap: float | None  # percent
    routes: int
    seconds: float
    fault: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.row, self.instance


@dataclass(frozen=True)
class Bench:
    """What config.json holds: enough to make tables and pictures of the results without the set's files.

    The first block decides what the results are: another one needs another folder.
    """

    set: str
    rows: list[str]
    weights: dict[str, str]  # row -> fingerprint
    instances: dict[str, int]  # group -> how many
    data: str  # fingerprint
    options: dict[str, float]

    title: str
    limits: dict[str, float]  # row -> seconds
    families: dict[str, str]  # row -> what it is a variant of
    total: bool
    full: dict[str, int]
    means: dict[str, float]
    notes: list[str]
    versions: dict[str, str]
    machine: dict[str, str]
    date: str


DECISIVE = ("set", "rows", "weights", "instances", "data", "options")


def describe(bench_set: BenchSet, rows: Sequence[Row], options: Options) -> Bench:
    """The config of a benchmark that starts now."""
    problems = {entry.instance.problem for entry in bench_set.entries}
    groups = [entry.group for entry in bench_set.entries]
    return Bench(
        set=bench_set.name,
        rows=[row.name for row in rows],
        weights={row.name: fingerprint(row, problems) for row in rows if row.peer is None},
        instances={group: groups.count(group) for group in bench_set.groups},
        data=_data_fingerprint(bench_set.entries),
        options=dict(options._asdict()),
        title=bench_set.title,
        limits={row.name: row.seconds for row in rows if row.seconds is not None},
        families={row.name: row.family for row in rows},
        total=bench_set.total,
        full=dict(bench_set.full),
        means=dict(bench_set.means),
        notes=list(bench_set.notes),
        versions=_versions(rows),
        machine=_machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _data_fingerprint(entries: Sequence[Entry]) -> str:
    digest = hashlib.sha256()
    for entry in entries:
        it = entry.instance
        digest.update(f"{it.name} {it.metric.value} {it.capacity} {it.best_known}".encode())
        for array in (it.coords, it.demand, it.matrix):
            if array is not None:
                digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _versions(rows: Sequence[Row]) -> dict[str, str]:
    found = {"elgo": __version__, "python": platform.python_version()}
    found |= {package: importlib.metadata.version(package) for package in ("torch", "numpy", "numba")}
    peers = [PEERS[row.peer] for row in rows if row.peer]
    return found | {peer.package: peer.version for peer in peers if peer.package}


def _machine() -> dict[str, str]:
    """Processor, cores and system; no names of hosts or users."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"processor": model, "cores": str(os.cpu_count()), "system": platform.system()}


class BenchFolder:
    """Creates a benchmark's folder, or opens that of an earlier session to go on."""

    def __init__(self, path: Path, bench: Bench) -> None:
        self.path, self.bench = path, bench
        stored = path / "config.json"
        if stored.exists():
            self.bench = _same(stored, read_bench(path), bench)
        else:
            if path.exists() and any(path.iterdir()):
                raise ValueError(f"{path}: --folder is not empty and holds no benchmark; name another one")
            path.mkdir(parents=True, exist_ok=True)
            atomic_write(stored, json.dumps(asdict(bench), indent=2) + "\n")
        self.file = self._open()
        self.records = {record.key: record for record in read_records(path)}
        whole = "".join(_line(record) for record in self.records.values())  # without what a kill has cut short
        if whole != (path / "results.jsonl").read_text():
            self.file.truncate(0)
            self._write(whole)

    def _open(self) -> TextIO:
        """Open results.jsonl for appending, for this process alone."""
        file = open(self.path / "results.jsonl", "a")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise ValueError(f"{self.path}: another process is running this benchmark") from None
        return file

    def _write(self, text: str) -> None:
        self.file.write(text)
        self.file.flush()
        os.fsync(self.file.fileno())

    def add(self, records: Sequence[Record]) -> list[Record]:
        """Append those records that are not there yet, and give them back."""
        new = [record for record in records if record.key not in self.records]
        self._write("".join(_line(record) for record in new))
        self.records |= {record.key: record for record in new}
        return new

    def close(self) -> None:
        self.file.close()


def _same(stored: Path, old: Bench, new: Bench) -> Bench:
    """The stored config, if it is that of the same benchmark."""
    for name in DECISIVE:
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            raise ValueError(
                f"{stored}: {name} is {_short(was)}, now it would be {_short(now)}: "
                "the folder holds another benchmark; name a new --folder"
            )
    return old


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."


def read_bench(path: Path) -> Bench:
    """The config of a benchmark's folder."""
    file = path / "config.json"
    if not file.is_file():
        raise ValueError(f"{path}: is not the folder of a benchmark (it has no config.json)")
    try:
        return Bench(**json.loads(file.read_text()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file}: not the config of a benchmark ({error})") from None


def _line(record: Record) -> str:
    return json.dumps(asdict(record)) + "\n"


def read_records(path: Path) -> Iterator[Record]:
    """Records of a folder, each row and instance once; a line cut short by a kill is passed over."""
    file = path / "results.jsonl"
    seen: set[tuple[str, str]] = set()
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            record = Record(**json.loads(line))
        except (TypeError, ValueError):
            continue
        if record.key not in seen:
            seen.add(record.key)
            yield record


def write_csv(path: Path, records: Sequence[Record]) -> None:
    """Write the records as a table, atomically."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Record))
    for record in records:
        writer.writerow("" if value is None else value for value in asdict(record).values())
    atomic_write(path, text.getvalue())


# --- the loop --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A row on instances that it takes in one call."""

    row: Row
    entries: tuple[Entry, ...]

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [(self.row.name, entry.instance.name) for entry in self.entries]


def jobs(bench_set: BenchSet, rows: Sequence[Row]) -> list[Job]:
    """All there is to do: instance by instance, so that all rows meet the machine in the same state.

    Batches do not depend on what is done already: a resumed policy decodes the same ones.
    """
    found = []
    for _, same in groupby(bench_set.entries, key=lambda entry: (entry.group, entry.instance.size)):
        members = tuple(same)
        for begin in range(0, len(members), bench_set.batch):
            batch = members[begin : begin + bench_set.batch]
            for row in rows:
                if row.takes(batch[0].instance.problem):
                    parts = [batch] if row.peer is None and row.seconds is None else [(entry,) for entry in batch]
                    found += [Job(row, part) for part in parts]
    return found


def run(folder: BenchFolder, todo: Sequence[Job], options: Options, report: Callable[[list[Record]], None]) -> None:
    """Do what the folder does not have yet."""
    for job in todo:
        if all(key in folder.records for key in job.keys):
            continue
        answers = run_row(job.row, [entry.instance for entry in job.entries], options)
        records = [_record(job.row, entry, answer) for entry, answer in zip(job.entries, answers, strict=True)]
        report(folder.add(records))


def _record(row: Row, entry: Entry, answer: Answer) -> Record:
    it, solution = entry.instance, answer.solution
    cost = None if solution is None else solution.cost
    return Record(
        row=row.name,
        instance=it.name,
        group=entry.group,
        problem=it.problem,
        nodes=it.customers,
        cost=cost,
        best_known=it.best_known,
        gap=None if cost is None else gap(cost, it.best_known),
        routes=0 if solution is None else len(solution.routes),
        seconds=round(answer.seconds, 6),
        fault=answer.fault,
    )
