"""Rollouts of a policy on one instance, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.multistart import choose_starts, costs, make_task
from elgo.decode.types import Actions
from elgo.model.checkpoint import Model, as_policy
from elgo.problem.instance import Instance


def rollouts(
    policy: str | Path | Model,
    instance: Instance,
    starts: int | Sequence[int] | NDArray[np.integer] | None = None,
    *,
    rng: np.random.Generator | None = None,
    symmetry: int = 0,
    threads: int | None = None,
) -> tuple[Actions, NDArray[np.float64]]:
    """Return the tours (M, T) that a policy makes from M start nodes, and their costs (M,) by the instance's distances.

    - `policy`: as load_weights or load_model return it, or its name or file
    - `instance`: what to solve
    - `starts`: the start nodes; or how many, drawn with a fixed seed; by default all (100 above 1,000 nodes)
    - `rng`: samples the moves; by default the likeliest one is taken
    - `symmetry`: of the 8 symmetries of the square, under which the policy sees the instance
    - `threads`: by default as many as this process has cores

    A tour of a TSP is a permutation of the nodes 0..n-1. That of a CVRP begins with the start and has the depot's 0
    after each route; zeros fill the rows of shorter tours.
    """
    policy = as_policy(policy, instance.problem)
    how = policy.config.normalisation
    task = make_task(instance, how, symmetry)
    if starts is None or isinstance(starts, int):
        nodes = choose_starts(task, starts, 0, how)
    else:
        nodes = np.array(starts, dtype=np.int64)
    made = decode(policy, [task], [nodes], DecodeConfig(threads=threads), rng)[0].actions
    return made, costs(instance, made)
