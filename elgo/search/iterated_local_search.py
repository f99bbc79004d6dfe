"""Iterated local search for TSP: 2-opt and Or-opt with neighbour lists, perturbed by small double bridges.

The kernels work on a path with fixed ends, which may be a part of a tour: that is how several threads share one tour.
Every move is a sequence of reversals, so a perturbation that led to no gain is undone by repeating its reversals
backwards.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.jit.cache import cached_njit
from elgo.search.data import SearchArrays
from elgo.search.distances import Distances, distance
from elgo.search.giant_tour import NodeArray
from elgo.search.rng import RandomState, uniform

OUTSIDE = -1  # position of a node that is not on the path
NEIGHBOURS = 8  # nearest nodes of a node that a move may connect it to
MAX_SEGMENT = 3  # nodes that Or-opt moves
MAX_BRIDGE = 30  # nodes in each of the two segments that a double bridge exchanges
MAX_REVERSED = 50_000  # nodes that a move may reverse
LOG_SIZE = 4096  # reversals that can be undone
LOG_RESERVE = 8  # entries of the log kept free; no move takes more
MOVES_PER_NODE = 100  # of a descent, at most: it needs one or two
DESCENT_WORK = 2 * 10**8  # nodes that it may reverse: a fraction of a second; the next slice goes on
SMALLEST = 8  # nodes of a path that can be perturbed

COUNTERS = np.dtype([(name, np.int64) for name in ("head", "waiting", "logged", "work")])


class PathSearch(NamedTuple):
    """The state of the search.

    path      (m,) the nodes in their order
    position  (n,) of each node on the path, or OUTSIDE
    queue     (m,) ring buffer of the nodes whose moves are to be tried
    queued    (n,) whether a node is in it
    log       (LOG_SIZE, 2) ends of the reversals since the perturbation
    counters  (1,) head: first entry of the queue; waiting: its length; logged: reversals in the log, -1 for no logging;
              work: nodes that were reversed
    """

    path: NodeArray
    position: NodeArray
    queue: NodeArray
    queued: NDArray[np.bool_]
    log: NodeArray
    counters: NDArray[np.void]


@cached_njit(nogil=True)
def iterated_local_search(
    data: SearchArrays, path: NodeArray, perturbations: int, state: RandomState
) -> tuple[NodeArray, float]:
    """Improve a path to a local optimum, then by perturbations; return the path and how much shorter it is."""
    search = _start(path, len(data.neighbours))
    gain = _descend(data, search)
    if len(path) < SMALLEST or search.counters[0].waiting > 0:  # the next call goes on with the descent
        return search.path, gain
    for _ in range(perturbations):
        search.counters[0].logged = 0
        change = _double_bridge(data.distances, search, state) + _descend(data, search)
        if change >= 0.0:
            gain += change
        else:
            _undo(search)
    return search.path, gain


@cached_njit(nogil=True)
def _start(path: NodeArray, size: int) -> PathSearch:
    """Return the state with all nodes of the path in the queue; `size` is the number of nodes of the instance."""
    position = np.full(size, OUTSIDE, np.int32)
    queued = np.zeros(size, np.bool_)
    for k in range(len(path)):
        position[path[k]] = k
        queued[path[k]] = True
    counters = np.zeros(1, COUNTERS)
    counters[0].waiting = len(path)
    counters[0].logged = -1
    return PathSearch(path.copy(), position, path.copy(), queued, np.empty((LOG_SIZE, 2), np.int32), counters)


@cached_njit(nogil=True)
def _descend(data: SearchArrays, search: PathSearch) -> float:
    """Apply moves of the queued nodes until none gains; return the total gain.

    It ends earlier if the log is full or the work too much; the nodes that are left wait for the next call.
    """
    total = 0.0
    counters, moves = search.counters, MOVES_PER_NODE * len(search.path)
    counters[0].work = 0
    while counters[0].waiting > 0 and counters[0].logged < LOG_SIZE - LOG_RESERVE and moves > 0:
        node = search.queue[counters[0].head]
        counters[0].head = (counters[0].head + 1) % len(search.queue)
        counters[0].waiting -= 1
        search.queued[node] = False
        while counters[0].logged < LOG_SIZE - LOG_RESERVE and moves > 0:
            gain = _two_opt(data, search, node)
            if gain == 0.0:
                gain = _or_opt(data, search, node)
            if gain == 0.0:
                break
            total += gain
            moves = moves - 1 if counters[0].work < DESCENT_WORK else 0
    return total


@cached_njit(nogil=True)
def _two_opt(data: SearchArrays, search: PathSearch, a: int) -> float:
    """Apply the first improving exchange of two edges, one of them at node a; return its gain, or 0 without one."""
    distances, neighbours, path, position = data.distances, data.neighbours, search.path, search.position
    last = len(path) - 1
    for side in (1, -1):
        i = position[a]
        if not 0 <= i + side <= last:
            continue
        b = path[i + side]
        length = distance(distances, a, b)
        for k in range(min(NEIGHBOURS, neighbours.shape[1])):
            c = neighbours[a, k]
            saved = length - distance(distances, a, c)
            if saved <= data.tolerance:
                break
            j = position[c]
            if j == OUTSIDE or not 0 <= j + side <= last:
                continue
            d = path[j + side]
            gain = saved + distance(distances, c, d) - distance(distances, b, d)
            if gain <= data.tolerance or abs(i - j) > MAX_REVERSED:
                continue
            _reverse(search, min(i, j) + (side == 1), max(i, j) - (side == -1))
            for node in (a, b, c, d):
                _enqueue(search, node)
            return gain
    return 0.0


@cached_njit(nogil=True)
def _or_opt(data: SearchArrays, search: PathSearch, a: int) -> float:
    """Apply the first improving move of a short segment, with node a at one end, next to a neighbour of a.

    Return its gain, or 0 if there is none.
    """
    distances, neighbours, path, position = data.distances, data.neighbours, search.path, search.position
    last = len(path) - 1
    i = position[a]
    for side in (1, -1):  # the segment extends from a to this side
        for length in range(MAX_SEGMENT):
            far = i + side * length
            low, high = min(i, far), max(i, far)
            if low < 1 or high > last - 1:  # the ends of the path are fixed
                break
            end = path[far]
            left, right = path[low - 1], path[high + 1]
            removed = distance(distances, left, path[low]) + distance(distances, path[high], right)
            removed -= distance(distances, left, right)
            for k in range(min(NEIGHBOURS, neighbours.shape[1])):
                c = neighbours[a, k]
                saved = removed - distance(distances, a, c)
                if saved <= data.tolerance:
                    break
                j = position[c]
                if j == OUTSIDE or low <= j <= high or abs(i - j) > MAX_REVERSED:
                    continue
                for step in (1, -1):  # insert between c and the node on this side of it
                    if not 0 <= j + step <= last or low <= j + step <= high:
                        continue
                    d = path[j + step]
                    gain = saved + distance(distances, c, d) - distance(distances, end, d)
                    if gain <= data.tolerance:
                        continue
                    _move_segment(search, low, high, min(j, j + step), (step == 1) == (side == -1))  # a next to c
                    for node in (a, end, left, right, c, d):
                        _enqueue(search, node)
                    return gain
    return 0.0


@cached_njit(nogil=True)
def _double_bridge(distances: Distances, search: PathSearch, state: RandomState) -> float:
    """Exchange two random short segments that follow each other; return the gain, usually negative."""
    path = search.path
    longest = min(MAX_BRIDGE, (len(path) - 2) // 3)
    one, two = 1 + int(uniform(state) * longest), 1 + int(uniform(state) * longest)
    low = 1 + int(uniform(state) * (len(path) - 1 - one - two))
    middle, high = low + one, low + one + two - 1
    left, right = path[low - 1], path[high + 1]
    a, b, c, d = path[low], path[middle - 1], path[middle], path[high]
    gain = distance(distances, left, a) + distance(distances, b, c) + distance(distances, d, right)
    gain -= distance(distances, left, c) + distance(distances, d, a) + distance(distances, b, right)
    _move_segment(search, low, middle - 1, high, False)
    for node in (left, a, b, c, d, right):
        _enqueue(search, node)
    return gain


@njit(inline="always")
def _enqueue(search: PathSearch, node: int) -> None:
    """Add a node to the queue unless it is there already."""
    if not search.queued[node]:
        search.queued[node] = True
        search.queue[(search.counters[0].head + search.counters[0].waiting) % len(search.queue)] = node
        search.counters[0].waiting += 1


@cached_njit(nogil=True)
def _move_segment(search: PathSearch, low: int, high: int, before: int, reverse: bool) -> None:
    """Move the segment at positions low..high between positions before and before + 1, reversed or not."""
    size = high - low + 1
    if before > high:
        _reverse(search, low, before)
        _reverse(search, low, before - size)
        if not reverse:
            _reverse(search, before - size + 1, before)
    else:
        _reverse(search, before + 1, high)
        _reverse(search, before + 1 + size, high)
        if not reverse:
            _reverse(search, before + 1, before + size)


@njit(inline="always")
def _reverse(search: PathSearch, low: int, high: int) -> None:
    """Reverse the path at positions low..high, and log it if a perturbation may have to be undone."""
    _reverse_path(search.path, search.position, low, high)
    search.counters[0].work += high - low
    logged = search.counters[0].logged
    if logged >= 0:
        search.log[logged, 0] = low
        search.log[logged, 1] = high
        search.counters[0].logged = logged + 1


@njit(inline="always")
def _undo(search: PathSearch) -> None:
    """Undo all logged reversals."""
    for k in range(search.counters[0].logged - 1, -1, -1):
        _reverse_path(search.path, search.position, search.log[k, 0], search.log[k, 1])


@cached_njit(nogil=True)
def _reverse_path(path: NodeArray, position: NodeArray, low: int, high: int) -> None:
    while low < high:
        a, b = path[low], path[high]
        path[low], path[high] = b, a
        position[b], position[a] = low, high
        low, high = low + 1, high - 1
    if low == high:
        position[path[low]] = low
