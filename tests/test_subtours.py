"""The subtour relaxation: against the program with every cut written out, and the cuts against all subsets."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from elg.kin import candidate_edges
from elg.subtours import _minimum_cuts, edge_shares


def complete(coords: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    edges = np.stack(np.triu_indices(len(coords), 1), axis=1)
    return edges, np.hypot(*(coords[edges[:, 0]] - coords[edges[:, 1]]).T)


def with_every_cut(edges: np.ndarray, length: np.ndarray, n: int) -> float:
    degree = np.array([(edges == i).any(1) for i in range(n)], float)
    sides = [np.isin(edges, side).sum(1) == 1 for size in range(2, n // 2 + 1) for side in combinations(range(n), size)]
    found = linprog(length, -np.array(sides, float), np.full(len(sides), -2.0), degree, np.full(n, 2.0), bounds=(0, 1))
    return float(found.fun)


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_that_of_every_cut(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heaps = rng.integers(3, size=10) * 10 if seed % 2 else np.zeros(10)
    edges, length = complete(rng.random((10, 2)) + heaps[:, None])
    share = edge_shares(edges, length, 10)
    assert share is not None
    assert share @ length == pytest.approx(with_every_cut(edges, length, 10), rel=1e-3)


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
