"""The simple constructions that everything is compared with: nearest neighbour, random insertion, Clarke-Wright."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.problem.instance import Instance
from elgo.search.data import near_nodes

IntArray = NDArray[np.int64]
Routes = list[list[int]]

ALL_PAIRS = 500  # customers up to which savings are computed for every pair
NEAREST_PAIRS = 100  # beyond: only with so many nearest customers of each


def nearest_neighbour(instance: Instance) -> Routes:
    """Always to the nearest node that is left (and fits); from node 0, or the depot."""
    demand, capacity = _loads(instance)
    here, room = 0, capacity
    open_ = np.ones(instance.size, dtype=bool)
    open_[0] = False
    routes = [[0]] if instance.problem == "tsp" else [[]]
    while open_.any():
        fitting = np.flatnonzero(open_ & (demand <= room))
        if len(fitting) == 0:
            routes.append([])
            here, room = 0, capacity
            continue
        here = int(fitting[instance.distances(here, fitting).argmin()])
        open_[here] = False
        room -= int(demand[here])
        routes[-1].append(here)
    return routes


def random_insertion(instance: Instance, seed: int) -> Routes:
    """Nodes in random order, each where it lengthens the routes least.

    The first customers of a CVRP open as many routes as it needs at least; later ones only if they fit nowhere.
    """
    rng = np.random.default_rng(seed)
    demand, capacity = _loads(instance)
    least = -(-int(demand.sum()) // capacity) if capacity else 1
    if instance.problem == "tsp":
        order = rng.permutation(instance.size)
        walk, route, loads = order[:1], np.zeros(1, np.int64), np.zeros(1, np.int64)
        order = order[1:]
    else:
        order = 1 + rng.permutation(instance.customers)
        walk, route, loads = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    # walk: the nodes of all routes one after the other, each CVRP route led by its depot; route: whose each node is.
    for node in order.tolist():
        place = _cheapest(instance, walk, route, loads + demand[node] <= capacity, node) if len(loads) >= least else -1
        if place < 0:
            walk, route = np.append(walk, (0, node)), np.append(route, (len(loads), len(loads)))
            loads = np.append(loads, demand[node])
        else:
            owner = route[place]
            walk, route = np.insert(walk, place + 1, node), np.insert(route, place + 1, owner)
            loads[owner] += demand[node]
    if instance.problem == "tsp":
        return [walk.tolist()]
    return [walk[(route == k) & (walk > 0)].tolist() for k in range(len(loads))]


def _cheapest(instance: Instance, walk: IntArray, route: IntArray, fits: NDArray[np.bool_], node: int) -> int:
    """Behind which position of the walk the node costs least; -1 if it fits into no route."""
    if not fits.any():
        return -1
    after = np.roll(walk, -1)
    if instance.problem == "cvrp":  # a route ends at its own depot, not at the next node of the walk
        after[np.append(route[1:] != route[:-1], True)] = 0
    extra = instance.distances(walk, node) + instance.distances(node, after) - instance.distances(walk, after)
    return int(np.where(fits[route], extra, np.inf).argmin())


def savings(instance: Instance) -> Routes:
    """Clarke and Wright (1964): one route per customer, then joined at their ends, the largest saving first."""
    demand, capacity = _loads(instance)
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
    near = near_nodes(instance, NEAREST_PAIRS)[1:].astype(np.int64)
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


def _loads(instance: Instance) -> tuple[IntArray, int]:
    """Demands and capacity in whole units; zeros for a TSP, where everything fits."""
    return (np.zeros(instance.size, np.int64), 0) if instance.problem == "tsp" else instance.units()
