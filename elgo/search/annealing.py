"""Improving the routes of a CVRP: simulated annealing by ruin and recreate, on as many threads as there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from elgo.problem.instance import Instance
from elgo.search.data import Ground, NodeArray
from elgo.search.rng import Seed, states
from elgo.search.sisr import ruin_and_recreate
from elgo.search.time_slices import paced

LARGE = 400  # customers from which on threads share one annealing
HOT, COLD = 0.3, 0.01  # the temperature at the beginning and at the end, in mean edges of the routes given
HOTTER = 1.0  # at the beginning in a small instance
WARM = 0.1  # at the beginning when the routes given are worth keeping
STAGES = 100  # temperatures of an annealing with a fixed number of iterations
SLICE = 0.1  # seconds between two exchanges of the threads

OnWalk = Callable[[NodeArray], None]
Outcome = tuple[NodeArray, float, NodeArray, float]  # of ruin_and_recreate
Job = Callable[[], Outcome]


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


class Chain:
    """One annealing, by a team of threads: where it is, the best so far, and what both cost more than the beginning."""

    def __init__(self, ground: Ground, load: Load, walk: NodeArray, team: Sequence[Seed]) -> None:
        self.ground, self.load, self.team = ground, load, team
        self.walk = self.best = walk
        self.change = self.lowest = 0.0

    def jobs(self, count: int, temperature: float, rng: Generator) -> Iterator[Job]:
        """A slice of so many iterations, for each thread with its own part of the routes."""
        parts = split(self.ground, self.walk, len(self.team), rng)
        spare = max(0, self.load.vehicles - int((self.walk == 0).sum()))
        for part, state in zip(parts, self.team, strict=False):
            load = self.load._replace(vehicles=int((part == 0).sum()) + spare // len(parts))
            yield partial(_slice, self.ground, load, part, count, temperature, state)

    def take(self, results: Sequence[Outcome]) -> None:
        """What the jobs have given."""
        last, changes, best, gains = zip(*results, strict=True)
        if self.change + sum(gains) < self.lowest - 1e-9:
            self.best, self.lowest = np.concatenate(best), self.change + sum(gains)
        self.walk, self.change = np.concatenate(last), self.change + sum(changes)


def forgets_its_start(instance: Instance) -> bool:
    """Whether `improve` begins so hot, unless it is to `keep`, that it does not matter what with."""
    return instance.problem == "cvrp" and instance.customers < LARGE


def anneal(ground: Ground, load: Load, walk: NodeArray, iterations: int, seed: int) -> NodeArray:
    """The best walk of so many iterations, on this thread: the same every time."""
    chain, rng = Chain(ground, load, walk, states(seed, 1)), np.random.default_rng(seed)
    edge = mean_edge(ground, walk)
    for stage in range(STAGES):
        count = iterations * (stage + 1) // STAGES - iterations * stage // STAGES
        chain.take([job() for job in chain.jobs(count, _temperature(edge, HOT, stage / (STAGES - 1)), rng)])
    return chain.best


def improve(
    ground: Ground,
    load: Load,
    walk: NodeArray,
    until: float,
    threads: int,
    seed: int,
    on_better: OnWalk,
    keep: bool = False,
) -> None:
    """Tell of better and better walks until that moment of time.perf_counter(), found by so many threads.

    In a large instance they share one annealing, in a small one each has its own. With `keep` it stays near the walk.
    """
    chances, rng, edge = states(seed, threads), np.random.default_rng(seed), mean_edge(ground, walk)
    alone = forgets_its_start(ground.instance)
    hot = WARM if keep else HOTTER if alone else HOT
    chains = [Chain(ground, load, walk, team) for team in ([[state] for state in chances] if alone else [chances])]
    lowest = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for count, done in paced(until, SLICE):
            temperature = _temperature(edge, hot, done)
            slices = [[pool.submit(job) for job in chain.jobs(count, temperature, rng)] for chain in chains]
            for chain, jobs in zip(chains, slices, strict=True):
                chain.take([job.result() for job in jobs])
            first = min(chains, key=lambda chain: chain.lowest)
            if first.lowest < lowest - 1e-9:
                lowest = first.lowest
                on_better(first.best)


def _temperature(edge: float, hot: float, done: float) -> float:
    return edge * hot * (COLD / hot) ** done


def _slice(ground: Ground, load: Load, walk: NodeArray, count: int, temperature: float, state: Seed) -> Outcome:
    return ruin_and_recreate(ground.rule, ground.data, ground.near, *load, walk, count, temperature, state)


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
