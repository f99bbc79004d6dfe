"""A linear relaxation of the CVRP: the shortest cover of the customers by shares of routes.

Every customer is on routes whose shares add up to 1 at least (Balinski and Quandt 1964). There are too many routes to
list; those that shorten the cover, by the prices that customers have in it, are found by dynamic programming over load
and last customer and added, again and again (column generation; Desrosiers, Soumis and Desrochers 1984). Of the ways to
a customer with about the same load only the best is kept, and it visits nobody twice: some routes are overlooked, so
the cover is short but not always the shortest. Large instances are covered part by part. Shares are no solution: what
becomes of them is up to the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import highspy
import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from elgo.model.env import Task
from elgo.search.construct import Routes

MOST_CUSTOMERS = 200  # of a part
MOST_ROUNDS = 60  # of new routes
STEADY = 0.5  # of the prices that routes are looked for with are those of the round before: fewer rounds
NEAR = 16  # nearest customers that may come next
LEVELS = 200  # of load that are told apart
GAIN = 1e-6  # what a new route saves at least
PRIMAL_SIMPLEX = 4  # new columns leave the old solution feasible, so it goes on from there

Route = NDArray[np.int64]
Floats = NDArray[np.float64]


def cover_by_routes(task: Task, solutions: Sequence[Routes]) -> tuple[list[Route], list[float]]:
    """Routes and their shares.

    solutions: to begin with; the parts of a large instance consist of routes of the first one.
    """
    assert task.demand is not None
    n = len(task.coords)
    found: list[Route] = []
    shares: list[float] = []
    for part in _parts(task.coords, solutions[0]):
        place = np.zeros(n, np.int64)
        place[part] = np.arange(len(part))
        inside = np.isin(np.arange(n), part)
        routes = [place[route] for solution in solutions for route in solution if inside[route].all()]
        small = Task(task.coords[part], task.demand[part], task.capacity)
        for route, share in _cover(small, routes):
            found.append(part[route])
            shares.append(share)
    return found, shares


def _parts(coords: Floats, routes: Routes) -> Iterator[NDArray[np.int64]]:
    """The nodes of neighbouring routes, the depot first: halved across their extent while they have too many."""
    if sum(map(len, routes)) <= MOST_CUSTOMERS or len(routes) < 2:
        yield np.array([0, *chain(*routes)])
        return
    centre = np.array([coords[route].mean(0) for route in routes])
    order = np.argsort(centre[:, np.ptp(centre, axis=0).argmax()], kind="stable")
    many = np.cumsum([len(routes[i]) for i in order])
    middle = int(np.clip(np.searchsorted(many, many[-1] / 2), 1, len(routes) - 1))
    for half in (order[:middle], order[middle:]):
        yield from _parts(coords, [routes[i] for i in half])


def _cover(task: Task, routes: Iterable[Route]) -> Iterator[tuple[Route, float]]:
    """The routes of a short cover and their shares."""
    coords, demand, capacity = task
    n = len(coords)
    near = 1 + cKDTree(coords[1:]).query(coords[1:], k=np.arange(1, min(n - 1, NEAR + 1) + 1))[1]
    near = np.concatenate([np.zeros((1, near.shape[1]), np.int64), near])
    rng = np.random.default_rng(0)
    cover = _Cover(coords)

    def look(price: Floats) -> int:
        order = 1 + rng.permutation(n - 1)
        found = _find_routes(coords, near, demand, capacity, order, price)
        return cover.add(walk[:many] for many, walk in zip(*found, strict=True))

    cover.add(np.arange(1, n)[:, None])
    cover.add(routes)
    price = cover.prices()
    for _ in range(MOST_ROUNDS if n <= 2 * MOST_CUSTOMERS else 0):  # a route that is a large part stays as it is
        exact = cover.prices()
        price = STEADY * price + (1 - STEADY) * exact
        if look(price):
            continue
        price = exact
        if not look(price):
            break
    yield from cover.shares()


class _Cover:
    """The linear program over the routes so far."""

    def __init__(self, coords: Floats) -> None:
        self.coords, self.unit = coords, max(float(np.ptp(coords, axis=0).max()), 1e-300)
        self.routes: list[Route] = []
        self.known: dict[bytes, float] = {}  # the shortest way through each set of customers
        customers = len(coords) - 1
        self.program = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("simplex_strategy", PRIMAL_SIMPLEX)):
            self.program.setOptionValue(option, value)
        no_entries = np.zeros(0, np.int32), np.zeros(0)
        begin = np.zeros(customers, np.int32)
        once, any_number = np.ones(customers), np.full(customers, highspy.kHighsInf)
        self.program.addRows(customers, once, any_number, 0, begin, *no_entries)

    def add(self, routes: Iterable[Route]) -> int:
        """How many were new: other customers than any so far, or the same in a shorter order."""
        new, lengths = [], []
        for route in routes:
            walk = self.coords[np.concatenate([[0], route, [0]])]
            length = float(np.sqrt((np.diff(walk, axis=0) ** 2).sum(1)).sum()) / self.unit
            customers = np.sort(route).tobytes()
            if length < self.known.get(customers, np.inf) - GAIN:
                self.known[customers] = length
                new.append(route)
                lengths.append(length)
        count = len(new)
        if count:
            self.routes += new
            begin = np.cumsum([0, *map(len, new)]).astype(np.int32)
            rows = np.concatenate(new).astype(np.int32) - 1
            least, most = np.zeros(count), np.full(count, highspy.kHighsInf)
            self.program.addCols(count, np.array(lengths), least, most, len(rows), begin[:-1], rows, np.ones(len(rows)))
        return count

    def prices(self) -> Floats:
        """(N,) how much longer the cover is for the sake of each customer; 0 for the depot, and for all if unsolved."""
        price = self._solve().row_dual
        return self.unit * np.append(0.0, price if len(price) else np.zeros(len(self.coords) - 1))

    def shares(self) -> Iterator[tuple[Route, float]]:
        """What the last program made of the routes; nothing if it could not be solved."""
        for route, share in zip(self.routes, self._solve().col_value, strict=False):
            if share > GAIN:
                yield route, share

    def _solve(self) -> highspy.HighsSolution:
        self.program.run()
        return self.program.getSolution()


@njit(nogil=True)
def _between(coords, i, j):  # type: ignore[no-untyped-def]
    return np.sqrt((coords[i, 0] - coords[j, 0]) ** 2 + (coords[i, 1] - coords[j, 1]) ** 2)


@njit(cache=True, nogil=True)
def _find_routes(coords, near, demand, capacity, order, price):  # type: ignore[no-untyped-def]
    """For each customer, the best route that ends there if it is shorter than its prices: how many customers it has
    (R,), and which in turn (R, N). Within a level, ways go on in the given order only."""
    n, words = len(coords), (len(coords) + 63) // 64
    best = np.full((LEVELS + 1, n), np.inf)  # length less prices of the way to each load and customer
    load = np.zeros((LEVELS + 1, n), np.int64)
    before = np.full((LEVELS + 1, n, 2), -1)  # level and customer
    seen = np.zeros((LEVELS + 1, n, words), np.uint64)  # a bit per node
    one, rank = np.uint64(1), np.argsort(order)
    for i in range(1, n):
        level = demand[i] * LEVELS // capacity
        best[level, i], load[level, i] = _between(coords, 0, i) - price[i], demand[i]
        seen[level, i, i >> 6] = one << np.uint64(i & 63)
    worth, last = np.full(n, -GAIN), np.full(n, -1)
    for level in range(LEVELS + 1):
        for i in order:
            so_far = best[level, i]
            if so_far == np.inf:
                continue
            whole = so_far + _between(coords, i, 0)
            if whole < worth[i]:
                worth[i], last[i] = whole, level
            for j in near[i]:
                more = load[level, i] + demand[j]
                if more > capacity:
                    continue
                to = more * LEVELS // capacity
                length = so_far + _between(coords, i, j) - price[j]
                bit = one << np.uint64(j & 63)
                if length >= best[to, j] or (to == level and rank[j - 1] < rank[i - 1]) or seen[level, i, j >> 6] & bit:
                    continue
                best[to, j], load[to, j], before[to, j, 0], before[to, j, 1] = length, more, level, i
                seen[to, j] = seen[level, i]
                seen[to, j, j >> 6] |= bit
    ends = np.nonzero(last >= 0)[0]
    many, walk = np.zeros(len(ends), np.int64), np.zeros((len(ends), n), np.int64)
    for r in range(len(ends)):
        level, i = last[ends[r]], ends[r]
        while level >= 0:
            walk[r, many[r]] = i
            many[r] += 1
            level, i = before[level, i]
    return many, walk
