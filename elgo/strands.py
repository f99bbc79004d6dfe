"""Strands: what a TSP rollout would leave behind, and where it would get stuck.

In the graph of strong kin (elgo.kin), a good tour goes on from the current node through all nodes that are not visited
to the first one. Who is joined to the first node by way of one other node alone is left behind once that is visited. A
part of the graph that hangs on the rest by one node is a dead end: unless the tour goes on there at once, it comes to
stand there later and has to leave by an edge that good tours do not have. So does every island, a part that is not
joined to the first node any more. One search in depth from the first node on finds all of that (articulation points and
blocks; Hopcroft and Tarjan 1973).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.kin import STRONG

FEATURES = 4  # of a node, see read_strands

Ints = NDArray[np.int64]


class Space(NamedTuple):
    """Where the search notes what it finds of the nodes."""

    is_open: NDArray[np.bool_]  # (N,) nodes to go
    found: Ints  # (N,) when, from 1 on; 0: not yet
    order: Ints  # (N + 1,) the nodes as they were found, from 1 on
    up: Ints  # (N,) towards the first node; on an island -1 - i, where i names the island
    low: Ints  # (N,) the first found that a node's branch of the tree is joined to
    size: Ints  # (N,) of a node's branch, or of the island that is named by it
    cut: Ints  # (N,) how many are joined to the first node only by way of this one
    parts: Ints  # (N,) of a node's branch, how many hang on the rest by one node each
    dead: NDArray[np.bool_]  # (N,) whether in a dead end or on an island
    edge: Ints  # (N,) to look at next
    stack: Ints  # (N,)


@njit(nogil=True)
def make_space(n):  # type: ignore[no-untyped-def]
    a, flags = np.zeros((8, n), np.int64), np.zeros((2, n), np.bool_)
    return Space(flags[0], a[0], np.zeros(n + 1, np.int64), a[1], a[2], a[3], a[4], a[5], flags[1], a[6], a[7])


@njit(nogil=True)
def read_strands(kin, row, first, current, tokens, count, space, features):  # type: ignore[no-untyped-def]
    """Features of moves to tokens[:count] into (T, 4), and log(1 + number of dead ends).

    They are log(1 + nodes left behind), 1 if to an island, 1 if into a dead end, and if it is strong kin of the current
    node, log(1 + dead ends after it), but for one where the tour could go on. row: of the task's first node in kin.
    space.is_open: the nodes to go; the rest of the space is scratch.
    """
    missing, ends = find_strands(kin, row, first, space)
    for t in range(count):
        node = tokens[t]
        island = space.up[node] < 0
        left = missing - space.size[-1 - space.up[node]] if island else missing + space.cut[node]
        features[t, 0], features[t, 1], features[t, 2] = math.log1p(left), island, space.dead[node]
        features[t, 3] = 0.0
    for e in range(kin.begin[row + current], kin.begin[row + current + 1]):
        for t in range(count if kin.value[e] > STRONG and space.is_open[kin.node[e]] else 0):
            if tokens[t] == kin.node[e]:
                features[t, 3] = math.log1p(_ends_after(kin, row, first, tokens[t], space))
    return math.log1p(ends)


@njit(nogil=True)
def _ends_after(kin, row, first, node, space):  # type: ignore[no-untyped-def]
    """Dead ends and islands when the tour has moved to a node, but for one that it can go on to."""
    space.is_open[node] = False
    _, ends = find_strands(kin, row, first, space)
    goes_on = False
    for e in range(kin.begin[row + node], kin.begin[row + node + 1]):
        j = kin.node[e]
        goes_on = goes_on or (kin.value[e] > STRONG and space.is_open[j] and space.dead[j])
    space.is_open[node] = True
    return ends - goes_on


@njit(nogil=True)
def find_strands(kin, row, first, space):  # type: ignore[no-untyped-def]
    """Search among the nodes to go and the first one: how many are not joined to it, how many dead ends and islands."""
    space.found[:] = 0
    space.cut[:] = 0
    space.parts[:] = 0
    space.dead[:] = False
    reached = _reach(kin, row, first, space)
    ends, missing = _dead_ends(space, reached), 0
    for i in range(len(space.is_open)):
        if space.is_open[i] and space.found[i] == 0:
            _flood(kin, row, i, space)
            ends += 1
            missing += space.size[i]
    return missing, ends


@njit(nogil=True)
def _reach(kin, row, first, space):  # type: ignore[no-untyped-def]
    """Search in depth from the first node on; how many nodes it finds, that one included."""
    found, order, up, low, size = space.found, space.order, space.up, space.low, space.size
    edge, stack, is_open = space.edge, space.stack, space.is_open
    clock, depth = 1, 1
    stack[0] = up[first] = order[1] = first
    found[first] = low[first] = size[first] = 1
    edge[first] = kin.begin[row + first]
    while depth > 0:
        i = stack[depth - 1]
        if edge[i] == kin.begin[row + i + 1]:
            depth -= 1
            if i != first:
                above = up[i]
                low[above] = min(low[above], low[i])
                size[above] += size[i]
            continue
        e = edge[i]
        edge[i] += 1
        j = kin.node[e]
        if kin.value[e] <= STRONG or j == up[i] or not (is_open[j] or j == first):
            continue
        if found[j] > 0:
            low[i] = min(low[i], found[j])
            continue
        clock += 1
        found[j] = low[j] = clock
        order[clock], size[j], up[j], edge[j] = j, 1, i, kin.begin[row + j]
        stack[depth] = j
        depth += 1
    return clock


@njit(nogil=True)
def _dead_ends(space, reached):  # type: ignore[no-untyped-def]
    """How many branches hang on the rest by one node, and have none themselves; from the tree's leaves upwards."""
    ends = 0
    for when in range(reached, 1, -1):
        i = space.order[when]
        above = space.up[i]
        parts = space.parts[i]
        if space.low[i] >= space.found[above]:
            space.cut[above] += space.size[i]
            if parts == 0:
                ends += 1
                for e in range(when, when + space.size[i]):
                    space.dead[space.order[e]] = True
            parts += 1
        space.parts[above] += parts
    return ends


@njit(nogil=True)
def _flood(kin, row, begin, space):  # type: ignore[no-untyped-def]
    """The island of a node that is not joined to the first one."""
    space.stack[0], depth = begin, 1
    space.found[begin], space.up[begin], space.size[begin], space.dead[begin] = 1, -1 - begin, 1, True
    while depth > 0:
        depth -= 1
        i = space.stack[depth]
        for e in range(kin.begin[row + i], kin.begin[row + i + 1]):
            j = kin.node[e]
            if kin.value[e] > STRONG and space.is_open[j] and space.found[j] == 0:
                space.found[j], space.up[j], space.dead[j] = 1, -1 - begin, True
                space.size[begin] += 1
                space.stack[depth] = j
                depth += 1
