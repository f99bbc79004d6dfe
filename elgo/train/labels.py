"""Labelled instances on disk: append-only stores, what fills them, and the file of the XML100 set."""

import itertools
import json
import math
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elgo.bulk.engine import Engine, run
from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_file, atomic_write, parse_json
from elgo.problem.files.arrays import read_arrays
from elgo.problem.files.text import errors_name, read_text
from elgo.problem.generate import GENERATOR_VERSION
from elgo.problem.task import Task
from elgo.train.labelling import Labelled, LabelStream, label

FLUSH_SECONDS = 60.0  # between writes; kill -9 loses what was labelled since the last one
SHARD_LABELS = 256
BATCH = 8  # labels that a worker makes at once


class LabelStore:
    """A folder of shards NNNNNNNN.npz, named by the number of their first label; append-only, one writer.

    A shard appears under its name only when it is complete, so a store can be read at any time, and a killed writer
    leaves at most a hidden temporary file that is never read.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    @property
    def generator_version(self) -> int:
        """The version of the generators that made the instances; 1 if the store is too old to say."""
        return int(self.stream().get("generator_version", 1))

    def stream(self) -> dict[str, Any]:
        """Return what the store says about its labels; nothing if it is too old."""
        path = self.folder / "stream.json"
        if not path.exists():
            return {}
        with errors_name(path):
            stream = parse_json(read_text(path, (".json",)))
            if not isinstance(stream, dict) or not isinstance(stream.get("generator_version", 1), int):
                raise ElgoError("does not describe a store of labels")
        return stream

    def _shards(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.npz") if path.stem.isdigit())

    def __len__(self) -> int:
        shards = self._shards()
        if not shards:
            return 0
        return int(shards[-1].stem) + len(_read_npz(shards[-1], "cost")["cost"])

    def add(self, labels: Sequence[Labelled]) -> None:
        """Append labels as one shard."""
        if not labels:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        final = self.folder / f"{len(self):08d}.npz"
        demands = [np.zeros(x.sample.size, np.int64) if x.sample.demand is None else x.sample.demand for x in labels]
        with atomic_file(final) as file:
            np.savez_compressed(
                file,
                coords=np.concatenate([x.sample.coords for x in labels]),
                demand=np.concatenate(demands).astype(np.int32),
                capacity=np.array([x.sample.capacity or 0 for x in labels], dtype=np.int64),  # 0: a TSP
                size=np.array([x.sample.size for x in labels], dtype=np.int32),
                tour=np.concatenate([x.tour for x in labels]).astype(np.int32),
                tour_size=np.array([len(x.tour) for x in labels], dtype=np.int32),
                cost=np.array([x.cost for x in labels]),
            )
            if final.exists():
                raise ElgoError(f"{final} exists: another process writes to this store")

    def load(self, start: int = 0) -> list[Labelled]:
        """Return the labels start, start + 1, ... in the order in which they were added."""
        shards = self._shards()
        firsts = [int(path.stem) for path in shards]
        wanted = [k for k in range(len(shards)) if k + 1 == len(shards) or firsts[k + 1] > start]
        found = [(firsts[k] + i, x) for k in wanted for i, x in enumerate(read_shard(shards[k]))]
        return [x for number, x in found if number >= start]


def _read_npz(path: Path, *names: str) -> dict[str, NDArray]:
    """Return the arrays of a file; ElgoError if it lacks one of these."""
    arrays = read_arrays(path)
    if missing := [name for name in names if name not in arrays]:
        raise ElgoError(f"{path}: {missing[0]} is missing")
    return arrays


def read_shard(path: Path) -> list[Labelled]:
    """Return the labels of one shard."""
    a = _read_npz(path, "coords", "demand", "capacity", "size", "tour", "tour_size", "cost")
    nodes = np.concatenate([[0], np.cumsum(a["size"], dtype=np.int64)])
    visits = np.concatenate([[0], np.cumsum(a["tour_size"], dtype=np.int64)])
    labels = []
    for k, capacity in enumerate(a["capacity"].tolist()):
        node, visit = slice(nodes[k], nodes[k + 1]), slice(visits[k], visits[k + 1])
        demand = a["demand"][node].astype(np.int64) if capacity else None
        sample = Task(a["coords"][node], demand, capacity or None)
        labels.append(Labelled(sample, a["tour"][visit].astype(np.int64), float(a["cost"][k])))
    return labels


def read_xml100(path: Path | str) -> list[Labelled]:
    """Return the instances of the labelled XML100 set (.npz) with their optimal routes, in the file's order.

    The routes are optimal for rounded distances; cost is their unrounded length, as everywhere here.
    """
    a = _read_npz(Path(path), "coords", "demand", "capacity", "giant_tour")
    coords, demand = a["coords"].astype(np.float64), a["demand"].astype(np.int64)
    capacity, tours = a["capacity"].tolist(), a["giant_tour"].astype(np.int64)
    labels = []
    for k, tour in enumerate(tours):
        cuts = np.flatnonzero(tour == 0)
        routes = [tour[a + 1 : b] for a, b in itertools.pairwise(cuts) if b > a + 1]
        labels.append(label(Task(coords[k], demand[k], capacity[k]), routes))
    return labels


@contextmanager
def _signals_as_flag() -> Iterator[list[int]]:
    """Yield a list to which SIGTERM and SIGINT only add themselves, so that finished labels can be written first."""
    received: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda number, frame: received.append(number)) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _in_order(stream: LabelStream, start: int, engine: Engine | None) -> Generator[Labelled, None, None]:
    """Yield the labels start, start + 1, ... in order, made by the workers of an engine, or else by this process."""
    if engine is None:
        yield from map(stream.labelled, itertools.count(start))
        return
    batches = (range(first, first + BATCH) for first in itertools.count(start, BATCH))
    early: dict[int, Labelled] = {}
    for numbers, labels in run(engine, partial(_label_all, stream), batches):
        if isinstance(labels, Exception):
            raise labels
        early |= zip(numbers, labels, strict=True)
        while start in early:
            yield early.pop(start)
            start += 1


def _label_all(stream: LabelStream, numbers: Sequence[int]) -> list[Labelled]:
    return [stream.labelled(number) for number in numbers]


def claim(store: LabelStore, stream: LabelStream) -> None:
    """Record which stream a new store holds; ElgoError if it holds another, or instances of an older generator.

    Fields that an older version did not record have their default values.
    """
    path = store.folder / "stream.json"
    record = {**asdict(stream), "generator_version": GENERATOR_VERSION}
    if not path.exists() and not len(store):
        store.folder.mkdir(parents=True, exist_ok=True)
        atomic_write(path, json.dumps(record))
    if store.generator_version != GENERATOR_VERSION:
        raise ElgoError(
            f"{store.folder} holds instances of generator version {store.generator_version}, "
            f"which do not mix with those of version {GENERATOR_VERSION}; name a new folder"
        )
    held, defaults = store.stream(), {field.name: field.default for field in fields(LabelStream)}
    if defaults | held != parse_json(json.dumps(record)):
        raise ElgoError(f"{store.folder} holds the stream {json.dumps(held)}, not {json.dumps(record)}")


def make_labels(
    store: LabelStore,
    stream: LabelStream,
    count: float = math.inf,
    minutes: float = math.inf,
    engine: Engine | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> int:
    """Fill the store with the stream up to `count` labels or for some minutes; return how many it holds now.

    Labels are made by the workers of an engine, or else by this process.

    It continues where the store ends. SIGTERM and SIGINT stop it after the current label and lose nothing; kill -9
    loses at most the last minute. SIGSTOP and SIGCONT pause it, since limits for CVRP are CPU time.
    """
    claim(store, stream)
    started = flushed = time.monotonic()
    held = first = len(store)
    fresh: list[Labelled] = []
    with _signals_as_flag() as stop:
        source = _in_order(stream, held, engine)
        while not stop and held + len(fresh) < count and time.monotonic() - started <= 60 * minutes:
            fresh.append(next(source))
            if len(fresh) >= SHARD_LABELS or time.monotonic() - flushed > FLUSH_SECONDS:
                store.add(fresh)
                held += len(fresh)
                fresh, flushed = [], time.monotonic()
                pace = (held - first) / (flushed - started) * 60
                report(f"{store.folder.name}: {held} labels, {pace:.1f} per minute")
        store.add(fresh)  # before the pool ends, in case that is not waited for
        held += len(fresh)
        source.close()
    report(f"{store.folder.name}: {held} labels, {'stopped' if stop else 'done'}")
    return held
