"""Normalisation and the 8 symmetries of the unit square."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import random_points

from elgo.problem.augment import SYMMETRIES, normalise, symmetry

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
