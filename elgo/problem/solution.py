"""Solutions: routes of an instance, their cost and whether they are feasible."""

import math
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance


@dataclass(frozen=True)
class Solution:
    """Routes as 0-based node indices: for CVRP without the depot, for TSP one route with all nodes.

    Routes are not validated when a Solution is made; `violations` lists what is wrong with them.
    """

    instance: Instance
    routes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        routes = tuple(tuple(operator.index(node) for node in route) for route in self.routes)
        object.__setattr__(self, "routes", routes)

    @cached_property
    def cost(self) -> float:
        """Total cost of the routes, with the way back unless they are open. Raises ElgoError for unknown nodes."""
        if self._unknown:
            raise ElgoError(f"{self.instance.name} has no node {self._unknown[0]}, so the routes have no cost")
        tsp = self.instance.problem == "tsp"
        closed = [route if tsp else (0, *route) for route in self.routes if route]
        here = np.array(list(chain(*closed)), dtype=np.int64)
        there = np.array(list(chain(*((*stops[1:], stops[0]) for stops in closed))), dtype=np.int64)
        if tsp and self.instance.open:
            here, there = here[:-1], there[:-1]
        return math.fsum(self.instance.distances(here, there))  # exact: a rotated route costs the same

    @cached_property
    def violations(self) -> tuple[str, ...]:
        """One line for every violated constraint; empty if the solution is feasible."""
        return tuple(chain(self._route_violations(), self._visit_violations(), self._load_violations()))

    @property
    def feasible(self) -> bool:
        """True if there are no violations."""
        return not self.violations

    @cached_property
    def _unknown(self) -> list[int]:
        size = self.instance.size
        return sorted({node for node in chain(*self.routes) if not 0 <= node < size})

    def _route_violations(self) -> Iterable[str]:
        if self.instance.problem == "tsp" and len(self.routes) != 1:
            yield f"a TSP has one route, not {len(self.routes)}"
        for number, route in enumerate(self.routes, start=1):
            if not route:
                yield f"route {number} is empty"
            if self.instance.problem == "cvrp" and 0 in route:
                yield f"route {number} contains the depot"
            for name, end in (("first", 0), ("last", -1)):
                node = getattr(self.instance, name)
                if route and node is not None and route[end] != node:
                    yield f"the {name} node is {route[end]}, not {node}"

    def _visit_violations(self) -> Iterable[str]:
        first = 0 if self.instance.problem == "tsp" else 1
        visits = Counter(chain(*self.routes))
        missing = [node for node in range(first, self.instance.size) if not visits[node]]
        repeated = sorted(node for node, count in visits.items() if count > 1 and first <= node < self.instance.size)
        for kind, nodes in (("unknown", self._unknown), ("missing", missing), ("repeated", repeated)):
            if nodes:
                yield f"{kind} nodes: {_shortened(nodes)}"

    def _load_violations(self) -> Iterable[str]:
        if self.instance.demand is None or self.instance.capacity is None or self._unknown:
            return
        demand, capacity = self.instance.units()
        units = demand.tolist()  # sums of a few are faster without numpy
        for number, route in enumerate(self.routes, start=1):
            if sum(units[node] for node in route) <= capacity:
                continue
            # Units are exact for integers and decimals; other demands were rounded up, so check their exact sum.
            load = math.fsum(self.instance.demand[list(route)])
            if load > self.instance.capacity:
                yield f"route {number} carries {load:.15g}, more than CAPACITY {self.instance.capacity:.15g}"


def gap(cost: float, best_known: float | None) -> float | None:
    """Return by how many percent a cost is above the best known one, None if that is not known."""
    return 100.0 * (cost - best_known) / best_known if best_known else None


def format_cost(cost: float | None, comma: str = "") -> str:
    """Return a cost as text: an integer if it is integral, else with four decimals; "-" for None.

    comma="," separates thousands. What has more digits than a float knows is written as 1.23457e+20.
    """
    if cost is None:
        return "-"
    if cost >= 1e15:
        return f"{cost:.6g}"
    return f"{int(cost):{comma}}" if float(cost).is_integer() else f"{cost:{comma}.4f}"


def format_gap(gap: float | None) -> str:
    """Return a gap in percent with two decimals; "-" for None."""
    return "-" if gap is None else f"{gap:.2f}"


def _shortened(nodes: Sequence[int], limit: int = 5) -> str:
    shown = ", ".join(map(str, nodes[:limit]))
    return shown if len(nodes) <= limit else f"{shown}, ... ({len(nodes)} in all)"
