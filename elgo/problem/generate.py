"""Synthetic instances: a NumPy Generator enters, arrays leave.

TSP points lie in the unit square; Set-X and XXL style instances keep the integer grid of their benchmarks, because the
policy normalises coordinates anyway. Nothing here imports torch, and equal generators give equal instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

if TYPE_CHECKING:
    from elgo.problem.instance import Instance

GRID = 1000  # Set-X places everything on the integers 0..1000
KOOL_SEED = 1234
KOOL_COUNT = 10_000


@dataclass(frozen=True, eq=False)
class Sample:
    """One instance as arrays: coords (n, 2) float64; for CVRP demand (n,) int64 and capacity, index 0 the depot."""

    coords: np.ndarray
    demand: np.ndarray | None = None
    capacity: int | None = None

    def __post_init__(self) -> None:
        if self.coords.ndim != 2 or self.coords.shape[1] != 2:
            raise ValueError(f"coords has shape {self.coords.shape}, not (n, 2)")
        if (self.demand is None) != (self.capacity is None):
            raise ValueError("demand and capacity come together or not at all")
        if self.demand is not None and self.demand.shape != (len(self.coords),):
            raise ValueError(f"demand has shape {self.demand.shape} for {len(self.coords)} nodes")

    @property
    def size(self) -> int:
        """Number of nodes, the depot included."""
        return len(self.coords)

    @property
    def problem(self) -> str:
        """ "tsp" or "cvrp"."""
        return "tsp" if self.demand is None else "cvrp"

    @property
    def customers(self) -> int:
        """N of the literature: all nodes of a TSP, all but the depot of a CVRP."""
        return self.size if self.demand is None else self.size - 1


def as_instance(sample: Sample, name: str = "sample") -> Instance:
    """Sample -> Instance with unrounded Euclidean distances, the way synthetic sets are measured."""
    from elgo.problem.instance import Instance, Metric

    demand = None if sample.demand is None else sample.demand.astype(np.float64)
    capacity = None if sample.capacity is None else float(sample.capacity)
    return Instance(name=name, coords=sample.coords, metric=Metric.EXACT, demand=demand, capacity=capacity)


# ---- Points in the unit square --------------------------------------------------------------------------------------


def _fit(points: np.ndarray) -> np.ndarray:
    """Move and shrink points into the unit square by ONE factor; points already inside stay where they are."""
    low, high = points.min(axis=0), points.max(axis=0)
    if (low >= 0).all() and (high <= 1).all():
        return points
    return np.clip((points - low) / (high - low).max(), 0.0, 1.0)


def _log_uniform(rng: Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def _uniform(rng: Generator, n: int) -> np.ndarray:
    return rng.random((n, 2))


def _cluster(rng: Generator, n: int, clusters: int = 3) -> np.ndarray:
    """Bi et al. (2022): equal clusters around centres in [0.2, 0.8]^2, standard deviation 0.07, clipped."""
    centres = rng.uniform(0.2, 0.8, size=(clusters, 2))
    return np.clip(rng.normal(centres[np.arange(n) * clusters // n], 0.07), 0.0, 1.0)


def _mixture(rng: Generator, n: int) -> np.ndarray:
    """Bi et al. (2022): half of the nodes uniform, the other half in one such cluster."""
    points = _uniform(rng, n)
    chosen = rng.permutation(n)[: n // 2]
    points[chosen] = _cluster(rng, n // 2, clusters=1)
    return points


def _explosion(rng: Generator, n: int) -> np.ndarray:
    """Bossek et al. (2019): everything within R ~ U[0.1, 0.5] of a centre is blown beyond R by Exp with mean 1/10."""
    points = _uniform(rng, n)
    centre, radius = rng.random(2), rng.uniform(0.1, 0.5)
    away = points - centre
    distance = np.linalg.norm(away, axis=1, keepdims=True)
    thrown = centre + away / np.maximum(distance, 1e-12) * (radius + rng.exponential(0.1, size=(n, 1)))
    return _fit(np.where(distance < radius, thrown, points))


def _rotation(rng: Generator, n: int) -> np.ndarray:
    """Bossek et al. (2019): a random subset of uniform points turned around the origin by an angle in [0, 2 pi]."""
    points = _uniform(rng, n)
    angle = rng.uniform(0.0, 2 * math.pi)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    chosen = rng.random(n) < rng.uniform(0.1, 0.9)
    return _fit(np.where(chosen[:, None], points @ turn, points))


def _gaussians(rng: Generator, n: int) -> np.ndarray:
    """1 to n/8 Gaussian clusters of unequal weight and of spreads over two orders of magnitude, some uniform dust."""
    clusters = round(_log_uniform(rng, 1, max(2, n // 8)))
    member = rng.choice(clusters, size=n, p=rng.dirichlet(np.full(clusters, 2.0)))
    spread = np.exp(rng.uniform(math.log(0.003), math.log(0.15), size=(clusters, 1)))
    points = rng.normal(rng.random((clusters, 2))[member], spread[member])
    dust = rng.random(n) < rng.uniform(0.0, 0.4)
    return _fit(np.where(dust[:, None], _uniform(rng, n), points))


# Drilling and VLSI-like plates: what makes fl417, p654, ts225, pr* and u* hard is that many distances are equal, points
# line up, and dense blocks lie far apart. Every layout below returns integer positions, so equal distances stay equal.


def _grid_cells(rng: Generator, n: int, aspect: float) -> np.ndarray:
    """n cells of a rows x columns grid with columns/rows near aspect: packed without holes, or sparse with them."""
    cells = n if rng.random() < 0.4 else math.ceil(n * rng.uniform(1.05, 3.0))
    rows = max(1, round(math.sqrt(cells / aspect)))
    columns = math.ceil(cells / rows)
    chosen = np.arange(n) if cells == n else rng.permutation(rows * columns)[:n]
    return np.stack([chosen // rows, chosen % rows], axis=1).astype(np.float64)


def _line_cells(rng: Generator, n: int, aspect: float) -> np.ndarray:
    """Points in steps of 1 along the lines of a coarse mesh (ts225), the step between lines 3 to 12."""
    step = int(rng.integers(3, 13))
    rows = max(2, round(math.sqrt(n / (2 * step * aspect))) + 1)
    columns = max(2, math.ceil(rows * aspect))
    across = max(2 * n, columns * step)  # long enough that n points always exist
    x, y = np.meshgrid(np.arange(across + 1), np.arange((rows - 1) * step + 1), indexing="ij")
    on_line = (y % step == 0) | (x % step == 0) if rng.random() < 0.7 else y % step == 0
    cells = np.stack([x[on_line], y[on_line]], axis=1)
    return cells[:n].astype(np.float64)  # sorted by x: the mesh is filled from the left


def _motif(rng: Generator, m: int) -> np.ndarray:
    """m points of one part on a plate: a block, a comb of lines, a ring or a single row."""
    shape = rng.integers(4)
    if shape == 0:
        return _grid_cells(rng, m, _log_uniform(rng, 0.5, 4.0))
    if shape == 1:
        gap, rows = int(rng.integers(2, 6)), int(rng.integers(2, 5))
        return np.stack([np.arange(m) // rows, np.arange(m) % rows * gap], axis=1).astype(np.float64)
    if shape == 2:
        angle = 2 * math.pi * np.arange(m) / m
        return np.rint(np.stack([np.cos(angle), np.sin(angle)], axis=1) * max(2.0, m / 3))
    return np.stack([np.arange(m), np.zeros(m)], axis=1).astype(np.float64)


def _plate_cells(rng: Generator, n: int, aspect: float) -> np.ndarray:
    """Copies of one to three motifs, in rows and columns or scattered, with empty space between (fl417, p654)."""
    copies = round(_log_uniform(rng, 4, max(5, n / 6)))
    per_copy = math.ceil(n / copies)
    motifs = [_motif(rng, per_copy) for _ in range(int(rng.integers(1, 4)))]
    pitch = max(float(np.ptp(motif, axis=0).max()) for motif in motifs) * rng.uniform(1.2, 4.0) + 2
    if rng.random() < 0.6:
        places = _grid_cells(rng, copies, aspect) * round(pitch)
    else:
        extent = pitch * math.sqrt(copies) * np.array([math.sqrt(aspect), 1 / math.sqrt(aspect)])
        places = np.rint(rng.random((copies, 2)) * extent)
    parts = [places[k] + motifs[int(rng.integers(len(motifs)))] for k in range(copies)]
    points = np.concatenate(parts)
    return points[np.sort(rng.permutation(len(points))[:n])]  # thin out evenly instead of cutting the last part


def _lattice(rng: Generator, n: int) -> np.ndarray:
    """Grids, meshes and drill plates of aspect 1:1 to 1:10, either way up; half of them jittered or with odd points."""
    layout = (_grid_cells, _line_cells, _plate_cells, _plate_cells)[rng.integers(4)]
    points = layout(rng, n, _log_uniform(rng, 1.0, 2.0 if rng.random() < 0.5 else 10.0))
    if rng.random() < 0.5:
        points[:, 1] *= rng.choice([1.0, 2.0, 0.5, 3.0])  # unequal pitch of rows and columns
    disturbance = rng.random()
    if disturbance < 0.3:
        points = points + rng.normal(0.0, _log_uniform(rng, 0.01, 0.5), size=points.shape)
    elif disturbance < 0.5:
        odd = rng.random(n) < rng.uniform(0.02, 0.3)
        points = np.where(odd[:, None], points.min(axis=0) + rng.random((n, 2)) * np.ptp(points, axis=0), points)
    if rng.random() < 0.5:
        points = points[:, ::-1]
    low, extent = points.min(axis=0), max(float(np.ptp(points, axis=0).max()), 1e-9)
    return np.clip((points - low) / extent, 0.0, 1.0)


def _roads(rng: Generator, n: int) -> np.ndarray:
    """Towns joined by roads with points along them, rounded to a coarse map: aligned points and exact duplicates."""
    towns = rng.random((round(_log_uniform(rng, 5, max(6, n / 8))), 2))
    distance = np.linalg.norm(towns[:, None] - towns[None], axis=2)
    near = np.argsort(distance, axis=1)[:, 1 : 1 + int(rng.integers(1, 4))]
    start = rng.integers(len(towns), size=n)
    end = near[start, rng.integers(near.shape[1], size=n)]
    # Beta(0.6, 2): most addresses are close to a town, the rest thin out along the road.
    along = rng.beta(0.6, 2.0, size=(n, 1))
    width = _log_uniform(rng, 0.0005, 0.02)
    points = towns[start] + along * (towns[end] - towns[start]) + rng.normal(0.0, width, size=(n, 2))
    repeated = rng.random(n) < rng.choice([0.0, 0.02, 0.1])
    points = np.where(repeated[:, None], points[rng.integers(n, size=n)], points)
    cells = _log_uniform(rng, 200, 20_000)
    return np.clip(np.rint(_fit(points) * cells) / cells, 0.0, 1.0)


_POINTS: dict[str, tuple[Callable[[Generator, int], np.ndarray], float]] = {
    "uniform": (_uniform, 0.20),
    "cluster": (_cluster, 0.08),
    "mixture": (_mixture, 0.08),
    "explosion": (_explosion, 0.10),
    "rotation": (_rotation, 0.06),
    "lattice": (_lattice, 0.28),
    "gaussians": (_gaussians, 0.10),
    "roads": (_roads, 0.10),
}
POINT_DISTRIBUTIONS: tuple[str, ...] = (*_POINTS, "mixed")


def _draw(rng: Generator, weights: list[float]) -> int:
    return int(rng.choice(len(weights), p=np.array(weights) / sum(weights)))


def points(rng: Generator, n: int, distribution: str = "mixed") -> np.ndarray:
    """n points in the unit square, (n, 2) float64, not all equal; "mixed" draws one of the distributions."""
    if distribution not in POINT_DISTRIBUTIONS:
        raise ValueError(f"distribution is {distribution!r}, not one of {', '.join(POINT_DISTRIBUTIONS)}")
    name = distribution
    if name == "mixed":
        name = list(_POINTS)[_draw(rng, [weight for _, weight in _POINTS.values()])]
    while True:
        drawn = _POINTS[name][0](rng, n)
        if n < 2 or np.ptp(drawn, axis=0).max() > 0:  # a few rounded points may coincide: draw again
            return np.ascontiguousarray(drawn)


def tsp(rng: Generator, n: int, distribution: str = "mixed") -> Sample:
    """A TSP over n points of the named distribution, in random order."""
    return Sample(rng.permutation(points(rng, n, distribution)))


# ---- CVRP -----------------------------------------------------------------------------------------------------------


def _kool(rng: Generator, customers: int, distribution: str) -> Sample:
    """Kool et al. (2019): demand 1..9, capacity 50. The depot is uniform, except that clusters contain it too."""
    if distribution == "cluster":
        coords = rng.permutation(points(rng, customers + 1, "cluster"))
    else:
        coords = np.concatenate([rng.random((1, 2)), points(rng, customers, distribution)])
    demand = np.concatenate([[0], rng.integers(1, 10, size=customers)])
    return Sample(coords, demand.astype(np.int64), 50)


def _distinct(rng: Generator, taken: np.ndarray, count: int, seeds: np.ndarray | None) -> np.ndarray:
    """count new cells of the grid beside those taken (k, 2): uniform, or near the seeds with sum exp(-distance/40)."""
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
    """Depot in the centre, the corner or anywhere; customers random, clustered or half of each (Uchoa et al. 2017)."""
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
    """Demands of customers at coords (n, 2): one of Set-X's seven types, five ranges, Q (by quadrant) or SL."""
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
    """Capacity giving about route_length customers per route: ceil(r sum(d) / n), and at least the largest demand.

    demand: the customers' demands, without the depot.
    """
    # Integer arithmetic would not help: r is real. The small slack keeps r = 6, mean 1 from becoming 7.
    return max(int(demand.max()), math.ceil(route_length * float(demand.sum()) / len(demand) - 1e-9))


def _on_grid(rng: Generator, coords: np.ndarray, demand: np.ndarray, route_length: float) -> Sample:
    """Depot-first integer coords, customers' demands and a mean route length -> Sample with shuffled customers."""
    order = rng.permutation(len(demand))
    coords = np.concatenate([coords[:1], coords[1:][order]]).astype(np.float64)
    capacity = capacity_for(demand, min(route_length, len(demand)))
    return Sample(coords, np.concatenate([[0], demand[order]]).astype(np.int64), capacity)


def _set_x(rng: Generator, customers: int) -> Sample:
    """Uchoa et al. (2017), customers per route r ~ Triangular(3, 6, 25)."""
    coords = _set_x_coords(rng, customers)
    return _on_grid(rng, coords, _set_x_demand(rng, coords[1:]), rng.triangular(3, 6, 25))


def _set_x_long(rng: Generator, customers: int) -> Sample:
    """Set-X with longer routes: r log-uniform from 10 to a quarter of the customers (at least 25)."""
    coords = _set_x_coords(rng, customers)
    return _on_grid(rng, coords, _set_x_demand(rng, coords[1:]), _log_uniform(rng, 10, max(25, customers / 4)))


def _xxl(rng: Generator, customers: int) -> Sample:
    """Arnold et al. (2019), Belgium: towns of Zipf-like size on a map, demands 1, 2, 3, depot central or outside.

    Short routes carry 8 to 20 customers, long ones 20 to 200 (at most a quarter of all customers).
    """
    towns = max(2, round(_log_uniform(rng, 2, max(3, customers / 12))))
    weight = 1.0 / np.arange(1, towns + 1) ** rng.uniform(0.6, 1.2)
    centres = rng.normal(0.0, 1.0, size=(towns, 2))
    centres[0] *= 0.3  # the largest town is the region's centre
    member = rng.choice(towns, size=customers, p=weight / weight.sum())
    spread = _log_uniform(rng, 0.1, 0.4) * np.sqrt(weight)[member, None]
    # Laplace: a dense core and a thin, far-reaching suburb.
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
    long = _log_uniform(rng, 20, max(21.0, min(200.0, customers / 4)))
    return _on_grid(rng, coords, demand, rng.uniform(8, 20) if rng.random() < 0.5 else long)


_STRUCTURED: dict[str, tuple[Callable[[Generator, int], Sample], float]] = {
    "set_x": (_set_x, 0.60),
    "set_x_long": (_set_x_long, 0.22),
    "xxl": (_xxl, 0.12),
}
_KOOL_SHARE = 0.06  # of "mixed": demand 1..9, capacity 50 over points of any distribution
CVRP_DISTRIBUTIONS: tuple[str, ...] = (*_STRUCTURED, *_POINTS, "mixed")


def cvrp(rng: Generator, customers: int, distribution: str = "mixed") -> Sample:
    """A CVRP with that many customers.

    "set_x", "set_x_long" and "xxl" follow the benchmarks' generators; a point distribution's name gives the paper's
    synthetic CVRP (demand 1..9, capacity 50; "uniform" is Kool's); "mixed" draws one, mostly Set-X.
    """
    if distribution not in CVRP_DISTRIBUTIONS:
        raise ValueError(f"distribution is {distribution!r}, not one of {', '.join(CVRP_DISTRIBUTIONS)}")
    if distribution == "mixed":
        drawn = _draw(rng, [weight for _, weight in _STRUCTURED.values()] + [_KOOL_SHARE])
        if drawn == len(_STRUCTURED):
            return _kool(rng, customers, list(_POINTS)[int(rng.integers(len(_POINTS)))])
        distribution = list(_STRUCTURED)[drawn]
    if distribution in _STRUCTURED:
        return _STRUCTURED[distribution][0](rng, customers)
    return _kool(rng, customers, distribution)


def generate(rng: Generator, problem: str, customers: int, distribution: str = "mixed") -> Sample:
    """tsp() or cvrp() by the problem's name."""
    if problem not in ("tsp", "cvrp"):
        raise ValueError(f"problem is {problem!r}, not tsp or cvrp")
    return (tsp if problem == "tsp" else cvrp)(rng, customers, distribution)


def kool_test_set(problem: str, count: int = KOOL_COUNT) -> list[Sample]:
    """The first count of the 10,000 uniform test instances (N = 100) that the literature draws with seed 1234."""
    if problem not in ("tsp", "cvrp"):
        raise ValueError(f"problem is {problem!r}, not tsp or cvrp")
    if not 0 <= count <= KOOL_COUNT:
        raise ValueError(f"count is {count}, the set has {KOOL_COUNT} instances")
    legacy = np.random.RandomState(KOOL_SEED)  # the stream of np.random.seed(1234), without touching the global one
    if problem == "tsp":
        return [Sample(coords) for coords in legacy.uniform(size=(KOOL_COUNT, 100, 2))[:count]]
    depots = legacy.uniform(size=(KOOL_COUNT, 1, 2))
    customers = legacy.uniform(size=(KOOL_COUNT, 100, 2))
    demands = legacy.randint(1, 10, size=(KOOL_COUNT, 100))
    coords = np.concatenate([depots, customers], axis=1)
    demand = np.concatenate([np.zeros((KOOL_COUNT, 1), dtype=np.int64), demands], axis=1)
    return [Sample(coords[i], demand[i], 50) for i in range(count)]
