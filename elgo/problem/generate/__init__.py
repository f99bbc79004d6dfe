"""Random instances: generators of the usual test distributions, and Kool's test sets.

Equal states of the numpy random generator give equal instances.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from elgo.problem.generate.cvrp_distributions import CVRP_DISTRIBUTIONS, capacity_for, cvrp
from elgo.problem.generate.point_distributions import POINT_DISTRIBUTIONS, points
from elgo.problem.generate.sample import Sample, as_instance

__all__ = [
    "CVRP_DISTRIBUTIONS",
    "KOOL_COUNT",
    "POINT_DISTRIBUTIONS",
    "Sample",
    "as_instance",
    "capacity_for",
    "cvrp",
    "generate",
    "kool_test_set",
    "points",
    "tsp",
]

KOOL_SEED = 1234
KOOL_COUNT = 10_000


def tsp(rng: Generator, n: int, distribution: str = "mixed") -> Sample:
    """Return a TSP with n points of the named distribution, in random order."""
    return Sample(rng.permutation(points(rng, n, distribution)))


def generate(rng: Generator, problem: str, customers: int, distribution: str = "mixed") -> Sample:
    """Return a random TSP or CVRP with that many customers, see tsp and cvrp."""
    if problem not in ("tsp", "cvrp"):
        raise ValueError(f"problem is {problem!r}, expected tsp or cvrp")
    return (tsp if problem == "tsp" else cvrp)(rng, customers, distribution)


def kool_test_set(problem: str, count: int = KOOL_COUNT) -> list[Sample]:
    """Return the first `count` of the literature's 10,000 uniform test instances with N = 100 (Kool et al. 2019)."""
    if problem not in ("tsp", "cvrp"):
        raise ValueError(f"problem is {problem!r}, expected tsp or cvrp")
    if not 0 <= count <= KOOL_COUNT:
        raise ValueError(f"count is {count}, expected 0..{KOOL_COUNT}")
    legacy = np.random.RandomState(KOOL_SEED)  # as np.random.seed(1234), without changing the global state
    if problem == "tsp":
        return [Sample(coords) for coords in legacy.uniform(size=(KOOL_COUNT, 100, 2))[:count]]
    depots = legacy.uniform(size=(KOOL_COUNT, 1, 2))
    customers = legacy.uniform(size=(KOOL_COUNT, 100, 2))
    demands = legacy.randint(1, 10, size=(KOOL_COUNT, 100))
    coords = np.concatenate([depots, customers], axis=1)
    demand = np.concatenate([np.zeros((KOOL_COUNT, 1), dtype=np.int64), demands], axis=1)
    return [Sample(coords[i], demand[i], 50) for i in range(count)]
