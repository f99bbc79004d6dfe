"""The classical start and the search of an instance, until the time limit. Importing this module loads the compiler."""

import time
from functools import cache

import numpy as np

from elgo.problem.instance import Instance, Metric
from elgo.search.annealing import SLICE, anneal
from elgo.search.annealing import improve as improve_routes
from elgo.search.data import SearchData, is_symmetric, prepare
from elgo.search.giant_tour import NodeArray, to_giant_tour, to_routes
from elgo.search.iterated_local_search import iterated_local_search
from elgo.search.rng import random_states
from elgo.search.savings import savings
from elgo.search.tsp import fast_tsp_tour, improve, improve_asymmetric, slice_seconds, takes_fast_tsp
from elgo.solve.deadline import DeadlineExceeded, run_with_deadline
from elgo.solve.incumbent import Incumbent
from elgo.solve.stop import MaxIterations, MaxRuntime

GRACE = 0.1  # seconds that fast_tsp may be late
START_SHARE = 0.05  # of a TSP's time for the local search that is its start
BEFORE_FAST_TSP = 0.1  # of a TSP's time for local search; fast_tsp has the rest and answers only at its end


def load_kernels(instance: Instance) -> None:
    """Load the kernels that the search of this instance needs, or compile them the first time ever."""
    jit_warm_up("tsp" if instance.problem == "tsp" and is_symmetric(instance) else "cvrp")


@cache
def jit_warm_up(problem: str) -> None:
    """Load the kernels for "tsp" or "cvrp", or compile them the first time ever, by a search of a tiny instance."""
    points = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [2, 0], [2, 1]])
    if problem == "tsp":
        data = prepare(Instance("small", points, Metric.EUC_2D))
        iterated_local_search(data.arrays, np.arange(6, dtype=np.int32), 1, random_states(0, 1)[0])
    else:
        instance = Instance("small", points, Metric.EUC_2D, demand=np.array([0, 1, 1, 1, 1, 1]), capacity=2)
        anneal(prepare(instance), to_giant_tour(savings(instance)), 1, 0)


def classical_start(data: SearchData, incumbent: Incumbent) -> None:
    """CVRP: savings, if there is time for them. TSP: local search from the best tour so far."""
    instance = incumbent.instance
    if instance.problem == "tsp":
        if not isinstance(incumbent.config.stop, MaxIterations):  # which count for the search that follows
            _improve_tour(data, incumbent, time.perf_counter() + START_SHARE * incumbent.remaining())
        return
    try:
        if savings_seconds(instance.size) > 0.5 * incumbent.remaining():
            raise DeadlineExceeded
        incumbent.offer_routes(run_with_deadline(lambda: savings(instance), incumbent.end), "savings")
    except DeadlineExceeded:
        incumbent.warnings.append("the time limit is too short for savings: the search starts from the fallback")


def savings_seconds(nodes: int) -> float:
    """Return how long savings take: about three times what they take on a core of 2024."""
    return nodes * min(2e-4, 2.5e-7 * nodes)


def search(data: SearchData, incumbent: Incumbent) -> None:
    """Improve the best solution so far until the end of the time limit, or until the search is to stop."""
    try:
        if incumbent.instance.problem == "cvrp":
            _improve_routes(data, incumbent)
        elif takes_fast_tsp(incumbent.instance) and isinstance(incumbent.config.stop, MaxRuntime | None):
            _improve_tour(data, incumbent, time.perf_counter() + BEFORE_FAST_TSP * incumbent.remaining())
            if not incumbent.stopped():
                _ask_fast_tsp(incumbent)
        else:
            _improve_tour(data, incumbent, incumbent.end)
    finally:
        incumbent.take_found()


def _improve_routes(data: SearchData, incumbent: Incumbent) -> None:
    """Annealing. A warm start that is still the best is kept near: the annealing starts at a low temperature."""
    config, start = incumbent.config, to_giant_tour(incumbent.best.routes)
    near_start = incumbent.history[-1].source == "warm start"

    def found(giant_tour: NodeArray) -> None:
        incumbent.offer_found(lambda: to_routes(giant_tour))

    slices = incumbent.slices(incumbent.end, SLICE)
    improve_routes(data, start, slices, config.workers, config.seed, found, config.vehicles, near_start)


def _improve_tour(data: SearchData, incumbent: Incumbent, until: float) -> None:
    """Iterated local search."""
    config, tour = incumbent.config, incumbent.best.routes[0]

    def found(tour: NodeArray) -> None:
        incumbent.offer_found(lambda: [tour.tolist()])

    if is_symmetric(incumbent.instance):
        slices = incumbent.slices(until, slice_seconds(incumbent.instance))
        improve(data, tour, slices, config.workers, config.seed, found)
    else:
        improve_asymmetric(data, tour, incumbent.slices(until, SLICE), config.seed, found)
    incumbent.take_found()


def _ask_fast_tsp(incumbent: Incumbent) -> None:
    """Offer the tour of fast_tsp, unless it comes too late."""
    instance, until, workers = incumbent.instance, incumbent.end, incumbent.config.workers
    try:
        tour = run_with_deadline(lambda: fast_tsp_tour(instance, until, workers), until + GRACE)
        incumbent.offer_routes([tour], "fast_tsp")
    except DeadlineExceeded:
        incumbent.warnings.append("fast_tsp was not ready in time: nine tenths of the time limit were lost")
