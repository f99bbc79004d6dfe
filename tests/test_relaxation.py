"""The relaxation lies between that of every subtour cut and the optimum; its cuts hold for every tour."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise, permutations

import fast_tsp
import numpy as np
import pytest
from scipy.optimize import linprog

from elgo import relaxation
from elgo.kin import candidate_edges
from elgo.relaxation import Cut, _minimum_cuts, edge_shares


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


def test_cuts_hold_for_good_tours_and_not_for_the_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all rounds of several instances; a good tour is where a wrong cut shows."""
    rng = np.random.default_rng(5)
    found: list[tuple[str, Cut]] = []

    def watched(name: str, separate: Callable[..., Iterator[Cut]]) -> Callable[..., Iterator[Cut]]:
        def watch(edges: np.ndarray, share: np.ndarray, n: int) -> Iterator[Cut]:
            for cut in separate(edges, share, n):
                assert share[cut.edges] @ cut.sign < cut.least
                found.append((name, cut))
                yield cut

        return watch

    monkeypatch.setattr(relaxation, "_subtours", watched("subtours", relaxation._subtours))
    monkeypatch.setattr(relaxation, "_blossoms", watched("blossoms", relaxation._blossoms))
    kinds: Counter[str] = Counter()
    for _ in range(8):
        coords = rng.random((80, 2))
        edges, length = complete(coords)
        found.clear()
        share = edge_shares(edges, length, 80)
        far = np.hypot(*(coords[:, None] - coords).T)
        order = fast_tsp.find_tour((far * 1e4).astype(int).tolist(), 0.05)
        places = {tuple(edge): i for i, edge in enumerate(edges.tolist())}
        tour = np.zeros(len(edges))
        tour[[places[min(a, b), max(a, b)] for a, b in pairwise([*order, order[0]])]] = 1.0
        assert share is not None
        assert share @ length <= tour @ length * (1 + 1e-6)
        for name, cut in found:
            kinds[name] += 1
            assert tour[cut.edges] @ cut.sign >= cut.least
    assert min(kinds.values()) > 50


def test_each_kind_of_cut_raises_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    edges, length = complete(rng.random((6, 2))[rng.integers(6, size=90)] + 0.03 * rng.standard_normal((90, 2)))

    def bound() -> float:
        share = edge_shares(edges, length, 90)
        assert share is not None
        return float(share @ length)

    whole = bound()
    with monkeypatch.context() as patch:
        patch.setattr(relaxation, "_blossoms", lambda *_: iter(()))
        without_blossoms = bound()
        patch.setattr(relaxation, "_minimum_cuts", lambda *_: ())
        without_minimum_cuts = bound()
        patch.setattr(relaxation, "_subtours", lambda *_: iter(()))
        degrees_alone = bound()
    assert degrees_alone < without_minimum_cuts < without_blossoms < whole


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
