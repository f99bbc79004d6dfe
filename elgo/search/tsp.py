"""Improving the tour of a TSP: iterated local search on as many threads as there are, fast_tsp where it can be used."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from elgo.problem.instance import Instance
from elgo.search import annealing as routes
from elgo.search.annealing import Load, to_walk
from elgo.search.data import Ground, NodeArray, whole_distances
from elgo.search.rng import states
from elgo.search.time_slices import paced
from elgo.search.tsp_kernels import kick

SLICE = 0.1  # seconds between two exchanges of the threads, at least
SLICE_PER_NODE = 5e-5  # with many nodes more, because each slice begins with a look at all of them
FEWEST = 50  # nodes in the part of a thread
FAST_TSP_NODES = 3000  # beyond, its matrix takes too long, and our own search is as good
FAST_TSP_LARGEST = 65_535  # distance

OnTour = Callable[[NodeArray], None]


def improve(ground: Ground, tour: Sequence[int], until: float, threads: int, seed: int, on_better: OnTour) -> None:
    """Tell of better and better tours until that moment of time.perf_counter(), found by so many threads."""
    rng = np.random.default_rng(seed)
    chances = states(seed, threads)
    walk = np.array(tour, np.int32)
    with ThreadPoolExecutor(threads) as pool:
        for count, _ in paced(until, max(SLICE, SLICE_PER_NODE * len(walk))):
            # Each thread has a part of the tour. Where the first begins is random: the edges between them change.
            parts = np.array_split(np.roll(walk, rng.integers(len(walk))), min(threads, -(-len(walk) // FEWEST)))
            jobs = [
                pool.submit(kick, ground.rule, ground.data, ground.near, part, count, chance)
                for part, chance in zip(parts, chances, strict=False)
            ]
            paths, gains = zip(*(job.result() for job in jobs), strict=True)
            walk = np.concatenate(paths)
            if sum(gains) > 0:
                on_better(walk)


def improve_one_way(ground: Ground, tour: Sequence[int], until: float, seed: int, on_better: OnTour) -> None:
    """The same for a tour that costs more in one direction: as one route from node 0, which no move turns round."""
    size = ground.instance.size
    begin = list(tour).index(0)
    walk = to_walk([[*tour[begin + 1 :], *tour[:begin]]])
    load = Load(np.zeros(size, np.int64), 0, 1)
    routes.improve(ground, load, walk, until, 1, seed, lambda walk: on_better(np.roll(walk, 1)))


def is_symmetric(instance: Instance) -> bool:
    return instance.matrix is None or bool((instance.matrix == instance.matrix.T).all())


def takes_fast_tsp(instance: Instance) -> bool:
    """Whether fast_tsp can solve the instance: not too large, and as long in both directions."""
    return instance.size <= FAST_TSP_NODES and is_symmetric(instance)


def fast_tsp_tour(instance: Instance, until: float, threads: int) -> list[int]:
    """The tour of fast_tsp, which gives one at the end of its time, or when it has found nothing better for long."""
    import fast_tsp

    whole = whole_distances(instance, FAST_TSP_LARGEST, FAST_TSP_LARGEST).astype(np.uint16)
    left = max(0.001, until - time.perf_counter())
    return fast_tsp.find_tour(whole, left, max_threads=threads, stop_when_converged=True)
