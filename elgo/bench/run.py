"""The folder of a benchmark: its config and its records.

config.json    methods, data and options, with versions and machine
results.jsonl  one line per method and instance, appended and synced as they come; with the tours
results.csv    the same as a table, by method, in the order of the set; without the tours
"""

import csv
import hashlib
import importlib.metadata
import io
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from elgo import __version__
from elgo.bench.baselines import BASELINES
from elgo.bench.methods import Method, Options, fingerprint
from elgo.bench.sets import BenchSet, Entry
from elgo.model.device import find_device, is_gpu
from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_write, lock_file, parse_json
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
    solution: list[list[int]] = field(default_factory=list)  # routes as in Solution: nodes from 0, without the depot
    metric: str = ""  # of the cost: its EDGE_WEIGHT_TYPE, which says how it is rounded
    starts: int = 0  # of a model's rollouts
    symmetries: int = 0
    threads: int = 0
    latency: float = 0.0  # seconds of the call that solved it, perhaps with others
    throughput: float = 0.0  # instances per second in that call

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
    options: dict[str, float | str]

    title: str
    full: dict[str, int]
    notes: list[str]
    versions: dict[str, str]
    machine: dict[str, str]
    date: str


DECISIVE = ("set", "methods", "weights", "instances", "data", "options")


def describe(bench_set: BenchSet, methods: Sequence[Method], options: Options) -> BenchConfig:
    """Return the config of a benchmark that starts now."""
    groups = [entry.group for entry in bench_set.entries]
    with_model = any(method.model is not None for method in methods)
    device = str(find_device(options.device)) if with_model and is_gpu(options.device) else "cpu"
    return BenchConfig(
        set=bench_set.name,
        methods=[method.name for method in methods],
        weights={
            method.name: fingerprint(method, bench_set.problems) for method in methods if method.model is not None
        },
        instances={group: groups.count(group) for group in bench_set.groups},
        data=_data_fingerprint(bench_set.entries),
        options={**options._asdict(), "device": device},
        title=bench_set.title,
        full=dict(bench_set.full),
        notes=list(bench_set.notes),
        versions=_versions(methods),
        machine=_machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _data_fingerprint(entries: Sequence[Entry]) -> str:
    digest = hashlib.sha256()
    for entry in entries:
        it = entry.instance
        digest.update(f"{it.name} {it.metric.value} {it.capacity}".encode())
        for array in (it.coords, it.demand, it.matrix):
            if array is not None:
                digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _versions(methods: Sequence[Method]) -> dict[str, str]:
    baselines = [BASELINES[method.baseline].package for method in methods if method.baseline]
    own = {"elgo": __version__, "python": platform.python_version()}
    for package in ["torch", "numpy", "numba", *filter(None, baselines)]:
        with suppress(importlib.metadata.PackageNotFoundError):  # solving needs no torch
            own[package] = importlib.metadata.version(package)
    return own


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
        stored = path / "config.json"
        if stored.exists():
            _check_same(stored, read_config(path), config)
        else:
            if path.exists() and any(path.iterdir()):
                raise ElgoError(f"{path}: --folder is not empty and holds no benchmark; name another one")
            path.mkdir(parents=True, exist_ok=True)
            atomic_write(stored, json.dumps(asdict(config), indent=2) + "\n")
        self.file = open(path / "results.jsonl", "a")  # noqa: SIM115
        if not lock_file(self.file):
            self.file.close()
            raise ElgoError(f"{path}: another process is running this benchmark")
        self.file.truncate((path / "results.jsonl").read_bytes().rfind(b"\n") + 1)  # a line may have been cut short
        self.records = {record.key: record for record in read_records(path)}

    def add(self, records: Sequence[Record]) -> list[Record]:
        """Append the records that are not stored yet, and return them."""
        new = [record for record in records if record.key not in self.records]
        self.file.write("".join(json.dumps(asdict(record)) + "\n" for record in new))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.records |= {record.key: record for record in new}
        return new

    def update_references(self, best_known: Mapping[str, float | None]) -> None:
        """Store other best-known costs of instances, and the gaps to them, if they have changed since the last run."""
        changed = {key: _with_reference(record, best_known) for key, record in self.records.items()}
        if changed == self.records:
            return
        self.records, file = changed, Path(self.file.name)
        atomic_write(file, "".join(json.dumps(asdict(record)) + "\n" for record in changed.values()))
        self.file.close()
        self.file = open(file, "a")  # noqa: SIM115
        lock_file(self.file)

    def close(self) -> None:
        """Let other processes open the folder."""
        self.file.close()


def _with_reference(record: Record, best_known: Mapping[str, float | None]) -> Record:
    best = best_known[record.instance]
    return replace(record, best_known=best, gap=None if record.cost is None else gap(record.cost, best))


def _check_same(stored: Path, old: BenchConfig, new: BenchConfig) -> None:
    """Raise ElgoError if the two configs are not of the same benchmark."""
    for name in DECISIVE:
        was, now = (json.dumps(getattr(config, name)) for config in (old, new))
        if was != now:
            raise ElgoError(
                f"{stored}: {name} is {was:.120}, now it would be {now:.120}: "
                "the folder holds another benchmark; name a new --folder"
            )


def read_config(path: Path) -> BenchConfig:
    """Return the config in the folder of a benchmark."""
    file = path / "config.json"
    if not file.is_file():
        raise ElgoError(f"{path}: is not the folder of a benchmark (it has no config.json)")
    names = [entry.name for entry in fields(BenchConfig)]
    try:
        return BenchConfig(**{name: value for name, value in parse_json(file.read_text()).items() if name in names})
    except (AttributeError, TypeError, ValueError) as error:
        raise ElgoError(f"{file}: not the config of a benchmark ({error})") from None


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a folder, each method and instance once; a line that was cut short is skipped."""
    file = path / "results.jsonl"
    seen: set[Key] = set()
    for line in file.read_text(errors="replace").splitlines() if file.is_file() else ():
        try:
            record = Record(**parse_json(line))
        except (TypeError, ValueError):
            continue
        if record.key not in seen:
            seen.add(record.key)
            yield record


def write_csv(path: Path, records: Sequence[Record], hardware: str = "") -> None:
    """Write the records without their solutions as a table, atomically; hardware is a column of its own."""
    text = io.StringIO()
    columns = [column.name for column in fields(Record) if column.name != "solution"]
    writer = csv.DictWriter(text, [*columns, "hardware"], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**asdict(record), "hardware": hardware} for record in records)
    atomic_write(path, text.getvalue())
