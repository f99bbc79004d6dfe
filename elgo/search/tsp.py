"""Improve TSP tours: iterated local search on one thread or several, and fast_tsp where it is applicable."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.random import Generator

from elgo.problem.instance import Instance, Metric
from elgo.search import annealing
from elgo.search.data import SearchData, is_symmetric, prepare
from elgo.search.distances import integer_distances
from elgo.search.ends import closed_form, one_route_form, open_tour, pad_ends
from elgo.search.giant_tour import NodeArray, to_giant_tour
from elgo.search.iterated_local_search import iterated_local_search
from elgo.search.rng import random_states
from elgo.search.slices import Slices

SLICE = 0.1  # seconds between two exchanges of the threads, at least
SLICE_PER_NODE = 5e-5  # seconds per node if that is longer, because each slice begins with a pass over all nodes
FEWEST = 50  # nodes of the path that a thread works on
FAST_TSP_NODES = 3000  # beyond, its distance matrix takes too long, and our own search is as good
FAST_TSP_LARGEST = 65_535  # distance that fast_tsp accepts

OnTour = Callable[[NodeArray], None]


def slice_seconds(instance: Instance) -> float:
    """Return the seconds between two exchanges of the threads."""
    return max(SLICE, SLICE_PER_NODE * instance.size)


def improve(data: SearchData, tour: Sequence[int], slices: Slices, threads: int, seed: int, on_better: OnTour) -> None:
    """Improve a tour in these slices, and pass each better one to `on_better`."""
    rng = np.random.default_rng(seed)
    states = random_states(seed, threads)
    best = np.array(pad_ends(data.instance, tour), np.int32)
    with ThreadPoolExecutor(threads) as pool:
        for count, _ in slices:
            paths = _split(data.instance, best, min(threads, -(-len(best) // FEWEST)), rng)
            jobs = [
                pool.submit(iterated_local_search, data.arrays, path, count, state)
                for path, state in zip(paths, states, strict=False)
            ]
            paths, gains = zip(*(job.result() for job in jobs), strict=True)
            best = np.concatenate(paths)
            if sum(gains) > 0:
                on_better(best[best < data.instance.size])


def _split(instance: Instance, tour: NodeArray, count: int, rng: Generator) -> list[NodeArray]:
    """Return the tour as paths, one for each thread, that begin elsewhere each time: the edges between them change."""
    if not instance.open:
        return np.array_split(np.roll(tour, rng.integers(len(tour))), count)
    return np.split(tour, np.sort(rng.choice(np.arange(1, len(tour)), count - 1, replace=False)))


def improve_asymmetric(data: SearchData, tour: Sequence[int], slices: Slices, seed: int, on_better: OnTour) -> None:
    """Improve the tour of an asymmetric TSP as a CVRP of one route, since no SISR move reverses it."""
    form = one_route_form(data.instance)
    matrix = Instance("one route", np.zeros((len(form.matrix), 2)), Metric.EXPLICIT, matrix=form.matrix)
    route = to_giant_tour([form.route_of(tour)])

    def found(giant_tour: NodeArray) -> None:
        on_better(np.array(form.tour_of(giant_tour[:-1]), np.int32))

    annealing.improve(prepare(matrix), route, slices, 1, seed, found, vehicles=1)


def takes_fast_tsp(instance: Instance) -> bool:
    """True if fast_tsp can solve the instance: symmetric, and not too large."""
    return instance.size <= FAST_TSP_NODES and is_symmetric(instance)


def fast_tsp_tour(
    instance: Instance, until: float, threads: int, candidates: str = "auto", stop_when_converged: bool = True
) -> list[int]:
    """Return the tour of fast_tsp, which ends at `until` or, if told to, when it has converged."""
    import fast_tsp

    closed = closed_form(instance) if instance.open else instance
    matrix = integer_distances(closed, FAST_TSP_LARGEST, FAST_TSP_LARGEST).astype(np.uint16)
    left = max(0.001, until - time.perf_counter())
    tour = fast_tsp.find_tour(matrix, left, threads, candidates, stop_when_converged)  # type: ignore[arg-type]
    return open_tour(instance, tour) if instance.open else tour
