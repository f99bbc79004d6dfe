"""Strands: whom a move of a TSP rollout cuts off from the end of the tour.

In the graph of strong kin (elg.kin), a good tour goes on from the current node through all nodes that are not visited to
the first one. Whoever is joined to the first node only by way of a node is left behind once that node is visited: it
can be reached only by edges that good tours do not have. One search in depth from the first node on tells that of all
nodes at once (articulation points; Hopcroft and Tarjan 1973).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elg.kin import STRONG

Ints = NDArray[np.int64]


class Space(NamedTuple):
    """Where the search notes what it finds; each (N,)."""

    found: Ints  # when, from 1 on; 0: not yet
    low: Ints  # the first found that a node's part of the tree is joined to
    size: Ints  # of a node's part of the tree; without the first node, of its island
    cut: Ints  # how many are joined to the first node only by way of this one
    up: Ints  # towards the first node; of those that are not joined to it, -1 less the node that their island is named by
    edge: Ints  # to look at next
    stack: Ints


@njit(nogil=True)
def make_space(n):  # type: ignore[no-untyped-def]
    a = np.zeros((7, n), np.int64)
    return Space(a[0], a[1], a[2], a[3], a[4], a[5], a[6])


@njit(nogil=True)
def find_strands(kin, row, first, is_open, to_go, space):  # type: ignore[no-untyped-def]
    """Search the graph of strong kin among the nodes to go, is_open (N,), and the first; how many it does not reach.

    row: of the task's first node in kin. What is found stays in the space: see strand.
    """
    space.found[:] = 0
    space.cut[:] = 0
    missing = to_go + 1 - _reach(kin, row, first, is_open, space)
    if missing > 0:
        for i in range(len(is_open)):
            if is_open[i] != 0 and space.found[i] == 0:
                _flood(kin, row, i, is_open, space)
    return missing


@njit(nogil=True)
def strand(space, missing, node):  # type: ignore[no-untyped-def]
    """How many nodes a move to this one leaves behind; and whether it goes to an island, not joined to the first."""
    if space.up[node] >= 0:
        return missing + space.cut[node], False
    return missing - space.size[-1 - space.up[node]], True


@njit(nogil=True)
def _reach(kin, row, first, is_open, space):  # type: ignore[no-untyped-def]
    """Search in depth from the first node on; how many nodes it finds, that one included."""
    found, low, size, cut, up, edge, stack = space
    clock, depth = 1, 1
    stack[0] = up[first] = first
    found[first] = low[first] = size[first] = 1
    edge[first] = kin.begin[row + first]
    while depth > 0:
        i = stack[depth - 1]
        if edge[i] < kin.begin[row + i + 1]:
            e = edge[i]
            edge[i] += 1
            j = kin.node[e]
            if kin.value[e] <= STRONG or j == up[i] or (is_open[j] == 0 and j != first):
                continue
            if found[j] > 0:
                low[i] = min(low[i], found[j])
                continue
            clock += 1
            found[j] = low[j] = clock
            size[j], up[j], edge[j] = 1, i, kin.begin[row + j]
            stack[depth] = j
            depth += 1
            continue
        depth -= 1
        if i != first:
            above = up[i]
            low[above] = min(low[above], low[i])
            size[above] += size[i]
            if low[i] >= found[above]:
                cut[above] += size[i]
    return clock


@njit(nogil=True)
def _flood(kin, row, begin, is_open, space):  # type: ignore[no-untyped-def]
    """The island of a node that is not joined to the first one."""
    found, _, size, _, up, _, stack = space
    stack[0], depth = begin, 1
    found[begin], up[begin], size[begin] = 1, -1 - begin, 1
    while depth > 0:
        depth -= 1
        i = stack[depth]
        for e in range(kin.begin[row + i], kin.begin[row + i + 1]):
            j = kin.node[e]
            if kin.value[e] > STRONG and is_open[j] != 0 and found[j] == 0:
                found[j], up[j] = 1, -1 - begin
                size[begin] += 1
                stack[depth] = j
                depth += 1
