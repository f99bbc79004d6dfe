"""Distributions of points in the unit square."""

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from elgo.problem.errors import ElgoError


def _rescale(points: np.ndarray) -> np.ndarray:
    """Return points moved and scaled (both axes alike) so that they span the unit square in their longer direction."""
    return (points - points.min(axis=0)) / max(float(np.ptp(points, axis=0).max()), 1e-9)


def _fit(points: np.ndarray) -> np.ndarray:
    """Return points rescaled into the unit square; unchanged if they are inside already."""
    return points if points.min() >= 0 and points.max() <= 1 else _rescale(points)


def log_uniform(rng: Generator, low: float, high: float) -> float:
    """Return a number between low and high whose logarithm is uniform."""
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


def _explosion(rng: Generator, n: int, radius: float = 0.3) -> np.ndarray:
    """Bossek et al. (2019), as published: points near a random centre are thrown out to radius + Exp with mean 0.1.

    They fly through the centre to its other side, so that a centre at the border throws them out of the square.
    """
    points, centre = _uniform(rng, n), rng.random(2)
    away = centre - points
    distance = np.linalg.norm(away, axis=1, keepdims=True)
    inside = distance < radius
    inside &= inside.sum() >= 2
    moved = centre + away / np.maximum(distance, 1e-12) * (radius + rng.exponential(0.1, size=(n, 1)))
    return _rescale(np.where(inside, moved, points))


def _rotation(rng: Generator, n: int, share: float = 0.4) -> np.ndarray:
    """Bossek et al. (2019), as published: a random share of uniform points is rotated about the origin and shifted.

    The angle is uniform in [0, 2 pi], the shift in the unit square.
    """
    points = _uniform(rng, n)
    chosen = rng.random((n, 1)) < share
    chosen &= chosen.sum() >= 2
    angle = rng.uniform(0.0, 2 * math.pi)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return _rescale(np.where(chosen, points @ turn + rng.random(2), points))


def _gaussians(rng: Generator, n: int) -> np.ndarray:
    """1 to n/8 Gaussian clusters of unequal sizes, with spreads from 0.003 to 0.15, and up to 40 % uniform points."""
    clusters = round(log_uniform(rng, 1, max(2, n // 8)))
    member = rng.choice(clusters, size=n, p=rng.dirichlet(np.full(clusters, 2.0)))
    spread = np.exp(rng.uniform(math.log(0.003), math.log(0.15), size=(clusters, 1)))
    points = rng.normal(rng.random((clusters, 2))[member], spread[member])
    uniform = rng.random(n) < rng.uniform(0.0, 0.4)
    return _fit(np.where(uniform[:, None], _uniform(rng, n), points))


# Drilling and VLSI layouts. TSPLIB's fl417, p654, ts225, pr* and u* are hard because many distances are equal, points
# are collinear, and dense blocks are far apart. The layouts below return integer positions, so equal distances stay
# equal.


def _grid_cells(rng: Generator, n: int, aspect: float) -> np.ndarray:
    """Return n cells of a grid whose width/height is close to aspect, with or without holes."""
    cells = n if rng.random() < 0.4 else math.ceil(n * rng.uniform(1.05, 3.0))
    rows = max(1, round(math.sqrt(cells / aspect)))
    columns = math.ceil(cells / rows)
    chosen = np.arange(n) if cells == n else rng.permutation(rows * columns)[:n]
    return np.stack([chosen // rows, chosen % rows], axis=1).astype(np.float64)


def _line_cells(rng: Generator, n: int, aspect: float) -> np.ndarray:
    """Return n points at distance 1 along the lines of a coarse mesh, 3 to 12 apart (as in ts225)."""
    step = int(rng.integers(3, 13))
    rows = max(2, round(math.sqrt(n / (2 * step * aspect))) + 1)
    columns = max(2, math.ceil(rows * aspect))
    across = max(2 * n, columns * step)  # long enough for n points
    x, y = np.meshgrid(np.arange(across + 1), np.arange((rows - 1) * step + 1), indexing="ij")
    on_line = (y % step == 0) | (x % step == 0) if rng.random() < 0.7 else y % step == 0
    cells = np.stack([x[on_line], y[on_line]], axis=1)
    return cells[:n].astype(np.float64)  # sorted by x: the mesh is filled from the left


def _motif(rng: Generator, m: int) -> np.ndarray:
    """Return the m points of a part that is repeated on a plate: a block, parallel lines, a ring or a single row."""
    shape = rng.integers(4)
    if shape == 0:
        return _grid_cells(rng, m, log_uniform(rng, 0.5, 4.0))
    if shape == 1:
        gap, rows = int(rng.integers(2, 6)), int(rng.integers(2, 5))
        return np.stack([np.arange(m) // rows, np.arange(m) % rows * gap], axis=1).astype(np.float64)
    if shape == 2:
        angle = 2 * math.pi * np.arange(m) / m
        return np.rint(np.stack([np.cos(angle), np.sin(angle)], axis=1) * max(2.0, m / 3))
    return np.stack([np.arange(m), np.zeros(m)], axis=1).astype(np.float64)


def _plate_cells(rng: Generator, n: int, aspect: float) -> np.ndarray:
    """Return copies of one to three motifs, on a grid or scattered, with gaps between them (as in fl417, p654)."""
    copies = round(log_uniform(rng, 4, max(5, n / 6)))
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
    return points[np.sort(rng.permutation(len(points))[:n])]  # remove points evenly, not only from the last copy


def _lattice(rng: Generator, n: int) -> np.ndarray:
    """Grids, meshes and drilling plates of aspect 1:1 to 1:10, wide or tall; half of them with noise or outliers."""
    layout = (_grid_cells, _line_cells, _plate_cells, _plate_cells)[rng.integers(4)]
    points = layout(rng, n, log_uniform(rng, 1.0, 2.0 if rng.random() < 0.5 else 10.0))
    if rng.random() < 0.5:
        points[:, 1] *= rng.choice([1.0, 2.0, 0.5, 3.0])  # different spacing of rows and columns
    disturbance = rng.random()
    if disturbance < 0.3:
        points = points + rng.normal(0.0, log_uniform(rng, 0.01, 0.5), size=points.shape)
    elif disturbance < 0.5:
        outlier = rng.random(n) < rng.uniform(0.02, 0.3)
        points = np.where(outlier[:, None], points.min(axis=0) + rng.random((n, 2)) * np.ptp(points, axis=0), points)
    if rng.random() < 0.5:
        points = points[:, ::-1]
    return _rescale(points)


def _roads(rng: Generator, n: int) -> np.ndarray:
    """Points along roads between towns, rounded to a coarse map: many are collinear, some coincide."""
    towns = rng.random((round(log_uniform(rng, 5, max(6, n / 8))), 2))
    distance = np.linalg.norm(towns[:, None] - towns[None], axis=2)
    near = np.argsort(distance, axis=1)[:, 1 : 1 + int(rng.integers(1, 4))]
    start = rng.integers(len(towns), size=n)
    end = near[start, rng.integers(near.shape[1], size=n)]
    # Beta(0.6, 2): most points are close to a town, fewer along the road.
    along = rng.beta(0.6, 2.0, size=(n, 1))
    width = log_uniform(rng, 0.0005, 0.02)
    points = towns[start] + along * (towns[end] - towns[start]) + rng.normal(0.0, width, size=(n, 2))
    repeated = rng.random(n) < rng.choice([0.0, 0.02, 0.1])
    points = np.where(repeated[:, None], points[rng.integers(n, size=n)], points)
    cells = log_uniform(rng, 200, 20_000)
    return np.clip(np.rint(_fit(points) * cells) / cells, 0.0, 1.0)


# Name -> generator and its share in "mixed".
POINT_GENERATORS: dict[str, tuple[Callable[[Generator, int], np.ndarray], float]] = {
    "uniform": (_uniform, 0.20),
    "cluster": (_cluster, 0.08),
    "mixture": (_mixture, 0.08),
    "explosion": (_explosion, 0.10),
    "rotation": (_rotation, 0.06),
    "lattice": (_lattice, 0.28),
    "gaussians": (_gaussians, 0.10),
    "roads": (_roads, 0.10),
}
POINT_DISTRIBUTIONS: tuple[str, ...] = (*POINT_GENERATORS, "mixed")


def weighted_choice(rng: Generator, shares: dict[str, float]) -> str:
    """Return a random name, with probability proportional to its share."""
    weights = np.array(list(shares.values()))
    return list(shares)[rng.choice(len(weights), p=weights / sum(shares.values()))]


def points(rng: Generator, n: int, distribution: str = "mixed") -> np.ndarray:
    """Return n points in the unit square, (n, 2) float64, not all equal; "mixed" picks one of the distributions."""
    if distribution not in POINT_DISTRIBUTIONS:
        raise ElgoError(f"distribution is {distribution!r}, expected one of {', '.join(POINT_DISTRIBUTIONS)}")
    if distribution == "mixed":
        distribution = weighted_choice(rng, {name: share for name, (_, share) in POINT_GENERATORS.items()})
    while True:
        drawn = POINT_GENERATORS[distribution][0](rng, n)
        if n < 2 or np.ptp(drawn, axis=0).max() > 0:  # rounded points may all coincide: draw again
            return np.ascontiguousarray(drawn)
