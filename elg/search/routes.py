"""Improving the routes of a CVRP: simulated annealing by ruin and recreate, on as many threads as there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from elg.search.chance import Seed, states
from elg.search.ground import Ground, NodeArray
from elg.search.paced import paced
from elg.search.ruin import ruin_and_recreate

HOT, COLD = 0.3, 0.01  # the temperature at the beginning and at the end, in mean edges of the routes given
STAGES = 100  # temperatures of an annealing with a fixed number of iterations
SLICE = 0.1  # seconds between two exchanges of the threads

OnWalk = Callable[[NodeArray], None]


class Load(NamedTuple):
    """What a route may carry, in whole units, and how many routes there may be."""

    demand: NDArray[np.int64]
    capacity: int
    vehicles: int


def to_walk(routes: Sequence[Sequence[int]]) -> NodeArray:
    """Routes one after the other, with a 0 behind each."""
    return np.array([node for route in routes for node in (*route, 0)], dtype=np.int32)


def to_routes(walk: NodeArray) -> list[list[int]]:
    return [part[:-1].tolist() for part in np.split(walk, np.flatnonzero(walk == 0)[:-1] + 1)]


def mean_edge(ground: Ground, walk: NodeArray) -> float:
    return float(ground.instance.distances(np.roll(walk, 1), walk).mean())


def anneal(ground: Ground, load: Load, walk: NodeArray, iterations: int, seed: int) -> NodeArray:
    """The best walk of so many iterations, on this thread: the same every time."""
    state = states(seed, 1)[0]
    edge = mean_edge(ground, walk)
    best, change, lowest = walk, 0.0, 0.0
    for stage in range(STAGES):
        count = iterations * (stage + 1) // STAGES - iterations * stage // STAGES
        temperature = _temperature(edge, stage / (STAGES - 1))
        walk, delta, found, gain = _slice(ground, load, walk, count, temperature, state)
        if change + gain < lowest:
            best, lowest = found, change + gain
        change += delta
    return best


def improve(
    ground: Ground, load: Load, walk: NodeArray, until: float, threads: int, seed: int, on_better: OnWalk
) -> None:
    """Tell of better and better walks until that moment of time.perf_counter(), found by so many threads."""
    best = walk
    for found in annealing(ground, load, walk, until, threads, seed):
        if found is not best:
            best = found
            on_better(best)


def annealing(
    ground: Ground, load: Load, walk: NodeArray, until: float, threads: int, seed: int, hot: float = HOT
) -> Iterator[NodeArray]:
    """The best walk so far, after every slice until that moment of time.perf_counter()."""
    rng = np.random.default_rng(seed)
    chances = states(seed, threads)
    edge = mean_edge(ground, walk)
    best, change, lowest = walk, 0.0, 0.0
    with ThreadPoolExecutor(threads) as pool:
        for count, done in paced(until, SLICE):
            temperature = _temperature(edge, done, hot)
            walk, delta, found, gain = _together(pool, ground, load, walk, count, temperature, chances, rng)
            if change + gain < lowest - 1e-9:
                best, lowest = found, change + gain
            change += delta
            yield best


def _temperature(edge: float, done: float, hot: float = HOT) -> float:
    return edge * hot * (COLD / hot) ** done


def _slice(
    ground: Ground, load: Load, walk: NodeArray, count: int, temperature: float, state: Seed
) -> tuple[NodeArray, float, NodeArray, float]:
    return ruin_and_recreate(ground.rule, ground.data, ground.near, *load, walk, count, temperature, state)


def _together(
    pool: Executor,
    ground: Ground,
    load: Load,
    walk: NodeArray,
    count: int,
    temperature: float,
    chances: Sequence[Seed],
    rng: Generator,
) -> tuple[NodeArray, float, NodeArray, float]:
    """A slice on each thread, each with its own part of the routes."""
    parts = split(ground, walk, len(chances), rng)
    spare = load.vehicles - int((walk == 0).sum())
    jobs = []
    for part, state in zip(parts, chances, strict=False):
        most = int((part == 0).sum()) + max(0, spare) // len(parts)
        jobs.append(pool.submit(_slice, ground, load._replace(vehicles=most), part, count, temperature, state))
    results = [job.result() for job in jobs]
    last, changes, best, gains = zip(*results, strict=True)
    return np.concatenate(last), sum(changes), np.concatenate(best), sum(gains)


def split(ground: Ground, walk: NodeArray, count: int, rng: Generator) -> list[NodeArray]:
    """Cut the routes into parts with about equally many customers, each a sector around the depot.

    Where the first one begins is random, so that every two neighbouring routes are together now and then.
    """
    ends = np.flatnonzero(walk == 0)
    if count == 1 or len(ends) < 2 * count:
        return [walk]
    plane = ground.instance.plane()
    begins = np.append(0, ends[:-1] + 1)
    sizes = ends - begins
    centres = np.add.reduceat(plane[walk] - plane[0], begins) / sizes[:, None]  # the depot adds nothing
    angle = (np.arctan2(centres[:, 1], centres[:, 0]) + rng.uniform(0, 2 * np.pi)) % (2 * np.pi)
    order = np.argsort(angle)
    behind = np.cumsum(sizes[order])
    part = (behind - 1) * count // behind[-1]
    pieces = np.split(walk, ends[:-1] + 1)
    groups = [[pieces[k] for k in order[part == number]] for number in range(count)]
    return [np.concatenate(group) for group in groups if group]
