"""Giant tours: to and from routes, and split into sectors around the depot."""

import numpy as np
import pytest
from search_samples import prepared

from elgo.problem.instance import Instance, Metric
from elgo.search.giant_tour import NodeArray, count_routes, mean_edge, split_by_sector, to_giant_tour, to_routes


@pytest.mark.parametrize("routes", [[[1]], [[2, 1]], [[3], [1, 2], [4]], [[5, 4, 3, 2, 1]], [[1], [2], [3]]])
def test_round_trip(routes: list[list[int]]) -> None:
    assert to_routes(to_giant_tour(routes)) == routes


def test_giant_tours_by_hand() -> None:
    assert to_giant_tour([[3, 1], [2]]).tolist() == [3, 1, 0, 2, 0]
    assert to_giant_tour(((3, 1), (2,))).dtype == np.int32
    assert to_routes(np.array([2, 0, 1, 3, 0], np.int32)) == [[2], [1, 3]]


def test_mean_edge_by_hand() -> None:
    instance = Instance("line", [(0, 0), (3, 0), (5, 0), (-4, 0)], Metric.EXACT, [0, 1, 1, 1], 2)
    assert count_routes(to_giant_tour([[1, 2], [3]])) == 2
    assert mean_edge(instance, to_giant_tour([[1, 2], [3]])) == (3 + 2 + 5 + 4 + 4) / 5


# --- sectors


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(4))
def test_parts_share_the_routes(count: int, seed: int) -> None:
    data, giant_tour = prepared((20, 100, 300, 600)[seed], seed)
    routes = to_routes(giant_tour)
    parts = split_by_sector(data.instance, giant_tour, count, np.random.default_rng(seed))
    if len(routes) < 2 * count:
        assert len(parts) == 1
    assert 1 <= len(parts) <= count
    assert all(len(part) for part in parts)
    assert sorted(route for part in parts for route in to_routes(part)) == sorted(routes)
    share, largest = data.instance.customers / len(parts), max(map(len, routes))
    if len(parts) == count:
        assert all(abs((part > 0).sum() - share) <= largest for part in parts)


def star(arms: int) -> tuple[Instance, NodeArray]:
    """Routes of two customers straight away from the depot, which is not at the origin, in all directions in turn."""
    angles = 2 * np.pi * np.arange(arms) / arms
    ray = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    coords = np.array([50.0, 70.0]) + np.concatenate([[[0.0, 0.0]], ray, 2 * ray])
    instance = Instance("star", coords, Metric.EXACT, np.r_[0, np.ones(2 * arms)], 2)
    shuffled = np.random.default_rng(0).permutation(arms)
    return instance, to_giant_tour([[1 + arm, 1 + arms + arm] for arm in shuffled.tolist()])


def test_parts_are_sectors() -> None:
    instance, giant_tour = star(12)
    cuts = set()
    for seed in range(20):
        parts = split_by_sector(instance, giant_tour, 3, np.random.default_rng(seed))
        for part in parts:
            arms = sorted((part[part > 0] - 1) % 12)[::2]
            assert len(arms) == 4
            begin = next(arm for arm in arms if (arm - 1) % 12 not in arms)
            assert {(begin + k) % 12 for k in range(4)} == set(arms)
            cuts.add(int(begin))
    assert cuts == set(range(12))  # every two neighbours are together now and then


def test_few_routes_stay_together() -> None:
    instance, giant_tour = star(5)
    rng = np.random.default_rng(0)
    assert [len(split_by_sector(instance, giant_tour, count, rng)) for count in (1, 2, 3, 9)] == [1, 2, 1, 1]
