"""Simple constructions that serve as baselines: nearest neighbour and random insertion."""

import numpy as np

from elgo.problem.instance import Instance
from elgo.search.data import demand_units
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
    rng, tsp = np.random.default_rng(seed), instance.problem == "tsp"
    demand, capacity = demand_units(instance)
    least = 1 if tsp else -(-int(demand.sum()) // capacity)
    # The depot of a TSP is its first node. tour: all routes in turn, each preceded by the depot; route: the number of
    # each node's route.
    depot, *order = rng.permutation(instance.size).tolist() if tsp else [0, *(1 + rng.permutation(instance.customers))]
    tour, route, loads = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    for node in order:
        fits = loads + demand[node] <= capacity
        if len(loads) < least or not fits.any():
            tour, route = np.append(tour, (depot, node)), np.append(route, (len(loads), len(loads)))
            loads = np.append(loads, demand[node])
            continue
        following = np.roll(tour, -1)
        following[np.append(route[1:] != route[:-1], True)] = depot  # a route ends at its own depot
        detour = instance.distances(tour, node) + instance.distances(node, following)
        detour -= instance.distances(tour, following)
        position = int(np.where(fits[route], detour, np.inf).argmin())
        loads[route[position]] += demand[node]
        tour, route = np.insert(tour, position + 1, node), np.insert(route, position + 1, route[position])
    return [tour.tolist()] if tsp else [tour[(route == k) & (tour > 0)].tolist() for k in range(len(loads))]
