"""Improving the routes of a small CVRP: a population of plans, most of them the offspring of two others.

Hybrid genetic search after Vidal (2022), begun with annealed plans. All threads breed from one population. It has two
halves: plans whose loads are within the capacity, and plans that are too full. What a unit too much costs is such that
a fifth of the offspring is within the capacity. Who survives is a matter of cost and of being different.
"""

from __future__ import annotations

import math
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from random import Random
from threading import Lock
from typing import NamedTuple

import numpy as np

from elg.instance import Instance
from elg.search.chance import Seed, states
from elg.search.ground import FloatArray, Ground, NodeArray
from elg.search.moves import descend
from elg.search.offspring import breed, broken_pairs, cut, describe, unfitness
from elg.search.routes import COLD, Load, OnWalk, annealing, mean_edge
from elg.search.ruin import ruin_and_recreate
from elg.search.tours import is_symmetric

LARGEST = 400  # customers; beyond, annealing alone is better
LEAST, MORE = 25, 40  # plans of a half that survive, and how many more there may be before the others have to go
ANNEALED = 0.5  # of the time is for annealing, before the first offspring
ANNEALING = 0.005  # seconds of it per customer, for one plan
HOT = 1.0  # the temperature at its beginning, in mean edges
STRANGERS = 20  # plans for each thread to begin with that are local search from a random tour
REPAIRED = 0.5  # of the offspring that is too full is made to fit
DEAR = 10.0  # times the price is what that is done with
RUINED = 0.5  # of the offspring that fits goes through some ruin and recreate
RUINS = 5  # iterations of it per customer
FITTING = 0.15, 0.25  # of the offspring when the price is right
RECENT, SOON = 50, 25  # offspring to see that by, and after how many to look again
CHEAPER, DEARER = 0.85, 1.2  # times the price, when it is not right
PRICE = 2.0  # at the beginning, in mean edges for the mean demand
SPARE = 1.3, 4  # times the routes that the demand fills, and so many more, are enough
POLL = 0.1  # seconds after which the threads are looked at


class Plan(NamedTuple):
    """A walk and what `describe` says of it."""

    walk: NodeArray
    tour: NodeArray
    links: NodeArray
    length: float
    excess: int


class Half:
    """Some plans, and the gaps between every two of them."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.gaps = np.zeros((LEAST + MORE + 1, LEAST + MORE + 1))

    def add(self, plan: Plan, price: float) -> None:
        """Add one; when they are too many, only the fittest stay."""
        last = len(self.plans)
        for k, other in enumerate(self.plans):
            self.gaps[last, k] = self.gaps[k, last] = broken_pairs(plan.links, other.links)
        self.plans.append(plan)
        if len(self.plans) > LEAST + MORE:
            while len(self.plans) > LEAST:
                self._remove(int(self.unfitness(price).argmax()))

    def _remove(self, k: int) -> None:
        """The last one takes its place."""
        last = len(self.plans) - 1
        self.gaps[k, :last] = self.gaps[:last, k] = self.gaps[last, :last]
        self.plans[k] = self.plans[last]
        self.plans.pop()

    def unfitness(self, price: float) -> FloatArray:
        cost = np.array([plan.length + price * plan.excess for plan in self.plans])
        return unfitness(cost, self.gaps)


class Population:
    """Both halves and the price. One thread at a time may use it."""

    def __init__(self, price: float) -> None:
        self.price = price
        self.halves = Half(), Half()  # those that fit, and those that are too full
        self.fits: deque[bool] = deque(maxlen=RECENT)  # of the last offspring
        self.born = 0

    def add(self, plan: Plan) -> None:
        self.halves[plan.excess > 0].add(plan, self.price)

    def learn(self, fits: bool) -> None:
        """Another one is born: now and then the price follows."""
        self.fits.append(fits)
        self.born += 1
        if self.born % SOON == 0:
            share = sum(self.fits) / len(self.fits)
            self.price *= DEARER if share < FITTING[0] else CHEAPER if share > FITTING[1] else 1.0

    def parents(self, chance: Random) -> tuple[Plan, Plan]:
        """Each is the fitter one of two."""
        plans = [plan for half in self.halves for plan in half.plans]
        ranks = [rank for half in self.halves for rank in half.unfitness(self.price)]
        one, two = (min(chance.choices(range(len(plans)), k=2), key=ranks.__getitem__) for _ in range(2))
        return plans[one], plans[two]


def suits(instance: Instance) -> bool:
    """Whether this search is for such an instance."""
    return instance.customers < LARGEST and is_symmetric(instance)


def improve(
    ground: Ground, load: Load, walk: NodeArray, until: float, threads: int, seed: int, on_better: OnWalk
) -> None:
    """Tell of better and better walks until that moment of time.perf_counter(), found by so many threads."""
    search = Search(ground, load, walk, until)
    with ThreadPoolExecutor(threads) as pool:
        try:
            jobs = [pool.submit(search.work, state) for state in states(seed, threads)]
            while not (search.better.empty() and all(job.done() for job in jobs)):
                try:
                    on_better(search.better.get(timeout=POLL))
                except Empty:
                    continue
        finally:
            search.stopped = True
    for job in jobs:
        job.result()


class Search:
    """One call of improve: what its threads share."""

    def __init__(self, ground: Ground, load: Load, walk: NodeArray, until: float) -> None:
        used, fill = int((walk == 0).sum()), load.demand.sum() / load.capacity
        enough = int(SPARE[0] * fill) + SPARE[1]
        self.ground, self.load = ground, load._replace(vehicles=max(used, min(load.vehicles, enough)))
        self.data = ground.data.copy()
        self.data[0, 0] = 0.0  # in GEO it is not, but an empty route costs nothing
        self.points = np.array(ground.instance.plane(), order="C")
        self.given = (self.data, ground.near, *self.load)
        self.until, self.stopped = until, False
        self.start = self._described(walk)
        self.edge = mean_edge(ground, walk)
        self.population = Population(PRICE * (self.edge or 1.0) / max(1.0, float(load.demand.mean())))
        self.shortest = self.start.length
        self.better: SimpleQueue[NodeArray] = SimpleQueue()
        self.lock = Lock()

    def over(self) -> bool:
        return self.stopped or time.perf_counter() > self.until

    def work(self, state: Seed) -> None:
        """What one thread does."""
        chance = Random(int(state[0]))
        self.add(self.start)
        self._anneal(chance)
        for _ in range(STRANGERS):
            if not self.over():
                self.add_stranger(state, chance)
        while not self.over():
            self.add_child(state, chance)

    def add_stranger(self, state: Seed, chance: Random) -> None:
        tour = np.array(chance.sample(range(1, len(self.points)), len(self.points) - 1), np.int32)
        price = self.population.price
        self._raise(self._descended(cut(self.data, *self.load, tour, price), price, state), state, chance)

    def add_child(self, state: Seed, chance: Random) -> None:
        with self.lock:
            one, two = self.population.parents(chance)
            price = self.population.price
        self._raise(self._described(breed(*self.given, one.tour, two.tour, price, state)), state, chance)

    def _anneal(self, chance: Random) -> None:
        """Plans by annealing, as many as there is time for."""
        begin = time.perf_counter()
        seconds = ANNEALED * (self.until - begin)
        count = max(1, math.ceil(seconds / (ANNEALING * len(self.points))))
        for k in range(1, count + 1):
            found, seed = self.start.walk, chance.getrandbits(32)
            for walk in annealing(self.ground, self.load, found, begin + seconds * k / count, 1, seed, HOT):
                found = walk
                if self.stopped:
                    return
            self.add(self._described(found))

    def _raise(self, plan: Plan, state: Seed, chance: Random) -> None:
        """Add offspring; of what is too full, some is repaired first; of what fits, some is ruined and recreated."""
        with self.lock:
            self.population.learn(plan.excess == 0)
        if plan.excess > 0:
            self.add(plan)
            if chance.random() > REPAIRED or self.over():
                return
            plan = self._descended(plan.walk, DEAR * self.population.price, state)
            if plan.excess > 0:
                return
        if chance.random() < RUINED and not self.over():
            count, cold = RUINS * len(plan.tour), COLD * self.edge
            plan = self._described(ruin_and_recreate(self.ground.rule, *self.given, plan.walk, count, cold, state)[2])
        self.add(plan)

    def _descended(self, walk: NodeArray, price: float, state: Seed) -> Plan:
        return self._described(descend(*self.given, walk, price, state))

    def _described(self, walk: NodeArray) -> Plan:
        load = self.load
        return Plan(walk, *describe(self.data, self.points, load.demand, load.capacity, walk))

    def add(self, plan: Plan) -> None:
        with self.lock:
            self.population.add(plan)
            if plan.excess == 0 and plan.length < self.shortest - 1e-9:
                self.shortest = plan.length
                self.better.put(plan.walk)
