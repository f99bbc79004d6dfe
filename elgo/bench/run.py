"""The folder of a benchmark, and the loop that fills it. A run that was killed continues with what is missing.

config.json    methods, data and options, with versions and machine
results.jsonl  one line per method and instance, appended and synced as they come
results.csv    the same as a table, by method, in the order of the set
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
from elgo.bench.baselines import BASELINES
from elgo.bench.methods import Answer, Method, Options, fingerprint, run_method
from elgo.bench.sets import BenchSet, Entry
from elgo.problem.files import atomic_write
from elgo.problem.solution import gap

Key = tuple[str, str]  # method, instance


@dataclass(frozen=True)
class Record:
    """The result of a method on an instance. Without a cost, `error` says what went wrong."""

    method: str
    instance: str
    group: str
    problem: str
    nodes: int  # without the depot
    cost: float | None
    best_known: float | None
    gap: float | None  # percent
    routes: int
    seconds: float
    error: str = ""

    @property
    def key(self) -> Key:
        return self.method, self.instance


@dataclass(frozen=True)
class BenchConfig:
    """The content of config.json: with the records, enough to make tables and pictures without the set's files.

    The fields of the first block (DECISIVE) decide the results: a run with others needs another folder.
    """

    set: str
    methods: list[str]
    weights: dict[str, str]  # method -> fingerprint
    instances: dict[str, int]  # group -> number of instances
    data: str  # fingerprint
    options: dict[str, float]

    title: str
    limits: dict[str, float]  # method -> seconds
    families: dict[str, str]  # method -> family
    total: bool
    full: dict[str, int]
    mean_costs: dict[str, float]
    notes: list[str]
    versions: dict[str, str]
    machine: dict[str, str]
    date: str


DECISIVE = ("set", "methods", "weights", "instances", "data", "options")


def describe(bench_set: BenchSet, methods: Sequence[Method], options: Options) -> BenchConfig:
    """Return the config of a benchmark that starts now."""
    problems = {entry.instance.problem for entry in bench_set.entries}
    groups = [entry.group for entry in bench_set.entries]
    return BenchConfig(
        set=bench_set.name,
        methods=[method.name for method in methods],
        weights={method.name: fingerprint(method, problems) for method in methods if method.model},
        instances={group: groups.count(group) for group in bench_set.groups},
        data=_data_fingerprint(bench_set.entries),
        options=dict(options._asdict()),
        title=bench_set.title,
        limits={method.name: method.seconds for method in methods if method.seconds is not None},
        families={method.name: method.family for method in methods},
        total=bench_set.total,
        full=dict(bench_set.full),
        mean_costs=dict(bench_set.mean_costs),
        notes=list(bench_set.notes),
        versions=_versions(methods),
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


def _versions(methods: Sequence[Method]) -> dict[str, str]:
    found = {"elgo": __version__, "python": platform.python_version()}
    found |= {package: importlib.metadata.version(package) for package in ("torch", "numpy", "numba")}
    baselines = [BASELINES[method.baseline] for method in methods if method.baseline]
    return found | {baseline.package: baseline.version for baseline in baselines if baseline.package}


def _machine() -> dict[str, str]:
    """Return processor, cores and system; no names of hosts or users."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"processor": model, "cores": str(os.cpu_count()), "system": platform.system()}


class BenchFolder:
    """The folder of a benchmark: created, or opened to continue a run with the same config."""

    def __init__(self, path: Path, config: BenchConfig) -> None:
        self.path = path
        stored = path / "config.json"
        if stored.exists():
            _check_same(stored, read_config(path), config)
        else:
            if path.exists() and any(path.iterdir()):
                raise ValueError(f"{path}: --folder is not empty and holds no benchmark; name another one")
            path.mkdir(parents=True, exist_ok=True)
            atomic_write(stored, json.dumps(asdict(config), indent=2) + "\n")
        self.file = self._open()
        self.records = {record.key: record for record in read_records(path)}
        complete = "".join(_line(record) for record in self.records.values())
        if complete != (path / "results.jsonl").read_text():  # the last line was cut short
            self.file.truncate(0)
            self._write(complete)

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
        """Append the records that are not stored yet, and return them."""
        new = [record for record in records if record.key not in self.records]
        self._write("".join(_line(record) for record in new))
        self.records |= {record.key: record for record in new}
        return new

    def close(self) -> None:
        self.file.close()


def _check_same(stored: Path, old: BenchConfig, new: BenchConfig) -> None:
    """Raise ValueError if the two configs are not of the same benchmark."""
    for name in DECISIVE:
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            raise ValueError(
                f"{stored}: {name} is {_short(was)}, now it would be {_short(now)}: "
                "the folder holds another benchmark; name a new --folder"
            )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."


def read_config(path: Path) -> BenchConfig:
    """Return the config in the folder of a benchmark."""
    file = path / "config.json"
    if not file.is_file():
        raise ValueError(f"{path}: is not the folder of a benchmark (it has no config.json)")
    try:
        return BenchConfig(**json.loads(file.read_text()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file}: not the config of a benchmark ({error})") from None


def _line(record: Record) -> str:
    return json.dumps(asdict(record)) + "\n"


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a folder, each method and instance once; a line that was cut short is skipped."""
    file = path / "results.jsonl"
    seen: set[Key] = set()
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
class Batch:
    """Instances that a method solves in one call."""

    method: Method
    entries: tuple[Entry, ...]

    @property
    def keys(self) -> list[Key]:
        return [(self.method.name, entry.instance.name) for entry in self.entries]


def make_batches(bench_set: BenchSet, methods: Sequence[Method]) -> list[Batch]:
    """Return everything to run: all methods on an instance before the next one, under the same load of the machine.

    Batches do not depend on what is already done, so that a model decodes the same ones in a continued run.
    """
    batches = []
    for _, same in groupby(bench_set.entries, key=lambda entry: (entry.group, entry.instance.size)):
        members = tuple(same)
        for begin in range(0, len(members), bench_set.batch_size):
            entries = members[begin : begin + bench_set.batch_size]
            for method in methods:
                if method.supports(entries[0].instance.problem):
                    decodes = method.model is not None and method.seconds is None
                    parts = [entries] if decodes else [(entry,) for entry in entries]
                    batches += [Batch(method, part) for part in parts]
    return batches


def run(
    folder: BenchFolder, batches: Sequence[Batch], options: Options, on_records: Callable[[list[Record]], None]
) -> None:
    """Run the batches that the folder has no results of yet."""
    for batch in batches:
        if all(key in folder.records for key in batch.keys):
            continue
        answers = run_method(batch.method, [entry.instance for entry in batch.entries], options)
        pairs = zip(batch.entries, answers, strict=True)
        on_records(folder.add([_record(batch.method, entry, answer) for entry, answer in pairs]))


def _record(method: Method, entry: Entry, answer: Answer) -> Record:
    it, solution = entry.instance, answer.solution
    cost = None if solution is None else solution.cost
    return Record(
        method=method.name,
        instance=it.name,
        group=entry.group,
        problem=it.problem,
        nodes=it.customers,
        cost=cost,
        best_known=it.best_known,
        gap=None if cost is None else gap(cost, it.best_known),
        routes=0 if solution is None else len(solution.routes),
        seconds=round(answer.seconds, 6),
        error=answer.error,
    )
