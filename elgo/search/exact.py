"""Optimal routes of tiny instances by dynamic programming over sets of nodes, and a bound that proves optimality."""

import math

import numpy as np

from elgo.problem.distances import FloatArray
from elgo.problem.instance import Instance
from elgo.problem.packing import least_vehicles
from elgo.search.ends import one_route_form
from elgo.search.giant_tour import Routes

EXACT_NODES = 9  # largest number of customers for which everything is tried: 0.05 s
BOUND_NODES = 1000  # largest instance whose distances are all looked at for a bound


def exact_routes(instance: Instance, vehicles: int | None = None) -> Routes:
    """Return the routes of least cost, for at most EXACT_NODES customers and enough vehicles."""
    if instance.problem == "tsp":
        form = one_route_form(instance)
        everything = (1 << len(form.inner)) - 1
        return [form.tour_of(_cheapest_routes(form.matrix)[1][everything])]
    demand, capacity = instance.units()
    costs, routes = _cheapest_routes(instance.distance_matrix())
    for group in range(1, len(costs)):
        if sum(int(demand[k + 1]) for k in range(instance.customers) if group >> k & 1) > capacity:
            costs[group] = math.inf
    groups = _cheapest_groups(costs, instance.customers if vehicles is None else vehicles)
    return [routes[group] for group in groups]


def _cheapest_routes(matrix: FloatArray) -> tuple[list[float], list[list[int]]]:
    """Return cost and order of the cheapest route from node 0 and back over each set of the other nodes.

    Bit k of a set stands for node k + 1 (Held and Karp, 1962).
    """
    costs, count = matrix.tolist(), len(matrix) - 1
    # Of each set and each last node in it: the cost of the cheapest way from node 0, and the node before the last.
    ways: list[dict[int, tuple[float, int]]] = [{} for _ in range(1 << count)]
    for last in range(1, count + 1):
        ways[1 << (last - 1)][last] = costs[0][last], 0
    best, routes = [0.0], [list[int]()]
    for group in range(1, 1 << count):
        for last in range(1, count + 1):
            rest = group & ~(1 << (last - 1))
            if rest != group and rest:
                ways[group][last] = min((cost + costs[end][last], end) for end, (cost, _) in ways[rest].items())
        cost, node = min((cost + costs[end][0], end) for end, (cost, _) in ways[group].items())
        best.append(cost)
        route, left = list[int](), group
        while node:
            route.append(node)
            node, left = ways[left][node][1], left & ~(1 << (node - 1))
        routes.append(route[::-1])
    return best, routes


def _cheapest_groups(costs: list[float], most: int) -> list[int]:
    """Return the cheapest way to divide the full set into at most so many sets, where costs[set] is that of each."""
    full = len(costs) - 1
    best = [0.0] + [math.inf] * full  # of each set, divided into at most as many sets as there were rounds
    rounds: list[list[int]] = []  # the set that each round takes from each set
    for _ in range(min(most, full.bit_length())):
        new, taken = best.copy(), [0] * (full + 1)
        for group in range(1, full + 1):
            lowest, part = group & -group, group
            while part:
                if part & lowest and costs[part] + best[group ^ part] < new[group]:
                    new[group], taken[group] = costs[part] + best[group ^ part], part
                part = (part - 1) & group
        best = new
        rounds.append(taken)
    groups, left = [], full
    for taken in reversed(rounds):
        if taken[left]:
            groups.append(taken[left])
            left ^= taken[left]
    return groups


def lower_bound(instance: Instance) -> float:
    """Return a bound on the cost of every solution: 0, unless it is cheap to compute a better one.

    Every node is left, and reached, at the cost of its cheapest edge at least; the depot as often as vehicles are
    needed. If no two customers fit into one vehicle, there is only one solution, and the bound is its cost.
    """
    if not 2 <= instance.size <= BOUND_NODES:
        return 0.0
    costs = instance.distance_matrix() + np.diag(np.full(instance.size, np.inf))
    if instance.problem == "tsp":
        if instance.open:  # one edge less, and the dearest one at that
            return max(float(np.sort(costs.min(axis=axis))[:-1].sum()) for axis in (0, 1))
        return max(float(costs.min(axis=axis).sum()) for axis in (0, 1))
    demand, capacity = instance.units()
    if instance.customers > 1 and np.sort(demand[1:])[:2].sum() > capacity:
        return float(costs[0, 1:].sum() + costs[1:, 0].sum())
    times = np.ones(instance.size)
    times[0] = least_vehicles(demand, capacity)
    return max(float((times * costs.min(axis=axis)).sum()) for axis in (0, 1))
