"""Feasible routes in milliseconds at any size, for when there is no time for better ones. Needs numpy only."""

import numpy as np
from numpy.typing import NDArray

from elgo.problem.instance import Instance
from elgo.problem.packing import pack_into
from elgo.search.ends import fit_ends
from elgo.search.giant_tour import Routes

HILBERT_ORDER = 16  # bits of each coordinate


def fallback_routes(instance: Instance, vehicles: int | None = None) -> Routes:
    """Return a tour along the Hilbert curve (TSP), or a sweep around the depot (CVRP).

    If the sweep needs too many vehicles, the customers are packed by demand alone. Raises ElgoError if no packing was
    found; it says how many vehicles are needed.
    """
    if instance.problem == "tsp":
        return [fit_ends(instance, hilbert_order(instance.plane()).tolist())]
    if instance.customers == 0:
        return []
    routes = _sweep(instance)
    if vehicles is None or len(routes) <= vehicles:
        return routes
    return pack_into(instance, vehicles)


def hilbert_order(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order of points (n, 2) along the Hilbert curve, on which successive points are close in the plane."""
    low = points.min(axis=0)
    span = max(float((points - low).max()), 1e-300)
    x, y = ((points - low) / span * (2**HILBERT_ORDER - 1)).astype(np.int64).T
    position = np.zeros(len(points), np.int64)
    for bit in range(HILBERT_ORDER - 1, -1, -1):
        right, up = (x >> bit) & 1, (y >> bit) & 1
        position = (position << 2) | ((3 * right) ^ up)
        # The curve within the lower quadrants is transposed, and in the right one reflected as well.
        reflected = (up == 0) & (right == 1)
        x, y = np.where(reflected, ~x, x), np.where(reflected, ~y, y)
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
    return np.argsort(position, kind="stable")


def _sweep(instance: Instance) -> Routes:
    """Return routes of customers by their angle around the depot, a new one whenever the next customer does not fit."""
    demand, capacity = instance.units()
    plane = instance.plane()
    offset = plane[1:] - plane[0]
    order = 1 + np.argsort(np.arctan2(offset[:, 1], offset[:, 0]), kind="stable")
    routes: Routes = [[]]
    free = capacity
    for node, amount in zip(order.tolist(), demand[order].tolist(), strict=True):
        if amount > free:
            routes.append([])
            free = capacity
        routes[-1].append(node)
        free -= amount
    return routes
