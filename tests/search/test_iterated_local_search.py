"""Iterated local search for TSP: the gain is that of the path, and the ends stay fixed."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from samples import random_instance

from elgo.problem.instance import Instance, Metric
from elgo.search.data import prepare
from elgo.search.giant_tour import NodeArray
from elgo.search.iterated_local_search import iterated_local_search
from elgo.search.rng import random_states


def search(instance: Instance, path: NodeArray, perturbations: int, seed: int = 0) -> tuple[NodeArray, float]:
    return iterated_local_search(prepare(instance).arrays, path, perturbations, random_states(seed, 1)[0])


def length(instance: Instance, path: NodeArray) -> float:
    return float(instance.distances(path[:-1], path[1:]).sum())


@pytest.mark.parametrize("metric", [Metric.EUC_2D, Metric.EXACT])
@pytest.mark.parametrize("n", [3, 7, 8, 30, 200])
def test_a_path_keeps_its_nodes_and_ends_and_gains_what_it_says(n: int, metric: Metric) -> None:
    instance = random_instance("tsp", n, metric)
    path = np.random.default_rng(n).permutation(n).astype(np.int32)
    before = path.copy()
    found, gain = search(instance, path, 300)
    assert np.array_equal(path, before)
    assert sorted(found.tolist()) == list(range(n))
    assert (found[0], found[-1]) == (path[0], path[-1])
    assert gain >= 0
    assert length(instance, path) - length(instance, found) == pytest.approx(gain, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-20, 1e8, 1e20])
def test_the_scale_of_the_distances_does_not_matter(scale: float) -> None:
    """A gain that is rounding alone would be taken again and again; one that is small but real is taken."""
    instance = random_instance("tsp", 300, Metric.EXACT)
    scaled = replace(instance, coords=scale * instance.coords)
    path = np.arange(300, dtype=np.int32)
    gains = [search(each, path, 200)[1] / length(each, path) for each in (instance, scaled)]
    assert gains[1] == pytest.approx(gains[0], abs=0.02)


def test_a_descent_does_a_bounded_amount_of_work_and_the_next_one_goes_on() -> None:
    """A random tour of many nodes would take a minute, in which the clock is not read."""
    instance = Instance.from_coords(np.random.default_rng(0).random((60_000, 2)))
    first, _ = search(instance, np.random.default_rng(1).permutation(60_000).astype(np.int32), 0)
    second, gain = search(instance, first, 0)
    assert gain > 0
    assert length(instance, first) - length(instance, second) == pytest.approx(gain)


def test_a_part_of_a_tour_stays_among_itself() -> None:
    instance = random_instance("tsp", 60)
    part = np.random.default_rng(1).permutation(60).astype(np.int32)[:25]
    found, gain = search(instance, part, 200)
    assert sorted(found.tolist()) == sorted(part.tolist())
    assert length(instance, part) - length(instance, found) == pytest.approx(gain)


def test_the_best_path_of_few_nodes() -> None:
    for seed in range(5):
        instance = random_instance("tsp", 9, Metric.EXACT, seed=seed)
        path = np.arange(9, dtype=np.int32)
        found, _ = search(instance, path, 2000, seed)
        inner = (np.array([0, *middle, 8], np.int32) for middle in itertools.permutations(range(1, 8)))
        assert length(instance, found) == pytest.approx(min(length(instance, each) for each in inner))


def test_the_same_seed_gives_the_same_path() -> None:
    instance = random_instance("tsp", 80)
    path = np.arange(80, dtype=np.int32)
    assert np.array_equal(search(instance, path, 500, 1)[0], search(instance, path, 500, 1)[0])


def moves(path: list[int]) -> Iterator[list[int]]:
    """All paths that one 2-opt or Or-opt move makes of a path whose ends are fixed."""
    last = len(path) - 1
    for low, high in itertools.combinations(range(1, last), 2):
        yield path[:low] + path[low : high + 1][::-1] + path[high + 1 :]
    for size in (1, 2, 3):
        for low in range(1, last + 1 - size):
            segment, rest = path[low : low + size], path[:low] + path[low + size :]
            for k in range(1, len(rest)):
                yield from (rest[:k] + piece + rest[k:] for piece in (segment, segment[::-1]))


@pytest.mark.parametrize("seed", range(5))
def test_without_perturbations_the_path_is_a_local_optimum(seed: int) -> None:
    """With 9 nodes the neighbour lists hold all of them."""
    instance = random_instance("tsp", 9, Metric.EXACT, seed=seed)
    found, _ = search(instance, np.arange(9, dtype=np.int32), 0)
    shortest = min(length(instance, np.array(path)) for path in moves(found.tolist()))
    assert shortest >= length(instance, found) - 1e-9
