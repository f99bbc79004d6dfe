"""Tours that begin or end at given nodes, and tours that do not return."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elgo.problem.distances import FloatArray
from elgo.problem.instance import Instance, Metric

Tour = Sequence[int] | NDArray[np.integer]


class OneRoute(NamedTuple):
    """A TSP as one route from a depot, which stands for the fixed or free ends of the tour.

    matrix  (m, m) costs; index 0 is the depot, the others are the nodes between the ends
    before  the nodes of the tour before those: the first node, if it is fixed
    after   the nodes after them: the last one, if it is fixed
    inner   (m - 1,) the nodes between
    """

    matrix: FloatArray
    before: list[int]
    after: list[int]
    inner: NDArray[np.int64]

    def tour_of(self, route: Tour) -> list[int]:
        """Return the tour of a route of indices 1..m-1."""
        return [*self.before, *self.inner[np.asarray(route, np.int64) - 1].tolist(), *self.after]

    def route_of(self, tour: Tour) -> list[int]:
        """Return the route of a tour, the inverse of tour_of; a closed tour is turned to its first node."""
        index = {node: k for k, node in enumerate(self.inner.tolist(), start=1)}
        begin = list(tour).index(self.before[0]) if self.before else 0
        return [index[node] for node in (*tour[begin:], *tour[:begin]) if node in index]


def one_route_form(instance: Instance) -> OneRoute:
    """Return a TSP as one route from a depot: leaving and reaching it costs what the ends of the tour do."""
    first, last = instance.first, instance.last
    if not instance.open:
        first = last = 0 if first is None else first
    elif first == last:  # both free, or a single node
        last = None
    inner = np.setdiff1d(np.arange(instance.size), [node for node in (first, last) if node is not None])
    matrix = np.zeros((len(inner) + 1, len(inner) + 1))
    matrix[1:, 1:] = instance.distances(inner[:, None], inner)
    if first is not None:
        matrix[0, 1:] = instance.distances(first, inner)
    if last is not None:
        matrix[1:, 0] = instance.distances(inner, last)
    before, after = ([] if node is None else [node] for node in (first, last))
    return OneRoute(matrix, before, after if instance.open else [], inner)


def closed_form(instance: Instance) -> Instance:
    """Return an open, symmetric TSP as a closed one with one more node, n, between the last and the first.

    It is near the fixed ends, or all nodes if both are free, and far from the others.
    """
    costs = instance.distance_matrix()
    fixed = [node for node in (instance.first, instance.last) if node is not None]
    to_new = np.full(instance.size, 2 * costs.max() if fixed else 0.0)
    to_new[fixed] = 0.0
    matrix = np.pad(costs, (0, 1))
    matrix[-1, :-1] = matrix[:-1, -1] = to_new
    return Instance("closed", np.zeros((len(matrix), 2)), Metric.EXPLICIT, matrix=matrix)


def open_tour(instance: Instance, tour: Tour) -> list[int]:
    """Return a tour of `closed_form` without the added node, from the node after it on, or the other way round."""
    begin = list(tour).index(instance.size)
    path = [*tour[begin + 1 :], *tour[:begin]]
    turned = path[-1] == instance.first if instance.first is not None else path[0] == instance.last
    return path[::-1] if turned else path


def pad_ends(instance: Instance, tour: Tour) -> list[int]:
    """Return the tour with nodes n, n + 1 at its free ends, which cost nothing to reach; see `prepare`."""
    before = [instance.size] if instance.open and instance.first is None else []
    after = [instance.size + len(before)] if instance.open and instance.last is None else []
    return [*before, *tour, *after]


def fit_ends(instance: Instance, tour: Sequence[int]) -> list[int]:
    """Return the nodes in the cyclic order of the tour, or its reverse, cut where the fixed or free ends cost least."""
    first, last = instance.first, instance.last
    if not instance.open:
        begin = list(tour).index(first) if first is not None else 0
        return [*tour[begin:], *tour[:begin]]
    inner = np.array([node for node in tour if node not in (first, last)], np.int64)
    if len(inner) == 0:
        return list(tour)
    best, found = np.inf, inner
    for order in (inner, inner[::-1]):
        previous = np.roll(order, 1)
        edges = instance.distances(previous, order)
        costs = edges.sum() - edges
        if first is not None:
            costs = costs + instance.distances(first, order)
        if last is not None:
            costs = costs + instance.distances(previous, last)
        if costs.min() < best:
            best, found = float(costs.min()), np.roll(order, -int(costs.argmin()))
    return [*([] if first is None else [first]), *found.tolist(), *([] if last is None else [last])]
