"""Sets: what is in them, and one broken folder per error."""

from pathlib import Path

import numpy as np
import pytest
import small

from elgo.bench.sets import SET_X_NAMES, TSPLIB_NAMES, BenchSet, Selection, data_folder, load_set
from elgo.problem.files import write_instance
from elgo.problem.solution import Solution


def names(found: BenchSet) -> list[str]:
    return [entry.instance.name for entry in found.entries]


def test_lists_of_names() -> None:
    assert len(set(TSPLIB_NAMES)) == 49
    assert len(set(SET_X_NAMES)) == 100
    assert SET_X_NAMES[0] == "X-n101-k25"


@pytest.mark.parametrize("below", ["", "tsplib"])
def test_data_may_be_the_root_or_the_folder_itself(tmp_path: Path, below: str) -> None:
    small.tsplib(tmp_path / below)
    found = load_set("tsplib", tmp_path)
    assert names(found) == ["berlin52", "eil51", "pr226"]  # by size, then by name
    assert [entry.group for entry in found.entries] == ["<=200", "<=200", "200-1002"]
    assert found.entries[0].instance.best_known == 100
    assert "46 of 49 files are missing" in found.notes[0]


def test_other_files_are_no_part_of_a_known_set(tmp_path: Path) -> None:
    small.tsplib(tmp_path, ["eil51"])
    write_instance(tmp_path / "mine.tsp", small.instance("tsp", name="mine"))
    assert names(load_set("tsplib", tmp_path)) == ["eil51"]
    assert names(load_set(str(tmp_path))) == ["eil51", "mine"]


def test_the_whole_sets(data: Path) -> None:
    for name, groups in (("tsplib", [29, 20]), ("cvrplib-x", [22, 78]), ("cvrplib-xxl", [1, 1, 1, 1])):
        found = load_set(name, data)
        columns = [entry.group for entry in found.entries]
        assert [columns.count(group) for group in found.groups] == groups == list(found.full.values())
        assert all(entry.instance.best_known for entry in found.entries)
        assert found.notes == ()
    assert load_set("cvrplib-xxl", data / "cvrplib" / "XXL").groups == ["A1", "A2", "L1", "L2"]
    ten = load_set("cvrplib-x", data / "cvrplib" / "X", Selection(instances="ten"))
    assert [int(name[3:].split("-")[0]) for name in names(ten)] == [101, 153, 200, 298, 401, 502, 627, 783, 895, 1001]


def test_synthetic_files(data: Path) -> None:
    found = load_set("synthetic", data, Selection(limit=2))
    assert "tsp_cluster_200" in found.groups
    assert "cvrp_uniform_100" in found.groups
    by_name = {entry.instance.name: entry.instance for entry in found.entries}
    assert by_name["tsp_cluster_200-0001"].best_known == pytest.approx(5.27698185)
    assert by_name["cvrp_uniform_100-0000"].capacity == 50
    assert len(found.entries) == 2 * len(found.groups)


def test_missing_synthetic_sets_are_generated_and_say_so(tmp_path: Path) -> None:
    np.savez(tmp_path / "tsp_cluster_100.npz", coords=np.random.default_rng(0).random((2, 5, 2)))
    found = load_set("synthetic", tmp_path, Selection("tsp", limit=2, groups=("tsp_cluster_100", "tsp_rotation_200")))
    assert [entry.instance.customers for entry in found.entries] == [5, 5, 200, 200]
    assert found.full == {"tsp_cluster_100": 2, "tsp_rotation_200": 1000}
    assert found.notes == ("not the paper's files, but by our generators with seed 1234: tsp_rotation_200",)


def test_ones_own_file(data: Path) -> None:
    found = load_set(str(data / "synthetic" / "tsp_cluster_200.npz"), selection=Selection(limit=2))
    assert (found.name, found.title, found.groups) == (
        "tsp_cluster_200",
        "tsp_cluster_200.npz",
        ["tsp_cluster_200.npz"],
    )
    assert found.entries[1].instance.best_known == pytest.approx(5.27698185)


def test_uniform_instances_are_those_of_the_literature() -> None:
    tsp, cvrp = (load_set("uniform", selection=Selection(problem, limit=2)) for problem in ("tsp", "cvrp"))
    assert tsp.groups == ["TSP100"]
    first, second = (entry.instance for entry in tsp.entries)
    assert first.coords[:2].tolist() == [
        [0.1915194503788923, 0.6221087710398319],
        [0.4377277390071145, 0.7853585837137692],
    ]
    assert second.coords[0].tolist() == [0.9790388199339376, 0.881232246338927]
    depot_first = cvrp.entries[0].instance
    assert depot_first.coords[:2].tolist() == [
        [0.1915194503788923, 0.6221087710398319],
        [0.5542693865183056, 0.1809782379192011],
    ]
    assert depot_first.demand is not None
    assert depot_first.demand[:9].tolist() == [0, 1, 3, 1, 4, 4, 1, 6, 3]
    assert depot_first.capacity == 50
    assert cvrp.entries[1].instance.coords[0].tolist() == [0.4377277390071145, 0.7853585837137692]
    assert load_set("uniform", selection=Selection(limit=1)).groups == ["TSP100", "CVRP100"]


def test_mean_optimal_length_of_uniform_tsp100() -> None:
    fast_tsp = pytest.importorskip("fast_tsp")
    found = load_set("uniform", selection=Selection("tsp", limit=5))
    lengths = []
    for entry in found.entries:
        matrix = entry.instance.distance_matrix()
        tour = fast_tsp.find_tour(np.rint(matrix * 40_000).astype(np.uint16), 0.2)
        lengths.append(Solution(entry.instance, (tuple(tour),)).cost)
    assert np.mean(lengths) == pytest.approx(7.76, rel=0.05)  # of five; the bench shows the first 1,000


def test_scaling_instances_do_not_depend_on_the_others() -> None:
    found = load_set("scaling", selection=Selection("tsp", limit=1))
    assert [entry.instance.customers for entry in found.entries] == [100, 200, 500, 1000, 2000, 5000, 10_000]
    again = load_set("scaling", selection=Selection(limit=2))
    assert np.array_equal(again.entries[0].instance.coords, found.entries[0].instance.coords)


def test_selections(tmp_path: Path) -> None:
    for name in ("X-n101-k25", "X-n1001-k43", "other"):
        write_instance(tmp_path / f"{name}.vrp", small.instance("cvrp", name=name))
    write_instance(tmp_path / "t.tsp", small.instance("tsp", name="t"))
    folder = str(tmp_path)
    assert names(load_set(folder, selection=Selection(instances="X-n101"))) == ["X-n101-k25"]
    assert names(load_set(folder, selection=Selection(instances="other,X-n1*"))) == [
        "X-n1001-k43",
        "X-n101-k25",
        "other",
    ]
    assert names(load_set(folder, selection=Selection(problem="tsp"))) == ["t"]
    assert names(load_set(folder, selection=Selection(limit=1))) == ["X-n1001-k43"]
    with pytest.raises(ValueError, match="--instances has 'X-n7', which matches none of 4 names"):
        load_set(folder, selection=Selection(instances="other,X-n7"))
    with pytest.raises(ValueError, match="--problem is 'vrp', must be tsp or cvrp"):
        Selection(problem="vrp")


def test_where_data_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ELGO_DATA", raising=False)
    assert data_folder(None) == tmp_path / "elgo" / "data"
    monkeypatch.setenv("ELGO_DATA", "somewhere")
    assert data_folder(None) == Path("somewhere")
    assert data_folder(Path("given")) == Path("given")


def test_an_unknown_set() -> None:
    with pytest.raises(
        ValueError, match=r"^tsblib: no such set or folder, and no .npz or .pkl file; the sets are tsplib"
    ):
        load_set("tsblib")


def test_a_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"--data has no file of the set tsplib, such as a280.tsp .*elgo data fetch tsplib"
    ):
        load_set("tsplib", tmp_path)
    with pytest.raises(ValueError, match="no problem files"):
        load_set(str(tmp_path))


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("name,n,optimum\neil51,14,4z6\n", r"optima.csv: cost of eil51 is '4z6', expected a whole number above 0"),
        ("name,n,optimum\neil51,14,426.5\n", r"cost of eil51 is '426.5', expected a whole number"),
        ("name,n,optimum\neil51,14,-3\n", r"cost of eil51 is '-3'"),
        ("name,n,optimum\nother,14,3\n", r"optima.csv: has no row for any of the 1 problem files"),
        ("", r"optima.csv: not a table of costs"),
        ("eil51,\0\n", r"optima.csv: not a table of costs"),
    ],
)
def test_a_corrupt_table_of_costs(tmp_path: Path, table: str, complaint: str) -> None:
    small.tsplib(tmp_path, ["eil51"])
    (tmp_path / "optima.csv").write_text(table)
    with pytest.raises(ValueError, match=complaint):
        load_set("tsplib", tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Route #1: 1 2 x\n", r"a.sol: Route #1 has 'x'"),
        ("Route #1: 1 2\nCost 5\n", r"a.sol: is not a solution of a: missing nodes: 3, 4"),
        ("nothing\n", r"a.sol: has no line 'Route #1"),
    ],
)
def test_a_corrupt_solution(tmp_path: Path, text: str, complaint: str) -> None:
    write_instance(tmp_path / "a.vrp", small.instance("cvrp", name="a"))
    (tmp_path / "a.sol").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        load_set(str(tmp_path))


def test_a_corrupt_npz_file(tmp_path: Path) -> None:
    file = tmp_path / "cvrp_uniform_100.npz"
    np.savez(file, coords=np.zeros((2, 5, 2)), demand=np.zeros((2, 5)))
    with pytest.raises(ValueError, match=r"cvrp_uniform_100.npz: capacity is missing; the file has coords, demand"):
        load_set("synthetic", tmp_path)
    np.savez(file, coords=np.full((2, 5, 2), np.nan), demand=np.zeros((2, 5)), capacity=np.ones(2))
    with pytest.raises(ValueError, match=r"cvrp_uniform_100.npz: instance 0: COORDS of node 1 are \(nan, nan\)"):
        load_set("synthetic", tmp_path)
    file.write_bytes(b"PK no archive")
    with pytest.raises(ValueError, match=r"cvrp_uniform_100.npz: not an .npz file"):
        load_set("synthetic", tmp_path)
