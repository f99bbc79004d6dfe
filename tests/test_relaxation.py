"""The relaxation lies between that of every subtour cut and the optimum; its cuts hold for every tour."""

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from scipy.optimize import linprog

from elg.kin import candidate_edges
from elg.relaxation import _blossoms, _minimum_cuts, _subtours, edge_shares


def complete(coords: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    edges = np.stack(np.triu_indices(len(coords), 1), axis=1)
    return edges, np.hypot(*(coords[edges[:, 0]] - coords[edges[:, 1]]).T)


def with_every_cut(edges: np.ndarray, length: np.ndarray, n: int) -> float:
    degree = np.array([(edges == i).any(1) for i in range(n)], float)
    sides = [np.isin(edges, side).sum(1) == 1 for size in range(2, n // 2 + 1) for side in combinations(range(n), size)]
    found = linprog(length, -np.array(sides, float), np.full(len(sides), -2.0), degree, np.full(n, 2.0), bounds=(0, 1))
    return float(found.fun)


def shortest_tour(coords: np.ndarray) -> float:
    far = np.hypot(*(coords[:, None] - coords).T)
    return min(sum(far[a, b] for a, b in pairwise((0, *tour, 0))) for tour in permutations(range(1, len(coords))))


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_lies_between_that_of_every_subtour_and_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heaps = rng.integers(3, size=8) * 10 if seed % 2 else np.zeros(8)
    coords = rng.random((8, 2)) + heaps[:, None]
    edges, length = complete(coords)
    share = edge_shares(edges, length, 8)
    assert share is not None
    assert with_every_cut(edges, length, 8) * (1 - 1e-3) < share @ length < shortest_tour(coords) * (1 + 1e-6)


def test_cuts_hold_for_every_tour_and_not_for_the_shares() -> None:
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(20):
        coords = rng.random((60, 2))
        edges, length = complete(coords)
        degree = np.array([(edges == i).any(1) for i in range(60)], float)
        share = linprog(length, A_eq=degree, b_eq=np.full(60, 2.0), bounds=(0, 1)).x
        orders = [rng.permutation(60) for _ in range(10)] + [np.lexsort(coords.T)]
        places = {tuple(edge): i for i, edge in enumerate(edges.tolist())}
        for cut in [*_subtours(edges, share, 60), *_blossoms(edges, share, 60)]:
            found += 1
            assert share[cut.edges] @ cut.sign < cut.least
            for order in orders:
                tour = np.zeros(len(edges))
                for a, b in pairwise([*order.tolist(), int(order[0])]):
                    tour[places[min(a, b), max(a, b)]] = 1.0
                assert tour[cut.edges] @ cut.sign >= cut.least
    assert found > 50


def test_heaps_far_apart_are_joined_twice() -> None:
    rng = np.random.default_rng(4)
    coords = rng.random((120, 2)) + 50 * (np.arange(120) % 4)[:, None]
    edges = candidate_edges(coords)
    length = np.hypot(*(coords[edges[:, 0]] - coords[edges[:, 1]]).T)
    share = edge_shares(edges, length, 120)
    assert share is not None
    for heap in range(4):
        inside = edges % 4 == heap
        assert share[inside[:, 0] != inside[:, 1]].sum() >= 2 - 1e-3
    np.testing.assert_allclose(np.bincount(edges.ravel(), np.repeat(share, 2)), 2.0, atol=1e-6)


def test_no_shares_where_there_is_no_tour() -> None:
    star = np.array([[0, 1], [0, 2], [0, 3], [0, 4]])
    assert edge_shares(star, np.ones(4), 5) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_least_cut_is_among_those_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 7
    weight = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.5), 1)
    weight += weight.T
    sides = [np.isin(np.arange(n), side) for size in range(1, n) for side in combinations(range(n), size)]
    least = min(weight[np.ix_(side, ~side)].sum() for side in sides)
    found = _minimum_cuts(weight.copy(), np.inf, 100)
    assert len(found) == n - 1
    assert min(weight[np.ix_(side, ~side)].sum() for side in found) == pytest.approx(least)
    assert len(_minimum_cuts(weight.copy(), least - 1e-9, 100)) == 0
