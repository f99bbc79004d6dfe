"""Files of many instances: both formats, every protocol of pickle, and one broken file per error."""

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elgo.problem.errors import ElgoError
from elgo.problem.files import arrays as arrays_module
from elgo.problem.files.arrays import read_instances
from elgo.problem.instance import Metric

RNG = np.random.default_rng(0)
POINTS = RNG.random((3, 6, 2))
DEMAND = RNG.integers(1, 10, (3, 5))


def pickled(folder: Path, value: Any, protocol: int = 4) -> Path:
    file = folder / "mine.pkl"
    file.write_bytes(pickle.dumps(value, protocol))
    return file


def npz(folder: Path, **arrays: Any) -> Path:
    file = folder / "mine.npz"
    np.savez(file, **arrays)
    return file


def test_damaged_archives(tmp_path: Path) -> None:
    """Every damage is an ElgoError, whatever the archive's readers raise."""
    file = tmp_path / "mine.npz"
    np.savez_compressed(file, coords=POINTS)
    whole = file.read_bytes()
    for damaged in (b"", whole[:50], whole[:-30], whole[:60] + b"\xff" * 20 + whole[80:], b"PK\3\4", b"\x93NUMPY"):
        file.write_bytes(damaged)
        with pytest.raises(ElgoError, match=r"mine\.npz: not an \.npz file of numbers \(.+\)$"):
            read_instances(file)


def test_npz_of_tsp(tmp_path: Path) -> None:
    found = read_instances(npz(tmp_path, coords=POINTS.astype(np.float32), reference_cost=[3.0, 4.0, 5.0], more="x"))
    assert [instance.name for instance in found] == ["mine-0000", "mine-0001", "mine-0002"]
    assert [instance.best_known for instance in found] == [3.0, 4.0, 5.0]
    assert all(instance.problem == "tsp" and instance.metric is Metric.EXACT for instance in found)
    assert np.array_equal(found[1].coords, POINTS[1].astype(np.float32))


@pytest.mark.parametrize("capacity", [50, [50, 50, 50], [[50], [50], [50]]])
def test_npz_of_cvrp(tmp_path: Path, capacity: Any) -> None:
    demand = np.pad(DEMAND, ((0, 0), (1, 0)))
    found = read_instances(npz(tmp_path, coords=POINTS, demand=demand, capacity=capacity))
    assert [instance.capacity for instance in found] == [50.0] * 3
    assert [instance.best_known for instance in found] == [None] * 3
    assert found[2].demand is not None
    assert found[2].demand.tolist() == demand[2].tolist()


TSP_FORMS = {
    "Kool's": POINTS.tolist(),
    "tuples": [tuple(map(tuple, points)) for points in POINTS.tolist()],
    "arrays": list(POINTS),
    "arrays by columns": [np.asfortranarray(points) for points in POINTS],
    "big-endian": list(POINTS.astype(">f8")),
    "one array": POINTS,
    "scalars": [[[np.float64(x) for x in point] for point in points] for points in POINTS],
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("form", TSP_FORMS)
def test_pickles_of_tsp(tmp_path: Path, form: str, protocol: int) -> None:
    found = read_instances(pickled(tmp_path, TSP_FORMS[form], protocol))
    assert np.array_equal([instance.coords for instance in found], POINTS)
    assert {instance.problem for instance in found} == {"tsp"}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("arrays", [False, True])
def test_pickles_of_cvrp(tmp_path: Path, protocol: int, arrays: bool) -> None:
    """Kool's tuples of lists, and tuples of arrays with the depot as (1, 2) and a capacity as np.float32."""
    form = [
        (points[:1], points[1:], demand, np.float32(50))
        if arrays
        else (*map(np.ndarray.tolist, (points[0], points[1:], demand)), 50.0)
        for points, demand in zip(POINTS, DEMAND, strict=True)
    ]
    found = read_instances(pickled(tmp_path, form, protocol))
    for instance, points, demand in zip(found, POINTS, DEMAND, strict=True):
        assert np.array_equal(instance.coords, points)
        assert instance.demand is not None
        assert instance.demand.tolist() == [0, *demand]
        assert instance.capacity == 50


def test_four_nodes_are_no_cvrp(tmp_path: Path) -> None:
    found = read_instances(pickled(tmp_path, POINTS[:, :4].tolist()))
    assert {(instance.problem, instance.size) for instance in found} == {("tsp", 4)}


class Touch:
    """Writes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def test_a_small_file_of_very_many_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that are shared, or zeros that are compressed, are refused before they fill the memory."""
    shared: list[Any] = [0.5]
    for _ in range(40):
        shared = [shared, shared]
    row = [0.5] * 100_000
    for value in (shared, [shared], [[row] * 100_000], [([0, 0], [row] * 100_000, row, 3.0)]):
        with pytest.raises(ValueError, match=r"mine.pkl: instance 0: (coords|loc) is .{1,60}, expected an array"):
            read_instances(pickled(tmp_path, value))
    monkeypatch.setattr(arrays_module, "MOST_BYTES", 10_000)
    with pytest.raises(ValueError, match=r"mine.pkl: has more than 1e-05 GB of numbers"):
        read_instances(pickled(tmp_path, [POINTS[0].tolist()] * 1000))
    np.savez_compressed(tmp_path / "zeros.npz", coords=np.zeros((100, 100, 2)))
    with pytest.raises(ValueError, match=r"zeros.npz: has more than 1e-05 GB of numbers"):
        read_instances(tmp_path / "zeros.npz")


def test_nothing_in_a_pickle_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^\S*mine.pkl: has a \S+; a pickle may hold lists, tuples, numbers"):
        read_instances(pickled(tmp_path, [Touch(tmp_path / "touched")]))
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ([Fraction(1, 2)], r"mine.pkl: has a fractions.Fraction; a pickle may hold lists, tuples, numbers and arrays"),
        ([np.array(["x"])], r"mine.pkl: has an array of dtype <U1, expected numbers"),
        ([np.array([None])], r"mine.pkl: has an array of dtype object, expected numbers"),
        ({"coords": [[0.0, 1.0]]}, r"mine.pkl: holds a dict, expected a list of instances"),
        ([], r"mine.pkl: has no instances"),
        ([[]], r"mine.pkl: instance 0: is \[\], expected a list of points or \(depot, loc, demand, capacity\)"),
        ([POINTS[0].tolist(), "abc"], r"mine.pkl: instance 1: is 'abc', expected a list of points"),
        ([([0, 0], [[1, 1]], [2], 3.0, 1)], r"mine.pkl: instance 0: has 5 parts, expected 4"),
        ([([0, 0], [[1, 1]], [2, 3], 3.0)], r"instance 0: loc has shape \(1, 2\) and demand \(2,\), expected"),
        ([([0], [[1, 1]], [2], 3.0)], r"instance 0: depot has shape \(1,\), expected 2 numbers"),
        ([([0, 0], [[1, 1], [1]], [2], 3.0)], r"instance 0: loc is \[\[1, 1\], \[1\]\], expected an array of numbers"),
        ([([0, 0], [[1, 1], [0, 1]], [2, 4], 3.0)], r"instance 0: DEMAND of node 3 is 4, more than CAPACITY 3"),
        ([([0, 0], [[1, 1], [0, 1]], [2, 4], "x")], r"instance 0: capacity is x, expected a number"),
        ([[[0, 0], [1, 1], ["x", 0]]], r"instance 0: coords is \[\[0, 0\], \[1, 1\], \['x', 0\]\], expected an array"),
        ([[[0, 0, 0], [1, 1, 1], [2, 2, 2]]], r"instance 0: COORDS has shape \(3, 3\), expected \(3, 2\)"),
    ],
)
def test_a_wrong_pickle(tmp_path: Path, value: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_instances(pickled(tmp_path, value))


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"points": POINTS}, r"mine.npz: coords is missing; the file has points"),
        ({"coords": POINTS[0]}, r"mine.npz: coords has shape \(6, 2\), expected \(instances, nodes, 2\)"),
        ({"coords": POINTS, "demand": np.zeros((3, 6))}, r"mine.npz: capacity is missing; the file has coords, demand"),
        ({"coords": POINTS, "capacity": 3}, r"mine.npz: demand is missing; the file has coords, capacity"),
        (
            {"coords": POINTS, "demand": np.zeros((2, 6)), "capacity": 3},
            r"mine.npz: demand has shape \(2, 6\), but there are 3 instances",
        ),
        (
            {"coords": POINTS, "demand": np.zeros((3, 5)), "capacity": 3},
            r"mine.npz: instance 0: DEMAND has shape \(5,\), expected \(6,\)",
        ),
        ({"coords": POINTS, "reference_cost": 3.0}, r"mine.npz: reference_cost has shape \(\), but there are 3"),
        ({"coords": POINTS, "reference_cost": [1, 2, -3]}, r"mine.npz: instance 2: BEST_KNOWN is -3"),
        ({"coords": POINTS, "reference_cost": ["a", "b", "c"]}, r"instance 0: reference_cost is a, expected a number"),
        ({"coords": POINTS[:0]}, r"mine.npz: has no instances"),
        ({"coords": np.where(POINTS[1, 2, 0] == POINTS, np.nan, POINTS)}, r"instance 1: COORDS of node 3 are \(nan"),
    ],
)
def test_a_wrong_npz(tmp_path: Path, arrays: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_instances(npz(tmp_path, **arrays))


def test_files_that_are_something_else(tmp_path: Path) -> None:
    for suffix, kind in ((".npz", "not an .npz file"), (".pkl", "not a pickle of lists")):
        for content in (b"", b"PK no archive", b"\x80\x04.", b"(dp0\n"):
            file = tmp_path / f"odd{suffix}"
            file.write_bytes(content)
            with pytest.raises(ValueError, match=rf"odd{suffix}: ({kind}|holds a dict)") as caught:
                read_instances(file)
            assert "\n" not in str(caught.value)
    np.savez(tmp_path / "odd.npz", coords=np.array([None]))
    with pytest.raises(ValueError, match=r"odd.npz: not an .npz file of numbers \(Object arrays cannot be loaded"):
        read_instances(tmp_path / "odd.npz")
    np.save(tmp_path / "odd.npy", POINTS)
    (tmp_path / "odd.npy").rename(tmp_path / "odd.npz")
    with pytest.raises(ValueError, match=r"odd.npz: not an .npz file"):
        read_instances(tmp_path / "odd.npz")
    with pytest.raises(ValueError, match=r"none.pkl: cannot be read \(No such file or directory\)"):
        read_instances(tmp_path / "none.pkl")
    with pytest.raises(ValueError, match=r"a.txt: suffix is '.txt', expected .npz or .pkl"):
        read_instances(tmp_path / "a.txt")
