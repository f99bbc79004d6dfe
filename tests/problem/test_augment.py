"""Normalisation and the 8 symmetries of the unit square."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import random_points

from elgo.problem.augment import NORMALISATIONS, SYMMETRIES, normalise, normalise_task, symmetry
from elgo.problem.task import Task

coordinate = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
points = st.lists(st.tuples(coordinate, coordinate), min_size=2, max_size=20, unique=True).map(np.array)


def distances(points: np.ndarray) -> np.ndarray:
    return np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))


@settings(deadline=None)
@given(points)
def test_normalise_fills_the_square_with_one_factor(points: np.ndarray) -> None:
    out = normalise(points)
    sides = np.ptp(points, axis=0)
    assert np.ptp(out, axis=0).max() == pytest.approx(1)
    assert out.min() >= -1e-9
    assert out.max() <= 1 + 1e-9
    assert (out.min(axis=0) + out.max(axis=0)) / 2 == pytest.approx([0.5, 0.5])  # centred
    np.testing.assert_allclose(distances(out) * sides.max(), distances(points), rtol=1e-6, atol=1e-9 * sides.max())


def test_normalise_by_hand() -> None:
    wide = np.array([[10.0, 4.0], [14.0, 5.0], [18.0, 6.0]])
    np.testing.assert_array_equal(normalise(wide), [[0.0, 0.375], [0.5, 0.5], [1.0, 0.625]])
    line = np.array([[3.0, 7.0], [3.0, 9.0]])
    np.testing.assert_array_equal(normalise(line), [[0.5, 0.0], [0.5, 1.0]])
    np.testing.assert_array_equal(normalise(np.full((2, 2), 7.0)), np.full((2, 2), 0.5))


def both(points: np.ndarray) -> tuple[Task, Task]:
    return Task(points), Task(points, np.arange(len(points)), 9)


def test_points_of_the_unit_square_stay_as_they_are_unless_fitted() -> None:
    inside = np.array([[0.2, 0.3], [0.4, 0.3], [0.3, 0.35]])
    for task in both(inside):
        for how in ("raw", "official"):
            np.testing.assert_array_equal(normalise_task(task, how).coords, inside)
        np.testing.assert_array_equal(normalise_task(task, "fit").coords, normalise(inside))


def test_points_elsewhere_are_scaled() -> None:
    points = np.array([[10.0, 20.0], [30.0, 20.0], [20.0, 60.0]])
    tsp, cvrp = both(points)
    for task in (tsp, cvrp):
        np.testing.assert_array_equal(normalise_task(task, "raw").coords, normalise(points))
    # one minimum, 10, and one range, 50, of both axes; or each axis by its own
    np.testing.assert_allclose(normalise_task(tsp, "official").coords, [[0, 0.2], [0.4, 0.2], [0.2, 1]])
    np.testing.assert_allclose(normalise_task(cvrp, "official").coords, [[0, 0], [1, 0], [0.5, 1]])
    assert normalise_task(cvrp, "official")[1:] == (cvrp.demand, 9)


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_points_on_a_line_or_in_one_place(how: str) -> None:
    for points in (np.array([[3.0, 7.0], [3.0, 9.0]]), np.full((3, 2), 7.0)):
        for task in both(points):
            out = normalise_task(task, how).coords
            assert out.min() >= 0
            assert out.max() <= 1


def test_symmetries_are_the_eight_isometries_of_the_square() -> None:
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    inside = random_points(np.random.default_rng(0), 30)
    images = [symmetry(inside, index) for index in range(SYMMETRIES)]
    np.testing.assert_array_equal(images[0], inside)
    for index, image in enumerate(images):
        assert sorted(map(tuple, symmetry(corners, index))) == sorted(map(tuple, corners))
        np.testing.assert_allclose(distances(image), distances(inside), atol=1e-12)
    assert all(not np.allclose(a, b) for a, b in itertools.combinations(images, 2))


def test_symmetries_form_a_group() -> None:
    inside = random_points(np.random.default_rng(1), 5)
    images = [symmetry(inside, index) for index in range(SYMMETRIES)]
    for image, index in itertools.product(images, range(SYMMETRIES)):
        assert sum(np.allclose(symmetry(image, index), other) for other in images) == 1


@pytest.mark.parametrize("index", [-1, 8])
def test_unknown_symmetry(index: int) -> None:
    with pytest.raises(ValueError, match=rf"symmetry is {index}, must be 0\.\.7"):
        symmetry(np.zeros((2, 2)), index)
