"""Inputs of many instances: files, folders, tables of many instances, generated sets.

JSONL, Parquet and .npy stream: only what is at work is in memory. Workers do the parsing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elgo.bulk.parquet import import_pyarrow
from elgo.bulk.work import MOST_INSTANCES, Item
from elgo.problem.distances import Metric
from elgo.problem.errors import ElgoError
from elgo.problem.files import parse_json, problem_files, read
from elgo.problem.files.arrays import ARRAY_SUFFIXES, MOST_BYTES, read_instances
from elgo.problem.files.instances import SUFFIXES
from elgo.problem.files.text import errors_name
from elgo.problem.generate import KOOL_COUNT, as_instance, generate, kool_test_set
from elgo.problem.instance import Instance
from elgo.problem.task import PROBLEMS

SAID_BYTES = 50 * 10**6  # of one whose size the log tells
MOST_NODES = 10**6  # of a generated instance
BLOCK = 2**20  # bytes that are read at once
STREAMED = (".jsonl", ".parquet", ".npy")
FIELDS = ("name", "coords", "matrix", "demand", "capacity", "metric", "best_known")  # of an instance in JSONL, Parquet
GENERATED = "random:PROBLEM:N:COUNT[:DISTRIBUTION[:SEED]] or kool:PROBLEM[:COUNT]"

log = logging.getLogger("elgo")


class Source(NamedTuple):
    """One input: how many instances it has, and the function that yields them."""

    name: str
    size: int  # of JSONL: the number of lines
    items: Callable[[], Iterator[Item]]


def open_inputs(texts: Iterable[str], capacity: float | None = None) -> list[Source]:
    """Return the inputs that are named by paths, patterns or descriptions of generated sets, each once.

    `capacity` is that of vehicles in CSV files that do not state it, and in .npy files. ElgoError for what is no input.
    """
    sources: dict[str, Source] = {}
    for text in texts:
        for source in _open(text, capacity):
            sources.setdefault(source.name, source)
    return list(sources.values())


def _open(text: str, capacity: float | None) -> Iterator[Source]:
    if text.startswith(("random:", "kool:")):
        yield _generated(text)
        return
    path = Path(text)
    if has_magic(text) and not path.exists():
        files = [Path(name) for name in sorted(glob(text, recursive=True))]
        if not files:
            raise ElgoError(f"{text}: no file matches this pattern")
        yield from (source for file in files for source in _open(str(file), capacity))
    elif path.is_dir() and path.suffix != ".parquet":
        yield from (_problem_file(file, capacity) for file in problem_files(path))
    else:
        yield _file(path, capacity)


def _file(path: Path, capacity: float | None) -> Source:
    suffix = path.suffix.lower()
    if not path.exists():
        raise ElgoError(f"{path}: no such file; generated sets are {GENERATED}")
    if suffix in STREAMED:
        if not path.is_file() and suffix != ".parquet":
            raise ElgoError(f"{path}: is not a regular file")
        return _npy(path, capacity) if suffix == ".npy" else _jsonl(path) if suffix == ".jsonl" else _parquet(path)
    _check_size(path)
    if suffix in ARRAY_SUFFIXES:
        instances = read_instances(path)
        return Source(str(path), len(instances), lambda: (Item(str(path), i, it) for i, it in enumerate(instances)))
    if suffix in SUFFIXES:
        return _problem_file(path, capacity)
    known = ", ".join((*SUFFIXES, *STREAMED, *ARRAY_SUFFIXES))
    raise ElgoError(f"{path}: suffix is {path.suffix!r}, expected one of {known}, or a folder")


def _check_size(path: Path) -> None:
    """Tell the size of a large file that does not stream; ElgoError if it is too large."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        streams = "write JSONL, Parquet or .npy, which stream"
        raise ElgoError(f"{path}: has {size / 1e9:.1f} GB, at most {MOST_BYTES / 1e9:g} GB are read at once; {streams}")
    if size > SAID_BYTES:
        log.info("%s: %.1f GB are read into memory", path, size / 1e9)


def _problem_file(file: Path, capacity: float | None) -> Source:
    def items() -> Iterator[Item]:
        try:
            _check_size(file)
            data: Instance | ValueError = read(file, capacity if file.suffix.lower() == ".csv" else None)
        except ValueError as error:
            data = error
        except OSError as error:  # it was there when the folder was listed
            data = ElgoError(f"{file}: cannot be read ({error.strerror})")
        yield Item(str(file), 0, data)

    return Source(str(file), 1, items)


# --- JSONL and Parquet -----------------------------------------------------------------------------------------------


def _jsonl(file: Path) -> Source:
    def items() -> Iterator[Item]:
        with open(file, "rb") as lines:
            for index, line in enumerate(lines):
                if line.strip():
                    yield Item(str(file), index, partial(parse_line, line, str(file), index))

    return Source(str(file), _count_lines(file), items)


def _count_lines(file: Path) -> int:
    count, last = 0, b"\n"
    with open(file, "rb") as stream:
        while block := stream.read(BLOCK):
            count, last = count + block.count(b"\n"), block[-1:]
    return count + (last != b"\n")


def parse_line(line: bytes, file: str, index: int) -> Instance:
    """Return the instance in a line of JSON: an object with fields of FIELDS."""
    with errors_name(f"{file}: line {index + 1}"):
        record = parse_json(line.strip())
        if not isinstance(record, dict):
            raise ElgoError(f"holds {str(record)[:60]}, expected an object with coords")
        return parse_record(record, f"{Path(file).stem}-{index:04d}")


def parse_record(record: Mapping[str, Any], name: str) -> Instance:
    """Return the instance that a mapping with fields of FIELDS describes; fields that are None count as missing."""
    given = {key: value for key, value in record.items() if value is not None}
    for key in given:
        if key not in FIELDS:
            raise ElgoError(f"has the field {key!r}; there are {', '.join(FIELDS)}")
    if "coords" not in given and "matrix" not in given:
        raise ElgoError("coords is missing")
    demand, capacity, name = given.get("demand"), given.get("capacity"), str(given.get("name", name))
    for key in ("capacity", "best_known"):
        if key in given and (isinstance(given[key], bool) or not isinstance(given[key], int | float)):
            raise ElgoError(f"{key} is {str(given[key])[:60]!r}, expected a number")
    if "matrix" in given:
        if given.get("metric", Metric.EXPLICIT) != Metric.EXPLICIT:
            raise ElgoError(f"metric is {str(given['metric'])[:60]!r}, but distances are given by matrix")
        matrix, coords = given["matrix"], given.get("coords")
        instance = Instance.from_matrix(matrix, demand=demand, capacity=capacity, coords=coords, name=name)
    else:
        metric = given.get("metric", Metric.EXACT)
        instance = Instance.from_coords(given["coords"], demand=demand, capacity=capacity, metric=metric, name=name)
    return replace(instance, best_known=given["best_known"]) if "best_known" in given else instance


def _parquet(path: Path) -> Source:
    """A Parquet file, or a folder of them, whose columns are those of FIELDS; coords is a list of pairs."""
    try:
        dataset = import_pyarrow("pyarrow.dataset").dataset(path, format="parquet")
    except (OSError, ValueError):
        raise ElgoError(f"{path}: not a Parquet file, or a folder of them") from None
    columns = [name for name in dataset.schema.names if name in FIELDS]
    if not {"coords", "matrix"} & set(columns):
        raise ElgoError(f"{path}: coords is missing; the columns are {', '.join(dataset.schema.names)}")

    def items() -> Iterator[Item]:
        index = 0
        for rows in dataset.to_batches(columns=columns, batch_size=256, batch_readahead=1, fragment_readahead=1):
            for record in rows.to_pylist():
                yield Item(str(path), index, partial(_parse_row, record, str(path), index))
                index += 1

    return Source(str(path), dataset.count_rows(), items)


def _parse_row(record: Mapping[str, Any], file: str, index: int) -> Instance:
    with errors_name(f"{file}: row {index}"):
        return parse_record(record, f"{Path(file).stem}-{index:04d}")


# --- .npy ------------------------------------------------------------------------------------------------------------


def _npy(file: Path, capacity: float | None) -> Source:
    """A memory-mapped array: (B, n, 2) are TSPs, (B, n, 3) CVRPs with demands in the third column, the depot first."""
    try:
        with open(file, "rb") as stream:
            np.lib.format.read_magic(stream)
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (EOFError, OSError, ValueError) as error:
        raise ElgoError(f"{file}: not an array of numbers ({str(error).splitlines()[0]})") from None
    if array.ndim != 3 or array.shape[2] not in (2, 3) or array.dtype.kind not in "iuf":
        expected = "(instances, nodes, 2), or 3 with demands"
        raise ElgoError(f"{file}: is {array.dtype} of shape {array.shape}, expected numbers {expected}")
    if array.shape[2] == 3 and capacity is None:
        raise ElgoError(f"{file}: has demands, so it needs a capacity")

    def items() -> Iterator[Item]:
        for index in range(len(array)):
            nodes = np.array(array[index], dtype=np.float64)
            yield Item(str(file), index, partial(_from_nodes, nodes, capacity, str(file), index))

    return Source(str(file), len(array), items)


def _from_nodes(nodes: NDArray[np.float64], capacity: float | None, file: str, index: int) -> Instance:
    with errors_name(f"{file}: instance {index}"):
        name = f"{Path(file).stem}-{index:04d}"
        if nodes.shape[1] == 2:
            return Instance.from_coords(nodes, name=name)
        return Instance.from_coords(nodes[:, :2], demand=nodes[:, 2], capacity=capacity, name=name)


# --- generated sets --------------------------------------------------------------------------------------------------


def _generated(text: str) -> Source:
    """A generated set. Its name is without the number of instances, so that a run can be continued with more."""
    kind, problem, *parts = text.split(":")
    with errors_name(text):
        if problem not in PROBLEMS:
            raise ElgoError(f"problem is {problem!r}, expected tsp or cvrp: {GENERATED}")
        if kind == "kool" and len(parts) <= 1:
            return _kool(problem, _number("count", parts[0], most=KOOL_COUNT) if parts else KOOL_COUNT)
        if kind == "kool" or not 2 <= len(parts) <= 4:
            raise ElgoError(f"expected {GENERATED}")
        n, count = _number("N", parts[0], most=MOST_NODES), _number("count", parts[1])
        distribution = parts[2] if len(parts) > 2 else "uniform"
        seed = _number("seed", parts[3], least=0) if len(parts) > 3 else 0
        make = partial(_random, problem, n, distribution, seed)
        make(0)  # raises ValueError for an unknown distribution
    name = f"random:{problem}:{n}:{distribution}:{seed}"
    return Source(name, count, lambda: (Item(name, i, partial(make, i)) for i in range(count)))


def _kool(problem: str, count: int) -> Source:
    """The first of the literature's test instances with N = 100."""
    name = f"kool:{problem}"

    def items() -> Iterator[Item]:
        for i, task in enumerate(kool_test_set(problem, count)):
            yield Item(name, i, partial(as_instance, task, f"{problem.upper()}100-{i:05d}"))

    return Source(name, count, items)


def _random(problem: str, n: int, distribution: str, seed: int, index: int) -> Instance:
    """Return an instance that depends on its arguments alone."""
    rng = np.random.default_rng([seed, PROBLEMS.index(problem), n, index])
    return as_instance(generate(rng, problem, n, distribution), f"{problem}-{n}-{index:05d}")


def _number(name: str, text: str, least: int = 1, most: int = MOST_INSTANCES) -> int:
    if not re.fullmatch("[0-9]{1,18}", text) or not least <= int(text) <= most:
        raise ElgoError(f"{name} is {text!r}, expected a whole number from {least} to {most}")
    return int(text)
