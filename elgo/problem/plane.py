"""Points in the plane for instances without planar coordinates: projected degrees, embedded cost matrices."""

import numpy as np

from elgo.problem.distances import FloatArray

FULL_EIGH_LIMIT = 300  # above this size it is much faster to compute only the two eigenvectors needed


def project(degrees: FloatArray) -> FloatArray:
    """Return points (n, 2), x = east and y = north, of (latitude, longitude) in degrees.

    Longitudes are multiplied by the cosine of the mean latitude.
    """
    latitude, longitude = degrees[:, 0], unwrapped(degrees[:, 1])
    return np.stack([longitude * np.cos(np.radians(latitude.mean())), latitude], axis=1)


def unwrapped(longitude: FloatArray) -> FloatArray:
    """Return longitudes (n,) within half a circle of their mean direction: those beside the date line stay close."""
    angle = np.radians(longitude)
    middle = np.degrees(np.arctan2(np.sin(angle).mean(), np.cos(angle).mean()))
    return np.asarray(longitude - 360.0 * np.round((longitude - middle) / 360.0))


def embed(matrix: FloatArray) -> FloatArray:
    """Return points (n, 2) whose distances resemble the costs (n, n), by classical multidimensional scaling.

    Costs of an asymmetric matrix are averaged over both directions. The result is centred and deterministic.
    """
    if len(matrix) < 2:
        return np.zeros((len(matrix), 2))
    squared = ((matrix + matrix.T) / 2) ** 2
    mean = squared.mean(axis=0)
    gram = -0.5 * (squared - mean - mean[:, None] + mean.mean())
    values, vectors = _largest_two(gram)
    points = vectors * np.sqrt(np.maximum(values, 0.0))
    # The sign of an eigenvector is arbitrary: make its largest entry positive.
    peaks = points[np.abs(points).argmax(axis=0), [0, 1]]
    return np.asarray(points * np.where(peaks < 0, -1.0, 1.0))


def _largest_two(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the two largest eigenvalues (2,) of a symmetric matrix, descending, and their vectors (n, 2)."""
    if len(gram) <= FULL_EIGH_LIMIT:
        values, vectors = np.linalg.eigh(gram)
    else:
        from scipy.sparse.linalg import eigsh  # slow to import, and only needed here

        # A fixed start makes the result reproducible; a constant one would lie in the null space of gram.
        values, vectors = eigsh(gram, k=2, which="LA", v0=np.cos(np.arange(len(gram))))
    return values[:-3:-1], vectors[:, :-3:-1]
