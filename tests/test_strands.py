"""What a move leaves behind and where a tour gets stuck: by hand, and compared to trying every move."""

import math

import numpy as np
import pytest
from naive import dead_ends, strands

from elgo.kin import _matrix, join_kin
from elgo.strands import FEATURES, make_space, read_strands

RING = [(i, (i + 1) % 8) for i in range(8)]


def read(n: int, edges: list, chosen: list[int], values: list[float] | None = None) -> tuple[dict, float]:
    """The features of a move to each node to go, and that of the state. The task stands behind another one."""
    made = np.array([sorted(edge) for edge in edges]).reshape(-1, 2), np.array(values or [0.9] * len(edges), np.float32)
    other = np.array([[0, n - 1]]), np.ones(1, np.float32)
    kin, space = join_kin([_matrix(n, *other), _matrix(n, *made)]), make_space(n)
    space.is_open[:] = True
    space.is_open[chosen] = False
    nodes = np.flatnonzero(space.is_open)
    features = np.full((n, FEATURES), np.nan, np.float32)
    ends = read_strands(kin, n, chosen[0], chosen[-1], nodes, len(nodes), space, features)
    assert space.is_open.sum() == len(nodes)  # as it was
    return dict(zip(nodes.tolist(), features.tolist(), strict=False)), ends


def behind(n: int, edges: list, chosen: list[int]) -> dict[int, int]:
    return {node: round(math.expm1(features[0])) for node, features in read(n, edges, chosen)[0].items()}


def test_along_a_ring_who_is_passed_over_is_left_behind() -> None:
    found, ends = read(8, RING, [0, 1, 2])
    assert behind(8, RING, [0, 1, 2]) == {3 + i: i for i in range(5)}
    assert ends == pytest.approx(math.log(2))
    assert [x[2] for x in found.values()] == [1, 0, 0, 0, 0]  # 3 is where the tour has to go on


def test_at_the_first_node_both_ways_are_open() -> None:
    assert set(behind(8, RING, [0]).values()) == {0}


def test_islands() -> None:
    """0 1 2 3 are a ring with 4 5 6 beside it, cut off since 7 between them is visited; 8 is alone."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (3, 7)]
    assert behind(9, edges, [0, 3, 7]) == {1: 5, 2: 4, 4: 1, 5: 1, 6: 1, 8: 3}
    found, ends = read(9, edges, [0, 3, 7])
    assert [node for node, features in found.items() if features[1]] == [4, 5, 6, 8]
    assert ends == pytest.approx(math.log(1 + 3))


def test_a_dead_end_is_seen_before_the_tour_passes_by() -> None:
    """From 1, the loop 2 3 4 hangs on 5 alone, as long as 1 is not its other way in."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 5), (5, 6), (6, 0)]
    found, _ = read(7, edges, [0, 1])
    assert [node for node, features in found.items() if features[2]] == [2]
    assert found[2][3] == 0  # from there, 3 and 4 are on the way
    assert found[5][3] == pytest.approx(math.log(1 + 1))  # 2 3 4 are an island, or 6 is one end too many


def test_weak_kin_joins_nobody() -> None:
    found, _ = read(3, [(0, 1), (1, 2), (0, 2)], [0], [0.9, 0.9, 0.5])
    assert [round(math.expm1(features[0])) for features in found.values()] == [1, 0]


@pytest.mark.parametrize("seed", range(40))
def test_the_same_as_trying_every_move(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 25))
    edges = np.stack(np.triu_indices(n, 1), axis=1)
    edges = edges[rng.random(len(edges)) < rng.choice([1.2, 2, 4]) / n]
    chosen = rng.permutation(n)[: rng.integers(1, n)].tolist()
    values = rng.choice([0.3, 0.7], len(edges), p=[0.2, 0.8])
    table = np.zeros((n, n))
    table[edges[:, 0], edges[:, 1]] = table[edges[:, 1], edges[:, 0]] = values
    found, ends = read(n, edges.tolist(), chosen, values.tolist())
    assert math.expm1(ends) == pytest.approx(len(dead_ends(table, chosen[0], set(found))))
    for node, features in found.items():
        assert features == pytest.approx(strands(table, chosen, node))
