"""From two plans of a CVRP a third one: order crossover of their customers, and the best way to cut them into routes.

A tour is all customers in a row, the routes of a walk one after the other around the depot, without the zeros.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from elg.search.chance import Seed, draw
from elg.search.ground import FloatArray, NodeArray
from elg.search.moves import IntArray, descend

FULLEST = 2.0  # a route that a tour is cut into, in capacities: with less it may not fit into as many as there are
CLOSE = 5  # others by which we know how different an individual is
ELITE = 4  # individuals that survive by their costs alone
CLONE = 10.0  # what a clone is less fit by: more than anything else can make it


@njit(cache=True, nogil=True)
def breed(
    data: FloatArray,
    near: NodeArray,
    demand: IntArray,
    capacity: int,
    vehicles: int,
    one: NodeArray,
    two: NodeArray,
    price: float,
    seed: Seed,
) -> NodeArray:
    """The walk that two tours have together, as good as local search can make it."""
    walk = cut(data, demand, capacity, vehicles, cross(one, two, seed), price)
    return descend(data, near, demand, capacity, vehicles, walk, price, seed)


@njit(cache=True, nogil=True)
def cross(one: NodeArray, two: NodeArray, seed: Seed) -> NodeArray:
    """A part of one tour, where it is there, and the others in the order in which they follow in the other tour."""
    n = len(one)
    begin, length = int(draw(seed) * n), 1 + int(draw(seed) * n)
    taken = np.zeros(n + 1, np.bool_)
    child = np.empty(n, np.int32)
    for k in range(begin, begin + length):
        child[k % n] = one[k % n]
        taken[one[k % n]] = True
    place = begin + length
    for k in range(begin + length, begin + length + n):
        if not taken[two[k % n]]:
            child[place % n] = two[k % n]
            place += 1
    return child


@njit(cache=True, nogil=True)
def cut(data: FloatArray, demand: IntArray, capacity: int, vehicles: int, tour: NodeArray, price: float) -> NodeArray:
    """The walk of at most so many routes that costs least of those with the customers of a tour in its order."""
    begin, row = _begins(data, demand, capacity, 0, tour, price)
    count, k = 0, len(tour)
    while k > 0:
        k = begin[row, k]
        count += 1
    if count > vehicles:
        begin, row = _begins(data, demand, capacity, vehicles, tour, price)
        count = row
    up = min(1, row)
    walk = np.zeros(len(tour) + count, np.int32)
    k = len(tour)
    for route in range(count - 1, -1, -1):
        for place in range(begin[row, k], k):
            walk[place + route] = tour[place]
        k = begin[row, k]
        row -= up
    return walk


@njit(cache=True, nogil=True)
def _begins(
    data: FloatArray, demand: IntArray, capacity: int, most: int, tour: NodeArray, price: float
) -> tuple[IntArray, int]:
    """Where the last route begins when the first so many customers are in so many routes, up to `most` (only row 0: in
    any number), and the best row for all customers.
    """
    cost = np.full((most + 1, len(tour) + 1), math.inf)
    begin = np.zeros((most + 1, len(tour) + 1), np.int64)
    cost[0, 0] = 0.0
    if most == 0:
        _extend(data, demand, capacity, tour, price, cost[0], cost[0], begin[0])
    for row in range(most):
        _extend(data, demand, capacity, tour, price, cost[row], cost[row + 1], begin[row + 1])
    return begin, int(np.argmin(cost[:, -1]))


@njit(cache=True, nogil=True)
def _extend(
    data: FloatArray,
    demand: IntArray,
    capacity: int,
    tour: NodeArray,
    price: float,
    cost: FloatArray,
    to: FloatArray,
    begin: IntArray,
) -> None:
    """Lower the costs `to` every place in a tour by one more route, behind those that lead to an earlier place."""
    for i in range(len(tour)):
        if cost[i] == math.inf:
            continue
        load, length, left = 0, 0.0, 0
        for j in range(i, len(tour)):
            load += demand[tour[j]]
            if load > FULLEST * capacity:
                break
            length += data[left, tour[j]]
            left = tour[j]
            total = cost[i] + length + data[left, 0] + max(0, load - capacity) * price
            if total < to[j + 1]:
                to[j + 1] = total
                begin[j + 1] = i


@njit(cache=True, nogil=True)
def describe(
    data: FloatArray, points: FloatArray, demand: IntArray, capacity: int, walk: NodeArray
) -> tuple[NodeArray, NodeArray, float, int]:
    """The tour of a walk, its links (n, 2) from each customer to both sides, its length, and its load above what is
    allowed.
    """
    ends = np.flatnonzero(walk == 0)
    angle = np.empty(len(ends))
    links = np.zeros((len(data), 2), np.int32)
    length, excess, left, begin = 0.0, 0, 0, 0
    for route in range(len(ends)):
        x, y, load = 0.0, 0.0, 0
        for k in range(begin, ends[route] + 1):
            node = walk[k]
            links[left, 1], links[node, 0] = node, left
            length += data[left, node]
            load += demand[node]
            x += points[node, 0] - points[0, 0]
            y += points[node, 1] - points[0, 1]
            left = node
        begin = ends[route] + 1
        excess += max(0, load - capacity)
        angle[route] = math.atan2(y, x)
    tour = np.empty(len(walk) - len(ends), np.int32)
    size = 0
    for route in np.argsort(angle):
        for k in range(ends[route - 1] + 1 if route > 0 else 0, ends[route]):
            tour[size] = walk[k]
            size += 1
    return tour, links, length, excess


@njit(cache=True, nogil=True)
def broken_pairs(one: NodeArray, two: NodeArray) -> float:
    """The share of the links of one individual that another one does not have."""
    count = 0
    for node in range(1, len(one)):
        before, after = one[node]
        if after != two[node, 0] and after != two[node, 1]:
            count += 1
        if before == 0 and two[node, 0] != 0 and two[node, 1] != 0:
            count += 1
    return count / (len(one) - 1)


@njit(cache=True, nogil=True)
def unfitness(cost: FloatArray, gaps: FloatArray) -> FloatArray:
    """How little each individual is worth: its rank by cost and, as the more there are, by how different it is."""
    n = len(cost)
    apart = np.empty(n)
    penalty = np.zeros(n)
    for i in range(n):
        nearest = np.full(CLOSE, math.inf)
        for j in range(n):
            if j != i and gaps[i, j] < nearest[-1]:
                k = CLOSE - 1
                while k > 0 and gaps[i, j] < nearest[k - 1]:
                    nearest[k] = nearest[k - 1]
                    k -= 1
                nearest[k] = gaps[i, j]
        apart[i] = nearest[: max(1, min(CLOSE, n - 1))].mean()
        if nearest[0] == 0.0:
            penalty[i] = CLONE
    if n > 0:
        penalty[np.argmin(cost)] = 0.0
    weight = max(0.0, 1.0 - ELITE / max(1, n))
    for rank, i in enumerate(np.argsort(cost)):
        penalty[i] += rank / n
    for rank, i in enumerate(np.argsort(-apart)):
        penalty[i] += weight * rank / n
    return penalty
