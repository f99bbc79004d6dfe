"""Iterated local search for TSP: what it gives is what it says, and its ends stay where they are."""

import itertools
import math
import time

import numpy as np
import pytest
from samples import LATE, random_instance

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.search import tsp_kernels as kicks
from elgo.search.data import Ground, NodeArray, survey
from elgo.search.rng import states
from elgo.search.time_slices import paced
from elgo.search.tsp import fast_tsp_tour, improve, improve_one_way, is_symmetric, takes_fast_tsp


def kick(ground: Ground, path: NodeArray, count: int, seed: int = 0) -> tuple[NodeArray, float]:
    return kicks.kick(ground.rule, ground.data, ground.near, path, count, states(seed, 1)[0])


def length(instance: Instance, path: NodeArray) -> float:
    return float(instance.distances(path[:-1], path[1:]).sum())


@pytest.mark.parametrize("metric", [Metric.EUC_2D, Metric.EXACT])
@pytest.mark.parametrize("n", [3, 7, 8, 30, 200])
def test_a_path_keeps_its_nodes_and_ends_and_gains_what_it_says(n: int, metric: Metric) -> None:
    instance = random_instance("tsp", n, metric)
    path = np.random.default_rng(n).permutation(n).astype(np.int32)
    before = path.copy()
    found, gain = kick(survey(instance), path, 300)
    assert np.array_equal(path, before)
    assert sorted(found.tolist()) == list(range(n))
    assert (found[0], found[-1]) == (path[0], path[-1])
    assert gain >= 0
    assert length(instance, path) - length(instance, found) == pytest.approx(gain, abs=1e-6)


def test_a_part_of_a_tour_stays_among_itself() -> None:
    instance = random_instance("tsp", 60)
    part = np.random.default_rng(1).permutation(60).astype(np.int32)[:25]
    found, gain = kick(survey(instance), part, 200)
    assert sorted(found.tolist()) == sorted(part.tolist())
    assert length(instance, part) - length(instance, found) == pytest.approx(gain)


def test_the_best_path_of_few_nodes() -> None:
    for seed in range(5):
        instance = random_instance("tsp", 9, Metric.EXACT, seed=seed)
        path = np.arange(9, dtype=np.int32)
        found, _ = kick(survey(instance), path, 2000, seed)
        inner = (np.array([0, *middle, 8], np.int32) for middle in itertools.permutations(range(1, 8)))
        assert length(instance, found) == pytest.approx(min(length(instance, each) for each in inner))


def test_the_same_seed_gives_the_same_path() -> None:
    ground = survey(random_instance("tsp", 80))
    path = np.arange(80, dtype=np.int32)
    assert np.array_equal(kick(ground, path, 500, 1)[0], kick(ground, path, 500, 1)[0])


@pytest.mark.parametrize("threads", [1, 3])
def test_tours_become_better_in_time(threads: int) -> None:
    instance = random_instance("tsp", 300)
    costs = [Solution(instance, (tuple(range(300)),)).cost]

    def better(tour: NodeArray) -> None:
        solution = Solution(instance, (tuple(tour.tolist()),))
        assert solution.feasible
        costs.append(solution.cost)

    begin = time.perf_counter()
    improve(survey(instance), range(300), begin + 0.4, threads, 0, better)
    assert time.perf_counter() - begin < 0.4 + LATE
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 0.2 * costs[0]


def test_one_way_streets() -> None:
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
    improve_one_way(survey(instance), range(n)[::-1], time.perf_counter() + 2, 0, found.append)
    assert Solution(instance, (tuple(found[-1].tolist()),)).cost == n


def test_fast_tsp_with_rounded_and_exact_distances() -> None:
    for metric in (Metric.EUC_2D, Metric.EXACT):
        instance = random_instance("tsp", 40, metric)
        tour = fast_tsp_tour(instance, time.perf_counter() + 0.2, 1)
        assert Solution(instance, (tuple(tour),)).feasible


def test_slices_end_in_time_and_grow_with_the_pace() -> None:
    begin = time.perf_counter()
    counts, shares = [], []
    for count, share in paced(begin + 0.2, 0.05):
        counts.append(count)
        shares.append(share)
        time.sleep(0.005)
    assert time.perf_counter() - begin < 0.2 + LATE
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] < 1
    assert max(counts) > counts[0]
