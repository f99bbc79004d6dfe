"""Simulated annealing of CVRP routes with SISR moves, on one thread or several."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.random import Generator

from elgo.problem.instance import Instance
from elgo.search.data import SearchData
from elgo.search.giant_tour import NodeArray, count_routes, mean_edge, split_by_sector
from elgo.search.rng import RandomState, random_states
from elgo.search.sisr import SisrResult, ruin_and_recreate
from elgo.search.slices import Slices

LARGE = 400  # customers from which on all threads share one annealing
# Temperatures in units of the initial solution's mean edge
INITIAL, FINAL = 0.3, 0.01
INITIAL_SMALL = 1.0  # initial temperature below LARGE customers
INITIAL_NEAR_START = 0.1  # initial temperature if the initial solution is to be kept in reach
STAGES = 100  # temperatures of an annealing with a fixed number of iterations
SLICE = 0.1  # seconds between two exchanges of the threads


class Annealing:
    """One simulated annealing by one or more threads.

    Costs are differences from the initial solution: `change` that of the current one, `best_change` that of the best.
    """

    def __init__(
        self, data: SearchData, giant_tour: NodeArray, vehicles: int, random_states: Sequence[RandomState]
    ) -> None:
        self.data, self.vehicles, self.random_states = data, vehicles, random_states
        self.current = self.best = giant_tour
        self.change = self.best_change = 0.0

    def jobs(self, iterations: int, temperature: float, rng: Generator) -> Iterator[Callable[[], SisrResult]]:
        """Yield the iterations of one slice as a job for each thread, which gets its own sector of the routes."""
        sectors = split_by_sector(self.data.instance, self.current, len(self.random_states), rng)
        unused = max(0, self.vehicles - count_routes(self.current)) // len(sectors)
        for sector, state in zip(sectors, self.random_states, strict=False):
            vehicles = count_routes(sector) + unused
            yield partial(ruin_and_recreate, self.data.arrays, sector, vehicles, iterations, temperature, state)

    def update(self, results: Sequence[SisrResult]) -> None:
        """Replace the current solution, and the best one if it is improved, by the results of the jobs."""
        best_change = self.change + sum(result.best_change for result in results)
        if best_change < self.best_change - self.data.arrays.tolerance:
            self.best, self.best_change = np.concatenate([result.best for result in results]), best_change
        self.current = np.concatenate([result.current for result in results])
        self.change += sum(result.change for result in results)


def ignores_start(instance: Instance) -> bool:
    """True if annealing starts too hot for the initial solution to matter (unless `improve` stays near it)."""
    return instance.problem == "cvrp" and instance.customers < LARGE


def anneal(
    data: SearchData, giant_tour: NodeArray, iterations: int, seed: int, vehicles: int | None = None
) -> NodeArray:
    """Return the best giant tour of a fixed number of iterations on this thread: deterministic."""
    most = data.instance.customers if vehicles is None else vehicles
    annealing, rng = Annealing(data, giant_tour, most, random_states(seed, 1)), np.random.default_rng(seed)
    edge = mean_edge(data.instance, giant_tour)
    for stage in range(STAGES):
        count = iterations * (stage + 1) // STAGES - iterations * stage // STAGES
        temperature = _temperature(edge, INITIAL, stage / (STAGES - 1))
        annealing.update([job() for job in annealing.jobs(count, temperature, rng)])
    return annealing.best


def improve(
    data: SearchData,
    giant_tour: NodeArray,
    slices: Slices,
    threads: int,
    seed: int,
    on_better: Callable[[NodeArray], None],
    vehicles: int | None = None,
    near_start: bool = False,
) -> None:
    """Improve a giant tour in these slices, and pass each better one to `on_better`.

    In a large instance the threads share one annealing, in a small one each has its own. With `near_start` the
    initial temperature is so low that the search stays near the given solution.
    """
    most = data.instance.customers if vehicles is None else vehicles
    states, rng = random_states(seed, threads), np.random.default_rng(seed)
    edge, independent = mean_edge(data.instance, giant_tour), ignores_start(data.instance)
    initial = INITIAL_NEAR_START if near_start else INITIAL_SMALL if independent else INITIAL
    groups = [[state] for state in states] if independent else [states]
    annealings = [Annealing(data, giant_tour, most, group) for group in groups]
    best_change = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for count, elapsed in slices:
            temperature = _temperature(edge, initial, elapsed)
            futures = [[pool.submit(job) for job in each.jobs(count, temperature, rng)] for each in annealings]
            for annealing, jobs in zip(annealings, futures, strict=True):
                annealing.update([job.result() for job in jobs])
            best = min(annealings, key=lambda annealing: annealing.best_change)
            if best.best_change < best_change - data.arrays.tolerance:
                best_change = best.best_change
                on_better(best.best)


def _temperature(edge: float, initial: float, elapsed: float) -> float:
    """Return the temperature after a fraction of the time: exponential from `initial` to FINAL mean edges."""
    return edge * initial * (FINAL / initial) ** elapsed
