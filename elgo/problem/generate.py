"""Random instances: generators of the usual test distributions, and Kool's test sets.

Equal states of the numpy random generator give equal instances. Set-X and XXL instances keep the integer grid of their
benchmarks: the policy normalises coordinates anyway.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.random import Generator

from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance, Metric
from elgo.problem.point_distributions import POINT_DISTRIBUTIONS, POINT_GENERATORS, log_uniform, points, weighted_choice
from elgo.problem.task import Task

GENERATOR_VERSION = 2  # raised by every change of what the generators return; label stores record it
GRID = 1000  # Set-X has the integer coordinates 0..1000
KOOL_SEED = 1234
KOOL_COUNT = 10_000
SYNTHETIC_COUNT = 1000
_CAPACITIES = {20: 30, 50: 40, 100: 50, 200: 80, 500: 100, 1000: 250}  # of the synthetic CVRPs, by customers


def as_instance(sample: Task, name: str = "sample") -> Instance:
    """Return the sample as an Instance with unrounded Euclidean distances, as usual for synthetic sets."""
    demand = None if sample.demand is None else sample.demand.astype(np.float64)
    capacity = None if sample.capacity is None else float(sample.capacity)
    return Instance(name=name, coords=sample.coords, metric=Metric.EXACT, demand=demand, capacity=capacity)


def tsp(rng: Generator, n: int, distribution: str = "mixed") -> Task:
    """Return a TSP with n points of the named distribution, in random order."""
    return Task(rng.permutation(points(rng, n, distribution)))


def capacity_by_size(customers: int) -> int:
    """Return the literature's capacity for that many customers with demands 1..9.

    Linear between the published sizes and rounded; below 20 and above 1000 customers the value of the nearest one.
    """
    return math.floor(np.interp(customers, list(_CAPACITIES), list(_CAPACITIES.values())) + 0.5)


def _kool(rng: Generator, customers: int, distribution: str) -> Task:
    """Kool et al. (2019): demands 1..9, capacity by size. The depot is uniform, or one of the points of "cluster"."""
    if distribution == "cluster":
        coords = rng.permutation(points(rng, customers + 1, "cluster"))
    else:
        coords = np.concatenate([rng.random((1, 2)), points(rng, customers, distribution)])
    demand = np.concatenate([[0], rng.integers(1, 10, size=customers)])
    return Task(coords, demand.astype(np.int64), capacity_by_size(customers))


def _distinct(rng: Generator, taken: np.ndarray, count: int, seeds: np.ndarray | None) -> np.ndarray:
    """Return `count` cells of the grid that are not taken (k, 2): uniform, or with probability sum exp(-distance/40).

    The sum is over the distances to the seeds.
    """
    used = {(int(x), int(y)) for x, y in taken}
    found: list[tuple[int, int]] = []
    while len(found) < count:
        proposed = rng.integers(0, GRID + 1, size=(4 * count + 1000, 2))
        if seeds is not None:
            distance = np.linalg.norm(proposed[:, None] - seeds[None], axis=2)
            proposed = proposed[rng.random(len(proposed)) < np.exp(-distance / 40).sum(axis=1)]
        for x, y in proposed.tolist():
            if (x, y) not in used and len(found) < count:
                used.add((x, y))
                found.append((x, y))
    return np.array(found, dtype=np.int64).reshape(count, 2)


def _set_x_coords(rng: Generator, customers: int) -> np.ndarray:
    """Return coords (n, 2) as Uchoa et al. (2017): depot central, in a corner or random; customers random or clustered.

    A third of the instances is half random and half clustered.
    """
    corner = np.zeros((1, 2), dtype=np.int64)
    depot = (corner + GRID // 2, corner, rng.integers(0, GRID + 1, size=(1, 2)))[rng.integers(3)]
    clustered = (0, customers - customers // 2, customers)[rng.integers(3)]
    coords = np.concatenate([depot, _distinct(rng, depot, customers - clustered, None)])
    if clustered:
        seeds = _distinct(rng, coords, min(int(rng.integers(3, 9)), clustered), None)  # seeds are customers too
        coords = np.concatenate([coords, seeds])
        coords = np.concatenate([coords, _distinct(rng, coords, clustered - len(seeds), seeds)])
    return coords


_DEMAND_RANGES = ((1, 1), (1, 10), (5, 10), (1, 100), (50, 100))


def _set_x_demand(rng: Generator, coords: np.ndarray) -> np.ndarray:
    """Return demands of customers at coords (n, 2), of one of Set-X's seven types: five ranges, Q (quadrants) or SL."""
    n, kind = len(coords), int(rng.integers(7))
    if kind < 5:
        low, high = _DEMAND_RANGES[kind]
        return rng.integers(low, high + 1, size=n)
    if kind == 5:  # Q: large in two opposite quadrants
        large = (coords[:, 0] < GRID / 2) == (coords[:, 1] < GRID / 2)
        return np.where(large, rng.integers(51, 101, size=n), rng.integers(1, 51, size=n))
    small = rng.random(n) < rng.uniform(0.7, 0.95)  # SL: many small, few large
    return np.where(small, rng.integers(1, 11, size=n), rng.integers(50, 101, size=n))


def capacity_for(demand: np.ndarray, route_length: float) -> int:
    """Return the capacity for about route_length customers per route: ceil(r sum(d) / n), at least the largest demand.

    demand: the customers' demands, without the depot.
    """
    # Without the small slack, rounding errors could turn r = 6 and mean demand 1 into 7.
    return max(int(demand.max()), math.ceil(route_length * float(demand.sum()) / len(demand) - 1e-9))


def _on_grid(rng: Generator, coords: np.ndarray, demand: np.ndarray, route_length: float) -> Task:
    """Return a sample with shuffled customers of integer coords, the depot first, and the customers' demands."""
    order = rng.permutation(len(demand))
    coords = np.concatenate([coords[:1], coords[1:][order]]).astype(np.float64)
    capacity = capacity_for(demand, min(route_length, len(demand)))
    return Task(coords, np.concatenate([[0], demand[order]]).astype(np.int64), capacity)


def _set_x(rng: Generator, customers: int, long: bool = False) -> Task:
    """Uchoa et al. (2017): customers per route r ~ Triangular(3, 6, 25).

    With long routes r is log-uniform from 10 to a quarter of the customers (at least 25).
    """
    coords = _set_x_coords(rng, customers)
    demand = _set_x_demand(rng, coords[1:])
    route_length = log_uniform(rng, 10, max(25, customers / 4)) if long else rng.triangular(3, 6, 25)
    return _on_grid(rng, coords, demand, route_length)


def _xxl(rng: Generator, customers: int) -> Task:
    """Like Arnold et al. (2019), Belgium: towns of Zipf-like sizes, demands 1, 2, 3, depot central or outside.

    Short routes have 8 to 20 customers, long ones 20 to 200 (at most a quarter of all customers).
    """
    towns = max(2, round(log_uniform(rng, 2, max(3, customers / 12))))
    weight = 1.0 / np.arange(1, towns + 1) ** rng.uniform(0.6, 1.2)
    centres = rng.normal(0.0, 1.0, size=(towns, 2))
    centres[0] *= 0.3  # the largest town is the region's centre
    member = rng.choice(towns, size=customers, p=weight / weight.sum())
    spread = log_uniform(rng, 0.1, 0.4) * np.sqrt(weight)[member, None]
    # Laplace: a dense core and sparse suburbs that reach far.
    customers_at = rng.laplace(centres[member], spread)
    rural = rng.random(customers) < rng.uniform(0.05, 0.25)
    customers_at = np.where(rural[:, None], rng.uniform(-2, 2, size=(customers, 2)), customers_at)
    middle, reach = customers_at.mean(axis=0), np.abs(customers_at - customers_at.mean(axis=0)).max()
    angle = rng.uniform(0, 2 * math.pi)
    outside = reach * rng.uniform(0.6, 1.1) * np.array([math.cos(angle), math.sin(angle)])
    depot = middle + (outside if rng.random() < 0.5 else rng.normal(0.0, 0.05, size=2))
    coords = np.concatenate([depot[None], customers_at])
    coords = np.rint((coords - coords.min(axis=0)) / np.ptp(coords, axis=0).max() * 10_000).astype(np.int64)
    demand = rng.choice([1, 2, 3], size=customers, p=[0.5, 0.3, 0.2])
    long = log_uniform(rng, 20, max(21.0, min(200.0, customers / 4)))
    return _on_grid(rng, coords, demand, rng.uniform(8, 20) if rng.random() < 0.5 else long)


_CVRP_GENERATORS: dict[str, Callable[[Generator, int], Task]] = {
    "set_x": _set_x,
    "set_x_long": partial(_set_x, long=True),
    "xxl": _xxl,
}
_MIXED = {"set_x": 0.60, "set_x_long": 0.22, "xxl": 0.12, "any points": 0.06}  # shares in "mixed"
CVRP_DISTRIBUTIONS: tuple[str, ...] = (*_CVRP_GENERATORS, *POINT_DISTRIBUTIONS)


def cvrp(rng: Generator, customers: int, distribution: str = "mixed") -> Task:
    """Return a CVRP with that many customers.

    "set_x", "set_x_long" and "xxl" are like the benchmarks of these names; the name of a point distribution gives the
    paper's synthetic CVRP (demands 1..9, capacity by size; "uniform" is Kool's); "mixed" picks one, mostly Set-X.
    """
    if distribution not in CVRP_DISTRIBUTIONS:
        raise ElgoError(f"distribution is {distribution!r}, expected one of {', '.join(CVRP_DISTRIBUTIONS)}")
    if distribution == "mixed":
        distribution = weighted_choice(rng, _MIXED)
    if distribution == "any points":
        distribution = list(POINT_GENERATORS)[int(rng.integers(len(POINT_GENERATORS)))]
    if distribution in _CVRP_GENERATORS:
        return _CVRP_GENERATORS[distribution](rng, customers)
    return _kool(rng, customers, distribution)


def generate(rng: Generator, problem: str, customers: int, distribution: str = "mixed") -> Task:
    """Return a random TSP or CVRP with that many customers, see tsp and cvrp."""
    if problem not in ("tsp", "cvrp"):
        raise ElgoError(f"problem is {problem!r}, expected tsp or cvrp")
    return (tsp if problem == "tsp" else cvrp)(rng, customers, distribution)


def synthetic_test_set(problem: str, customers: int, distribution: str, count: int = SYNTHETIC_COUNT) -> list[Task]:
    """Return the first `count` test instances of a distribution, by our generator with the paper's seed (1234).

    Coordinates are float32 numbers, as in the paper's files, so that the last bit of a cosine does not matter.
    """
    rng = np.random.default_rng(KOOL_SEED)
    tasks = [generate(rng, problem, customers, distribution) for _ in range(count)]
    return [task._replace(coords=task.coords.astype(np.float32).astype(np.float64)) for task in tasks]


def kool_test_set(problem: str, count: int = KOOL_COUNT) -> list[Task]:
    """Return the first `count` of the literature's 10,000 uniform test instances with N = 100 (Kool et al. 2019)."""
    if problem not in ("tsp", "cvrp"):
        raise ElgoError(f"problem is {problem!r}, expected tsp or cvrp")
    if not 0 <= count <= KOOL_COUNT:
        raise ElgoError(f"count is {count}, expected 0..{KOOL_COUNT}")
    legacy = np.random.RandomState(KOOL_SEED)  # as np.random.seed(1234), without changing the global state
    if problem == "tsp":
        return [Task(coords) for coords in legacy.uniform(size=(KOOL_COUNT, 100, 2))[:count]]
    depots = legacy.uniform(size=(KOOL_COUNT, 1, 2))
    customers = legacy.uniform(size=(KOOL_COUNT, 100, 2))
    demands = legacy.randint(1, 10, size=(KOOL_COUNT, 100))
    coords = np.concatenate([depots, customers], axis=1)
    demand = np.concatenate([np.zeros((KOOL_COUNT, 1), dtype=np.int64), demands], axis=1)
    return [Task(coords[i], demand[i], 50) for i in range(count)]
