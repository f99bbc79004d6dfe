"""A solution as its drivers see it: the stops of each route in order, with legs, distances and loads so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from elgo.problem.distances import Metric
from elgo.problem.solution import Solution, format_cost

_METRES_PER_KM = 1000.0


@dataclass(frozen=True)
class Itinerary:
    """One route. It begins at the depot, or for a TSP at the first node; unless it is open, it ends there, too."""

    nodes: tuple[int, ...]
    legs: tuple[float, ...]  # cost from the node before; 0 for the first
    loads: tuple[float, ...]  # demand of the nodes so far; 0 for a TSP
    open: bool
    from_depot: bool  # False for a TSP, whose start is a stop, too

    @property
    def stop_count(self) -> int:
        """Number of stops, with the start unless that is the depot."""
        return len(self.stops) + (not self.from_depot)

    @property
    def cost(self) -> float:
        """Cost of the route."""
        return math.fsum(self.legs)

    @property
    def load(self) -> float:
        """Load of the vehicle."""
        return self.loads[-1]

    @property
    def stops(self) -> tuple[int, ...]:
        """The nodes without the start, to which a closed route returns."""
        return self.nodes[1:] if self.open else self.nodes[1:-1]

    @cached_property
    def distances(self) -> tuple[float, ...]:
        """Cost from the start to each node."""
        return tuple(accumulate(self.legs))


def itineraries(solution: Solution) -> list[Itinerary]:
    """Return the routes of a solution in their order. A closed tour is turned to begin at its first node, else at 0."""
    return [_itinerary(solution, route) for route in solution.routes if route]


def _itinerary(solution: Solution, route: tuple[int, ...]) -> Itinerary:
    instance = solution.instance
    if instance.problem == "cvrp":
        nodes = (0, *route) if instance.open else (0, *route, 0)
    elif instance.open:
        nodes = route
    else:
        begin = route.index(instance.first or 0)
        nodes = (*route[begin:], *route[: begin + 1])
    walk = np.array(nodes, dtype=np.int64)
    legs = instance.distances(walk[:-1], walk[1:])
    demand = np.zeros(instance.size) if instance.demand is None else instance.demand
    loads = _sums([float(demand[node]) for node in nodes])
    return Itinerary(nodes, (0.0, *legs.tolist()), loads, instance.open, instance.problem == "cvrp")


def _sums(values: list[float]) -> tuple[float, ...]:
    """Return the sums of the values so far, without the noise of adding decimal fractions."""
    return tuple(float(f"{total:.12g}") for total in accumulate(values))


def in_display_unit(cost: float, metric: Metric) -> tuple[float, str]:
    """Return a cost in the unit that people read it in, and the unit: kilometres on the earth, else unknown ("")."""
    return (cost / _METRES_PER_KM, "km") if metric.unit == "m" else (cost, metric.unit)


def format_length(cost: float | None, metric: Metric, comma: str = "") -> str:
    """Return a cost as text for people: "142.2 km", "842 m", or without a unit as format_cost does."""
    if cost is None or metric.unit != "m":
        return f"{format_cost(cost, comma)} {'' if cost is None else metric.unit}".rstrip()
    return f"{cost / _METRES_PER_KM:{comma}.1f} km" if cost >= _METRES_PER_KM else f"{cost:.0f} m"


def short_length(cost: float, metric: Metric) -> str:
    """Return a cost as text for legends: as format_length does, but with at most one decimal from 100 on."""
    if metric in (Metric.HAVERSINE, Metric.GEO) or float(cost).is_integer():
        return format_length(cost, metric, ",")
    return f"{cost:,.1f}" if cost >= 100 else f"{cost:.3g}"
