"""The rest: how savings would go on from a state of a CVRP rollout.

When most customers are served, few plans (elgo.plans) are left, and those who are left over were on none of the routes
that became one. The savings of Clarke and Wright (1964) join them at once: all who are not served yet, and the route
that is being driven with what it may still load. To the policy, their routes are weak plans, other ones at every move.
(Up to 200 customers: see elgo.kin.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.search.construct import join

SHARE = 0.3  # of a plan that says the same

Ints = NDArray[np.int64]


class Rest(NamedTuple):
    """Where routes are joined; the first three as in elgo.search.construct.join."""

    parent: Ints  # (N,)
    load: Ints  # (N,)
    free: Ints  # (N,)
    links: Ints  # (N, 2) the neighbours, 0 for the depot


@njit(nogil=True)
def make_rest(n):  # type: ignore[no-untyped-def]
    return Rest(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros((n, 2), np.int64))


@njit(nogil=True)
def join_rest(pairs, demand, capacity, here, units, visited, rest):  # type: ignore[no-untyped-def]
    """Join all who are not visited (N,), and the current node with so many units left, in the order of pairs (P, 2).

    The current node, unless it is the depot, has one neighbour in its second link.
    """
    parent, load, free, links = rest
    for i in range(len(visited)):
        parent[i], load[i], free[i] = i, demand[i], 0 if visited[i] else 2
        links[i, 0] = links[i, 1] = 0
    free[0] = 0
    if here != 0:
        free[here], load[here] = 1, capacity - units
    for p in range(len(pairs)):
        a, b = pairs[p]
        if join(a, b, capacity, parent, load, free):
            links[a, 1 - free[a]], links[b, 1 - free[b]] = b, a


@njit(nogil=True)
def read_rest(links, here, tokens, count, slot, among, to_here):  # type: ignore[no-untyped-def]
    """Where links join the depot and tokens[:count], shares (T, T) are at least SHARE; and from here to them, (T,).

    slot: (N,) scratch, -1 everywhere before and after.
    """
    least = np.float32(SHARE)
    for t in range(count):
        slot[tokens[t]] = 1 + t
    for t in range(1, count + 1):
        for beside in links[tokens[t - 1]]:
            if beside == here:
                to_here[t] = max(to_here[t], least)
            if beside == 0:
                among[t, 0] = among[0, t] = max(among[0, t], least)
            elif slot[beside] > 0:
                among[t, slot[beside]] = max(among[t, slot[beside]], least)
    if here != 0 and links[here, 1] == 0:
        to_here[0] = max(to_here[0], least)
    for t in range(count):
        slot[tokens[t]] = -1
