"""Where rollouts begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elgo.kin import find_kin
from elgo.model.env import Task
from elgo.model.policy import PolicyConfig
from elgo.plans import LEAST_SHARE

MOST_STARTS = 1000  # of a CVRP unless asked for more, as in the paper
WINDOW_MOVES = 120_000  # of a window policy over all views unless asked for more: some seconds on two cores
LEAST_STARTS = 8


def all_starts(task: Task) -> NDArray[np.int64]:
    """Every node but the depot."""
    return np.arange(0 if task.demand is None else 1, len(task.coords))


def good_starts(task: Task, policy: PolicyConfig) -> NDArray[np.int64]:
    """Nodes to begin with: all, or if the policy sees plans and there are any, those where they end."""
    nodes = all_starts(task)
    if task.demand is None or not policy.kin or len(nodes) < 2:
        return nodes
    plans = find_kin(task).plans
    likely = plans.share > LEAST_SHARE
    if not likely.any():
        return nodes
    return np.unique(plans.node[np.concatenate([plans.begin[:-1][likely], plans.begin[1:][likely] - 1])])


def count_starts(n: int, starts: int | None, policy: PolicyConfig, views: int) -> int:
    """How many of N nodes to begin with; see choose_starts."""
    if policy.local == "window":
        most = max(LEAST_STARTS, WINDOW_MOVES // (max(2, views) * n))
    else:
        most = MOST_STARTS if policy.problem == "cvrp" else n
    return min(starts or most, n)


def choose_starts(task: Task, starts: int | None, seed: int, policy: PolicyConfig, views: int = 1) -> NDArray[np.int64]:
    """First nodes of the rollouts, in order: all, or a seeded sample, of good ones as long as there are any.

    views: as how many tasks the instance is decoded; without `starts`, they share what a window policy may take.
    """
    nodes = all_starts(task)
    count = count_starts(len(nodes), starts, policy, views)
    if count == len(nodes):
        return nodes
    rng = np.random.default_rng(seed)
    good = good_starts(task, policy)
    if count <= len(good):
        return np.sort(rng.choice(good, count, replace=False))
    others = np.setdiff1d(nodes, good)
    return np.sort(np.concatenate([good, rng.choice(others, count - len(good), replace=False)]))
