"""Projection of degrees and embedding of cost matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elgo.problem.instance import Instance, Metric
from elgo.problem.plane import FULL_EIGH_LIMIT, embed

PLANAR = [Metric.EUC_2D, Metric.CEIL_2D, Metric.ATT, Metric.EXACT]


def tsp(coords: object, metric: Metric = Metric.EXACT) -> Instance:
    return Instance("points", coords, metric)  # type: ignore[arg-type]


def test_plane_of_degrees_is_shrunk_towards_the_poles() -> None:
    coords = np.array([[59.0, 10.0], [61.0, 10.0], [60.0, 12.0]])
    plane = tsp(coords, Metric.HAVERSINE).plane()
    assert plane[:, 1].tolist() == [59, 61, 60]
    assert plane[2, 0] - plane[0, 0] == pytest.approx(2 * math.cos(math.radians(60)))


def test_plane_of_geo_reads_minutes() -> None:
    plane = tsp([[0.30, 0.0], [-0.30, 0.0], [0.0, 1.30]], Metric.GEO).plane()
    assert plane[:, 1].tolist() == pytest.approx([0.5, -0.5, 0.0])
    assert plane[2, 0] == pytest.approx(1.5)


def test_plane_is_whole_across_the_date_line() -> None:
    plane = tsp([[0.0, 179.0], [0.0, -179.0], [1.0, 180.0]], Metric.HAVERSINE).plane()
    assert np.ptp(plane[:, 0]) == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize("metric", PLANAR)
def test_plane_of_the_plane_is_coords(metric: Metric) -> None:
    instance = tsp([[0, 0], [0, 1], [1, 1]], metric)
    assert instance.plane() is instance.coords


@pytest.mark.parametrize("size", [3, 50, FULL_EIGH_LIMIT + 50])
def test_embedding_restores_points_up_to_motion(size: int) -> None:
    points = np.random.default_rng(size).uniform(0, 100, (size, 2))
    costs = tsp(points).distance_matrix()
    embedded = embed(costs)
    assert np.allclose(tsp(embedded).distance_matrix(), costs)
    assert np.array_equal(embedded, embed(costs))
    assert np.allclose(embedded.mean(axis=0), 0)


def test_embedding_takes_the_mean_of_both_directions() -> None:
    matrix = np.array([[0, 2, 6], [4, 0, 5], [2, 3, 0]], float)
    assert np.array_equal(embed(matrix), embed((matrix + matrix.T) / 2))


def test_embedding_of_what_is_no_distance_is_finite() -> None:
    """All equal costs have no plane picture, and costs against the triangle inequality give negative eigenvalues."""
    assert np.isfinite(embed(1 - np.eye(5))).all()
    assert np.isfinite(embed(1 - np.eye(FULL_EIGH_LIMIT + 1))).all()
    assert np.isfinite(embed(np.array([[0, 1, 99], [1, 0, 1], [99, 1, 0]], float))).all()
