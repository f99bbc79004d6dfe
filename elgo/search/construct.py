"""Simple constructions that serve as baselines: nearest neighbour and random insertion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elgo.problem.instance import Instance
from elgo.search.data import IntArray, demand_units
from elgo.search.giant_tour import Routes


def nearest_neighbour(instance: Instance) -> Routes:
    """Return routes that always go on to the nearest unvisited node that fits, from node 0 or the depot."""
    demand, capacity = demand_units(instance)
    node, free = 0, capacity
    unvisited = np.ones(instance.size, dtype=bool)
    unvisited[0] = False
    routes = [[0]] if instance.problem == "tsp" else [[]]
    while unvisited.any():
        candidates = np.flatnonzero(unvisited & (demand <= free))
        if len(candidates) == 0:
            routes.append([])
            node, free = 0, capacity
            continue
        node = int(candidates[instance.distances(node, candidates).argmin()])
        unvisited[node] = False
        free -= int(demand[node])
        routes[-1].append(node)
    return routes


def random_insertion(instance: Instance, seed: int) -> Routes:
    """Return routes into which the nodes are inserted in random order, each where it costs least.

    The first customers of a CVRP open the minimum number of routes; later ones open one only if they fit into none.
    """
    rng = np.random.default_rng(seed)
    demand, capacity = demand_units(instance)
    least = -(-int(demand.sum()) // capacity) if capacity else 1
    # tour: all routes in turn, each route of a CVRP preceded by the depot; route: the number of each node's route
    if instance.problem == "tsp":
        order = rng.permutation(instance.size)
        tour, route, loads = order[:1], np.zeros(1, np.int64), np.zeros(1, np.int64)
        order = order[1:]
    else:
        order = 1 + rng.permutation(instance.customers)
        tour, route, loads = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    for node in order.tolist():
        fits = loads + demand[node] <= capacity
        position = _cheapest(instance, tour, route, fits, node) if len(loads) >= least else -1
        if position < 0:
            tour, route = np.append(tour, (0, node)), np.append(route, (len(loads), len(loads)))
            loads = np.append(loads, demand[node])
        else:
            number = route[position]
            tour, route = np.insert(tour, position + 1, node), np.insert(route, position + 1, number)
            loads[number] += demand[node]
    if instance.problem == "tsp":
        return [tour.tolist()]
    return [tour[(route == k) & (tour > 0)].tolist() for k in range(len(loads))]


def _cheapest(instance: Instance, tour: IntArray, route: IntArray, fits: NDArray[np.bool_], node: int) -> int:
    """Return the position of the tour after which the node costs least, or -1 if it fits into no route."""
    if not fits.any():
        return -1
    following = np.roll(tour, -1)
    if instance.problem == "cvrp":  # a route ends at its own depot, not at the next node of the tour
        following[np.append(route[1:] != route[:-1], True)] = 0
    detour = instance.distances(tour, node) + instance.distances(node, following) - instance.distances(tour, following)
    return int(np.where(fits[route], detour, np.inf).argmin())
