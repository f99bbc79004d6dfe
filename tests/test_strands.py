"""Whom a move leaves behind: by hand, and compared to trying every move."""

import numpy as np
import pytest
from naive import left_behind

from elg.kin import _matrix, join_kin
from elg.strands import find_strands, make_space, strand

RING = [(i, (i + 1) % 8) for i in range(8)]


def moves(n: int, edges: list[tuple[int, int]], chosen: list[int], values: list[float] | None = None) -> dict:
    """node: (nodes left behind, whether it is an island), for each node to go. The task stands behind another one."""
    made = np.array([sorted(edge) for edge in edges]), np.array(values or [0.9] * len(edges), np.float32)
    other = np.array([[0, n - 1]]), np.ones(1, np.float32)
    kin, is_open, space = join_kin([_matrix(n, *other), _matrix(n, *made)]), np.ones(n), make_space(n)
    is_open[chosen] = 0
    missing = find_strands(kin, n, chosen[0], is_open, n - len(chosen), space)
    return {i: strand(space, missing, i) for i in range(n) if is_open[i]}


def test_along_a_ring_who_is_passed_over_is_left_behind() -> None:
    found = moves(8, RING, [0, 1, 2])
    assert found == {3 + i: (i, False) for i in range(5)}


def test_at_the_first_node_both_ways_are_open() -> None:
    assert set(moves(8, RING, [0]).values()) == {(0, False)}


def test_an_island_should_be_visited_before_it_is_too_late() -> None:
    """0 1 2 3 are a ring with 4 5 6 beside it, once 7 between them is visited; 8 is alone."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (3, 7)]
    found = moves(9, edges, [0, 3, 7])
    assert found[4] == found[5] == found[6] == (1, True)  # 8 stays behind
    assert found[8] == (3, True)
    assert found[2] == (4, False)  # from there to 1 and 0
    assert found[1] == (5, False)  # 2 is behind it


def test_weak_kin_joins_nobody() -> None:
    assert moves(3, [(0, 1), (1, 2), (0, 2)], [0], [0.9, 0.9, 0.5]) == {1: (1, False), 2: (0, False)}


@pytest.mark.parametrize("seed", range(30))
def test_the_same_as_trying_every_move(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 25))
    edges = np.stack(np.triu_indices(n, 1), axis=1)
    edges = edges[rng.random(len(edges)) < rng.choice([1.2, 2, 4]) / n]
    chosen = rng.permutation(n)[: rng.integers(1, n)].tolist()
    values = rng.choice([0.3, 0.7], len(edges), p=[0.2, 0.8])
    table = np.zeros((n, n))
    table[edges[:, 0], edges[:, 1]] = table[edges[:, 1], edges[:, 0]] = values
    for node, (many, island) in moves(n, [tuple(edge) for edge in edges], chosen, values.tolist()).items():
        assert [np.log1p(many), island] == pytest.approx(left_behind(table, chosen, node))
