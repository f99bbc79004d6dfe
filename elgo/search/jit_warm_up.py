"""Load the compiled kernels before they are needed: from numba's cache, or compiled on the first call ever."""

from __future__ import annotations

from functools import cache

import numpy as np

from elgo.problem.instance import Instance, Metric
from elgo.search.annealing import anneal
from elgo.search.data import prepare
from elgo.search.giant_tour import to_giant_tour
from elgo.search.iterated_local_search import iterated_local_search
from elgo.search.rng import random_states
from elgo.search.savings import savings

POINTS = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [2, 0], [2, 1]])


@cache
def jit_warm_up(problem: str) -> None:
    """Run the search for "tsp" or "cvrp" once, on a tiny instance."""
    if problem == "tsp":
        data = prepare(Instance("small", POINTS, Metric.EUC_2D))
        iterated_local_search(data.arrays, np.arange(len(POINTS), dtype=np.int32), 1, random_states(0, 1)[0])
        return
    instance = Instance("small", POINTS, Metric.EUC_2D, demand=np.array([0, 1, 1, 1, 1, 1]), capacity=2)
    anneal(prepare(instance), to_giant_tour(savings(instance)), 1, 0)
