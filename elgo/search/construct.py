"""Simple constructions as baselines: nearest neighbour and random insertion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elgo.problem.instance import Instance
from elgo.search.data import IntArray, demand_units
from elgo.search.giant_tour import Routes


def nearest_neighbour(instance: Instance) -> Routes:
    """Always to the nearest node that is left (and fits); from node 0, or the depot."""
    demand, capacity = demand_units(instance)
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
    demand, capacity = demand_units(instance)
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
