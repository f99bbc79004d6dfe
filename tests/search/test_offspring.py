"""Crossover, the best way to cut a tour, and who is fit."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from samples import priced, random_cvrp

from elg.instance import Instance, Metric
from elg.search.ground import survey
from elg.search.offspring import CLONE, broken_pairs, cross, cut, describe, unfitness
from elg.search.routes import to_routes, to_walk


def test_crossing_keeps_a_part_of_one_and_the_order_of_the_other() -> None:
    rng = np.random.default_rng(0)
    state = np.array([7], np.uint64)
    for n in (1, 2, 3, 12, 12, 12, 12, 12):
        one, two = (rng.permutation(np.arange(1, n + 1)).astype(np.int32) for _ in range(2))
        child = cross(one, two, state)
        assert sorted(child.tolist()) == list(range(1, n + 1))
        possible = []
        for begin in range(n):
            for length in range(1, n + 1):
                places = {k % n for k in range(begin, begin + length)}
                others = [node for k in range(n) if (node := two[(begin + length + k) % n]) not in one[list(places)]]
                free = [k % n for k in range(begin + length, begin + n)]
                whole = one.copy()
                whole[free] = others
                possible.append(whole.tolist())
        assert child.tolist() in possible


@pytest.mark.parametrize("price", [0.3, 3.0, 1000.0])
@pytest.mark.parametrize("vehicles", [3, 4, 7])
def test_cutting_is_as_good_as_trying_everything(vehicles: int, price: float) -> None:
    for seed in range(10):
        seen = survey(random_cvrp(seed, 7))
        demand, capacity = seen.instance.units()
        if demand.sum() > vehicles * capacity:
            continue
        tour = (1 + np.random.default_rng(seed).permutation(7)).astype(np.int32)
        best = math.inf
        for count in range(vehicles):
            for places in combinations(range(1, 7), count):
                routes = [tour[a:b].tolist() for a, b in pairwise((0, *places, 7))]
                if all(demand[route].sum() <= 2 * capacity for route in routes):
                    best = min(best, priced(seen, to_walk(routes), price))
        walk = cut(seen.data, demand, capacity, vehicles, tour, price)
        assert walk[walk > 0].tolist() == tour.tolist()
        assert walk[-1] == 0
        assert all(to_routes(walk))
        assert (walk == 0).sum() <= vehicles
        assert priced(seen, walk, price) == pytest.approx(best)


def test_descriptions_by_hand() -> None:
    points = [(0, 0), (1, 0), (2, 0), (0, 5), (-1, 0), (0, -2)]
    seen = survey(Instance("cross", points, Metric.EXACT, [0, 2, 2, 1, 3, 1], 3))
    demand, capacity = seen.instance.units()
    tour, links, length, excess = describe(
        seen.data, seen.instance.plane(), demand, capacity, to_walk([[4], [3], [1, 2], [5]])
    )
    assert tour.tolist() == [5, 1, 2, 3, 4]  # from the angle of -pi to that of pi
    assert links[1:].tolist() == [[0, 2], [1, 0], [0, 0], [0, 0], [0, 0]]
    assert (length, excess) == (2 + 10 + 4 + 4, 1)


def links(*routes: list[int]) -> np.ndarray:
    found = np.zeros((7, 2), np.int32)
    for route in routes:
        for left, node, right in zip([0, *route], route, [*route[1:], 0], strict=False):
            found[node] = left, right
    return found


def test_broken_pairs_by_hand() -> None:
    one = links([1, 2, 3], [4, 5, 6])
    assert broken_pairs(one, one) == 0
    assert broken_pairs(one, links([6, 5, 4], [3, 2, 1])) == 0  # both ways are the same
    assert broken_pairs(one, links([1, 2, 3, 4, 5, 6])) == pytest.approx(2 / 6)  # 3-0 and 0-4
    assert broken_pairs(links([1, 2, 3, 4, 5, 6]), one) == pytest.approx(1 / 6)  # 3-4


def test_the_cheapest_and_the_most_different_are_fit() -> None:
    gaps = np.zeros((9, 9))
    place = np.array([0.0, 0.1, 0.2, 0.9, 0.3, 0.3])
    gaps[:6, :6] = abs(place[:, None] - place)
    found = unfitness(np.array([1.0, 2, 3, 4, 5, 6]), gaps)
    assert found.argmin() == 0
    assert found[3] < found[2] + 1 / 6  # one rank worse by cost, but far away from the others
    assert (found[4:] > CLONE).all()
    assert (found[:4] < 2).all()
    assert unfitness(np.zeros(0), gaps).tolist() == []
    assert unfitness(np.ones(1), gaps).tolist() == [0]
