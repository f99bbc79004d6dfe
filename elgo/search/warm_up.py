"""Have the kernels ready: loaded from the cache, compiled the first time ever."""

from __future__ import annotations

from functools import cache

import numpy as np

from elgo.problem.instance import Instance, Metric
from elgo.search.annealing import Load, anneal, to_walk
from elgo.search.construct import savings
from elgo.search.data import survey
from elgo.search.rng import states
from elgo.search.tsp_kernels import kick

POINTS = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [2, 0], [2, 1]])


@cache
def warm_up(problem: str) -> None:
    """Run the search of a problem on a small instance."""
    if problem == "tsp":
        ground = survey(Instance("small", POINTS, Metric.EUC_2D))
        kick(ground.rule, ground.data, ground.near, np.arange(len(POINTS), dtype=np.int32), 1, states(0, 1)[0])
        return
    instance = Instance("small", POINTS, Metric.EUC_2D, demand=np.array([0, 1, 1, 1, 1, 1]), capacity=2)
    ground, load, walk = survey(instance), Load(*instance.units(), 5), to_walk(savings(instance))
    anneal(ground, load, walk, 1, 0)
