"""Improving TSP tours: in time, on several threads, with asymmetric distances, and by fast_tsp."""

import math
import time

import numpy as np
import pytest
from samples import LATE, random_instance

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search.data import is_symmetric, prepare
from elgo.search.giant_tour import NodeArray
from elgo.search.slices import time_slices
from elgo.search.tsp import fast_tsp_tour, improve, improve_asymmetric, slice_seconds, takes_fast_tsp


@pytest.mark.parametrize("threads", [1, 3])
def test_tours_become_better_in_time(threads: int) -> None:
    instance = random_instance("tsp", 300)
    costs = [Solution(instance, (tuple(range(300)),)).cost]

    def better(tour: NodeArray) -> None:
        solution = Solution(instance, (tuple(tour.tolist()),))
        assert solution.feasible
        costs.append(solution.cost)

    begin = time.perf_counter()
    slices = time_slices(begin + 0.4, slice_seconds(instance))
    improve(prepare(instance), range(300), slices, threads, 0, better)
    assert time.perf_counter() - begin < 0.4 + LATE
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 0.2 * costs[0]


def test_asymmetric_distances() -> None:
    """A ring that is cheap in one direction: the tour is turned that way."""
    n = 12
    matrix = np.full((n, n), 10.0)
    matrix[np.arange(n), (np.arange(n) + 1) % n] = 1
    np.fill_diagonal(matrix, 0)
    angle = 2 * math.pi * np.arange(n) / n
    coords = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    instance = Instance("ring", coords, Metric.EXPLICIT, matrix=matrix)
    assert not is_symmetric(instance)
    assert not takes_fast_tsp(instance)
    found: list[NodeArray] = []
    slices = time_slices(time.perf_counter() + 2, 0.1)
    improve_asymmetric(prepare(instance), range(n)[::-1], slices, 0, found.append)
    assert Solution(instance, (tuple(found[-1].tolist()),)).cost == n


def test_fast_tsp_with_rounded_and_exact_distances() -> None:
    for metric in (Metric.EUC_2D, Metric.EXACT):
        instance = random_instance("tsp", 40, metric)
        tour = fast_tsp_tour(instance, time.perf_counter() + 0.2, 1)
        assert Solution(instance, (tuple(tour),)).feasible
