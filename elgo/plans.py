"""Plans: the routes of a CVRP's linear relaxation (elgo.covering), their shares, and what is left of them on the way.

A plan can be carried out as long as none of its customers is visited. Of the route that is being driven, the plans
count whose customers up to here are visited, from one end on, and none of the others. So what plans say about a pair of
nodes changes from move to move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]

LEAST_SHARE = 0.05  # smaller ones count as none
SHOWN = 8  # of the strongest plans, an end can be seen from the depot


class Plans(NamedTuple):
    """Plan p visits node[begin[p]] .. node[begin[p + 1] - 1]; node i is at place[at[i]] .. place[at[i + 1] - 1]."""

    begin: Ints  # (P + 1,)
    node: Ints
    share: NDArray[np.float32]  # (P,)
    owner: Ints  # the plan of each entry of node
    at: Ints  # (N + 1,)
    place: Ints  # index into node


def make_plans(n: int, routes: Sequence[NDArray[np.int64]], shares: Sequence[float]) -> Plans:
    """Plans among n nodes."""
    many = [len(route) for route in routes]
    node = np.concatenate([np.zeros(0, np.int64), *routes])
    place = np.argsort(node, kind="stable")
    return Plans(
        np.append(0, np.cumsum(many)).astype(np.int64),
        node,
        np.array(shares, np.float32),
        np.repeat(np.arange(len(many)), many),
        np.searchsorted(node[place], np.arange(n + 1)),
        place,
    )


def join_plans(parts: Sequence[Plans]) -> Plans:
    """Those of several tasks, one behind the other; nodes count within their own task."""
    plans = np.cumsum([0, *(len(part.share) for part in parts)])
    nodes = np.cumsum([0, *(len(part.node) for part in parts)])
    none = np.zeros(0, np.int64)
    return Plans(
        np.concatenate([np.zeros(1, np.int64), *(x.begin[1:] + k for x, k in zip(parts, nodes, strict=False))]),
        np.concatenate([none, *(x.node for x in parts)]),
        np.concatenate([np.zeros(0, np.float32), *(x.share for x in parts)]),
        np.concatenate([none, *(x.owner + k for x, k in zip(parts, plans, strict=False))]),
        np.concatenate([np.zeros(1, np.int64), *(x.at[1:] + k for x, k in zip(parts, nodes, strict=False))]),
        np.concatenate([none, *(x.place + k for x, k in zip(parts, nodes, strict=False))]),
    )


@njit(nogil=True)
def read_plans(plans, row, here, visited, tokens, count, slot, among, to_here):  # type: ignore[no-untyped-def]
    """Add the shares of plans that are left: among the depot and tokens[:count] (T, T), and from here to them (T,).

    row: of the task's first node in plans. visited: (N,). slot: (N,) scratch, -1 everywhere before and after.
    """
    slot[0] = 0
    for t in range(count):
        slot[tokens[t]] = 1 + t
    for t in range(1, count + 1):
        i = tokens[t - 1]
        for p in range(plans.at[row + i], plans.at[row + i + 1]):
            place, plan = plans.place[p], plans.owner[plans.place[p]]
            begin, end = plans.begin[plan], plans.begin[plan + 1]
            if _all(plans.node, begin, end, visited, False):
                for step in (-1, 1):
                    beside = _beside(plans.node, place, step, begin, end)
                    if slot[beside] >= 0:
                        among[t, slot[beside]] += plans.share[plan]
                    if beside == 0:
                        among[0, t] += plans.share[plan]
    if here == 0:
        to_here += among[0]
    else:
        for p in range(plans.at[row + here], plans.at[row + here + 1]):
            place, plan = plans.place[p], plans.owner[plans.place[p]]
            begin, end = plans.begin[plan], plans.begin[plan + 1]
            beside = -1
            if _all(plans.node, begin, place, visited, True) and _all(plans.node, place + 1, end, visited, False):
                beside = _beside(plans.node, place, 1, begin, end)
            elif _all(plans.node, begin, place, visited, False) and _all(plans.node, place + 1, end, visited, True):
                beside = _beside(plans.node, place, -1, begin, end)
            if beside >= 0 and slot[beside] >= 0:
                to_here[slot[beside]] += plans.share[plan]
    slot[0] = -1
    for t in range(count):
        slot[tokens[t]] = -1


@njit(nogil=True, cache=True)
def show_ends(plans, row, coords, visited, tokens, rho, count):  # type: ignore[no-untyped-def]
    """At the depot, let tokens[:count] show an end of the strongest plans that are left, instead of the farthest nodes.

    The end that is nearer to the depot, with its distance in rho. row: of the task's first node in plans and coords.
    """
    first, last = plans.at[row], plans.at[row + len(visited)]
    if first == last:
        return
    keep = np.zeros(count, np.bool_)  # what must not give way
    before, index = np.float32(np.inf), -1  # share and index of the last plan that was looked at
    for _ in range(SHOWN):
        best = -1
        for plan in range(plans.owner[first], plans.owner[last - 1] + 1):
            share = plans.share[plan]
            if share <= LEAST_SHARE or share > before or (share == before and plan <= index):
                continue
            if (best < 0 or share > plans.share[best]) and _all(
                plans.node, plans.begin[plan], plans.begin[plan + 1], visited, False
            ):
                best = plan
        if best < 0:
            return
        before, index = plans.share[best], best
        a, b = plans.node[plans.begin[best]], plans.node[plans.begin[best + 1] - 1]
        seen, slot = False, -1
        for t in range(count):
            if tokens[t] == a or tokens[t] == b:
                seen = keep[t] = True
            elif not keep[t]:
                slot = t
        if not seen and slot >= 0:
            away_a, away_b = _away(coords, row, a), _away(coords, row, b)
            tokens[slot], rho[slot] = (a, away_a) if away_a <= away_b else (b, away_b)
            keep[slot] = True


@njit(nogil=True)
def _away(coords, row, node):  # type: ignore[no-untyped-def]
    """From the depot."""
    dx, dy = coords[row + node, 0] - coords[row, 0], coords[row + node, 1] - coords[row, 1]
    return np.float32(math.sqrt(dx * dx + dy * dy))


@njit(nogil=True)
def _all(node, begin, end, visited, wanted):  # type: ignore[no-untyped-def]
    same = True
    for e in range(begin, end):
        same = same and visited[node[e]] == wanted
    return same


@njit(nogil=True)
def _beside(node, place, step, begin, end):  # type: ignore[no-untyped-def]
    """The neighbour of a place in its plan; the depot behind both ends."""
    return node[place + step] if begin <= place + step < end else 0
