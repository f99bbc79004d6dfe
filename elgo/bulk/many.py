"""Solve any number of instances: `solve_many` yields results as they come, `solve_inputs` writes them to a file."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from elgo.bulk.engine import Engine, run
from elgo.bulk.engines import EngineName, open_engine
from elgo.bulk.inputs import Source
from elgo.bulk.outputs import Done, Output
from elgo.bulk.work import Item, describe_error, failed_row, solve_instances, solve_rows
from elgo.model.checkpoint import model_file
from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.problem.task import PROBLEMS
from elgo.solve.config import SolveConfig
from elgo.solve.result import Result
from elgo.solve.worker import Solved, sendable, without_instance

POLICY_BATCH = 50  # instances that a policy decodes together
SEARCH_SECONDS = 1.0  # of search in a batch, at most, unless it is one instance

T = TypeVar("T")


@dataclass(frozen=True)
class BulkResult:
    """What became of one instance: a result, or an error in one line."""

    number: int  # of the instance, from 0
    instance: Instance
    result: Result | None
    error: str = ""


class BulkProgress(NamedTuple):
    """How far a run is."""

    done: int  # instances that were solved or failed, without those of an earlier run
    failed: int
    total: int | None  # instances that were to be solved; None if that is not known
    seconds: float  # since the first worker could begin

    @property
    def left(self) -> float | None:
        """About how many seconds are left; None if that is not known yet."""
        if self.total is None or not self.done:
            return None
        return max(0.0, (self.total - self.done) * self.seconds / self.done)


OnProgress = Callable[[BulkProgress], None]


def solve_many(
    instances: Iterable[Instance],
    config: SolveConfig | None = None,
    *,
    engine: EngineName | Engine = "local",
    jobs: int | None = None,
    address: str | None = None,
    batch: int | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[BulkResult]:
    """Yield the result of each instance as soon as it is ready, in any order.

    - `instances`: may be a generator: only those are taken that workers have room for
    - `config`: what to spend on each one, as for `solve`; each has one thread unless `threads` says otherwise
    - `engine`: "local", processes of this machine; or "ray", actors of a Ray cluster
    - `jobs`: number of workers; default: all cores, or CPUs of the cluster
    - `address`: of a running Ray cluster, or "auto"; by default Ray is started on this machine
    - `batch`: instances that a worker is given at once; default: 50 for policies, up to a second of search
    - `on_progress`: called with a BulkProgress after each batch

    An instance that fails, or of which worker processes die, is a result with an error. A worker that dies for another
    reason costs nothing but time.
    """
    config = one_thread(config or SolveConfig())
    size = batch_size(config, batch)
    counter = _Counter(len(instances) if isinstance(instances, Sized) else None, on_progress)
    with open_engine(engine, jobs, address) if isinstance(engine, str) else nullcontext(engine) as workers:
        function = partial(_solve_numbered, config)
        for numbered, outcomes in run(workers, function, _cut(enumerate(instances), size)):
            if isinstance(outcomes, Exception):
                outcomes = [outcomes] * len(numbered)
            for (number, instance), outcome in zip(numbered, outcomes, strict=True):
                if isinstance(outcome, Solved):
                    yield BulkResult(number, instance, outcome.result(instance))
                else:
                    yield BulkResult(number, instance, None, describe_error(outcome))
            counter.add(len(numbered), sum(not isinstance(outcome, Solved) for outcome in outcomes))


def solve_inputs(
    sources: Sequence[Source],
    output: Output,
    config: SolveConfig,
    *,
    engine: Engine,
    batch: int | None = None,
    on_progress: OnProgress | None = None,
) -> BulkProgress:
    """Solve what is missing in the output, and write it there; return how far that came.

    Batches are the same in every run. One that a policy decodes is decoded as a whole, even if only a part of it is
    missing, so that answers do not depend on where an earlier run ended.
    """
    config = one_thread(config)
    total = sum(source.size - output.done.count(source.name, source.size) for source in sources)
    counter = _Counter(total, on_progress)
    items = (item for source in sources for item in source.items())
    batches = _missing(_cut(items, batch_size(config, batch)), output.done, as_a_whole=config.policy_only)
    function = partial(solve_rows, config, output.settings)
    for part, outcome in run(engine, function, batches):
        if isinstance(outcome, Exception):
            outcome = [failed_row(item, output.settings, outcome) for item in part]
        fresh = [row for item, row in zip(part, outcome, strict=True) if item not in output.done]
        output.write(fresh)
        counter.add(len(fresh), sum(row.cost is None for row in fresh))
    return counter.progress()


def batch_size(config: SolveConfig, given: int | None) -> int:
    """Return the number of instances in a batch: as given, or by the work that an instance is."""
    if given is not None and given < 1:
        raise ElgoError(f"batch is {given}, must be at least 1")
    if given is not None or config.policy_only:
        return given or POLICY_BATCH
    return max(1, min(POLICY_BATCH, int(SEARCH_SECONDS / (config.time_limit or SEARCH_SECONDS))))


def one_thread(config: SolveConfig) -> SolveConfig:
    """Return the config of a worker: one thread unless another number is given."""
    return config if config.threads else replace(config, threads=1)


def describe_settings(config: SolveConfig, capacity: float | None = None) -> str:
    """Return what decides the answers in one line: the fields that are not as usual, and the weights of a model.

    `capacity` is that of inputs which do not state it.
    """
    config = one_thread(config)
    named = []
    for it in fields(config):
        value = getattr(config, it.name)
        if value != it.default and it.name not in ("memory_gb", "device", "start", "model"):
            named.append(f"{it.name}={value}")
    if capacity is not None:
        named.append(f"capacity={capacity:g}")
    if config.policy is not None:
        named.append(f"model={_model_text(config)}")
    return ", ".join(named)


def _model_text(config: SolveConfig) -> str:
    if not isinstance(config.policy, str | Path):
        return type(config.policy).__name__
    files = sorted({model_file(config.policy, problem) for problem in PROBLEMS})
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    return f"{Path(config.policy).name}:{digest.hexdigest()[:8]}"


class _Counter:
    """Counts what is done and tells the caller."""

    def __init__(self, total: int | None, callback: OnProgress | None) -> None:
        self.total, self.callback = total, callback
        self.done = self.failed = 0
        self.begin = time.perf_counter()

    def add(self, done: int, failed: int) -> None:
        self.done += done
        self.failed += failed
        if self.callback is not None:
            self.callback(self.progress())

    def progress(self) -> BulkProgress:
        return BulkProgress(self.done, self.failed, self.total, time.perf_counter() - self.begin)


def _solve_numbered(config: SolveConfig, numbered: Sequence[tuple[int, Instance]]) -> list[Solved | Exception]:
    outcomes = solve_instances(config, [instance for _, instance in numbered])
    return [without_instance(it) if isinstance(it, Result) else sendable(it) for it in outcomes]


def _missing(batches: Iterable[list[Item]], done: Done, as_a_whole: bool) -> Iterator[list[Item]]:
    """Yield the batches without the items that are done; as a whole, if that is asked for, unless all are done."""
    for part in batches:
        left = [item for item in part if item not in done]
        if left:
            yield part if as_a_whole else left


def _cut(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield consecutive items in lists of this size; the last one may be shorter."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
