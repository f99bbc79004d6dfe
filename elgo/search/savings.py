"""Clarke and Wright's savings construction for CVRP."""

from __future__ import annotations

import numpy as np
from numba import njit

from elgo.problem.instance import Instance
from elgo.search.data import IntArray, nearest_neighbours
from elgo.search.giant_tour import Routes

ALL_PAIRS = 500  # customers up to which savings are computed for every pair
NEAREST_PAIRS = 100  # beyond, only for pairs of a customer and one of this many nearest neighbours


def savings(instance: Instance) -> Routes:
    """Clarke and Wright (1964): one route per customer, then joined at their ends, the largest saving first."""
    demand, capacity = instance.units()
    to_depot = instance.distances(np.arange(instance.size), 0)
    i, j = _pairs(instance)
    saved = to_depot[i] + to_depot[j] - instance.distances(i, j)
    worth = np.flatnonzero(saved > 0)
    order = worth[np.argsort(-saved[worth], kind="stable")]
    links = join_routes(i[order], j[order], demand, capacity)
    return paths(links)


def _pairs(instance: Instance) -> tuple[IntArray, IntArray]:
    """Customers i < j whose joining is considered."""
    n = instance.customers
    if n <= ALL_PAIRS:
        i, j = np.triu_indices(n, 1)
        return i + 1, j + 1
    near = nearest_neighbours(instance, NEAREST_PAIRS)[1:].astype(np.int64)
    each = np.repeat(np.arange(1, n + 1), near.shape[1])
    key = np.unique(np.minimum(each, near.ravel()) * (n + 1) + np.maximum(each, near.ravel()))
    return key // (n + 1), key % (n + 1)


@njit(nogil=True)
def root(parent: IntArray, node: int) -> int:
    """The representative of a node's set in a forest of parents, whose paths become shorter on the way."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(nogil=True)
def join(a: int, b: int, capacity: int, parent: IntArray, load: IntArray, free: IntArray) -> bool:
    """Make two routes one where customers a and b are their ends and the load allows it; whether that was so.

    parent: a forest over the customers of each route. load: of the route, at its root. free: how many more neighbours
    a customer can have: 2 alone, 1 at an end of a route, 0 inside.
    """
    if free[a] == 0 or free[b] == 0:
        return False
    root_a, root_b = root(parent, a), root(parent, b)
    if root_a == root_b or load[root_a] + load[root_b] > capacity:
        return False
    parent[root_b] = root_a
    load[root_a] += load[root_b]
    free[a] -= 1
    free[b] -= 1
    return True


@njit(cache=True)
def join_routes(i: IntArray, j: IntArray, demand: IntArray, capacity: int) -> IntArray:
    """(n, 2) neighbours of each customer, 0 for the depot, after joining routes in the order of the pairs."""
    n = len(demand)
    links, parent = np.zeros((n, 2), np.int64), np.arange(n)
    load, free = demand.copy(), np.full(n, 2)
    for k in range(len(i)):
        a, b = i[k], j[k]
        if join(a, b, capacity, parent, load, free):
            links[a, 1 - free[a]], links[b, 1 - free[b]] = b, a
    return links


def paths(links: IntArray) -> Routes:
    """Walk the linked customers from one end of each route to the other."""
    seen = np.zeros(len(links), dtype=bool)
    routes = []
    for end in range(1, len(links)):
        if seen[end] or links[end, 1] != 0:
            continue
        route, before = [end], 0
        while nexts := [int(node) for node in links[route[-1]] if node not in (0, before)]:
            before = route[-1]
            route.append(nexts[0])
        seen[route] = True
        routes.append(route)
    return routes
