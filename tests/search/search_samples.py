"""Small random instances for the tests of the search."""

from collections.abc import Sequence

import numpy as np
from samples import random_points

from elgo.problem.generate import as_instance, generate
from elgo.problem.instance import Instance, Metric
from elgo.problem.plane import embed
from elgo.problem.solution import Solution
from elgo.search.data import SearchData, prepare
from elgo.search.giant_tour import NodeArray, to_giant_tour, to_routes
from elgo.search.linked_routes import LinkedRoutes
from elgo.search.savings import savings
from elgo.search.sisr import ruin_and_recreate

ASYMMETRIC = "asymmetric"
DISTANCE_KINDS = [*Metric, ASYMMETRIC]


def instance_of_kind(kind: str, n: int = 40, problem: str = "cvrp", places: int = 0) -> Instance:
    """n nodes whose costs follow a metric or an asymmetric matrix; with `places`, many of them in the same place."""
    rng = np.random.default_rng(n)
    coords = (160 * random_points(rng, places or n) - 80).round(2)  # degrees, or degrees and minutes, for some
    coords = coords[np.arange(n) % len(coords)]
    demand, capacity = (None, None) if problem == "tsp" else (np.r_[0, np.ones(n - 1)], 5.0)
    if kind not in (Metric.EXPLICIT, ASYMMETRIC):
        return Instance("points", coords, Metric(kind), demand, capacity)
    matrix = Instance("points", coords, Metric.EXACT).distance_matrix()
    if kind == ASYMMETRIC:
        matrix *= rng.uniform(0.5, 2.0, (n, n))
    return Instance("matrix", embed(matrix), Metric.EXPLICIT, demand, capacity, matrix, has_coords=False)


def random_cvrp(seed: int, customers: int, kind: str = "uniform", asymmetric: bool = False) -> Instance:
    """Points up to 100 with few or many customers per route; some have no demand, a few fill a vehicle."""
    rng = np.random.default_rng(seed)
    n = customers + 1
    capacity = int(rng.choice([10, 23, 100]))
    demand = rng.integers(0, 11, n)
    demand[rng.random(n) < 0.05] = capacity
    demand[0] = 0
    instance = Instance("points", 100 * random_points(rng, n, kind), Metric.EXACT, demand, capacity)
    if not asymmetric:
        return instance
    matrix = instance.distance_matrix() * rng.uniform(0.5, 2.0, (n, n))
    return Instance("asymmetric", embed(matrix), Metric.EXPLICIT, demand, capacity, matrix, has_coords=False)


def random_routes(instance: Instance, seed: int, customers: Sequence[int] = ()) -> list[list[int]]:
    """Customers in random order; a new route where one does not fit, and sometimes where it does."""
    rng = np.random.default_rng(seed)
    demand, capacity = instance.units()
    routes: list[list[int]] = []
    for node in rng.permutation(customers or range(1, instance.size)).tolist():
        if not routes or demand[[*routes[-1], node]].sum() > capacity or rng.random() < 0.1:
            routes.append([])
        routes[-1].append(node)
    return routes


def prepared(customers: int, seed: int = 0) -> tuple[SearchData, NodeArray]:
    """An instance like those of set X, and its savings routes."""
    instance = as_instance(generate(np.random.default_rng(seed), "cvrp", customers, "set_x"))
    return prepare(instance), to_giant_tour(savings(instance))


def tight(seed: int) -> tuple[SearchData, NodeArray]:
    """Nearly full vehicles, hardly more than are needed."""
    rng = np.random.default_rng(seed)
    demand = np.r_[0, rng.integers(1, 10, 30)]
    data = prepare(Instance("tight", 100 * random_points(rng, 31), Metric.EXACT, demand, 20))
    state = np.array([0x9E3779B97F4A7C15], np.uint64)
    return data, ruin_and_recreate(data.arrays, to_giant_tour(savings(data.instance)), 0, 2000, 1e3, state).current


def solution(data: SearchData, giant_tour: NodeArray) -> Solution:
    return Solution(data.instance, tuple(map(tuple, to_routes(giant_tour))))


def on_a_line(places: list[float], demand: list[float] | None = None, capacity: float | None = None) -> Instance:
    """Nodes at these places of the x axis."""
    return Instance("line", [(x, 0.0) for x in places], Metric.EXACT, demand=demand, capacity=capacity)  # type: ignore[arg-type]


def routes_of(linked: LinkedRoutes) -> list[list[int]]:
    """The routes by their numbers, the empty ones too."""
    routes: list[list[int]] = []
    for first in linked.routes["first"].tolist():
        route = [first] if first else []
        while route and linked.nodes["next"][route[-1]]:
            route.append(int(linked.nodes["next"][route[-1]]))
        routes.append(route)
    return routes
