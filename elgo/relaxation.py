"""A linear relaxation of the TSP: the shortest "tour" in shares of edges.

Every node has edges that add up to 2. At least 2 leave every set of nodes (Dantzig, Fulkerson and Johnson 1954): sets
that are left with less are found as components of the edges above a threshold and, when there are none, by minimum cuts
(Stoer and Wagner 1997). And a tour leaves a set an even number of times: if an odd number of the edges that leave it
are there, one more is, or one of them is not (blossoms; Edmonds 1965). Such sets are looked for among components of
the edges with a fraction (Padberg and Hong 1980). Shares are no tour: what becomes of fractions is up to the policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import highspy
import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

THRESHOLDS = (1e-6, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
FRACTIONS = (1e-4, 0.1, 0.2, 0.3)  # a fraction is at least so far from 0 and 1
WHOLE = 1 - 1e-6  # a share of 1 up to rounding
SLACK = 1e-3  # by which a cut is violated at least
MOST_ROUNDS = 40
MOST_CUTS = 200  # per round of minimum cuts

Edges = NDArray[np.int64]
Shares = NDArray[np.float64]


class Cut(NamedTuple):
    """The shares of these edges, each times 1 or -1, are at least that."""

    edges: NDArray[np.int32]
    sign: NDArray[np.float64]
    least: float


def edge_shares(edges: Edges, length: Shares, n: int) -> Shares | None:
    """(E,) the share of each edge; None if the edges have no tour even in shares.

    After MOST_ROUNDS of cuts, some may still be violated.
    """
    program = _degrees_of_two(edges, length, n)
    seen: set[bytes] = set()
    share = _solve(program)
    for _ in range(MOST_ROUNDS):
        cuts = [] if share is None else [*_subtours(edges, share, n), *_blossoms(edges, share, n)]
        new = {cut.edges.tobytes() + cut.sign.tobytes(): cut for cut in cuts}
        new = {key: cut for key, cut in new.items() if key not in seen}
        if not new:
            break
        seen |= new.keys()
        for cut in new.values():
            program.addRow(cut.least, highspy.kHighsInf, len(cut.edges), cut.edges, cut.sign)
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


def _subtours(edges: Edges, share: Shares, n: int) -> Iterator[Cut]:
    """Sets that less than 2 leaves: components if there are such, else minimum cuts."""
    found = False
    for threshold in THRESHOLDS:
        count, part = _components(edges[share >= threshold], n)
        ends = part[edges]
        crossing = ends[:, 0] != ends[:, 1]
        leaving = np.bincount(ends[crossing].ravel(), np.repeat(share[crossing], 2), count)
        for i in np.nonzero(leaving < 2 - SLACK)[0] if count > 1 else ():
            found = True
            yield _leave_twice(ends == i)
    if found:
        return
    count, part = _components(edges[share >= WHOLE], n)  # what whole edges join, no cut below 2 needs to part
    ends = part[edges]
    weight = np.zeros((count, count))
    np.add.at(weight, (ends[:, 0], ends[:, 1]), share)
    weight += weight.T
    np.fill_diagonal(weight, 0.0)
    for side in _minimum_cuts(weight, 2 - SLACK, MOST_CUTS):
        yield _leave_twice(side[ends])


def _leave_twice(inside: NDArray[np.bool_]) -> Cut:
    """Of a set, which ends of the edges (E, 2) are inside."""
    leaving = np.nonzero(inside[:, 0] != inside[:, 1])[0].astype(np.int32)
    return Cut(leaving, np.ones(len(leaving)), 2.0)


def _blossoms(edges: Edges, share: Shares, n: int) -> Iterator[Cut]:
    """Sets that an odd number of edges leaves, nearly whole, and hardly anything else."""
    for fraction in FRACTIONS:
        count, part = _components(edges[(share > fraction) & (share < 1 - fraction)], n)
        ends = part[edges]
        for i in np.nonzero(np.bincount(part, minlength=count) >= 3)[0]:
            leaving = np.nonzero((ends[:, 0] == i) != (ends[:, 1] == i))[0].astype(np.int32)
            if len(leaving) == 0:
                continue
            there = share[leaving] > 0.5
            if there.sum() % 2 == 0:  # the one that is closest to a half changes sides
                there[np.abs(share[leaving] - 0.5).argmin()] ^= True
            if np.where(there, 1 - share[leaving], share[leaving]).sum() < 1 - SLACK:
                yield Cut(leaving, np.where(there, -1.0, 1.0), 1.0 - there.sum())


def _components(edges: Edges, n: int) -> tuple[int, NDArray[np.int32]]:
    graph = csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (n, n))
    count, part = connected_components(graph, directed=False)
    return int(count), part


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
