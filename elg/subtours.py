"""The subtour relaxation of a TSP: the shortest "tour" in shares of edges, by linear programming.

Every node has edges that add up to 2, and at least 2 leave every set of nodes (Dantzig, Fulkerson and Johnson 1954).
The shares are what Held and Karp's bound comes to when its prices are the best ones. Sets that are left with less are
found as components of the edges above a threshold and, when there is none, by minimum cuts (Stoer and Wagner 1997).
"""

from __future__ import annotations

from collections.abc import Iterator

import highspy
import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

THRESHOLDS = (1e-6, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
WHOLE = 1 - 1e-6  # a share of 1 up to rounding
VIOLATED = 2 - 1e-3  # a set that less than this leaves
MOST_ROUNDS = 60
MOST_CUTS = 200  # per round of minimum cuts

Edges = NDArray[np.int64]
Shares = NDArray[np.float64]


def edge_shares(edges: Edges, length: Shares, n: int) -> Shares | None:
    """(E,) the share of each edge; None if the edges have no tour even in shares."""
    program = _degrees_of_two(edges, length, n)
    seen: set[bytes] = set()
    share = _solve(program)
    for _ in range(MOST_ROUNDS):
        if share is None:
            break
        cuts = [nodes for nodes in _loose_sets(edges, share, n) if _is_new(nodes, seen)]
        if not cuts:
            break
        for nodes in cuts:
            leaving = np.nonzero(nodes[edges[:, 0]] != nodes[edges[:, 1]])[0].astype(np.int32)
            program.addRow(2.0, highspy.kHighsInf, len(leaving), leaving, np.ones(len(leaving)))
        share = _solve(program)
    return share


def _degrees_of_two(edges: Edges, length: Shares, n: int) -> highspy.Highs:
    count = len(edges)
    program = highspy.Highs()
    program.setOptionValue("output_flag", False)
    program.setOptionValue("threads", 1)
    program.addVars(count, np.zeros(count), np.ones(count))
    program.changeColsCost(count, np.arange(count, dtype=np.int32), length / max(length.mean(), 1e-300))
    order = np.argsort(edges.ravel(), kind="stable")
    at = (order // 2).astype(np.int32)  # the edges of node 0, of node 1 ...
    begin = np.searchsorted(edges.ravel()[order], np.arange(n)).astype(np.int32)
    twos = np.full(n, 2.0)
    program.addRows(n, twos, twos, len(at), begin, at, np.ones(len(at)))
    return program


def _solve(program: highspy.Highs) -> Shares | None:
    program.run()
    if program.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.array(program.getSolution().col_value)


def _loose_sets(edges: Edges, share: Shares, n: int) -> Iterator[NDArray[np.bool_]]:
    """(N,) masks of sets that less than 2 leaves: components if there are such, else minimum cuts."""
    found = False
    for threshold in THRESHOLDS:
        count, part = _components(edges[share >= threshold], n)
        crossing = part[edges[:, 0]] != part[edges[:, 1]]
        ends = part[edges[crossing]]
        leaving = np.bincount(ends.ravel(), np.repeat(share[crossing], 2), count)
        for i in np.nonzero(leaving < VIOLATED)[0] if count > 1 else ():
            found = True
            yield part == i
    if found:
        return
    count, part = _components(edges[share >= WHOLE], n)  # what whole edges join, no cut below 2 needs to part
    weight = np.zeros((count, count))
    ends = part[edges]
    np.add.at(weight, (ends[:, 0], ends[:, 1]), share)
    weight += weight.T
    np.fill_diagonal(weight, 0.0)
    for side in _minimum_cuts(weight, VIOLATED, MOST_CUTS):
        yield side[part]


def _components(edges: Edges, n: int) -> tuple[int, NDArray[np.int32]]:
    graph = csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (n, n))
    count, part = connected_components(graph, directed=False)
    return int(count), part


def _is_new(nodes: NDArray[np.bool_], seen: set[bytes]) -> bool:
    """Whether neither the set nor the rest of the nodes was there before."""
    key = (nodes ^ nodes[0]).tobytes()
    new = key not in seen
    seen.add(key)
    return new


@njit(cache=True, nogil=True)
def _minimum_cuts(weight, limit, most):  # type: ignore[no-untyped-def]
    """(C, N) sides of the cuts below the limit that Stoer and Wagner come across; the weights are used up."""
    n = len(weight)
    alive, inside = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    tied = np.zeros(n)
    member = np.arange(n)  # the node that each was merged into
    sides = np.zeros((most, n), np.bool_)
    found = 0
    for left in range(n, 1, -1):
        inside[:] = False
        tied[:] = 0.0
        before, last = -1, -1
        for _ in range(left):  # always the node that is tied most to those inside
            most_tied = -1
            for i in range(n):
                if alive[i] and not inside[i] and (most_tied < 0 or tied[i] > tied[most_tied]):
                    most_tied = i
            before, last = last, most_tied
            inside[last] = True
            for i in range(n):
                if not inside[i]:
                    tied[i] += weight[last, i]
        if tied[last] < limit and found < most:
            sides[found] = member == last
            found += 1
        weight[before] += weight[last]
        weight[:, before] = weight[before]
        weight[before, before] = 0.0
        alive[last] = False
        member[member == last] = before
    return sides[:found]
