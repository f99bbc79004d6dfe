"""Ruin and recreate for CVRP: Slack Induction by String Removals (Christiaens and Vanden Berghe, 2020).

Each iteration takes strings of customers out of neighbouring routes and puts each customer back where it costs least,
overlooking a place now and then; simulated annealing decides whether the result stays. An iteration takes 5 to 20
microseconds.

A plan is a walk: the customers of all routes one after the other, a 0 behind each route. It may hold some of the
customers only: the others, and the routes that they are in, are not there for the search. That is how several threads
work on one solution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.search.data import SearchArrays
from elgo.search.distances import Distances, FloatArray, distance
from elgo.search.giant_tour import NodeArray
from elgo.search.rng import RandomState, uniform

REMOVED = 10.0  # customers per iteration, on average
LONGEST = 10.0  # string
SPLIT = 0.5  # of the strings leave a part of themselves where it is
DEEPER = 0.01  # the probability that this part grows by one more
BLINK = 0.01  # of the places are overlooked
LOOKED_AT = 40  # neighbours beside which a customer may be put back
OUT = -1  # the route of a customer who is in none

IntArray = NDArray[np.int64]


# The routes as linked customers, in few arrays, because each one passed to a function costs time.
# nodes (n, 3): 0 stands for the depot, at both ends of each route
AFTER, BEFORE, ROUTE = range(3)
# routes (R + 1, 9): what each is; a stack of those that were empty when they were put there; what those that an
# iteration has touched were before, in the order in which it touched them
FIRST, COUNT, LOAD, IS_TOUCHED, IS_SPARE, SPARE, TOUCHED, SAVED_FROM, SAVED_LOAD = range(9)
# total (3,): routes in use, height of the stack of spare ones, how many are touched
IN_USE, SPARES, TOUCHES = range(3)
# saved (n,): the customers of the touched routes as they were


class SisrResult(NamedTuple):
    """The giant tours after the last iteration and at the best one, and their costs minus the initial one's."""

    current: NodeArray
    change: float
    best: NodeArray
    best_change: float


@njit(cache=True, nogil=True)
def ruin_and_recreate(
    data: SearchArrays,
    walk: NodeArray,
    vehicles: int,
    iterations: int,
    temperature: float,
    random_state: RandomState,
) -> SisrResult:
    """Run iterations at one temperature. The number of routes never grows beyond `vehicles`."""
    distances, neighbours, demand, capacity = data
    members = walk[walk > 0]
    nodes = np.full((len(neighbours), 3), OUT, np.int32)
    routes = np.zeros((len(members) + 2, 9), np.int64)
    total = np.zeros(3, np.int64)
    saved = np.empty(len(neighbours), np.int32)
    _read(walk, demand, nodes, routes, total)
    out = np.empty(len(members), np.int32)
    key = np.empty(len(members), np.float64)
    change, best = 0.0, 0.0
    best_after, best_first = nodes[:, AFTER].copy(), routes[:, FIRST].copy()
    for _ in range(iterations):
        longest = min(LONGEST, len(members) / total[IN_USE])
        strings = int(uniform(random_state) * (4.0 * REMOVED / (1.0 + longest) - 1.0) + 1.0)
        centre = members[int(uniform(random_state) * len(members))]
        most = max(vehicles, total[IN_USE])
        delta, removed = _ruin(
            distances, neighbours, demand, nodes, routes, total, saved, centre, strings, longest, out, random_state
        )
        _sort(distances, demand, out[:removed], key, random_state)
        delta += _recreate(
            distances,
            neighbours,
            demand,
            capacity,
            most,
            nodes,
            routes,
            total,
            saved,
            members,
            out[:removed],
            random_state,
        )
        if delta > 0.0 and delta >= -temperature * math.log(uniform(random_state) + 1e-300):
            _restore(nodes, routes, total, saved)
            continue
        change += delta
        _forget(routes, total)
        if change < best - 1e-9:
            best = change
            best_after[:] = nodes[:, AFTER]
            best_first[:] = routes[:, FIRST]
    return SisrResult(_write(nodes[:, AFTER], routes[:, FIRST]), change, _write(best_after, best_first), best)


@njit(cache=True, nogil=True)
def _ruin(
    distances: Distances,
    neighbours: NodeArray,
    demand: IntArray,
    nodes: NodeArray,
    routes: IntArray,
    total: IntArray,
    saved: NodeArray,
    centre: int,
    strings: int,
    longest: float,
    out: NodeArray,
    random_state: RandomState,
) -> tuple[float, int]:
    """Take strings of customers out of so many routes around a centre; the change of cost, and how many went `out`."""
    delta, removed = 0.0, 0
    for k in range(-1, neighbours.shape[1]):
        if total[TOUCHES] >= strings:
            break
        customer = centre if k < 0 else neighbours[centre, k]
        route = nodes[customer, ROUTE]
        if route == OUT or routes[route, IS_TOUCHED]:
            continue
        _note(nodes, routes, total, saved, route)
        length = int(uniform(random_state) * min(float(routes[route, COUNT]), longest) + 1.0)
        kept = 0  # of the string stay where they are
        if 1 < length < routes[route, COUNT] and uniform(random_state) < SPLIT:
            kept = 1
            while length + kept < routes[route, COUNT] and uniform(random_state) < DEEPER:
                kept += 1
        begin = _string_around(nodes, customer, length + kept, random_state)
        keep_from = int(uniform(random_state) * (length + 1)) if kept else length
        delta += _cut(distances, demand, nodes, routes, total, route, begin, length, keep_from, kept, out[removed:])
        removed += length
    return delta, removed


@njit(cache=True, nogil=True)
def _string_around(nodes: NodeArray, customer: int, length: int, random_state: RandomState) -> int:
    """The first customer of a random string of that length in which the customer is."""
    back, begin = 0, customer
    while back < length - 1 and nodes[begin, BEFORE] != 0:
        begin = nodes[begin, BEFORE]
        back += 1
    ahead, end = 0, customer
    while ahead < length - 1 and nodes[end, AFTER] != 0:
        end = nodes[end, AFTER]
        ahead += 1
    least = max(0, length - 1 - ahead)
    for _ in range(back - least - int(uniform(random_state) * (back - least + 1))):
        begin = nodes[begin, AFTER]
    return begin


@njit(cache=True, nogil=True)
def _cut(
    distances: Distances,
    demand: IntArray,
    nodes: NodeArray,
    routes: IntArray,
    total: IntArray,
    route: int,
    begin: int,
    length: int,
    keep_from: int,
    kept: int,
    out: NodeArray,
) -> float:
    """Take `length` customers out of a route, all of a string but `kept` from place `keep_from` on; change of cost."""
    here, left = begin, nodes[begin, BEFORE]
    delta = -distance(distances, left, here)
    removed = 0
    for place in range(length + kept):
        there = nodes[here, AFTER]
        delta -= distance(distances, here, there)
        if keep_from <= place < keep_from + kept:
            delta += distance(distances, left, here)
            _link(nodes, routes, route, left, here)
            left = here
        else:
            out[removed] = here
            removed += 1
            nodes[here, ROUTE] = OUT
            routes[route, LOAD] -= demand[here]
        here = there
    _link(nodes, routes, route, left, here)
    routes[route, COUNT] -= length
    if routes[route, COUNT] == 0:
        _close(routes, total, route)
        return delta
    return delta + distance(distances, left, here)


@njit(cache=True, nogil=True)
def _sort(distances: Distances, demand: IntArray, out: NodeArray, key: FloatArray, random_state: RandomState) -> None:
    """The order in which to put customers back: random, largest, farthest or nearest first, as 4 : 4 : 2 : 1."""
    order = uniform(random_state) * 11.0
    for k in range(len(out)):
        if order < 4.0:
            key[k] = uniform(random_state)
        elif order < 8.0:
            key[k] = -demand[out[k]]
        elif order < 10.0:
            key[k] = -distance(distances, 0, out[k])
        else:
            key[k] = distance(distances, 0, out[k])
    for k in range(1, len(out)):  # by insertion: they are few
        customer, this, j = out[k], key[k], k - 1
        while j >= 0 and key[j] > this:
            out[j + 1], key[j + 1] = out[j], key[j]
            j -= 1
        out[j + 1], key[j + 1] = customer, this


@njit(cache=True, nogil=True)
def _recreate(
    distances: Distances,
    neighbours: NodeArray,
    demand: IntArray,
    capacity: int,
    most: int,
    nodes: NodeArray,
    routes: IntArray,
    total: IntArray,
    saved: NodeArray,
    members: NodeArray,
    out: NodeArray,
    random_state: RandomState,
) -> float:
    """Put customers back, each where it costs least; the change of cost, infinite if that takes too many routes."""
    delta = 0.0
    for customer in out:
        room = capacity - demand[customer]
        cost, left, route = _place_near(distances, neighbours, nodes, routes, customer, room, random_state)
        if route == OUT:  # they are all full: look everywhere
            cost, left, route = _place_anywhere(distances, members, nodes, routes, customer, room)
        if route == OUT:
            if total[IN_USE] >= most:
                return math.inf
            route, left = _open(routes, total), 0
            cost = distance(distances, 0, customer) + distance(distances, customer, 0)
        if not routes[route, IS_TOUCHED]:
            _note(nodes, routes, total, saved, route)
        right = routes[route, FIRST] if left == 0 else nodes[left, AFTER]
        _link(nodes, routes, route, left, customer)
        _link(nodes, routes, route, customer, right)
        nodes[customer, ROUTE] = route
        routes[route, LOAD] += demand[customer]
        routes[route, COUNT] += 1
        delta += cost
    return delta


@njit(inline="always")
def _detour(distances: Distances, left: int, customer: int, right: int) -> float:
    return distance(distances, left, customer) + distance(distances, customer, right) - distance(distances, left, right)


@njit(cache=True, nogil=True)
def _place_near(
    distances: Distances,
    neighbours: NodeArray,
    nodes: NodeArray,
    routes: IntArray,
    customer: int,
    room: int,
    random_state: RandomState,
) -> tuple[float, int, int]:
    """The cheapest place beside a near customer in a route with room, but for a few that are overlooked: what it costs,
    behind whom, in which route.
    """
    best, behind, into = math.inf, 0, OUT
    for k in range(min(LOOKED_AT, neighbours.shape[1])):
        other = neighbours[customer, k]
        route = nodes[other, ROUTE]
        if route == OUT or routes[route, LOAD] > room:
            continue
        look = uniform(random_state)
        if look >= BLINK:
            cost = _detour(distances, other, customer, nodes[other, AFTER])
            if cost < best:
                best, behind, into = cost, other, route
        if look < 1.0 - BLINK:
            left = nodes[other, BEFORE]
            cost = _detour(distances, left, customer, other)
            if cost < best:
                best, behind, into = cost, left, route
    return best, behind, into


@njit(cache=True, nogil=True)
def _place_anywhere(
    distances: Distances, members: NodeArray, nodes: NodeArray, routes: IntArray, customer: int, room: int
) -> tuple[float, int, int]:
    """The cheapest place in any route with room."""
    best, behind, into = math.inf, 0, OUT
    for other in members:
        route = nodes[other, ROUTE]
        if route == OUT or routes[route, LOAD] > room:
            continue
        cost = _detour(distances, other, customer, nodes[other, AFTER])
        if cost < best:
            best, behind, into = cost, other, route
        if nodes[other, BEFORE] == 0:
            cost = _detour(distances, 0, customer, other)
            if cost < best:
                best, behind, into = cost, 0, route
    return best, behind, into


@njit(inline="always")
def _link(nodes: NodeArray, routes: IntArray, route: int, left: int, right: int) -> None:
    """Let one follow the other; 0 is the depot at that end of the route."""
    if left == 0:
        routes[route, FIRST] = right
    else:
        nodes[left, AFTER] = right
    if right != 0:
        nodes[right, BEFORE] = left


@njit(inline="always")
def _close(routes: IntArray, total: IntArray, route: int) -> None:
    """A route has become empty."""
    total[IN_USE] -= 1
    if not routes[route, IS_SPARE]:
        routes[route, IS_SPARE] = 1
        routes[total[SPARES], SPARE] = route
        total[SPARES] += 1


@njit(inline="always")
def _open(routes: IntArray, total: IntArray) -> int:
    """A route that is empty."""
    total[IN_USE] += 1
    while True:
        total[SPARES] -= 1
        route = routes[total[SPARES], SPARE]
        routes[route, IS_SPARE] = 0
        if routes[route, COUNT] == 0:
            return route


@njit(cache=True, nogil=True)
def _note(nodes: NodeArray, routes: IntArray, total: IntArray, saved: NodeArray, route: int) -> None:
    """Remember a route before it is touched."""
    k = total[TOUCHES]
    routes[route, IS_TOUCHED] = 1
    routes[k, TOUCHED] = route
    routes[k, SAVED_LOAD] = routes[route, LOAD]
    end = routes[k, SAVED_FROM]
    customer = routes[route, FIRST]
    while customer != 0:
        saved[end] = customer
        customer = nodes[customer, AFTER]
        end += 1
    routes[k + 1, SAVED_FROM] = end
    total[TOUCHES] = k + 1


@njit(inline="always")
def _forget(routes: IntArray, total: IntArray) -> None:
    """The iteration is accepted."""
    for k in range(total[TOUCHES]):
        routes[routes[k, TOUCHED], IS_TOUCHED] = 0
    total[TOUCHES] = 0


@njit(cache=True, nogil=True)
def _restore(nodes: NodeArray, routes: IntArray, total: IntArray, saved: NodeArray) -> None:
    """Undo an iteration."""
    for k in range(total[TOUCHES]):
        route, begin, end = routes[k, TOUCHED], routes[k, SAVED_FROM], routes[k + 1, SAVED_FROM]
        if routes[route, COUNT] == 0 and end > begin:
            total[IN_USE] += 1  # its place on the stack of spare routes is found out of date when its turn comes
        elif routes[route, COUNT] > 0 and end == begin:
            _close(routes, total, route)
        routes[route, LOAD], routes[route, COUNT] = routes[k, SAVED_LOAD], end - begin
        left = 0
        for place in range(begin, end):
            customer = saved[place]
            _link(nodes, routes, route, left, customer)
            nodes[customer, ROUTE] = route
            left = customer
        _link(nodes, routes, route, left, 0)
    _forget(routes, total)


@njit(cache=True, nogil=True)
def _read(walk: NodeArray, demand: IntArray, nodes: NodeArray, routes: IntArray, total: IntArray) -> None:
    """Link the customers of a walk. All other nodes are OUT, all other routes are spare."""
    route, left = 0, 0
    for node in walk:
        _link(nodes, routes, route, left, node)
        if node == 0:
            route += 1
        else:
            nodes[node, ROUTE] = route
            routes[route, COUNT] += 1
            routes[route, LOAD] += demand[node]
        left = node
    most = len(routes) - 1  # the last row only ends the saved part of the one before it
    total[IN_USE] = most
    for empty in range(most - 1, route - 1, -1):
        _close(routes, total, empty)


@njit(cache=True, nogil=True)
def _write(after: NodeArray, first: IntArray) -> NodeArray:
    """The walk of linked routes."""
    walk = np.zeros(2 * len(after), np.int32)
    size = 0
    for customer in first:
        if customer == 0:
            continue
        while customer != 0:
            walk[size] = customer
            customer = after[customer]
            size += 1
        size += 1
    return walk[:size].copy()
