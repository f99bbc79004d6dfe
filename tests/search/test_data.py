"""Ground: the compiled distances against the instance's own, and near nodes against sorting all of them."""

import numpy as np
import pytest
from numba import njit
from samples import random_points

from elgo.problem.instance import Instance, Metric, embed
from elgo.search import data as ground
from elgo.search.data import EXPLICIT, NEAR, RULES, TABLE, FloatArray, Ground, distance, near_nodes, survey

ONE_WAY = "asymmetric"
KINDS = [*Metric, ONE_WAY]


def random_ground(kind: str, n: int = 40, problem: str = "cvrp", places: int = 0) -> Instance:
    """n nodes whose costs follow a metric or an asymmetric matrix; with `places`, many of them in the same place."""
    rng = np.random.default_rng(n)
    coords = (160 * random_points(rng, places or n) - 80).round(2)  # degrees, or degrees and minutes, for some
    coords = coords[np.arange(n) % len(coords)]
    demand, capacity = (None, None) if problem == "tsp" else (np.r_[0, np.ones(n - 1)], 5.0)
    if kind not in (Metric.EXPLICIT, ONE_WAY):
        return Instance("points", coords, Metric(kind), demand, capacity)
    matrix = Instance("points", coords, Metric.EXACT).distance_matrix()
    if kind == ONE_WAY:
        matrix *= rng.uniform(0.5, 2.0, (n, n))
    return Instance("matrix", embed(matrix), Metric.EXPLICIT, demand, capacity, matrix, has_coords=False)


@njit
def compiled(rule: int, data: FloatArray, n: int) -> FloatArray:
    costs = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            costs[i, j] = distance(rule, data, i, j)
    return costs


def all_distances(seen: Ground) -> FloatArray:
    assert seen.data.flags.writeable  # what is read-only would be compiled once more
    return compiled(seen.rule, seen.data, seen.instance.size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", [0, 100], ids=["computed", "looked up"])
def test_distances_are_the_instance_s(kind: str, table: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ground, "TABLE", table)
    instance = random_ground(kind, places=35)  # some of the 40 are in the same place, which GEO calls 1 apart
    seen = survey(instance)
    assert seen.instance is instance
    assert RULES[seen.rule] is (Metric.EXPLICIT if table else instance.metric)
    found = all_distances(seen)
    assert not found.diagonal().any()
    if instance.metric is Metric.HAVERSINE:
        np.testing.assert_allclose(found, instance.distance_matrix(), rtol=1e-9)
    else:
        assert np.array_equal(found, instance.distance_matrix())


def test_distances_across_the_earth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ground, "TABLE", 0)
    poles = np.array([[90.0, 0.0], [-90.0, 0.0], [0.0, 179.0], [0.0, -179.0], [0.0, 0.0], [0.0, 180.0]])
    for metric in (Metric.GEO, Metric.HAVERSINE):
        instance = Instance("poles", poles, metric)
        found = all_distances(survey(instance))
        np.testing.assert_allclose(found, instance.distance_matrix(), rtol=1e-12, atol=1e-6)


def test_large_instances_have_no_table() -> None:
    assert survey(random_ground(Metric.EUC_2D, TABLE)).rule == EXPLICIT
    large = survey(random_ground(Metric.EUC_2D, TABLE + 1))
    assert RULES[large.rule] is Metric.EUC_2D
    assert large.data.shape == (TABLE + 1, 2)
    matrix = survey(random_ground(Metric.EXPLICIT, TABLE + 1))
    assert matrix.rule == EXPLICIT
    assert matrix.data.shape == (TABLE + 1, TABLE + 1)


# --- near nodes


def check_near(instance: Instance, most: int = NEAR) -> None:
    """Every row holds different nodes, and none of those left out is nearer than the last."""
    near, first = near_nodes(instance, most), instance.size - instance.customers
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
@pytest.mark.parametrize("kind", KINDS)
def test_the_nearest_first(kind: str, problem: str) -> None:
    instance = random_ground(kind, 90, problem)
    for most in (1, 10, 200):
        check_near(instance, most)
    assert np.array_equal(survey(instance).near, near_nodes(instance, NEAR))


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("places", [2, 7, 70])
@pytest.mark.parametrize("kind", [Metric.EXACT, Metric.GEO, Metric.EXPLICIT])
def test_nodes_in_the_same_place(kind: str, places: int, problem: str) -> None:
    """Also where more of them than fit into a row are as near as the node itself."""
    check_near(random_ground(kind, 200, problem, places))


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("n", [3, 4, NEAR, NEAR + 1, NEAR + 2, NEAR + 3])
@pytest.mark.parametrize("kind", [Metric.EUC_2D, ONE_WAY])
def test_few_nodes(kind: str, n: int, problem: str) -> None:
    check_near(random_ground(kind, n, problem))


def test_near_by_hand() -> None:
    line = [(0, 0), (1, 0), (3, 0), (7, 0)]
    assert survey(Instance("line", line, Metric.EXACT)).near.tolist() == [[1, 2, 3], [0, 2, 3], [1, 0, 3], [2, 1, 0]]
    depot = survey(Instance("line", line, Metric.EXACT, [0, 1, 1, 1], 3)).near
    assert depot.tolist() == [[1, 2], [2, 3], [1, 3], [2, 1]]
