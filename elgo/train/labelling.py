"""Near-optimal solutions of generated instances: which solver makes them, and how long it searches.

TSP labels come from fast_tsp; CVRP labels from our own search or, given a time, from HGS or PyVRP, which belong to the
extra `elgo[train]`. Searches with a time limit nearly always find the same solution again, but need not.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from elgo.model.config import check_at_least, check_choice
from elgo.problem.distances import Metric
from elgo.problem.errors import ElgoError
from elgo.problem.generate import as_instance, generate
from elgo.problem.instance import Instance
from elgo.problem.task import PROBLEMS, Task
from elgo.search.annealing import anneal
from elgo.search.data import prepare
from elgo.search.giant_tour import to_giant_tour, to_routes
from elgo.search.savings import savings
from elgo.solve import external
from elgo.solve.external import Budget

HGS_LIMIT = 300  # customers; beyond, PyVRP is better than HGS at these time limits
ITERATIONS = 200  # of our own search per customer
ENOUGH_CPU = 0.8  # of the seconds of a TSP label
EXTENT = 10_000  # integer units across a CVRP: rounding an edge costs less than 0.01 % of a usual one


@dataclass(frozen=True, eq=False)
class Labelled:
    """A sample with a near-optimal solution.

    tour: int64, from node 0; in CVRP a giant tour, with 0 first, between the routes and last.
    cost: its unrounded Euclidean length in the sample's coordinates.
    """

    sample: Task
    tour: np.ndarray
    cost: float

    @property
    def routes(self) -> tuple[tuple[int, ...], ...]:
        """The routes as node indices, without the depot."""
        if self.sample.demand is None:
            return (tuple(self.tour.tolist()),)
        cuts = np.flatnonzero(self.tour == 0)
        return tuple(tuple(self.tour[a + 1 : b].tolist()) for a, b in pairwise(cuts))


def label(sample: Task, routes: Sequence[Sequence[int]]) -> Labelled:
    """Return the sample with routes (without the depot) in a canonical order; ElgoError if they are infeasible."""
    visited = np.sort(np.concatenate([np.asarray(route, dtype=np.int64) for route in routes]))
    first = 0 if sample.demand is None else 1
    if not np.array_equal(visited, np.arange(first, sample.size)):
        raise ElgoError("the routes do not visit every node once")
    if sample.demand is None:
        tour = np.asarray(routes[0], dtype=np.int64)
        tour = np.roll(tour, -int(np.flatnonzero(tour == 0)[0]))
        if len(tour) > 2 and tour[1] > tour[-1]:
            tour = np.roll(tour[::-1], 1)
    else:
        for route in routes:
            load = int(sample.demand[list(route)].sum())
            if load > (sample.capacity or 0):
                raise ElgoError(f"a route carries {load}, more than the capacity {sample.capacity}")
        forward = sorted(list(route) if route[0] <= route[-1] else list(route)[::-1] for route in routes if len(route))
        tour = np.array([0, *(node for route in forward for node in (*route, 0))], dtype=np.int64)
    return Labelled(sample, tour, tour_cost(sample.coords, tour))


def tour_cost(coords: np.ndarray, tour: np.ndarray) -> float:
    """Return the unrounded length of the closed tour."""
    steps = coords[tour] - coords[np.roll(tour, -1)]
    return float(np.hypot(steps[:, 0], steps[:, 1]).sum())


def cvrp_solver(customers: int) -> str:
    """Return the package that solves a CVRP of this size within a given time."""
    return "hygese" if customers <= HGS_LIMIT else "pyvrp"


def require(module: str) -> None:
    """Raise ImportError that says how to install it if a package for labels is missing."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"labels need {module}, which is not installed: pip install 'elgo[train]'") from error


def tsp_seconds(n: int) -> float:
    """Return the seconds for fast_tsp: 15 ms at N=100, 0.17 s at N=500, 0.5 s at N=1000.

    They leave about 0.1 % up to N=500 and 0.5 % at N=1000 (measured). Uniform points need a third of the time; clusters
    and lattices need all of it.
    """
    return max(0.006, 0.015 * (n / 100) ** 1.5)


def label_tsp(sample: Task, seconds: float | None = None) -> Labelled:
    """Return the sample with a near-optimal tour by fast_tsp, found in about that much CPU time."""
    if sample.size <= 3:
        return label(sample, [range(sample.size)])
    require("fast_tsp")
    seconds = tsp_seconds(sample.size) if seconds is None else seconds
    # Alpha-nearness finds the long edges between clusters that the nearest neighbours miss, and now and then the
    # other way round: a generous limit pays for both.
    candidates = ("alpha", "nearest") if seconds >= 1 else ("alpha",)
    found = [_tsp_routes(as_instance(sample), seconds / len(candidates), kind) for kind in candidates]
    return min((label(sample, routes) for routes in found), key=lambda labelled: labelled.cost)


def _tsp_routes(instance: Instance, seconds: float, candidates: str) -> external.Routes:
    """Return fast_tsp's tour. It counts wall-clock time, which on a busy machine passes without search: then again."""
    limit = seconds
    for _ in range(5):
        begin = time.process_time()
        routes = external.fast_tsp(instance, Budget(limit), candidates)
        used = time.process_time() - begin
        if used >= ENOUGH_CPU * seconds:
            break
        limit *= min(4.0, max(1.5, seconds / max(used, 1e-9)))
    assert routes is not None
    return routes


def label_cvrp(sample: Task, seconds: float | None = None, seed: int = 0) -> Labelled:
    """Return the sample with near-optimal routes by HGS (N <= 300) or PyVRP in that CPU time, doubled until feasible.

    Without a time by our own search: 0.2 s and 0.8 % at N=100, 2 s and better than PyVRP's at N=500 (measured).
    """
    if sample.demand is None or sample.capacity is None:
        raise ElgoError("sample has no demand and capacity")
    if sample.customers == 1:
        return label(sample, [[1]])
    if seconds is None:
        return label(sample, _search(sample, seed))
    module = cvrp_solver(sample.customers)
    require(module)
    solve = external.hgs if module == "hygese" else external.pyvrp
    extent = max(float(np.ptp(sample.coords, axis=0).max()), 1e-300)
    coords = (sample.coords - sample.coords.min(axis=0)) * (EXTENT / extent)
    instance = Instance("label", coords, Metric.EUC_2D, sample.demand.astype(np.float64), sample.capacity)
    for attempt in range(5):
        budget = Budget(seconds * 2**attempt, seed=seed % 2**31 + attempt, clock=time.process_time)
        routes = solve(instance, budget)
        if routes is not None:
            return label(sample, routes)
    raise RuntimeError(f"no feasible solution for {sample.customers} customers in {seconds * 31:.1f} s")


def _search(sample: Task, seed: int) -> list[list[int]]:
    """Return the routes of savings and SISR, which are the same every time."""
    instance = as_instance(sample)
    giant_tour = to_giant_tour(savings(instance))
    return to_routes(anneal(prepare(instance), giant_tour, ITERATIONS * sample.customers, seed))


Sizes = tuple[tuple[int, int], ...]
"""Ranges of N, equally likely, log-uniform within: ((50, 1000), (100, 500)) puts weight on the middle."""


def parse_sizes(text: str) -> Sizes:
    """Return sizes from text: "100,200" are single sizes, "50-1000,100-500" ranges."""
    ranges = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not (low.isdigit() and (high or low).isdigit()):
            raise ElgoError(f"sizes is {text!r}; write 100,200 or 50-1000")
        ranges.append((int(low), int(high or low)))
    return tuple(ranges)


@dataclass(frozen=True)
class LabelStream:
    """An endless, indexable sequence of labelled instances.

    sizes: see Sizes. group: number of consecutive instances that share N, for batches of one size.
    seconds: time per label; None: the default for N. validation: part of the seed, so that training never sees them.
    """

    problem: str
    sizes: Sizes
    distribution: str = "mixed"
    seed: int = 0
    group: int = 1
    seconds: float | None = None
    validation: bool = False

    def __post_init__(self) -> None:
        check_choice(self, problem=PROBLEMS)
        check_at_least(self, group=1, seed=0)
        if not self.sizes or any(not 1 <= low <= high for low, high in self.sizes):
            raise ElgoError(f"sizes is {self.sizes}; every range needs 1 <= low <= high")

    def _rng(self, purpose: int, index: int) -> np.random.Generator:
        # Always four words: SeedSequence pads with zeros, so lists of different lengths could coincide.
        return np.random.default_rng([int(self.validation), self.seed, purpose, index])

    def size(self, index: int) -> int:
        """Return N of an instance."""
        rng = self._rng(0, index // self.group)
        low, high = self.sizes[int(rng.integers(len(self.sizes)))]
        # Log-uniform over low..high, each integer k standing for [k, k + 1).
        return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))) if low < high else low)

    def sample(self, index: int) -> Task:
        """Return an instance without solving it."""
        return generate(self._rng(1, index), self.problem, self.size(index), self.distribution)

    def labelled(self, index: int) -> Labelled:
        """Return an instance with its solution."""
        sample = self.sample(index)
        if self.problem == "tsp":
            return label_tsp(sample, self.seconds)
        return label_cvrp(sample, self.seconds, index)
