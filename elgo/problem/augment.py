"""Plane geometry that needs no instance: normalisation to the unit square and its 8 symmetries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SYMMETRIES = 8


def normalise(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move and scale points (n, 2) into the unit square, centred, by ONE factor.

    One factor keeps the aspect ratio, so that distance and angle keep their meaning for the local policy
    (docs/design.md, decision 1).
    """
    low, high = points.min(axis=0), points.max(axis=0)
    side = (high - low).max()
    return (points - (low + high) / 2) / side + 0.5


def symmetry(points: NDArray[np.float64], index: int) -> NDArray[np.float64]:
    """The image of points (n, 2) of the unit square under symmetry `index` of 0..7; 0 is the identity."""
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
