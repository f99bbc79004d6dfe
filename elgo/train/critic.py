"""What the moves of a CVRP rollout are worth, by how simple constructions would end it before and after each.

REINFORCE pays all moves of a rollout with one number, its length. Here each move has its own: how much longer it has
made the way to the end, if savings or a dive into the plans go on from there. As the policy goes on differently, what
the moves behind it have cost counts too, the further away the less: generalised advantage estimation (Schulman et al.
2016), with constructions as the critic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.kin import find_kin, savings_pairs
from elgo.model.env import Task
from elgo.plans import make_plans
from elgo.search.construct import join

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHAPES = (1.0, 1.3)  # one savings solution each: how much the way between two customers counts


class Ground(NamedTuple):
    """What the constructions need to know of a task."""

    way: Floats  # (N, N)
    demand: Ints
    capacity: int
    pairs: Ints  # (S, P, 2) customers that may be joined, for each shape the largest saving first
    worth: Ints  # (S,) how many of them save something
    begin: Ints  # (R + 1,) plans as in elgo.plans, the largest share first
    node: Ints


def survey(task: Task, dive: bool) -> Ground:
    """Find out about a task; without its plans unless constructions are to dive into them."""
    assert task.demand is not None
    assert task.capacity is not None
    a, b, far, between = savings_pairs(task)
    saved = [far[a] + far[b] - shape * between for shape in SHAPES]
    orders = [np.argsort(-each, kind="stable") for each in saved]
    plans = find_kin(task).plans if dive else make_plans(len(task.coords), [], [])
    routes = [plans.node[plans.begin[p] : plans.begin[p + 1]] for p in np.argsort(-plans.share, kind="stable")]
    return Ground(
        np.sqrt(((task.coords[:, None] - task.coords[None]) ** 2).sum(2)),
        task.demand.astype(np.int64),
        task.capacity,
        np.stack([np.stack([a[order], b[order]], axis=1) for order in orders]),
        np.array([(each > 0).sum() for each in saved]),
        np.cumsum([0, *(len(route) for route in routes)]).astype(np.int64),
        np.concatenate([np.zeros(0, np.int64), *routes]),
    )


def move_advantages(
    task: Task, walks: NDArray[np.int32], trace: float, dive: bool, shared: int = 1
) -> NDArray[np.float32]:
    """(M, T - 1): how much each move of the rollouts (M, T) but the given first saves, compared to those of the others.

    The moves behind it count by powers of `trace`. All are divided by their deviation. Those that all rollouts share
    are 0.
    """
    ground = survey(task, dive)
    ahead = values(ground, walks, shared - 1)
    gain = ahead[:, :-1] - ahead[:, 1:] - ground.way[walks[:, :-1], walks[:, 1:]]
    for t in range(gain.shape[1] - 2, -1, -1):
        gain[:, t] += trace * gain[:, t + 1]
    gain -= gain.mean(axis=0)
    gain[:, : shared - 1] = 0
    return (gain / max(float(gain[:, shared - 1 :].std()), 1e-9)).astype(np.float32)


def values(ground: Ground, walks: NDArray[np.int32], first: int = 0) -> Floats:
    """(M, T) the shortest of the constructions from each state of the rollouts to the end; 0 before step `first`."""
    n = len(ground.demand)
    parent, load, ends = np.zeros((3, n), np.int64)
    space = Space(ground.pairs.copy(), ground.worth.copy(), np.zeros(n, np.bool_), parent, load, ends)
    return _values(ground, walks, first, space)


class Space(NamedTuple):
    """Where constructions are made."""

    pairs: Ints  # (S, P, 2) those of whom nobody was served when the last route ended
    many: Ints  # (S,) how many these are
    settled: NDArray[np.bool_]  # (N,) who is served, or is on a plan that is carried out
    parent: Ints  # (N,) towards the representative of a customer's route
    load: Ints  # (N,) of the route, at its representative
    ends: Ints  # (N,) how often a customer can be joined with another one


@njit(nogil=True, cache=True)
def _values(ground, walks, first, space):  # type: ignore[no-untyped-def]
    n = len(ground.demand)
    found = np.zeros(walks.shape)
    served = np.zeros(n, np.bool_)
    for m in range(walks.shape[0]):
        served[:] = False
        space.pairs[:] = ground.pairs
        space.many[:] = ground.worth
        to_go, used = n - 1, 0
        for t in range(walks.shape[1]):
            here = walks[m, t]
            if here == 0:
                used = 0
                if to_go == 0:
                    break
                _keep_open(space, served)
            else:
                served[here] = True
                to_go -= 1
                used += ground.demand[here]
            if t >= first:
                found[m, t] = _value(ground, served, here, used, space)
    return found


@njit(nogil=True)
def _value(ground, served, here, used, space):  # type: ignore[no-untyped-def]
    """Shortest construction from a state to the end: here, with so much in the vehicle already."""
    best = np.inf
    space.settled[:] = served
    for dive in range(2 if len(ground.begin) > 1 else 1):
        fixed, is_open = 0.0, here != 0
        if dive:
            length = _follow(ground, here, used, served, space.settled)
            if length >= 0:
                fixed, is_open = length, False
            fixed += _carry_out(ground, space.settled)
        for i in range(1, len(served)):
            if not space.settled[i]:
                fixed += 2 * ground.way[0, i]
        if is_open:
            fixed += ground.way[here, 0]
        for s in range(len(space.many)):
            for i in range(1, len(served)):
                space.parent[i], space.load[i], space.ends[i] = i, ground.demand[i], 0 if space.settled[i] else 2
            if is_open:
                space.ends[here], space.load[here] = 1, used
            best = min(best, fixed - _join(ground, space, s))
    return best


@njit(nogil=True)
def _keep_open(space, served):  # type: ignore[no-untyped-def]
    """Only the pairs of which nobody is served, in their order."""
    for s in range(len(space.many)):
        kept = 0
        for p in range(space.many[s]):
            a, b = space.pairs[s, p]
            if not served[a] and not served[b]:
                space.pairs[s, kept, 0], space.pairs[s, kept, 1] = a, b
                kept += 1
        space.many[s] = kept


@njit(nogil=True)
def _follow(ground, here, used, served, settled):  # type: ignore[no-untyped-def]
    """Drive on by the strongest plan that is served up to here, and fits from here on; how long that is, -1 if none."""
    if here == 0:
        return -1.0
    for plan in range(len(ground.begin) - 1):
        begin, end = ground.begin[plan], ground.begin[plan + 1]
        place = -1
        for e in range(begin, end):
            if ground.node[e] == here:
                place = e
        if place < 0:
            continue
        for step in (1, -1):
            at, fits, room = here, True, ground.capacity - used
            for e in range(begin, end):
                ahead = (e - place) * step > 0
                fits = fits and served[ground.node[e]] != ahead
                room -= ground.demand[ground.node[e]] if ahead else 0
            if not fits or room < 0:
                continue
            length, e = 0.0, place + step
            while begin <= e < end:
                length += ground.way[at, ground.node[e]]
                at = ground.node[e]
                settled[at] = True
                e += step
            return length + ground.way[at, 0]
    return -1.0


@njit(nogil=True)
def _carry_out(ground, settled):  # type: ignore[no-untyped-def]
    """Drive whole plans as long as nobody on them is settled; how long that is."""
    total = 0.0
    for plan in range(len(ground.begin) - 1):
        begin, end = ground.begin[plan], ground.begin[plan + 1]
        free = True
        for e in range(begin, end):
            if settled[ground.node[e]]:
                free = False
                break
        if not free:
            continue
        at = 0
        for e in range(begin, end):
            total += ground.way[at, ground.node[e]]
            at = ground.node[e]
            settled[at] = True
        total += ground.way[at, 0]
    return total


@njit(nogil=True)
def _join(ground, space, shape):  # type: ignore[no-untyped-def]
    """Join routes in the order of a shape's pairs, at customers with free ends; what that saves."""
    saved = 0.0
    for p in range(space.many[shape]):
        a, b = space.pairs[shape, p]
        if join(a, b, ground.capacity, space.parent, space.load, space.ends):
            saved += ground.way[0, a] + ground.way[0, b] - ground.way[a, b]
    return saved
