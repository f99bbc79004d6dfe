"""Near-optimal solutions to imitate: Sample -> Labelled, kept in stores on disk or streamed.

The solvers are imported when a label is asked for; hygese and PyVRP belong to the extra `elgo[train]`.
Instance i of a stream depends only on (stream, i), so a resumed run meets the same data in the same order. The tours
themselves come from searches with a time limit: nearly always the same, never guaranteed to be.
"""

from __future__ import annotations

import importlib
import json
import math
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from elgo.problem.augment import normalise
from elgo.problem.files import atomic_file, atomic_write
from elgo.problem.generate import Sample, as_instance, generate
from elgo.problem.task import Task
from elgo.search.annealing import anneal
from elgo.search.data import prepare
from elgo.search.fallback import first_fit
from elgo.search.giant_tour import to_giant_tour, to_routes
from elgo.search.savings import savings

HGS_LIMIT = 300  # customers; beyond, PyVRP's local search is ahead of HGS at these time limits
ITERATIONS = 200  # of our own search per customer
EXTENT = 10_000  # integer units across a CVRP: rounding an edge costs less than 0.01 % of a usual one
FLUSH_SECONDS = 60.0  # what a kill -9 may lose
SHARD_LABELS = 256

Sizes = tuple[tuple[int, int], ...]
"""Ranges of N, each as likely as the others, log-uniform within: ((50, 1000), (100, 500)) puts weight on the middle."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """A sample with a near-optimal solution.

    tour: int64; TSP: a permutation from node 0 on; CVRP: routes separated by the depot, 0 first and last.
    cost: its unrounded Euclidean length in the sample's coordinates.
    """

    sample: Sample
    tour: np.ndarray
    cost: float

    @property
    def routes(self) -> tuple[tuple[int, ...], ...]:
        """Routes as node indices, without the depot."""
        if self.sample.demand is None:
            return (tuple(self.tour.tolist()),)
        cuts = np.flatnonzero(self.tour == 0)
        return tuple(tuple(self.tour[a + 1 : b].tolist()) for a, b in pairwise(cuts))


def label(sample: Sample, routes: Sequence[Sequence[int]]) -> Labelled:
    """Sample and feasible routes (without depot) -> Labelled, in one canonical order and direction; else ValueError."""
    visited = np.sort(np.concatenate([np.asarray(route, dtype=np.int64) for route in routes]))
    first = 0 if sample.demand is None else 1
    if not np.array_equal(visited, np.arange(first, sample.size)):
        raise ValueError("the routes do not visit every node once")
    if sample.demand is None:
        tour = np.asarray(routes[0], dtype=np.int64)
        tour = np.roll(tour, -int(np.flatnonzero(tour == 0)[0]))
        if len(tour) > 2 and tour[1] > tour[-1]:
            tour = np.roll(tour[::-1], 1)
    else:
        for route in routes:
            load = int(sample.demand[list(route)].sum())
            if load > (sample.capacity or 0):
                raise ValueError(f"a route carries {load}, more than the capacity {sample.capacity}")
        forward = sorted(list(route) if route[0] <= route[-1] else list(route)[::-1] for route in routes if len(route))
        tour = np.array([0, *(node for route in forward for node in (*route, 0))], dtype=np.int64)
    return Labelled(sample, tour, tour_cost(sample.coords, tour))


def as_task(sample: Sample) -> Task:
    """The sample as a policy sees it."""
    return Task(normalise(sample.coords), sample.demand, sample.capacity)


def tour_cost(coords: np.ndarray, tour: np.ndarray) -> float:
    """Unrounded length of the closed walk over coords[tour]."""
    steps = coords[tour] - coords[np.roll(tour, -1)]
    return float(np.hypot(steps[:, 0], steps[:, 1]).sum())


def _solver(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"labels need {name}, which is not installed: pip install 'elgo[train]'") from error


# ---- TSP ------------------------------------------------------------------------------------------------------------


def tsp_seconds(n: int) -> float:
    """Seconds for fast_tsp: 15 ms at N=100, 0.17 s at N=500, 0.5 s at N=1000.

    They leave about 0.1 % up to N=500 and 0.5 % at N=1000 (measured). Uniform points need a third of the time; it is
    clusters and lattices that need the rest.
    """
    return max(0.006, 0.015 * (n / 100) ** 1.5)


def label_tsp(sample: Sample, seconds: float | None = None) -> Labelled:
    """Near-optimal tour by fast_tsp (an iterated Lin-Kernighan) in that wall-clock time."""
    n = sample.size
    if n <= 3:
        return label(sample, [range(n)])
    seconds = tsp_seconds(n) if seconds is None else seconds
    steps = sample.coords[:, None] - sample.coords[None]
    distance = np.hypot(steps[..., 0], steps[..., 1])
    # fast_tsp takes 16-bit distances: spending all of the range keeps the rounding of short edges small.
    matrix = np.rint(distance * (65_535 / max(float(distance.max()), 1e-300))).astype(np.uint16)
    # Alpha-nearness finds the long edges between clusters that the nearest neighbours miss, and now and then the
    # other way round: a generous limit pays for both.
    candidates = ("alpha", "nearest") if seconds >= 1 else ("alpha",)
    tours = [_fast_tsp(matrix, seconds / len(candidates), kind) for kind in candidates]
    return min((label(sample, [tour]) for tour in tours), key=lambda found: found.cost)


def _fast_tsp(matrix: np.ndarray, seconds: float, candidates: str) -> list[int]:
    find_tour = _solver("fast_tsp").find_tour
    for _ in range(3):
        started = time.monotonic()
        tour = find_tour(matrix, seconds, candidates=candidates)
        if time.monotonic() - started < 1.5 * seconds + 0.5:
            break  # otherwise the process was stopped meanwhile, and the limit passed without search
    return tour


# ---- CVRP -----------------------------------------------------------------------------------------------------------


def fleet(demand: np.ndarray, capacity: int) -> int:
    """Vehicles offered to the solvers: HGS's rule of thumb, never fewer than first-fit decreasing needs."""
    return max(math.ceil(1.3 * int(demand.sum()) / capacity) + 3, len(first_fit(demand, capacity)) + 1)


def _hgs(coords: np.ndarray, demand: np.ndarray, capacity: int, seconds: float, seed: int) -> list[list[int]] | None:
    """Routes by HGS (its limit counts CPU time), or None if it found nothing feasible."""
    hygese = _solver("hygese")
    data = {
        "x_coordinates": coords[:, 0],
        "y_coordinates": coords[:, 1],
        "demands": demand,
        "vehicle_capacity": capacity,
        "num_vehicles": fleet(demand, capacity),
    }
    parameters = hygese.AlgorithmParameters(timeLimit=seconds, seed=seed)
    try:
        return hygese.Solver(parameters=parameters, verbose=False).solve_cvrp(data, rounding=True).routes
    except TypeError:  # its null pointer: no feasible solution
        return None


@dataclass
class _CpuSeconds:
    """PyVRP stopping criterion on CPU time: a label is as good on a busy or paused machine as on an idle one."""

    seconds: float
    started: float | None = None

    def __call__(self, best_cost: int) -> bool:
        if self.started is None:
            self.started = time.process_time()
        return time.process_time() - self.started > self.seconds


def _pyvrp(coords: np.ndarray, demand: np.ndarray, capacity: int, seconds: float, seed: int) -> list[list[int]] | None:
    """Routes by PyVRP, or None if it found nothing feasible."""
    pyvrp = _solver("pyvrp")
    steps = coords[:, None] - coords[None]
    distance = np.rint(np.hypot(steps[..., 0], steps[..., 1])).astype(np.int64)
    data = pyvrp.ProblemData(
        locations=[pyvrp.Location(float(x), float(y)) for x, y in coords],
        clients=[pyvrp.Client(location=i, delivery=[int(demand[i])]) for i in range(1, len(coords))],
        depots=[pyvrp.Depot(location=0)],
        vehicle_types=[pyvrp.VehicleType(num_available=fleet(demand, capacity), capacity=[capacity])],
        distance_matrices=[distance],
        duration_matrices=[np.zeros_like(distance)],
    )
    result = pyvrp.solve(data, stop=_CpuSeconds(seconds), seed=seed, collect_stats=False, display=False)
    if not result.is_feasible():
        return None
    return [[stop.idx + 1 for stop in route if stop.is_client()] for route in result.best.routes()]


def label_cvrp(sample: Sample, seconds: float | None = None, seed: int = 0) -> Labelled:
    """Near-optimal routes by HGS (N <= 300) or PyVRP (larger) in that CPU time, repeated longer if not yet feasible;
    without a time by our own search: 0.2 s and 0.8 % at N=100, 2 s and better than PyVRP's at N=500 (measured).
    """
    if sample.demand is None or sample.capacity is None:
        raise ValueError("sample has no demand and capacity")
    if sample.customers == 1:
        return label(sample, [[1]])
    if seconds is None:
        return label(sample, _annealed(sample, seed))
    corner = sample.coords.min(axis=0)
    extent = max(float(np.ptp(sample.coords, axis=0).max()), 1e-300)
    coords = (sample.coords - corner) * (EXTENT / extent)
    solve = _hgs if sample.customers <= HGS_LIMIT else _pyvrp
    for attempt in range(5):
        routes = solve(coords, sample.demand, sample.capacity, seconds * 2**attempt, seed % 2**31 + attempt)
        if routes is not None:
            return label(sample, routes)
    raise RuntimeError(f"no feasible solution for {sample.customers} customers in {seconds * 31:.1f} s")


def _annealed(sample: Sample, seed: int) -> list[list[int]]:
    """Routes by savings and ruin and recreate; the same every time."""
    instance = as_instance(sample)
    giant_tour = to_giant_tour(savings(instance))
    return to_routes(anneal(prepare(instance), giant_tour, ITERATIONS * sample.customers, seed))


# ---- Streams: instance i depends on (stream, i) alone ---------------------------------------------------------------


def parse_sizes(text: str) -> Sizes:
    """Sizes from text: "100,200" are single sizes, "50-1000,100-500" ranges."""
    ranges = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not (low.isdigit() and (high or low).isdigit()):
            raise ValueError(f"sizes is {text!r}; write 100,200 or 50-1000")
        ranges.append((int(low), int(high or low)))
    return tuple(ranges)


@dataclass(frozen=True)
class Stream:
    """An endless, indexable sequence of labelled instances.

    sizes: see Sizes. group: that many consecutive instances share N, which makes batches of equal size.
    seconds: per label; None takes the default for N. validation: a part of the seed, keeps the two kinds apart.
    """

    problem: str
    sizes: Sizes
    distribution: str = "mixed"
    seed: int = 0
    group: int = 1
    seconds: float | None = None
    validation: bool = False

    def __post_init__(self) -> None:
        if self.problem not in ("tsp", "cvrp"):
            raise ValueError(f"problem is {self.problem!r}, not tsp or cvrp")
        if not self.sizes or any(not 1 <= low <= high for low, high in self.sizes):
            raise ValueError(f"sizes is {self.sizes}; every range needs 1 <= low <= high")
        if self.group < 1:
            raise ValueError(f"group is {self.group}, less than 1")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}, less than 0")

    def _rng(self, purpose: int, index: int) -> np.random.Generator:
        # Always four words: SeedSequence pads with zeros, so lists of different lengths could coincide.
        return np.random.default_rng([int(self.validation), self.seed, purpose, index])

    def size(self, index: int) -> int:
        """N of instance index."""
        rng = self._rng(0, index // self.group)
        low, high = self.sizes[int(rng.integers(len(self.sizes)))]
        # Log-uniform over low..high, each integer k standing for [k, k + 1).
        return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))) if low < high else low)

    def sample(self, index: int) -> Sample:
        """Instance index, without solving it."""
        return generate(self._rng(1, index), self.problem, self.size(index), self.distribution)

    def labelled(self, index: int) -> Labelled:
        """Instance index with its solution."""
        sample = self.sample(index)
        if self.problem == "tsp":
            return label_tsp(sample, self.seconds)
        return label_cvrp(sample, self.seconds, index)


# ---- Stores ---------------------------------------------------------------------------------------------------------


class LabelStore:
    """A folder of shards NNNNNNNN.npz, named by the number of their first label; append-only, one writer.

    A shard appears under its name only when it is complete, so readers may come at any time and a killed writer leaves
    at most a hidden temporary file that nobody reads.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def _shards(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.npz") if path.stem.isdigit())

    def __len__(self) -> int:
        shards = self._shards()
        if not shards:
            return 0
        with np.load(shards[-1]) as arrays:
            return int(shards[-1].stem) + len(arrays["cost"])

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
                raise ValueError(f"{final} exists: another process writes to this store")

    def load(self, start: int = 0) -> list[Labelled]:
        """Labels start, start + 1, ... in the order they were added."""
        shards = self._shards()
        firsts = [int(path.stem) for path in shards]
        wanted = [k for k in range(len(shards)) if k + 1 == len(shards) or firsts[k + 1] > start]
        found = [(firsts[k] + i, x) for k in wanted for i, x in enumerate(_read_shard(shards[k]))]
        return [x for number, x in found if number >= start]


def _read_shard(path: Path) -> list[Labelled]:
    with np.load(path) as arrays:
        a = {name: arrays[name] for name in arrays.files}
    nodes = np.concatenate([[0], np.cumsum(a["size"], dtype=np.int64)])
    visits = np.concatenate([[0], np.cumsum(a["tour_size"], dtype=np.int64)])
    labels = []
    for k, capacity in enumerate(a["capacity"].tolist()):
        node, visit = slice(nodes[k], nodes[k + 1]), slice(visits[k], visits[k + 1])
        demand = a["demand"][node].astype(np.int64) if capacity else None
        sample = Sample(a["coords"][node], demand, capacity or None)
        labels.append(Labelled(sample, a["tour"][visit].astype(np.int64), float(a["cost"][k])))
    return labels


def read_xml100(path: Path | str) -> list[Labelled]:
    """The labelled XML100 set (.npz) -> its instances with their optimal routes, in the file's order.

    The routes are optimal for rounded distances; cost is their unrounded length, as everywhere here.
    """
    with np.load(path) as arrays:
        coords, demand = arrays["coords"].astype(np.float64), arrays["demand"].astype(np.int64)
        capacity, tours = arrays["capacity"].tolist(), arrays["giant_tour"].astype(np.int64)
    labels = []
    for k, tour in enumerate(tours):
        cuts = np.flatnonzero(tour == 0)
        routes = [tour[a + 1 : b] for a, b in pairwise(cuts) if b > a + 1]
        labels.append(label(Sample(coords[k], demand[k], capacity[k]), routes))
    return labels


# ---- Production -----------------------------------------------------------------------------------------------------


class _Stop:
    """Turns SIGTERM and SIGINT into a flag while it is entered, so that what is finished can be written first."""

    def __enter__(self) -> _Stop:
        self.asked = False
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    """In workers: only the parent decides when to stop."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_order(stream: Stream, start: int, workers: int) -> Iterator[Labelled]:
    """Labels start, start + 1, ... in order, by that many processes (one: this one)."""
    if workers == 1:
        index = start
        while True:
            yield stream.labelled(index)
            index += 1
    with ProcessPoolExecutor(workers, get_context("spawn"), _ignore_signals) as pool:
        ahead: deque[Future[Labelled]] = deque()
        try:
            for index in range(start, 2**62):
                ahead.append(pool.submit(stream.labelled, index))
                if len(ahead) > 4 * workers:
                    yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def _claim(store: LabelStore, stream: Stream) -> None:
    """Write down which stream a store holds, or check that it is this one: resuming must not mix two.

    What an older version did not write down has its default.
    """
    store.folder.mkdir(parents=True, exist_ok=True)
    path, text = store.folder / "stream.json", json.dumps(asdict(stream))
    if not path.exists():
        atomic_write(path, text)
    elif {field.name: field.default for field in fields(Stream)} | json.loads(path.read_text()) != json.loads(text):
        raise ValueError(f"{store.folder} holds the stream {path.read_text()}, not {text}")


def make_labels(
    store: LabelStore,
    stream: Stream,
    count: int | None = None,
    minutes: float | None = None,
    workers: int = 1,
    report: Callable[[str], None] = print,
) -> int:
    """Fill the store with the stream up to count labels or for that many minutes; returns how many it holds now.

    Continues where the store ends. SIGTERM and SIGINT stop it after the label in hand and lose nothing; kill -9 loses
    at most the last minute. SIGSTOP and SIGCONT pause it: CVRP limits count CPU time.
    """
    _claim(store, stream)
    started = flushed = time.monotonic()
    held = first = len(store)
    fresh: list[Labelled] = []
    with _Stop() as stop:
        source = _in_order(stream, held, workers)
        while not stop.asked and (count is None or held + len(fresh) < count):
            if minutes is not None and time.monotonic() - started > 60 * minutes:
                break
            fresh.append(next(source))
            if len(fresh) >= SHARD_LABELS or time.monotonic() - flushed > FLUSH_SECONDS:
                store.add(fresh)
                held += len(fresh)
                fresh, flushed = [], time.monotonic()
                pace = (held - first) / (flushed - started) * 60
                report(f"{store.folder.name}: {held} labels, {pace:.1f} per minute")
        store.add(fresh)  # before the pool winds down, in case nobody waits for it
        held += len(fresh)
        source.close()  # type: ignore[attr-defined]
    report(f"{store.folder.name}: {held} labels, {'stopped' if stop.asked else 'done'}")
    return held


def _main() -> None:
    import typer

    app = typer.Typer(add_completion=False)

    @app.callback()
    def about() -> None:
        """Near-optimal solutions to imitate, kept in stores on disk."""

    def line(text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, flush=True)

    @app.command()
    def make(
        store: Path,
        problem: str = typer.Option(..., help="tsp or cvrp"),
        sizes: str = typer.Option("50-1000,100-500", help="N: 100,200 or ranges, log-uniform within"),
        distribution: str = typer.Option("mixed", help="see elgo.problem.generate"),
        count: int | None = typer.Option(None, help="stop when the store holds this many"),
        minutes: float | None = typer.Option(None, help="stop after this long"),
        seed: int = typer.Option(0),
        workers: int = typer.Option(1, min=1),
    ) -> None:
        """Fill STORE with labelled instances; continues where it ends, until the limits or SIGTERM."""
        stream = Stream(problem, parse_sizes(sizes), distribution, seed)
        make_labels(LabelStore(store), stream, count, minutes, workers, line)

    try:
        app()
    except (ValueError, ImportError, RuntimeError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    _main()
