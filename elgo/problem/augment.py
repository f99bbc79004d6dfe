"""Augmentation: normalisation of points to the unit square, and the 8 symmetries of the square (POMO's x8)."""

import numpy as np
from numpy.typing import NDArray

SYMMETRIES = 8


def normalise(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points (n, 2) moved and scaled into the unit square, centred.

    Both axes are scaled by the same factor, so that distances and angles keep their meaning for the local policy.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    side = (high - low).max()
    return (points - (low + high) / 2) / side + 0.5


def symmetry(points: NDArray[np.float64], index: int) -> NDArray[np.float64]:
    """Return points (n, 2) of the unit square under symmetry `index` of 0..7; 0 is the identity."""
    if not 0 <= index < SYMMETRIES:
        raise ValueError(f"symmetry is {index}, must be 0..{SYMMETRIES - 1}")
    x, y = points[:, 0], points[:, 1]
    if index & 1:
        x = 1 - x
    if index & 2:
        y = 1 - y
    if index & 4:
        x, y = y, x
    return np.stack([x, y], axis=1)
