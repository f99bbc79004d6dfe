"""Feasible routes in milliseconds at any size, for when there is no time for better ones. Needs numpy only."""

import numpy as np
from numpy.typing import NDArray

from elgo.problem.instance import Instance
from elgo.search.giant_tour import Routes

HILBERT_ORDER = 16  # bits of each coordinate
MOST_BITS = 2**30  # largest table of sums in fill_vehicles


def fallback_routes(instance: Instance, vehicles: int | None = None) -> Routes:
    """Return a tour along the Hilbert curve (TSP), or a sweep around the depot (CVRP).

    If the sweep needs too many vehicles, the customers are packed by demand alone. Raises ValueError if the demand
    exceeds the capacity of all vehicles, or if no packing was found.
    """
    if instance.problem == "tsp":
        return [hilbert_order(instance.plane()).tolist()]
    routes = _sweep(instance)
    if vehicles is None or len(routes) <= vehicles:
        return routes
    demand, capacity = instance.units()
    least = -(-int(demand.sum()) // capacity)
    if least > vehicles:
        raise ValueError(f"{instance.name}: vehicles is {vehicles}, but the demand fills at least {least}")
    for pack in first_fit_decreasing, fill_vehicles:
        routes = pack(demand, capacity)
        if len(routes) <= vehicles:
            return routes
    raise ValueError(f"{instance.name}: vehicles is {vehicles}, but the demands were not made to fit into them")


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


def first_fit_decreasing(demand: NDArray[np.int64], capacity: int) -> Routes:
    """Return few routes, whatever their length: the largest demand first, each in the first route that it fits into."""
    routes: Routes = []
    free: list[int] = []
    for node in 1 + np.argsort(-demand[1:], kind="stable"):
        amount = int(demand[node])
        number = next((k for k, left in enumerate(free) if amount <= left), None)
        if number is None:
            routes.append([])
            free.append(capacity)
            number = -1
        routes[number].append(int(node))
        free[number] -= amount
    return routes


def fill_vehicles(demand: NDArray[np.int64], capacity: int) -> Routes:
    """Return even fewer routes: one after the other, the largest demand left and those that fill the vehicle best.

    The subset sums of a capacity in the millions would be too many: then the same as first_fit_decreasing.
    """
    if len(demand) * capacity > MOST_BITS:
        return first_fit_decreasing(demand, capacity)
    left = [(int(demand[node]), int(node)) for node in 1 + np.argsort(-demand[1:], kind="stable")]
    routes: Routes = []
    while left:
        (amount, node), *left = left
        routes.append([node])
        chosen = _largest_subset([amount for amount, _ in left], capacity - amount)
        routes[-1] += [node for (_, node), taken in zip(left, chosen, strict=True) if taken]
        left = [pair for pair, taken in zip(left, chosen, strict=True) if not taken]
    return routes


def _largest_subset(amounts: list[int], limit: int) -> list[bool]:
    """Return which of the descending amounts to take so that their sum is as large as possible, but at most `limit`.

    Among equal sums, larger amounts are preferred.
    """
    sums = [1]  # after k steps: bit s is set if some of the last k amounts add up to s
    for amount in reversed(amounts):
        sums.append((sums[-1] | sums[-1] << amount) & ((1 << (limit + 1)) - 1))
    target = sums.pop().bit_length() - 1
    chosen = []
    for amount in amounts:
        sums_of_rest = sums.pop()
        chosen.append(amount <= target and bool(sums_of_rest >> (target - amount) & 1))
        target -= amount * chosen[-1]
    return chosen
