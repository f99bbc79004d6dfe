"""Clarke and Wright's savings construction (1964) for CVRP."""

import numpy as np
from numba import njit

from elgo.jit.cache import cached_njit
from elgo.problem.instance import Instance
from elgo.search.data import IntArray, is_symmetric, nearest_neighbours
from elgo.search.distances import FloatArray
from elgo.search.giant_tour import Routes

ALL_PAIRS = 500  # customers up to which savings are computed for every pair
NEAREST_PAIRS = 100  # beyond, only for pairs of a customer and one of this many nearest neighbours


def savings(instance: Instance) -> Routes:
    """Return routes that begin as one per customer and are merged at their ends, the largest saving first."""
    demand, capacity = instance.units()
    nodes = np.arange(instance.size)
    depot = _mean(instance, nodes, np.zeros_like(nodes))
    i, j = _pairs(instance)
    saved = depot[i] + depot[j] - _mean(instance, i, j)
    positive = np.flatnonzero(saved > 0)
    order = positive[np.argsort(-saved[positive], kind="stable")]
    routes = _follow(_merge(i[order], j[order], demand, capacity))
    return routes if is_symmetric(instance) else [_cheaper_way(instance, route) for route in routes]


def _mean(instance: Instance, i: IntArray, j: IntArray) -> FloatArray:
    """Return the costs between nodes i and j, the mean of both directions."""
    there = instance.distances(i, j)
    return there if is_symmetric(instance) else (there + instance.distances(j, i)) / 2


def _cheaper_way(instance: Instance, route: list[int]) -> list[int]:
    """Return the route or its reverse, whichever costs less."""
    stops = np.array([0, *route, 0])
    there, back = instance.distances(stops[:-1], stops[1:]).sum(), instance.distances(stops[1:], stops[:-1]).sum()
    return route[::-1] if back < there else route


def _pairs(instance: Instance) -> tuple[IntArray, IntArray]:
    """Return the pairs of customers i < j whose saving is considered."""
    n = instance.customers
    if n <= ALL_PAIRS:
        i, j = np.triu_indices(n, 1)
        return i + 1, j + 1
    neighbours = nearest_neighbours(instance, NEAREST_PAIRS)[1:].astype(np.int64)
    one, other = np.repeat(np.arange(1, n + 1), neighbours.shape[1]), neighbours.ravel()
    pairs = np.unique(np.minimum(one, other) * (n + 1) + np.maximum(one, other))
    return pairs // (n + 1), pairs % (n + 1)


@cached_njit()
def _merge(i: IntArray, j: IntArray, demand: IntArray, capacity: int) -> IntArray:
    """Merge routes in the order of the pairs (i, j), where both are at ends of routes whose loads fit together.

    Return the (n, 2) neighbours of each customer, 0 for the depot.
    """
    n = len(demand)
    neighbours = np.zeros((n, 2), np.int64)
    parent = np.arange(n)  # union-find over the customers of each route
    load = demand.copy()  # of the route, at its root
    open_ends = np.full(n, 2)  # 2 for a customer alone, 1 at an end of a route, 0 inside
    for k in range(len(i)):
        a, b = i[k], j[k]
        if open_ends[a] == 0 or open_ends[b] == 0:
            continue
        root_a, root_b = _root(parent, a), _root(parent, b)
        if root_a == root_b or load[root_a] + load[root_b] > capacity:
            continue
        parent[root_b] = root_a
        load[root_a] += load[root_b]
        open_ends[a] -= 1
        open_ends[b] -= 1
        neighbours[a, 1 - open_ends[a]], neighbours[b, 1 - open_ends[b]] = b, a
    return neighbours


@njit(inline="always")
def _root(parent: IntArray, node: int) -> int:
    """Return the root of a node in a union-find forest, with path halving."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


def _follow(neighbours: IntArray) -> Routes:
    """Return the routes, each followed from one end to the other."""
    visited = np.zeros(len(neighbours), dtype=bool)
    routes = []
    for end in range(1, len(neighbours)):
        if visited[end] or neighbours[end, 1] != 0:
            continue
        route, previous = [end], 0
        while following := [int(node) for node in neighbours[route[-1]] if node not in (0, previous)]:
            previous = route[-1]
            route.append(following[0])
        visited[route] = True
        routes.append(route)
    return routes
