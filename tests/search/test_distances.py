"""The compiled distances against those of the instance."""

import numpy as np
import pytest
from numba import njit
from search_samples import DISTANCE_KINDS, instance_of_kind

from elgo.problem.instance import Instance, Metric
from elgo.search import distances as module
from elgo.search.distances import (
    EXPLICIT,
    METRICS,
    TABLE_NODES,
    Distances,
    FloatArray,
    distance,
    integer_distances,
    make_distances,
)


@njit
def compiled(distances: Distances, n: int) -> FloatArray:
    costs = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            costs[i, j] = distance(distances, i, j)
    return costs


def all_distances(instance: Instance) -> FloatArray:
    distances = make_distances(instance)
    assert distances.values.flags.writeable  # numba would compile once more for a read-only array
    return compiled(distances, instance.size)


@pytest.mark.parametrize("kind", DISTANCE_KINDS)
@pytest.mark.parametrize("table", [0, 100], ids=["computed", "looked up"])
def test_distances_are_the_instance_s(kind: str, table: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TABLE_NODES", table)
    instance = instance_of_kind(kind, places=35)  # some of the 40 are in the same place, which GEO calls 1 apart
    assert METRICS[make_distances(instance).metric] is (Metric.EXPLICIT if table else instance.metric)
    found = all_distances(instance)
    assert not found.diagonal().any()
    if instance.metric is Metric.HAVERSINE:
        np.testing.assert_allclose(found, instance.distance_matrix(), rtol=1e-9)
    else:
        assert np.array_equal(found, instance.distance_matrix())


def test_distances_across_the_earth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TABLE_NODES", 0)
    poles = np.array([[90.0, 0.0], [-90.0, 0.0], [0.0, 179.0], [0.0, -179.0], [0.0, 0.0], [0.0, 180.0]])
    for metric in (Metric.GEO, Metric.HAVERSINE):
        instance = Instance("poles", poles, metric)
        found = all_distances(instance)
        np.testing.assert_allclose(found, instance.distance_matrix(), rtol=1e-12, atol=1e-6)


def test_large_instances_have_no_table() -> None:
    assert make_distances(instance_of_kind(Metric.EUC_2D, TABLE_NODES)).metric == EXPLICIT
    large = make_distances(instance_of_kind(Metric.EUC_2D, TABLE_NODES + 1))
    assert METRICS[large.metric] is Metric.EUC_2D
    assert large.values.shape == (TABLE_NODES + 1, 2)
    matrix = make_distances(instance_of_kind(Metric.EXPLICIT, TABLE_NODES + 1))
    assert matrix.metric == EXPLICIT
    assert matrix.values.shape == (TABLE_NODES + 1, TABLE_NODES + 1)


def test_integer_distances_are_themselves_or_scaled() -> None:
    rounded = instance_of_kind(Metric.EUC_2D)
    assert np.array_equal(integer_distances(rounded, 10**6, 100), rounded.distance_matrix())
    assert integer_distances(rounded, 20, 100).max() == 100
    exact = instance_of_kind(Metric.EXACT)
    scaled = integer_distances(exact, 10**6, 10_000)
    ratio = scaled / np.maximum(exact.distance_matrix(), 1e-9)
    assert scaled.max() == 10_000
    assert np.allclose(ratio[scaled > 0], ratio.max(), rtol=1e-2)
    matrix = np.array([[0, 3.0, 4], [3, 0, 5], [4, 5, 0]])
    explicit = Instance("m", np.array([[0, 0], [3, 0], [0, 4.0]]), Metric.EXPLICIT, matrix=matrix)
    assert np.array_equal(integer_distances(explicit, 10**6, 100), matrix)
