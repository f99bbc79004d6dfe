"""Giant tours: the routes of a CVRP as one array, the customers of each route followed by a 0 for the depot."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from elgo.problem.instance import Instance

NodeArray = NDArray[np.int32]
Routes = list[list[int]]


def to_giant_tour(routes: Sequence[Sequence[int]]) -> NodeArray:
    """Return the giant tour of the routes: [[3, 1], [2]] gives [3, 1, 0, 2, 0]."""
    return np.array([node for route in routes for node in (*route, 0)], dtype=np.int32)


def to_routes(giant_tour: NodeArray) -> Routes:
    """Return the routes of a giant tour, the inverse of to_giant_tour."""
    return [part[:-1].tolist() for part in np.split(giant_tour, np.flatnonzero(giant_tour == 0)[:-1] + 1)]


def count_routes(giant_tour: NodeArray) -> int:
    """Return the number of routes in a giant tour."""
    return int((giant_tour == 0).sum())


def mean_edge(instance: Instance, giant_tour: NodeArray) -> float:
    """Return the mean cost of the edges of a giant tour."""
    return float(instance.distances(np.roll(giant_tour, 1), giant_tour).mean())


def split_by_sector(instance: Instance, giant_tour: NodeArray, count: int, rng: Generator) -> list[NodeArray]:
    """Split a giant tour into `count` giant tours, each a sector around the depot with about as many customers.

    The first sector begins at a random angle, so that any two neighbouring routes share a sector from time to time.
    With fewer than two routes for each sector nothing is split.
    """
    ends = np.flatnonzero(giant_tour == 0)
    if count == 1 or len(ends) < 2 * count:
        return [giant_tour]
    plane = instance.plane()
    begins = np.append(0, ends[:-1] + 1)
    sizes = ends - begins
    centroids = np.add.reduceat(plane[giant_tour] - plane[0], begins) / sizes[:, None]  # the depot adds zero
    angle = (np.arctan2(centroids[:, 1], centroids[:, 0]) + rng.uniform(0, 2 * np.pi)) % (2 * np.pi)
    order = np.argsort(angle)
    cumulative = np.cumsum(sizes[order])
    sector = (cumulative - 1) * count // cumulative[-1]
    pieces = np.split(giant_tour, ends[:-1] + 1)
    groups = [[pieces[k] for k in order[sector == number]] for number in range(count)]
    return [np.concatenate(group) for group in groups if group]
