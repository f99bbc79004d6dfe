"""Bin packing: customers into vehicles by demand alone, and how many vehicles are needed at least."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance

Routes = list[list[int]]

MOST_BITS = 2**30  # largest table of sums in fill_vehicles
MOST_WORK = 1_000_000  # steps x vehicles of the exact search, a second at most


def pack_into(instance: Instance, vehicles: int) -> Routes:
    """Return routes for at most so many vehicles, whatever their length; ElgoError explains why there are none."""
    demand, capacity = instance.units()
    least = least_vehicles(demand, capacity)
    if least <= vehicles:
        for pack in first_fit_decreasing, fill_vehicles:
            routes = pack(demand, capacity)
            if len(routes) <= vehicles:
                return routes
        found, steps = exact_packing(demand, capacity, vehicles)
        if found is not None:
            return found
        if steps > 0:  # all was tried
            least = vehicles + 1
    begin = f"{instance.name}: vehicles is {vehicles}, but "
    if least <= vehicles:
        enough = f"{len(routes)} are enough, at least {least} are needed"
        raise ElgoError(f"{begin}the demands were not made to fit; {enough}")
    raise ElgoError(f"{begin}at least {least} are needed: {_loads(instance, vehicles)}")


def _loads(instance: Instance, vehicles: int) -> str:
    """Return why the demands do not fit into so many vehicles."""
    assert instance.demand is not None
    assert instance.capacity is not None
    total, room = float(instance.demand.sum()), vehicles * instance.capacity
    loads = f"the demands add up to {total:.12g}, and {vehicles} x {instance.capacity:.12g} is {room:.12g}"
    if total > room:
        return f"{loads}, which is {total - room:.12g} too little"
    return f"{loads}, but no way to share them out fits"


def least_vehicles(demand: NDArray[np.int64], capacity: int) -> int:
    """Return a lower bound on the number of vehicles: L2 of Martello and Toth (1990).

    For a threshold t, demands above capacity - t are alone with what is below t; those above half of the capacity need
    a vehicle each; and what is left over of the demands from t on needs vehicles for its sum.
    """
    sizes = np.sort(demand[demand > 0])
    if len(sizes) == 0:
        return int(len(demand) > 1)
    sums = np.append(0, np.cumsum(sizes))
    middle = int(np.searchsorted(sizes, capacity // 2, side="right"))
    thresholds = np.unique(np.append(0, sizes[:middle]))
    low = np.searchsorted(sizes, thresholds, side="left")  # demands from here on count
    large = np.searchsorted(sizes, capacity - thresholds, side="right")  # from here on alone in a vehicle
    halves = np.maximum(middle, np.minimum(large, len(sizes)))
    free = (halves - middle) * capacity - (sums[halves] - sums[middle])  # beside those above half
    left = np.maximum(0, sums[middle] - sums[low] - free)
    return int((len(sizes) - middle + -(-left // capacity)).max())


def exact_packing(demand: NDArray[np.int64], capacity: int, vehicles: int) -> tuple[Routes | None, int]:
    """Return a packing into so many vehicles, None if there is none, and the steps left; with 0 it was given up.

    Depth first: the largest demand into each vehicle with another load in turn, of the empty ones into the first.
    """
    order = (1 + np.argsort(-demand[1:], kind="stable")).tolist()
    sizes = [int(demand[node]) for node in order]
    spare = vehicles * capacity - sum(sizes)  # what may be left unused
    free, chosen, steps = [capacity] * vehicles, [0] * len(order), MOST_WORK // vehicles
    choices: list[list[int]] = [_choices(free, sizes[0], sizes[-1], spare)] if sizes else []
    depth = 0
    while depth < len(order):
        steps -= 1
        if steps <= 0:
            return None, 0
        if not choices[depth]:
            choices.pop()
            depth -= 1
            if depth < 0:
                return None, steps
            free[chosen[depth]] += sizes[depth]
            continue
        chosen[depth] = choices[depth].pop()
        free[chosen[depth]] -= sizes[depth]
        depth += 1
        if depth < len(order):
            choices.append(_choices(free, sizes[depth], sizes[-1], spare))
    routes: Routes = [[] for _ in range(vehicles)]
    for node, number in zip(order, chosen, strict=True):
        routes[number].append(node)
    return [route for route in routes if route], steps


def _choices(free: Sequence[int], size: int, smallest: int, spare: int) -> list[int]:
    """Return the vehicles to try for a demand, the fullest last; none if too much room is lost to all demands."""
    if sum(room for room in free if room < smallest) > spare:
        return []
    different = {room: number for number, room in reversed(list(enumerate(free))) if room >= size}
    return [different[room] for room in sorted(different, reverse=True)]


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
