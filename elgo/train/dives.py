"""Dives: what a CVRP's plans lead to without a policy, as labels and as walks in which a policy learns to read plans.

A dive takes plans by their shares, changed a little at random, as long as nobody on them is served yet; savings make
routes of what is left over. The best of many is 3 % above the optimum at N = 100, a single one 6 % (docs/training.md).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from elgo.kin import find_kin
from elgo.plans import SHOWN
from elgo.problem.generate import Sample, as_instance
from elgo.search.construct import savings
from elgo.train.labels import Labelled, as_task, label, what_is_left

TRIES = 200
SPREAD = 0.6  # of the logarithm of a share, from try to try
DOUBT = 0.3  # the same, from walk to walk

Ints = NDArray[np.int64]


def label_dive(sample: Sample, rng: Generator) -> Labelled:
    """The best of many dives."""
    plans, shares = _plans(sample)
    dives = (_dive(sample, plans, shares * np.exp(SPREAD * rng.standard_normal(len(plans)))) for _ in range(TRIES))
    return min(dives, key=lambda found: found.cost)


def _plans(sample: Sample) -> tuple[list[Ints], NDArray[np.float64]]:
    found = find_kin(as_task(sample)).plans
    return np.split(found.node, found.begin[1:-1]) if len(found.share) else [], found.share.astype(np.float64)


def _dive(sample: Sample, plans: list[Ints], strength: NDArray[np.float64]) -> Labelled:
    served, routes = np.zeros(sample.size, bool), []
    for p in np.argsort(-strength, kind="stable"):
        if not served[plans[p]].any():
            served[plans[p]] = True
            routes.append(plans[p].tolist())
    rest = np.append(0, np.flatnonzero(~served[1:]) + 1)
    left_over = [[1]] if len(rest) == 2 else []
    if len(rest) > 2:
        left_over = savings(as_instance(what_is_left(sample, np.flatnonzero(served))))
    return label(sample, [*routes, *(rest[route].tolist() for route in left_over)])


def walk_of_dive(found: Labelled, visible: int, rng: Generator) -> Ints:
    """A dive's routes as one walk with the depot behind each: plans first, then what was left over.

    After a random plan, always the strongest (with some doubt) that the policy sees from the depot: one with an end
    among the `visible` nearest customers that are not served yet, or one of the strongest. A route begins at its nearer
    end.
    """
    plans, shares = _plans(found.sample)
    known = {frozenset(plan.tolist()): share for plan, share in zip(plans, shares, strict=True)}
    share = np.array([known.get(frozenset(route), 0.0) for route in found.routes])
    strength = np.where(share > 0, share * np.exp(DOUBT * rng.standard_normal(len(share))), -rng.random(len(share)))
    far = ((found.sample.coords - found.sample.coords[0]) ** 2).sum(1)
    nearer = np.array([min(far[route[0]], far[route[-1]]) for route in found.routes])
    left, open_, walk = np.ones(len(nearer), bool), np.arange(found.sample.size) > 0, list[int]()
    pick = int(rng.choice(np.flatnonzero(share > 0) if share.any() else len(share)))
    while True:
        route = list(found.routes[pick])
        walk += [*(route if far[route[0]] <= far[route[-1]] else route[::-1]), 0]
        left[pick], open_[route] = False, False
        if not left.any():
            return np.array(walk)
        horizon = np.sort(far[open_])[:visible][-1]
        shown = np.argsort(-np.where(left, share, 0), kind="stable")[:SHOWN]
        seen = left & ((nearer <= horizon) | (np.isin(np.arange(len(left)), shown) & (share > 0)))
        pick = int(np.where(seen if seen.any() else left, strength, -np.inf).argmax())
