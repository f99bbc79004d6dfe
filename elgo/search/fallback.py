"""Feasible routes at once, whatever the size: the answer when there is no time for a better one. Needs only numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elgo.problem.instance import Instance

Routes = list[list[int]]
CURVE = 16  # bits of a place on the curve in each direction
MOST_BITS = 2**30  # of the sums that fill_up looks at


def fallback_routes(instance: Instance, vehicles: int | None = None) -> Routes:
    """TSP: along Hilbert's curve. CVRP: a sweep around the depot, or if that takes too many vehicles, what fits first.

    Raises ValueError if the demand does not fit into that many vehicles, or if no way was found to make it fit.
    """
    if instance.problem == "tsp":
        return [along_curve(instance.plane()).tolist()]
    routes = _sweep(instance)
    if vehicles is None or len(routes) <= vehicles:
        return routes
    demand, capacity = instance.units()
    least = -(-int(demand.sum()) // capacity)
    if least > vehicles:
        raise ValueError(f"{instance.name}: vehicles is {vehicles}, but the demand fills at least {least}")
    for pack in first_fit, fill_up:
        routes = pack(demand, capacity)
        if len(routes) <= vehicles:
            return routes
    raise ValueError(f"{instance.name}: vehicles is {vehicles}, but the demands were not made to fit into them")


def along_curve(plane: NDArray[np.float64]) -> NDArray[np.int64]:
    """The order of points (n, 2) along Hilbert's curve: near each other there, near each other in the plane."""
    low = plane.min(axis=0)
    span = max(float((plane - low).max()), 1e-300)
    x, y = ((plane - low) / span * (2**CURVE - 1)).astype(np.int64).T
    place = np.zeros(len(plane), np.int64)
    for bit in range(CURVE - 1, -1, -1):
        right, up = (x >> bit) & 1, (y >> bit) & 1
        place = (place << 2) | ((3 * right) ^ up)
        # Enter the quarter as its own curve runs: turned round and mirrored in the lower ones.
        mirrored = (up == 0) & (right == 1)
        x, y = np.where(mirrored, ~x, x), np.where(mirrored, ~y, y)
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
    return np.argsort(place, kind="stable")


def _sweep(instance: Instance) -> Routes:
    """Customers by their direction from the depot, a new route whenever the next one does not fit."""
    demand, capacity = instance.units()
    plane = instance.plane()
    step = plane[1:] - plane[0]
    order = 1 + np.argsort(np.arctan2(step[:, 1], step[:, 0]), kind="stable")
    routes: Routes = [[]]
    room = capacity
    for node, amount in zip(order.tolist(), demand[order].tolist(), strict=True):
        if amount > room:
            routes.append([])
            room = capacity
        routes[-1].append(node)
        room -= amount
    return routes


def first_fit(demand: NDArray[np.int64], capacity: int) -> Routes:
    """The largest demands first, each into the first route that has room for it: few routes, whatever their length."""
    routes: Routes = []
    room: list[int] = []
    for node in 1 + np.argsort(-demand[1:], kind="stable"):
        amount = int(demand[node])
        place = next((k for k, left in enumerate(room) if amount <= left), None)
        if place is None:
            routes.append([])
            room.append(capacity)
            place = -1
        routes[place].append(int(node))
        room[place] -= amount
    return routes


def fill_up(demand: NDArray[np.int64], capacity: int) -> Routes:
    """One route after the other: the largest demand that is left, and with it those that fill the vehicle best.

    Even fewer routes. With capacities in the millions there are too many sums to look at: then as first_fit.
    """
    if len(demand) * capacity > MOST_BITS:
        return first_fit(demand, capacity)
    left = [(int(demand[node]), int(node)) for node in 1 + np.argsort(-demand[1:], kind="stable")]
    routes: Routes = []
    while left:
        (amount, node), *left = left
        routes.append([node])
        chosen = _best_filling([amount for amount, _ in left], capacity - amount)
        routes[-1] += [node for (_, node), taken in zip(left, chosen, strict=True) if taken]
        left = [pair for pair, taken in zip(left, chosen, strict=True) if not taken]
    return routes


def _best_filling(amounts: list[int], room: int) -> list[bool]:
    """Which of the amounts (falling) to take so that their sum is as near to the room as possible; large ones first."""
    sums = [1]  # bit s: some of the last amounts add up to s
    for amount in reversed(amounts):
        sums.append((sums[-1] | sums[-1] << amount) & ((1 << (room + 1)) - 1))
    goal = sums.pop().bit_length() - 1
    chosen = []
    for amount in amounts:
        behind = sums.pop()
        chosen.append(amount <= goal and bool(behind >> (goal - amount) & 1))
        goal -= amount * chosen[-1]
    return chosen
