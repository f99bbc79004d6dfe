"""Prepared instances: nearest neighbours against sorting all nodes."""

import numpy as np
import pytest
from search_samples import ASYMMETRIC, DISTANCE_KINDS, instance_of_kind

from elgo.problem.instance import Instance, Metric
from elgo.search import data
from elgo.search.data import NEIGHBOURS, nearest_neighbours, prepare


def check_neighbours(instance: Instance, most: int = NEIGHBOURS) -> None:
    """Every row holds different nodes, and none of those left out is nearer than the last."""
    near, first = nearest_neighbours(instance, most), instance.size - instance.customers
    if instance.matrix is None:
        apart = Instance("plane", instance.plane(), Metric.EXACT).distance_matrix()
    else:
        apart = instance.matrix + instance.matrix.T
    assert near.shape == (instance.size, min(most, instance.customers - 1))
    assert near.dtype == np.int32
    assert near.flags.c_contiguous
    for node, row in enumerate(near.tolist()):
        others = [other for other in range(first, instance.size) if other != node]
        assert len(set(row)) == len(row)
        assert set(row) <= set(others)
        np.testing.assert_allclose(apart[node, row], np.sort(apart[node, others])[: len(row)], rtol=1e-12)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("kind", DISTANCE_KINDS)
def test_the_nearest_first(kind: str, problem: str) -> None:
    instance = instance_of_kind(kind, 90, problem)
    for most in (1, 10, 200):
        check_neighbours(instance, most)
    assert np.array_equal(prepare(instance).arrays.neighbours, nearest_neighbours(instance, NEIGHBOURS))


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("places", [2, 7, 70])
@pytest.mark.parametrize("kind", [Metric.EXACT, Metric.GEO, Metric.EXPLICIT])
def test_nodes_in_the_same_place(kind: str, places: int, problem: str) -> None:
    """Also where more of them than fit into a row are as near as the node itself."""
    check_neighbours(instance_of_kind(kind, 200, problem, places))


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("n", [3, 4, NEIGHBOURS, NEIGHBOURS + 1, NEIGHBOURS + 2, NEIGHBOURS + 3])
@pytest.mark.parametrize("kind", [Metric.EUC_2D, ASYMMETRIC])
def test_few_nodes(kind: str, n: int, problem: str) -> None:
    check_neighbours(instance_of_kind(kind, n, problem))


def test_prepared_by_hand() -> None:
    line = [(0, 0), (1, 0), (3, 0), (7, 0)]
    tsp = prepare(Instance("line", line, Metric.EXACT)).arrays
    assert tsp.neighbours.tolist() == [[1, 2, 3], [0, 2, 3], [1, 0, 3], [2, 1, 0]]
    assert (tsp.demand.tolist(), tsp.capacity) == ([0, 0, 0, 0], 0)
    cvrp = prepare(Instance("line", line, Metric.EXACT, [0, 1, 2.5, 1], 3)).arrays
    assert cvrp.neighbours.tolist() == [[1, 2], [2, 3], [1, 3], [2, 1]]
    assert (cvrp.demand.tolist(), cvrp.capacity) == ([0, 10, 25, 10], 30)


@pytest.mark.parametrize("limit", [0, 10**6])
def test_nearest_points_by_tree_and_by_all_distances(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "TREE_LIMIT", limit)
    monkeypatch.setattr(data, "BLOCK", 100)  # several blocks
    rng = np.random.default_rng(0)
    queries, points = rng.random((40, 2)), rng.random((30, 2))
    expected = np.argsort(np.hypot(*(queries[:, None] - points).transpose(2, 0, 1)), axis=1)
    for count in (1, 7, 30):
        assert np.array_equal(data.nearest_points(queries, points, count), expected[:, :count])
