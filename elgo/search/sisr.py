"""Ruin and recreate for CVRP: Slack Induction by String Removals, SISR (Christiaens and Vanden Berghe, 2020).

Each iteration removes strings of customers from neighbouring routes and inserts each customer again where it costs
least, except that positions are skipped with a small probability ("blinks"). Simulated annealing decides whether the
result is accepted. An iteration takes 5 to 20 microseconds.

A giant tour may hold some of the customers only. The others, and their routes, do not exist for the search: that is
how several threads share one solution.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from elgo.jit.cache import cached_njit
from elgo.search.data import SearchArrays
from elgo.search.distances import Distances, FloatArray, distance
from elgo.search.giant_tour import NodeArray
from elgo.search.linked_routes import (
    NO_ROUTE,
    LinkedRoutes,
    Records,
    accept,
    close_route,
    link,
    link_routes,
    open_route,
    save_route,
    undo,
    unlink,
)
from elgo.search.rng import RandomState, uniform

MEAN_REMOVED = 10.0  # customers removed per iteration, on average
MAX_STRING = 10.0  # customers of the longest string
SPLIT_RATE = 0.5  # fraction of the strings that preserve customers in their middle
SPLIT_DEPTH = 0.01  # probability to preserve one more customer
BLINK_RATE = 0.01  # fraction of the positions that are skipped
INSERTION_NEIGHBOURS = 40  # nearest customers next to which a customer may be inserted


class String(NamedTuple):
    """Customers to remove from a route: `length` from `begin` on, skipping `preserved` ones at index `split`."""

    route: int
    begin: int
    length: int
    split: int
    preserved: int


class Insertion(NamedTuple):
    """A position for a customer: after `previous` (0: the depot) in `route`, and the increase in cost."""

    cost: float
    previous: int
    route: int


class SisrResult(NamedTuple):
    """The giant tours after the last iteration and at the best one, and their costs minus the initial one's."""

    current: NodeArray
    change: float
    best: NodeArray
    best_change: float


@cached_njit(nogil=True)
def ruin_and_recreate(
    data: SearchArrays, giant_tour: NodeArray, vehicles: int, iterations: int, temperature: float, state: RandomState
) -> SisrResult:
    """Run iterations at one temperature. The number of routes never grows beyond `vehicles`."""
    customers = giant_tour[giant_tour > 0]
    linked = link_routes(giant_tour, data.demand)
    nodes, routes, counters = linked.nodes, linked.routes, linked.counters
    removed, keys = np.empty(len(customers), np.int32), np.empty(len(customers), np.float64)
    change, best_change = 0.0, 0.0
    best_nodes, best_routes = nodes.copy(), routes.copy()
    for _ in range(iterations):
        most = max(vehicles, counters[0].used)
        delta, count = _ruin(data, linked, customers, removed, state)
        _sort(data, removed[:count], keys, state)
        delta += _recreate(data, linked, most, customers, removed[:count], state)
        if delta > 0.0 and delta >= -temperature * math.log(uniform(state) + 1e-300):
            undo(linked)
            continue
        change += delta
        accept(linked)
        if change < best_change - data.tolerance:
            best_change = change
            best_nodes[:], best_routes[:] = nodes, routes
    return SisrResult(unlink(nodes, routes), change, unlink(best_nodes, best_routes), best_change)


@cached_njit(nogil=True)
def _ruin(
    data: SearchArrays, linked: LinkedRoutes, customers: NodeArray, removed: NodeArray, state: RandomState
) -> tuple[float, int]:
    """Remove one string from each of the routes nearest to a random seed customer.

    The customers are written to `removed`. Return the change of cost and their number.
    """
    neighbours, nodes, routes, counters = data.neighbours, linked.nodes, linked.routes, linked.counters
    longest = min(MAX_STRING, len(customers) / counters[0].used)
    strings = int(uniform(state) * (4.0 * MEAN_REMOVED / (1.0 + longest) - 1.0) + 1.0)
    seed_customer = customers[int(uniform(state) * len(customers))]
    delta, count = 0.0, 0
    for k in range(-1, neighbours.shape[1]):
        if counters[0].saved >= strings:
            break
        customer = seed_customer if k < 0 else neighbours[seed_customer, k]
        route = nodes[customer].route
        if route == NO_ROUTE or routes[route].saved:
            continue
        save_route(linked, route)
        size = routes[route].size
        length = int(uniform(state) * min(float(size), longest) + 1.0)
        preserved = 0
        if 1 < length < size and uniform(state) < SPLIT_RATE:
            preserved = 1
            while length + preserved < size and uniform(state) < SPLIT_DEPTH:
                preserved += 1
        begin = _string_around(nodes, customer, length + preserved, state)
        split = int(uniform(state) * (length + 1)) if preserved else length
        delta += _remove(data, linked, String(route, begin, length, split, preserved), removed[count:])
        count += length
    return delta, count


@cached_njit(nogil=True)
def _string_around(nodes: Records, customer: int, length: int, state: RandomState) -> int:
    """Return the first customer of a random string of that length that includes the customer."""
    before, begin = 0, customer
    while before < length - 1 and nodes[begin].previous != 0:
        before, begin = before + 1, nodes[begin].previous
    after, end = 0, customer
    while after < length - 1 and nodes[end].next != 0:
        after, end = after + 1, nodes[end].next
    least = max(0, length - 1 - after)
    for _ in range(before - least - int(uniform(state) * (before - least + 1))):
        begin = nodes[begin].next
    return begin


@cached_njit(nogil=True)
def _remove(data: SearchArrays, linked: LinkedRoutes, string: String, removed: NodeArray) -> float:
    """Remove a string from its route and write its customers to `removed`; return the change of cost."""
    distances, nodes, routes = data.distances, linked.nodes, linked.routes
    route = string.route
    node, left = string.begin, nodes[string.begin].previous
    delta = -distance(distances, left, node)
    count = 0
    for k in range(string.length + string.preserved):
        following = nodes[node].next
        delta -= distance(distances, node, following)
        if string.split <= k < string.split + string.preserved:
            delta += distance(distances, left, node)
            link(linked, route, left, node)
            left = node
        else:
            removed[count] = node
            count += 1
            nodes[node].route = NO_ROUTE
            routes[route].load -= data.demand[node]
        node = following
    link(linked, route, left, node)
    routes[route].size -= string.length
    if routes[route].size == 0:
        close_route(linked, route)
        return delta
    return delta + distance(distances, left, node)


@cached_njit(nogil=True)
def _sort(data: SearchArrays, removed: NodeArray, keys: FloatArray, state: RandomState) -> None:
    """Sort customers for insertion: random, largest demand, farthest or nearest first, with weights 4 : 4 : 2 : 1."""
    order = uniform(state) * 11.0
    for k in range(len(removed)):
        if order < 4.0:
            keys[k] = uniform(state)
        elif order < 8.0:
            keys[k] = -data.demand[removed[k]]
        elif order < 10.0:
            keys[k] = -distance(data.distances, 0, removed[k])
        else:
            keys[k] = distance(data.distances, 0, removed[k])
    for k in range(1, len(removed)):  # insertion sort: they are few
        customer, key, j = removed[k], keys[k], k - 1
        while j >= 0 and keys[j] > key:
            removed[j + 1], keys[j + 1] = removed[j], keys[j]
            j -= 1
        removed[j + 1], keys[j + 1] = customer, key


@cached_njit(nogil=True)
def _recreate(
    data: SearchArrays, linked: LinkedRoutes, most: int, customers: NodeArray, removed: NodeArray, state: RandomState
) -> float:
    """Insert each removed customer where it costs least; return the change of cost, inf if `most` routes do not do."""
    nodes, routes = linked.nodes, linked.routes
    delta = 0.0
    for customer in removed:
        free = data.capacity - data.demand[customer]
        cost, left, route = _cheapest_near(data, nodes, routes, customer, free, state)
        if route == NO_ROUTE:  # the routes nearby are full
            cost, left, route = _cheapest_anywhere(data.distances, nodes, routes, customers, customer, free)
        if route == NO_ROUTE or data.new_routes:
            alone = distance(data.distances, 0, customer) + distance(data.distances, customer, 0)
            if linked.counters[0].used < most and alone < cost:
                route, left, cost = open_route(linked), 0, alone
            elif route == NO_ROUTE:
                return math.inf
        if not routes[route].saved:
            save_route(linked, route)
        right = routes[route].first if left == 0 else nodes[left].next
        link(linked, route, left, customer)
        link(linked, route, customer, right)
        nodes[customer].route = route
        routes[route].load += data.demand[customer]
        routes[route].size += 1
        delta += cost
    return delta


@njit(inline="always")
def _detour(distances: Distances, left: int, customer: int, right: int) -> float:
    """Return the increase in cost by a customer between two others."""
    return distance(distances, left, customer) + distance(distances, customer, right) - distance(distances, left, right)


@cached_njit(nogil=True)
def _cheapest_near(
    data: SearchArrays, nodes: Records, routes: Records, customer: int, free: int, state: RandomState
) -> Insertion:
    """Return the cheapest position next to a near customer, with blinks, in a route with a load of at most `free`."""
    distances, neighbours = data.distances, data.neighbours
    best, previous, into = math.inf, 0, NO_ROUTE
    for k in range(min(INSERTION_NEIGHBOURS, neighbours.shape[1])):
        other = neighbours[customer, k]
        route = nodes[other].route
        if route == NO_ROUTE or routes[route].load > free:
            continue
        blink = uniform(state)
        if blink >= BLINK_RATE:
            cost = _detour(distances, other, customer, nodes[other].next)
            if cost < best:
                best, previous, into = cost, other, route
        if blink < 1.0 - BLINK_RATE:
            left = nodes[other].previous
            cost = _detour(distances, left, customer, other)
            if cost < best:
                best, previous, into = cost, left, route
    return Insertion(best, previous, into)


@cached_njit(nogil=True)
def _cheapest_anywhere(
    distances: Distances, nodes: Records, routes: Records, customers: NodeArray, customer: int, free: int
) -> Insertion:
    """Return the cheapest position in any route with a load of at most `free`."""
    best, previous, into = math.inf, 0, NO_ROUTE
    for other in customers:
        route = nodes[other].route
        if route == NO_ROUTE or routes[route].load > free:
            continue
        cost = _detour(distances, other, customer, nodes[other].next)
        if cost < best:
            best, previous, into = cost, other, route
        if nodes[other].previous == 0:
            cost = _detour(distances, 0, customer, other)
            if cost < best:
                best, previous, into = cost, 0, route
    return Insertion(best, previous, into)
