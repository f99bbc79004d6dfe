"""Iterated local search for TSP: 2-opt and Or-opt with neighbour lists, and small double bridges to get on from there.

The kernels work on a path between two fixed ends, the nodes of a tour or of a part of one. That is how several threads
work on one tour. Nodes elsewhere have the place ELSEWHERE. Every move is a few reversals, so undoing a kick that led
nowhere is reversing them backwards.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.search.data import SearchArrays
from elgo.search.distances import Distances, distance
from elgo.search.giant_tour import NodeArray
from elgo.search.rng import RandomState, uniform

ELSEWHERE = -1
BREADTH = 8  # near nodes that a move may connect to
LONGEST = 3  # segment that Or-opt moves
SPREAD = 30  # nodes in each of the two segments that a kick exchanges, at most
FARTHEST = 50_000  # nodes that a move may reverse
ROOM = 8  # free lines of the log, more than one move takes
TINY = 1e-9  # a gain below this is rounding

# state (3,): reversals in the log (-1: they are not logged), first and number of waiting nodes
LOGGED, FIRST, WAITING = range(3)


@njit(cache=True, nogil=True)
def iterated_local_search(
    data: SearchArrays, path: NodeArray, perturbations: int, random_state: RandomState
) -> tuple[NodeArray, float]:
    """Improve a path to a local optimum, then by perturbations; return the path and how much shorter it is."""
    distances, neighbours = data.distances, data.neighbours
    path = path.copy()
    size = len(path)
    place = np.full(len(neighbours), ELSEWHERE, np.int32)
    for k in range(size):
        place[path[k]] = k
    queue = path.copy()
    waits = np.zeros(len(neighbours), np.bool_)
    waits[path] = True
    log = np.empty((4096, 2), np.int32)
    state = np.array([-1, 0, size], np.int64)
    gain = _descend(distances, neighbours, path, place, queue, waits, log, state)
    if size < 8:
        return path, gain
    for _ in range(perturbations):
        state[LOGGED] = 0
        change = _double_bridge(distances, path, place, queue, waits, log, state, random_state)
        change += _descend(distances, neighbours, path, place, queue, waits, log, state)
        if change >= 0.0:
            gain += change
            continue
        for k in range(state[LOGGED] - 1, -1, -1):
            _reverse(path, place, log[k, 0], log[k, 1])
    return path, gain


@njit(cache=True, nogil=True)
def _descend(
    distances: Distances,
    neighbours: NodeArray,
    path: NodeArray,
    place: NodeArray,
    queue: NodeArray,
    waits: NDArray[np.bool_],
    log: NodeArray,
    state: NDArray[np.int64],
) -> float:
    """Move the waiting nodes until none of them gains by it; the gain."""
    total = 0.0
    while state[WAITING] > 0 and state[LOGGED] < len(log) - ROOM:  # what waits then comes with the next kick
        node = queue[state[FIRST]]
        state[FIRST] = (state[FIRST] + 1) % len(queue)
        state[WAITING] -= 1
        waits[node] = False
        while state[LOGGED] < len(log) - ROOM:
            gain = _two_opt(distances, neighbours, path, place, queue, waits, log, state, node)
            if gain == 0.0:
                gain = _or_opt(distances, neighbours, path, place, queue, waits, log, state, node)
            if gain == 0.0:
                break
            total += gain
    return total


@njit(cache=True, nogil=True)
def _two_opt(
    distances: Distances,
    neighbours: NodeArray,
    path: NodeArray,
    place: NodeArray,
    queue: NodeArray,
    waits: NDArray[np.bool_],
    log: NodeArray,
    state: NDArray[np.int64],
    a: int,
) -> float:
    """The first exchange of two edges, one of them at node a, that gains; what it gains, 0 if there is none."""
    last = len(path) - 1
    for side in (1, -1):
        i = place[a]
        if not 0 <= i + side <= last:
            continue
        b = path[i + side]
        length = distance(distances, a, b)
        for k in range(min(BREADTH, neighbours.shape[1])):
            c = neighbours[a, k]
            much = length - distance(distances, a, c)
            if much <= TINY:
                break
            j = place[c]
            if j == ELSEWHERE or not 0 <= j + side <= last:
                continue
            d = path[j + side]
            gain = much + distance(distances, c, d) - distance(distances, b, d)
            if gain <= TINY or abs(i - j) > FARTHEST:
                continue
            low, high = min(i, j), max(i, j)
            if side == 1:
                _move(path, place, log, state, low + 1, high)
            else:
                _move(path, place, log, state, low, high - 1)
            for node in (a, b, c, d):
                _wait(queue, waits, state, node)
            return gain
    return 0.0


@njit(cache=True, nogil=True)
def _or_opt(
    distances: Distances,
    neighbours: NodeArray,
    path: NodeArray,
    place: NodeArray,
    queue: NodeArray,
    waits: NDArray[np.bool_],
    log: NodeArray,
    state: NDArray[np.int64],
    a: int,
) -> float:
    """The first gain by moving a short segment with node a at one end beside a near node of a; 0 if there is none."""
    last = len(path) - 1
    i = place[a]
    for side in (1, -1):  # the segment reaches from a to this side
        for length in range(LONGEST):
            far = i + side * length
            low, high = min(i, far), max(i, far)
            if low < 1 or high > last - 1:  # the ends stay
                break
            end = path[far]
            left, right = path[low - 1], path[high + 1]
            out = distance(distances, left, path[low]) + distance(distances, path[high], right)
            out -= distance(distances, left, right)
            for k in range(min(BREADTH, neighbours.shape[1])):
                c = neighbours[a, k]
                much = out - distance(distances, a, c)
                if much <= TINY:
                    break
                j = place[c]
                if j == ELSEWHERE or low <= j <= high or abs(i - j) > FARTHEST:
                    continue
                for step in (1, -1):  # between c and the node on this side of it
                    if not 0 <= j + step <= last or low <= j + step <= high:
                        continue
                    d = path[j + step]
                    gain = much + distance(distances, c, d) - distance(distances, end, d)
                    if gain <= TINY:
                        continue
                    first, second = min(j, j + step), max(j, j + step)
                    turned = (step == 1) == (side == -1)  # a comes beside c
                    _shift(path, place, log, state, low, high, first, second, turned)
                    for node in (a, end, left, right, c, d):
                        _wait(queue, waits, state, node)
                    return gain
    return 0.0


@njit(cache=True, nogil=True)
def _double_bridge(
    distances: Distances,
    path: NodeArray,
    place: NodeArray,
    queue: NodeArray,
    waits: NDArray[np.bool_],
    log: NodeArray,
    state: NDArray[np.int64],
    random_state: RandomState,
) -> float:
    """Exchange two neighbouring short segments somewhere; what that gains, hardly ever more than 0."""
    spread = min(SPREAD, (len(path) - 2) // 3)
    one, two = 1 + int(uniform(random_state) * spread), 1 + int(uniform(random_state) * spread)
    low = 1 + int(uniform(random_state) * (len(path) - 1 - one - two))
    middle, high = low + one, low + one + two - 1
    left, right = path[low - 1], path[high + 1]
    a, b, c, d = path[low], path[middle - 1], path[middle], path[high]
    gain = distance(distances, left, a) + distance(distances, b, c) + distance(distances, d, right)
    gain -= distance(distances, left, c) + distance(distances, d, a) + distance(distances, b, right)
    _shift(path, place, log, state, low, middle - 1, high, high + 1, False)
    for node in (left, a, b, c, d, right):
        _wait(queue, waits, state, node)
    return gain


@njit(inline="always")
def _wait(queue: NodeArray, waits: NDArray[np.bool_], state: NDArray[np.int64], node: int) -> None:
    """Let a node wait for its turn, unless it does already."""
    if not waits[node]:
        waits[node] = True
        queue[(state[FIRST] + state[WAITING]) % len(queue)] = node
        state[WAITING] += 1


@njit(cache=True, nogil=True)
def _shift(
    path: NodeArray,
    place: NodeArray,
    log: NodeArray,
    state: NDArray[np.int64],
    low: int,
    high: int,
    first: int,
    second: int,
    turned: bool,
) -> None:
    """Move what is at low..high between the neighbouring places first and second, turned round or not."""
    size = high - low + 1
    if first > high:
        _move(path, place, log, state, low, first)
        _move(path, place, log, state, low, first - size)
        if not turned:
            _move(path, place, log, state, first - size + 1, first)
    else:
        _move(path, place, log, state, second, high)
        _move(path, place, log, state, second + size, high)
        if not turned:
            _move(path, place, log, state, second, second + size - 1)


@njit(inline="always")
def _move(path: NodeArray, place: NodeArray, log: NodeArray, state: NDArray[np.int64], low: int, high: int) -> None:
    """Reverse the path between two places, and log it while a kick may have to be undone."""
    _reverse(path, place, low, high)
    if state[LOGGED] >= 0:
        log[state[LOGGED], 0] = low
        log[state[LOGGED], 1] = high
        state[LOGGED] += 1


@njit(cache=True, nogil=True)
def _reverse(path: NodeArray, place: NodeArray, low: int, high: int) -> None:
    while low < high:
        a, b = path[low], path[high]
        path[low], path[high] = b, a
        place[b], place[a] = low, high
        low += 1
        high -= 1
    if low == high:
        place[path[low]] = low
