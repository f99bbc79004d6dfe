"""Local search for CVRP in which routes may be too full, at a price: what educates the offspring of elg.search.genetic.

The moves are those of Vidal's hybrid genetic search (2022): one or two customers go somewhere else or change places
with one or two others, a path is reversed, two routes exchange their ends; each beside near customers only. SWAP* lets
two customers of neighbouring routes change routes, each to its best place there. Distances must be the same both ways.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elg.search.chance import Seed, draw
from elg.search.ground import FloatArray, NodeArray

BREADTH = 20  # near customers beside which a move may put one
BESIDE = 4  # routes that so near customers are in are tried by SWAP*
TINY = 1e-7  # a gain below this is rounding

IntArray = NDArray[np.int64]

# nodes (n + R, 6): customers as linked in their routes; node n + r is the depot of route r, at both of its ends.
# SO_FAR is the load up to there, SEEN how many moves there were when its moves were tried last.
AFTER, BEFORE, ROUTE, PLACE, SO_FAR, SEEN = range(6)
# routes (R, 4): CHANGED and SWAPPED are how many moves there were when it was changed, or tried by SWAP*, last.
COUNT, LOAD, CHANGED, SWAPPED = range(4)
# What an exchange takes from behind one place, puts there instead, and whether what it takes is turned round.
EXCHANGES = ((1, 0, False), (2, 0, False), (2, 0, True), (1, 1, False), (2, 1, False), (2, 2, False))


@njit(inline="always")
def _length(data: FloatArray, a: int, b: int) -> float:
    """Between two nodes, of which those behind the last customer are the depot."""
    n = len(data)
    return data[a if a < n else 0, b if b < n else 0]


@njit(inline="always")
def _excess(load: int, capacity: int, price: float) -> float:
    return max(0, load - capacity) * price


@njit(inline="always")
def _link(nodes: IntArray, left: int, right: int) -> None:
    nodes[left, AFTER] = right
    nodes[right, BEFORE] = left


@njit(cache=True, nogil=True)
def descend(
    data: FloatArray,
    near: NodeArray,
    demand: IntArray,
    capacity: int,
    vehicles: int,
    walk: NodeArray,
    price: float,
    seed: Seed,
) -> NodeArray:
    """Improve a walk by moves until none helps; `price` is what a unit of load above the capacity costs."""
    n = len(data)
    nodes = np.zeros((n + vehicles, 6), np.int64)
    routes = np.zeros((vehicles, 4), np.int64)
    buffer = np.empty(n + 1, np.int64)
    _read(n, walk, demand, nodes, routes)
    order = np.arange(1, n)
    nodes[:, SEEN] = -1
    routes[:, SWAPPED] = -1
    done = np.zeros(1, np.int64)  # moves
    best = np.empty((n, 3), np.float64)
    behind = np.empty((n, 3), np.int64)
    before = -1
    loop = 0
    while loop <= 1 or done[0] > before:
        before = done[0]
        _shuffle(order, seed)
        for u in order:
            _move(data, near, demand, capacity, price, nodes, routes, buffer, done, int(u), loop, seed)
        _swap_star(data, near, demand, capacity, price, nodes, routes, done, best, behind)
        loop += 1
    return _write(n, nodes, routes)


@njit(inline="always")
def _shuffle(order: IntArray, seed: Seed) -> None:
    for k in range(len(order) - 1, 0, -1):
        j = int(draw(seed) * (k + 1))
        order[k], order[j] = order[j], order[k]


@njit(cache=True, nogil=True)
def _read(n: int, walk: NodeArray, demand: IntArray, nodes: IntArray, routes: IntArray) -> None:
    """Link the customers of a walk; the other routes are empty."""
    route, left = 0, n
    for node in walk:
        if node > 0:
            _link(nodes, left, node)
            left = node
        else:
            _link(nodes, left, n + route)
            route += 1
            left = n + route
    for empty in range(route, len(routes)):
        _link(nodes, n + empty, n + empty)
    for route in range(len(routes)):
        _count(n, demand, nodes, routes, route)


@njit(cache=True, nogil=True)
def _write(n: int, nodes: IntArray, routes: IntArray) -> NodeArray:
    walk = np.empty(n - 1 + len(routes), np.int32)
    end = 0
    for route in range(len(routes)):
        if routes[route, COUNT] > 0:
            node = nodes[n + route, AFTER]
            while node < n:
                walk[end] = node
                node = nodes[node, AFTER]
                end += 1
            walk[end] = 0
            end += 1
    return walk[:end]


@njit(cache=True, nogil=True)
def _count(n: int, demand: IntArray, nodes: IntArray, routes: IntArray, route: int) -> None:
    """Bring places and loads of a route up to date."""
    place, load, node = 0, 0, nodes[n + route, AFTER]
    nodes[n + route, ROUTE] = route
    while node < n:
        place += 1
        load += demand[node]
        nodes[node, ROUTE], nodes[node, PLACE], nodes[node, SO_FAR] = route, place, load
        node = nodes[node, AFTER]
    routes[route, COUNT], routes[route, LOAD] = place, load


@njit(cache=True, nogil=True)
def _move(
    data: FloatArray,
    near: NodeArray,
    demand: IntArray,
    capacity: int,
    price: float,
    nodes: IntArray,
    routes: IntArray,
    buffer: IntArray,
    done: IntArray,
    u: int,
    loop: int,
    seed: Seed,
) -> None:
    """Try the moves of a customer beside those near it, unless they were tried and nothing has changed since."""
    n = len(data)
    seen = nodes[u, SEEN]
    nodes[u, SEEN] = done[0]
    breadth = min(BREADTH, near.shape[1])
    first = int(draw(seed) * breadth)
    for k in range(breadth):
        v = near[u, (first + k) % breadth]
        changed = max(routes[nodes[u, ROUTE], CHANGED], routes[nodes[v, ROUTE], CHANGED])
        if changed <= seen:
            continue
        if _exchange(data, demand, capacity, price, nodes, routes, done, u, v):
            continue
        if _reconnect(data, demand, capacity, price, nodes, routes, buffer, done, u, v):
            continue
        v = nodes[v, BEFORE]
        if v >= n and not _exchange(data, demand, capacity, price, nodes, routes, done, u, v):
            _reconnect(data, demand, capacity, price, nodes, routes, buffer, done, u, v)
    if loop == 0 or (loop > 1 and routes[nodes[u, ROUTE], CHANGED] <= seen):
        return  # in the first loop routes are too bad to say whether another one would help
    for route in range(len(routes)):
        if routes[route, COUNT] == 0:
            v = n + route
            if not _exchange(data, demand, capacity, price, nodes, routes, done, u, v):
                _reconnect(data, demand, capacity, price, nodes, routes, buffer, done, u, v)
            return


@njit(cache=True, nogil=True)
def _exchange(
    data: FloatArray,
    demand: IntArray,
    capacity: int,
    price: float,
    nodes: IntArray,
    routes: IntArray,
    done: IntArray,
    u: int,
    v: int,
) -> bool:
    """The first exchange that helps: one or two customers from u on go behind v, or change places with those there."""
    n = len(data)
    r, s = nodes[u, ROUTE], nodes[v, ROUTE]
    a, u2 = nodes[u, BEFORE], nodes[u, AFTER]
    b, v2 = nodes[v, BEFORE], nodes[v, AFTER]
    loads = routes[r, LOAD], routes[s, LOAD]
    now = _excess(loads[0], capacity, price) + _excess(loads[1], capacity, price)
    for take, give, turn in EXCHANGES:
        last, end = (u, v) if take == 1 else (u2, v)
        if give == 2:
            end = v2
        if last >= n or (give > 0 and (v >= n or end >= n)):
            continue
        x, y = nodes[last, AFTER], nodes[end, AFTER]
        delta = -_length(data, a, u) - _length(data, last, x)
        head, tail = (last, u) if turn else (u, last)
        if give == 0:
            if v in (a, last):
                continue
            delta += _length(data, a, x) + _length(data, v, head) + _length(data, tail, y) - _length(data, v, y)
        else:
            if x == v or y == u or last == v or end == u:
                continue
            delta += _length(data, a, v) + _length(data, end, x) - _length(data, b, v) - _length(data, end, y)
            delta += _length(data, b, u) + _length(data, last, y)
        if r != s:
            if delta >= now - TINY:
                continue
            more = -demand[u]
            if take == 2:
                more -= demand[last]
            if give > 0:
                more += demand[v]
            if give == 2:
                more += demand[end]
            delta += _excess(loads[0] + more, capacity, price) + _excess(loads[1] - more, capacity, price) - now
        if delta >= -TINY:
            continue
        if give == 0:
            _link(nodes, a, x)
            _link(nodes, v, head)
            if turn:
                _link(nodes, head, tail)
            _link(nodes, tail, y)
        else:
            _link(nodes, a, v)
            _link(nodes, end, x)
            _link(nodes, b, u)
            _link(nodes, last, y)
        _changed(n, demand, nodes, routes, done, r, s)
        return True
    return False


@njit(inline="always")
def _changed(n: int, demand: IntArray, nodes: IntArray, routes: IntArray, done: IntArray, r: int, s: int) -> None:
    """A move has changed two routes, or one."""
    done[0] += 1
    _count(n, demand, nodes, routes, r)
    routes[r, CHANGED] = done[0]
    if r != s:
        _count(n, demand, nodes, routes, s)
        routes[s, CHANGED] = done[0]


@njit(cache=True, nogil=True)
def _reconnect(
    data: FloatArray,
    demand: IntArray,
    capacity: int,
    price: float,
    nodes: IntArray,
    routes: IntArray,
    buffer: IntArray,
    done: IntArray,
    u: int,
    v: int,
) -> bool:
    """Two edges, behind u and behind v, become two others, if that helps: 2-opt in a route, 2-opt* between two."""
    n = len(data)
    r, s = nodes[u, ROUTE], nodes[v, ROUTE]
    x, y = nodes[u, AFTER], nodes[v, AFTER]
    old = _length(data, u, x) + _length(data, v, y)
    turned = _length(data, u, v) + _length(data, x, y) - old
    if r == s:
        if v >= n or turned >= -TINY or nodes[u, PLACE] > nodes[v, PLACE]:
            return False
        end = _copy(nodes, AFTER, x, y, buffer, 0)
        for k in range(end - 1):
            _link(nodes, buffer[k + 1], buffer[k])
        _link(nodes, u, v)
        _link(nodes, x, y)
        _changed(n, demand, nodes, routes, done, r, r)
        return True
    straight = _length(data, u, y) + _length(data, v, x) - old
    now = _excess(routes[r, LOAD], capacity, price) + _excess(routes[s, LOAD], capacity, price)
    if min(turned, straight) >= now - TINY:
        return False
    heads = nodes[u, SO_FAR], nodes[v, SO_FAR] if v < n else 0
    tails = routes[r, LOAD] - heads[0], routes[s, LOAD] - heads[1]
    turned += _excess(heads[0] + heads[1], capacity, price) + _excess(tails[0] + tails[1], capacity, price) - now
    straight += _excess(heads[0] + tails[1], capacity, price) + _excess(heads[1] + tails[0], capacity, price) - now
    if min(turned, straight) >= -TINY:
        return False
    begin = nodes[n + r, AFTER]
    middle = _copy(nodes, AFTER, begin, x, buffer, 0)
    if turned < straight:
        middle = _copy(nodes, BEFORE, v, n + s, buffer, middle)
        end = _copy(nodes, BEFORE, nodes[n + r, BEFORE], u, buffer, middle)
        end = _copy(nodes, AFTER, y, n + s, buffer, end)
    else:
        middle = _copy(nodes, AFTER, y, n + s, buffer, middle)
        end = _copy(nodes, AFTER, nodes[n + s, AFTER], y, buffer, middle)
        end = _copy(nodes, AFTER, x, n + r, buffer, end)
    _lay(nodes, buffer, 0, middle, n + r)
    _lay(nodes, buffer, middle, end, n + s)
    _changed(n, demand, nodes, routes, done, r, s)
    return True


@njit(inline="always")
def _copy(nodes: IntArray, way: int, node: int, stop: int, buffer: IntArray, end: int) -> int:
    """Append the nodes from one on, in one of the ways AFTER and BEFORE, until another; the new end."""
    while node != stop:
        buffer[end] = node
        node = nodes[node, way]
        end += 1
    return end


@njit(inline="always")
def _lay(nodes: IntArray, buffer: IntArray, begin: int, end: int, depot: int) -> None:
    """Link a route anew."""
    left = depot
    for k in range(begin, end):
        _link(nodes, left, buffer[k])
        left = buffer[k]
    _link(nodes, left, depot)


@njit(cache=True, nogil=True)
def _swap_star(
    data: FloatArray,
    near: NodeArray,
    demand: IntArray,
    capacity: int,
    price: float,
    nodes: IntArray,
    routes: IntArray,
    done: IntArray,
    best: FloatArray,
    behind: IntArray,
) -> None:
    """SWAP* between every two neighbouring routes of which one has changed since the last time."""
    beside = np.zeros((len(routes), len(routes)), np.bool_)
    for u in range(1, len(data)):
        for k in range(min(BESIDE, near.shape[1])):
            r, s = nodes[u, ROUTE], nodes[near[u, k], ROUTE]
            beside[min(r, s), max(r, s)] = r != s
    for r in range(len(routes)):
        seen = routes[r, SWAPPED]
        routes[r, SWAPPED] = done[0]
        for s in range(r + 1, len(routes)):
            if beside[r, s] and max(routes[r, CHANGED], routes[s, CHANGED]) > seen:
                _swap_routes(data, demand, capacity, price, nodes, routes, done, best, behind, r, s)


@njit(cache=True, nogil=True)
def _places(data: FloatArray, nodes: IntArray, r: int, s: int, best: FloatArray, behind: IntArray) -> None:
    """For each customer of route r, the three cheapest places in route s."""
    n = len(data)
    u = nodes[n + r, AFTER]
    while u < n:
        for k in range(3):
            best[u, k] = math.inf
        left = n + s
        while True:
            right = nodes[left, AFTER]
            cost = _length(data, left, u) + _length(data, u, right) - _length(data, left, right)
            if cost < best[u, 2]:
                k = 2
                while k > 0 and cost < best[u, k - 1]:
                    best[u, k], behind[u, k] = best[u, k - 1], behind[u, k - 1]
                    k -= 1
                best[u, k], behind[u, k] = cost, left
            left = right
            if left >= n:
                break
        u = nodes[u, AFTER]


@njit(inline="always")
def _without(
    data: FloatArray, nodes: IntArray, best: FloatArray, behind: IntArray, u: int, v: int
) -> tuple[float, int]:
    """The cheapest place of u in the route of v when v has left: what it costs, and behind whom."""
    left, right = nodes[v, BEFORE], nodes[v, AFTER]
    cost, place = _length(data, left, u) + _length(data, u, right) - _length(data, left, right), left
    for k in range(3):
        if best[u, k] >= cost:
            break
        if behind[u, k] != v and behind[u, k] != left:
            return best[u, k], behind[u, k]
    return cost, place


@njit(cache=True, nogil=True)
def _swap_routes(
    data: FloatArray,
    demand: IntArray,
    capacity: int,
    price: float,
    nodes: IntArray,
    routes: IntArray,
    done: IntArray,
    best: FloatArray,
    behind: IntArray,
    r: int,
    s: int,
) -> None:
    """Let the best two customers of two routes change routes, each to its best place there, if that helps."""
    n = len(data)
    _places(data, nodes, r, s, best, behind)
    _places(data, nodes, s, r, best, behind)
    loads = routes[r, LOAD], routes[s, LOAD]
    now = _excess(loads[0], capacity, price) + _excess(loads[1], capacity, price)
    least, one, two, at_one, at_two = -TINY, 0, 0, 0, 0
    u = nodes[n + r, AFTER]
    while u < n:
        a, x = nodes[u, BEFORE], nodes[u, AFTER]
        out = _length(data, a, x) - _length(data, a, u) - _length(data, u, x) - now
        v = nodes[n + s, AFTER]
        while v < n:
            b, y = nodes[v, BEFORE], nodes[v, AFTER]
            more = demand[v] - demand[u]
            delta = _excess(loads[0] + more, capacity, price) + _excess(loads[1] - more, capacity, price)
            delta += out + _length(data, b, y) - _length(data, b, v) - _length(data, v, y)
            if delta < least:
                cost_u, place_u = _without(data, nodes, best, behind, u, v)
                cost_v, place_v = _without(data, nodes, best, behind, v, u)
                delta += cost_u + cost_v
                if delta < least:
                    least, one, two, at_one, at_two = delta, u, v, place_u, place_v
            v = y
        u = x
    if one == 0:
        return
    for node in (one, two):
        _link(nodes, nodes[node, BEFORE], nodes[node, AFTER])
    for node, left in ((one, at_one), (two, at_two)):
        right = nodes[left, AFTER]
        _link(nodes, left, node)
        _link(nodes, node, right)
    _changed(n, demand, nodes, routes, done, r, s)
