"""Improve TSP tours: iterated local search on one thread or several, and fast_tsp where it is applicable."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from elgo.problem.instance import Instance
from elgo.search import annealing
from elgo.search.annealing import time_slices
from elgo.search.data import SearchData
from elgo.search.distances import integer_distances
from elgo.search.giant_tour import NodeArray, to_giant_tour
from elgo.search.iterated_local_search import iterated_local_search
from elgo.search.rng import random_states

SLICE = 0.1  # seconds between two exchanges of the threads, at least
SLICE_PER_NODE = 5e-5  # seconds per node if that is longer, because each slice begins with a pass over all nodes
FEWEST = 50  # nodes of the path that a thread works on
FAST_TSP_NODES = 3000  # beyond, its distance matrix takes too long, and our own search is as good
FAST_TSP_LARGEST = 65_535  # distance that fast_tsp accepts

OnTour = Callable[[NodeArray], None]


def improve(data: SearchData, tour: Sequence[int], until: float, threads: int, seed: int, on_better: OnTour) -> None:
    """Improve a tour until the given value of time.perf_counter(), and pass each better one to `on_better`."""
    rng = np.random.default_rng(seed)
    states = random_states(seed, threads)
    best = np.array(tour, np.int32)
    with ThreadPoolExecutor(threads) as pool:
        for count, _ in time_slices(until, max(SLICE, SLICE_PER_NODE * len(best))):
            # Each thread gets a path. They begin at a random node, so that the edges between them change.
            paths = np.array_split(np.roll(best, rng.integers(len(best))), min(threads, -(-len(best) // FEWEST)))
            jobs = [
                pool.submit(iterated_local_search, data.arrays, path, count, state)
                for path, state in zip(paths, states, strict=False)
            ]
            paths, gains = zip(*(job.result() for job in jobs), strict=True)
            best = np.concatenate(paths)
            if sum(gains) > 0:
                on_better(best)


def improve_asymmetric(data: SearchData, tour: Sequence[int], until: float, seed: int, on_better: OnTour) -> None:
    """Improve the tour of an asymmetric TSP as a CVRP of one route from node 0, since no SISR move reverses it."""
    begin = list(tour).index(0)
    route = to_giant_tour([[*tour[begin + 1 :], *tour[:begin]]])
    annealing.improve(data, route, until, 1, seed, lambda better: on_better(np.roll(better, 1)), vehicles=1)


def is_symmetric(instance: Instance) -> bool:
    """True if all distances are the same in both directions."""
    return instance.matrix is None or bool((instance.matrix == instance.matrix.T).all())


def takes_fast_tsp(instance: Instance) -> bool:
    """True if fast_tsp can solve the instance: symmetric, and not too large."""
    return instance.size <= FAST_TSP_NODES and is_symmetric(instance)


def fast_tsp_tour(
    instance: Instance, until: float, threads: int, candidates: str = "auto", stop_when_converged: bool = True
) -> list[int]:
    """Return the tour of fast_tsp, which ends at `until` or, if told to, when it has converged."""
    import fast_tsp

    matrix = integer_distances(instance, FAST_TSP_LARGEST, FAST_TSP_LARGEST).astype(np.uint16)
    left = max(0.001, until - time.perf_counter())
    return fast_tsp.find_tour(matrix, left, threads, candidates, stop_when_converged)  # type: ignore[arg-type]
