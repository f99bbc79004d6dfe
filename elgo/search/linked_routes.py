"""The routes of a CVRP as doubly linked lists: changed in constant time, and restored if a change is rejected.

Fields that are used together are stored together, as records, for the sake of the caches.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.jit.cache import cached_njit
from elgo.search.data import IntArray
from elgo.search.giant_tour import NodeArray

NO_ROUTE = -1  # route of a customer that is removed, or is not part of the search

Records = NDArray[np.void]

NODE = np.dtype([(name, np.int32) for name in ("next", "previous", "route")])
ROUTE = np.dtype([(name, np.int64) for name in ("first", "size", "load", "saved", "spare")])
SAVED = np.dtype([(name, np.int64) for name in ("route", "load", "begin")])
COUNTERS = np.dtype([(name, np.int64) for name in ("used", "spare", "saved")])


class LinkedRoutes(NamedTuple):
    """The routes as doubly linked lists, and what is needed to undo an iteration.

    nodes            (n,) next and previous node, 0 for the depot at both ends; route, or NO_ROUTE
    routes           (R,) first customer, number of customers, load; whether it is in `saved`; whether it is in `spare`
    spare            (R,) stack of routes that were empty when they were put there
    saved            (R + 1,) stack of the routes that the iteration has changed: number, old load, and where its old
                     customers begin in `saved_customers`; they end where those of the next entry begin
    saved_customers  (n,)
    counters         (1,) number of routes in use; height of the two stacks
    """

    nodes: Records
    routes: Records
    spare: IntArray
    saved: Records
    saved_customers: NodeArray
    counters: Records


@njit(inline="always")
def link(linked: LinkedRoutes, route: int, left: int, right: int) -> None:
    """Let node `right` follow node `left` in a route; 0 is the depot at that end of the route."""
    if left == 0:
        linked.routes[route].first = right
    else:
        linked.nodes[left].next = right
    if right != 0:
        linked.nodes[right].previous = left


@njit(inline="always")
def close_route(linked: LinkedRoutes, route: int) -> None:
    """Count a route as unused, since it has become empty."""
    counters = linked.counters
    counters[0].used -= 1
    if not linked.routes[route].spare:
        linked.routes[route].spare = 1
        linked.spare[counters[0].spare] = route
        counters[0].spare += 1


@njit(inline="always")
def open_route(linked: LinkedRoutes) -> int:
    """Return the number of an empty route, which counts as used from now on."""
    counters = linked.counters
    counters[0].used += 1
    while True:
        counters[0].spare -= 1
        route = linked.spare[counters[0].spare]
        linked.routes[route].spare = 0
        if linked.routes[route].size == 0:
            return route


@cached_njit(nogil=True)
def save_route(linked: LinkedRoutes, route: int) -> None:
    """Save a route before it is changed."""
    nodes, saved_customers = linked.nodes, linked.saved_customers
    k = linked.counters[0].saved
    linked.routes[route].saved = 1
    linked.saved[k].route = route
    linked.saved[k].load = linked.routes[route].load
    end = linked.saved[k].begin
    customer = linked.routes[route].first
    while customer != 0:
        saved_customers[end] = customer
        customer = nodes[customer].next
        end += 1
    linked.saved[k + 1].begin = end
    linked.counters[0].saved = k + 1


@njit(inline="always")
def accept(linked: LinkedRoutes) -> None:
    """Keep the changes of the iteration: forget the saved routes."""
    for k in range(linked.counters[0].saved):
        linked.routes[linked.saved[k].route].saved = 0
    linked.counters[0].saved = 0


@cached_njit(nogil=True)
def undo(linked: LinkedRoutes) -> None:
    """Undo the changes of the iteration: restore the saved routes."""
    nodes, routes = linked.nodes, linked.routes
    for k in range(linked.counters[0].saved):
        route, begin, end = linked.saved[k].route, linked.saved[k].begin, linked.saved[k + 1].begin
        if routes[route].size == 0 and end > begin:
            linked.counters[0].used += 1  # it stays on the stack of spare routes: open_route skips it
        elif routes[route].size > 0 and end == begin:
            close_route(linked, route)
        routes[route].load = linked.saved[k].load
        routes[route].size = end - begin
        left = 0
        for position in range(begin, end):
            customer = linked.saved_customers[position]
            link(linked, route, left, customer)
            nodes[customer].route = route
            left = customer
        link(linked, route, left, 0)
    accept(linked)


@cached_njit(nogil=True)
def link_routes(giant_tour: NodeArray, demand: IntArray) -> LinkedRoutes:
    """Return the linked routes of a giant tour. There is an empty route for each customer and one more."""
    most = 1 + np.count_nonzero(giant_tour)
    nodes, routes = np.zeros(len(demand), NODE), np.zeros(most, ROUTE)
    for node in range(len(demand)):
        nodes[node].route = NO_ROUTE
    spare, saved, saved_customers = np.zeros(most, np.int64), np.zeros(most + 1, SAVED), np.zeros(len(demand), np.int32)
    linked = LinkedRoutes(nodes, routes, spare, saved, saved_customers, np.zeros(1, COUNTERS))
    route, left = 0, 0
    for node in giant_tour:
        link(linked, route, left, node)
        if node == 0:
            route += 1
        else:
            nodes[node].route = route
            routes[route].size += 1
            routes[route].load += demand[node]
        left = node
    linked.counters[0].used = most
    for empty in range(most - 1, route - 1, -1):
        close_route(linked, empty)
    return linked


@cached_njit(nogil=True)
def unlink(nodes: Records, routes: Records) -> NodeArray:
    """Return the giant tour of linked routes."""
    giant_tour = np.zeros(2 * len(nodes), np.int32)
    size = 0
    for route in range(len(routes)):
        customer = routes[route].first
        if customer == 0:
            continue
        while customer != 0:
            giant_tour[size] = customer
            customer = nodes[customer].next
            size += 1
        size += 1
    return giant_tour[:size].copy()
