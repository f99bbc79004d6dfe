"""Distance types: the metrics of TSPLIB and two extensions, in numpy.

To add one, add a member to `Metric` and its rule to `_RULES`; for one on a sphere, see also `to_degrees`. Problem files
name it as their EDGE_WEIGHT_TYPE. Its compiled twin for the search goes into elgo/search/distances.py;
tests/search/test_distances.py checks that both give the same costs.
"""

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from elgo.problem.errors import ElgoError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

EARTH_RADIUS = 6_371_008.8  # metres, mean radius (IUGG)


class Metric(StrEnum):
    """How costs follow from the data; the value is the EDGE_WEIGHT_TYPE in files."""

    EUC_2D = "EUC_2D"  # Euclidean, rounded to the nearest integer
    CEIL_2D = "CEIL_2D"  # Euclidean, rounded up
    GEO = "GEO"  # kilometres on TSPLIB's earth, rounded; coordinates are DDD.MM (latitude, longitude)
    ATT = "ATT"  # TSPLIB's pseudo-Euclidean distance, rounded up
    EXACT = "EXACT_2D"  # Euclidean, not rounded (not in TSPLIB)
    HAVERSINE = "HAVERSINE"  # metres on a sphere; coordinates are (latitude, longitude) in degrees (not in TSPLIB)
    EXPLICIT = "EXPLICIT"  # a matrix

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ElgoError(f"METRIC is {value!r}, expected one of {', '.join(cls)}")

    @property
    def rounded(self) -> bool:
        """True if every cost is an integer by definition."""
        return self in (Metric.EUC_2D, Metric.CEIL_2D, Metric.GEO, Metric.ATT)

    @property
    def unit(self) -> str:
        """Unit of a cost: m or km on the earth, empty if it is not known."""
        return {Metric.HAVERSINE: "m", Metric.GEO: "km"}.get(self, "")


def costs_between(metric: Metric, coords: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
    """Return the costs from nodes a to nodes b (indices, broadcast) at coords (n, 2); not for Metric.EXPLICIT."""
    costs = _RULES[metric](coords[a], coords[b])
    # TSPLIB's GEO formula gives 1 even from a node to itself.
    return np.asarray(np.where(a == b, 0.0, costs) if metric is Metric.GEO else costs)


def to_degrees(metric: Metric, coords: FloatArray) -> FloatArray | None:
    """Return (latitude, longitude) in decimal degrees, None if the metric is not one on a sphere."""
    if metric is Metric.GEO:
        # DDD.MM are degrees and minutes. TSPLIB's own programs truncate to get the degrees, they do not round.
        degrees = np.trunc(coords)
        return np.asarray(degrees + 5.0 * (coords - degrees) / 3.0)
    return coords if metric is Metric.HAVERSINE else None


def geo_radians(coords: FloatArray) -> FloatArray:
    """Return the radians of coordinates in DDD.MM, with pi as TSPLIB defines it."""
    degrees = to_degrees(Metric.GEO, coords)
    assert degrees is not None
    return 3.141592 * degrees / 180.0


# The rules: points (..., 2) and (..., 2) -> costs (...). TSPLIB 95, section 2; nint(x) there is floor(x + 0.5).


def _squared(p: FloatArray, q: FloatArray) -> FloatArray:
    step = p - q
    return np.asarray(step[..., 0] * step[..., 0] + step[..., 1] * step[..., 1])


def _euclidean(p: FloatArray, q: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(_squared(p, q)))


def _att(p: FloatArray, q: FloatArray) -> FloatArray:
    length = np.sqrt(_squared(p, q) / 10.0)
    nearest = np.floor(length + 0.5)
    return np.asarray(np.where(nearest < length, nearest + 1, nearest))


def _geo(p: FloatArray, q: FloatArray) -> FloatArray:
    a, b = geo_radians(p), geo_radians(q)
    q1 = np.cos(a[..., 1] - b[..., 1])
    q2 = np.cos(a[..., 0] - b[..., 0])
    q3 = np.cos(a[..., 0] + b[..., 0])
    cosine = 0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3)
    return np.asarray(np.floor(6378.388 * np.arccos(np.clip(cosine, -1.0, 1.0)) + 1.0))


def _haversine(p: FloatArray, q: FloatArray) -> FloatArray:
    a, b = np.radians(p), np.radians(q)
    across = np.sin((a - b) / 2.0) ** 2
    chord = across[..., 0] + np.cos(a[..., 0]) * np.cos(b[..., 0]) * across[..., 1]
    return np.asarray(2.0 * EARTH_RADIUS * np.arcsin(np.sqrt(np.minimum(chord, 1.0))))


_RULES: dict[Metric, Callable[[FloatArray, FloatArray], FloatArray]] = {
    Metric.EUC_2D: lambda p, q: np.floor(_euclidean(p, q) + 0.5),
    Metric.CEIL_2D: lambda p, q: np.ceil(_euclidean(p, q)),
    Metric.GEO: _geo,
    Metric.ATT: _att,
    Metric.EXACT: _euclidean,
    Metric.HAVERSINE: _haversine,
}
