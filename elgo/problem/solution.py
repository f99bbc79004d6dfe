"""Routes over an Instance: what they cost, and whether they are allowed."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from elgo.problem.instance import Instance


@dataclass(frozen=True)
class Solution:
    """Routes as 0-based node indices: CVRP without the depot, TSP one route over all nodes.

    Anything may be put in; `violations` says what is wrong with it.
    """

    instance: Instance
    routes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        routes = tuple(tuple(operator.index(node) for node in route) for route in self.routes)
        object.__setattr__(self, "routes", routes)

    @cached_property
    def cost(self) -> float:
        """Length of all closed routes in the instance's own units. Raises ValueError for a node that does not exist."""
        if unknown := self._unknown():
            raise ValueError(f"{self.instance.name} has no node {unknown[0]}, so the routes have no cost")
        depot = () if self.instance.problem == "tsp" else (0,)
        closed = [np.array(depot + route, dtype=np.int64) for route in self.routes if route]
        if not closed:
            return 0.0
        here = np.concatenate(closed)
        there = np.concatenate([np.roll(stops, -1) for stops in closed])
        return math.fsum(self.instance.distances(here, there))  # exact, so that turning a route leaves its cost alone

    @cached_property
    def violations(self) -> tuple[str, ...]:
        """One line for every rule that is broken; empty if the solution is feasible."""
        return tuple(chain(self._shape_faults(), self._visit_faults(), self._load_faults()))

    @property
    def feasible(self) -> bool:
        return not self.violations

    def _unknown(self) -> list[int]:
        return sorted({node for node in chain(*self.routes) if not 0 <= node < self.instance.size})

    def _shape_faults(self) -> Iterable[str]:
        if self.instance.problem == "tsp" and len(self.routes) != 1:
            yield f"a TSP has one route, not {len(self.routes)}"
        for number, route in enumerate(self.routes, start=1):
            if not route:
                yield f"route {number} is empty"
            if self.instance.problem == "cvrp" and 0 in route:
                yield f"route {number} visits the depot on its way"

    def _visit_faults(self) -> Iterable[str]:
        first = 0 if self.instance.problem == "tsp" else 1
        visits = Counter(chain(*self.routes))
        missing = [node for node in range(first, self.instance.size) if not visits[node]]
        repeated = sorted(node for node, count in visits.items() if count > 1 and first <= node < self.instance.size)
        for fault, nodes in (("unknown", self._unknown()), ("missing", missing), ("repeated", repeated)):
            if nodes:
                yield f"{fault} nodes: {_shortened(nodes)}"

    def _load_faults(self) -> Iterable[str]:
        if self.instance.demand is None or self.instance.capacity is None or self._unknown():
            return
        demand, capacity = self.instance.units()
        for number, route in enumerate(self.routes, start=1):
            nodes = np.array(route, dtype=np.int64)
            if demand[nodes].sum() <= capacity:
                continue
            # Units are exact for whole and decimal numbers; others were rounded against us, so add those up themselves.
            load = math.fsum(self.instance.demand[nodes])
            if load > self.instance.capacity:
                yield f"route {number} carries {load:.15g}, more than CAPACITY {self.instance.capacity:.15g}"


def gap(cost: float, best_known: float | None) -> float | None:
    """How far a cost lies above the best known one, in percent; None if that is not known."""
    return 100.0 * (cost - best_known) / best_known if best_known else None


def _shortened(nodes: Sequence[int], limit: int = 5) -> str:
    shown = ", ".join(map(str, nodes[:limit]))
    return shown if len(nodes) <= limit else f"{shown}, ... ({len(nodes)} in all)"
