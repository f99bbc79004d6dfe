"""Small problem files, and what the tests of all file formats share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from elgo.problem.errors import ElgoError
from elgo.problem.files import read
from elgo.problem.instance import Instance, Metric
from elgo.problem.plane import embed

DATA = Path(__file__).resolve().parents[1] / "data"

TSP = """NAME : small
TYPE : TSP
DIMENSION : 4
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
1 0 0
2 3 0
3 3 4
4 0 4
EOF
"""
CVRP = TSP.replace("TYPE : TSP", "TYPE : CVRP\nCAPACITY : 10").replace(
    "EOF", "DEMAND_SECTION\n1 0\n2 4\n3 5\n4 6\nDEPOT_SECTION\n1\n-1\nEOF"
)


def explicit(layout: str, numbers: str, size: int = 4) -> str:
    return f"""NAME : matrix
TYPE : TSP
DIMENSION : {size}
EDGE_WEIGHT_TYPE : EXPLICIT
EDGE_WEIGHT_FORMAT : {layout}
EDGE_WEIGHT_SECTION
{numbers}
EOF
"""


def assert_same(a: Instance, b: Instance) -> None:
    """Every field equal, bit for bit."""
    for name in ("name", "metric", "capacity", "best_known", "has_coords"):
        assert getattr(a, name) == getattr(b, name), name
    for name in ("coords", "demand", "matrix", "labels"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left is None) == (right is None), name
        assert left is None or np.array_equal(left, right), name


def assert_rejected(path: Path, text: str, message: str) -> None:
    """Reading a file with this text raises ElgoError with the one line `path: message`."""
    path.write_bytes(text.encode())
    with pytest.raises(ElgoError, match=f"^{re.escape(f'{path}: {message}')}$") as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


NUMBER = st.floats(-1e6, 1e6) | st.integers(-1000, 1000).map(float)


@st.composite
def instances(draw: st.DrawFn, metrics: Sequence[Metric] = tuple(Metric)) -> Instance:
    """Any instance of these metrics: TSP and CVRP, integers and fractions, any node numbers."""
    size = draw(st.integers(3, 9))
    metric = draw(st.sampled_from(metrics))
    limit = 80.0 if metric in (Metric.HAVERSINE, Metric.GEO) else 1e6
    number = NUMBER.map(lambda value: value % limit)
    coords = np.array(draw(st.lists(number, min_size=2 * size, max_size=2 * size))).reshape(size, 2)
    coords[0] = 90.0  # so that the points are not all equal
    labels = draw(st.lists(st.integers(0, 10**9), min_size=size, max_size=size, unique=True))
    demand = capacity = matrix = None
    has_coords = True
    if draw(st.booleans()):
        demand = np.abs(draw(st.lists(NUMBER, min_size=size, max_size=size)))
        demand[0], capacity = 0.0, draw(st.sampled_from([1e6, 1234567.25]))
    if metric is Metric.EXPLICIT:
        matrix = np.abs(draw(st.lists(NUMBER, min_size=size * size, max_size=size * size))).reshape(size, size)
        np.fill_diagonal(matrix, 0.0)
        matrix[0, 1] = 1.0
        labels = sorted(labels)
        has_coords = draw(st.booleans())
        if not has_coords:
            coords = embed(matrix)
            labels = labels if demand is not None else list(range(1, size + 1))
    name = draw(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=12))
    best = draw(st.none() | st.integers(1, 10**6).map(float))
    return Instance(name, coords, metric, demand, capacity, matrix, np.array(labels), best, has_coords)
