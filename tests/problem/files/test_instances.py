"""Reading and writing problem files: names, encodings, best known costs, other files, public collections."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from texts import CVRP, DATA, TSP, assert_rejected, assert_same

from elgo.problem.files import parse_tsplib, problem_files, read, read_solution, write_instance
from elgo.problem.files.csv import parse_csv
from elgo.problem.files.tsplib import format_tsplib
from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("ELGO_DATA", ROOT.parent / "shared" / "data"))


def test_name_defaults_to_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "nameless.tsp").write_text(TSP.replace("NAME : small\n", ""))
    assert read(tmp_path / "nameless.tsp").name == "nameless"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.tsp").write_bytes(TSP.replace("TYPE", "COMMENT : Grötschel\nTYPE", 1).encode(encoding))
    assert_same(read(tmp_path / "a.tsp"), parse_tsplib(TSP))


def test_best_known_from_other_files(tmp_path: Path) -> None:
    file = tmp_path / "a.vrp"
    file.write_text(CVRP.replace("DIMENSION", "COMMENT : Optimal value: 99\nDIMENSION"))
    assert read(file).best_known == 99
    (tmp_path / "solutions.csv").write_text("other,1\nsmall,77\n")
    assert read(file).best_known == 77  # by the name of the instance
    (tmp_path / "optima.csv").write_text("name,n,optimum\na,4,88\n")
    assert read(file).best_known == 88  # by the name of the file
    (tmp_path / "a.sol").write_text("Route #1: 1 2\nRoute #2: 3\nCost 20.5\n")
    assert read(file).best_known == 20  # 3 + 4 + 5 and 8: our cost of these routes, whatever is stated
    (tmp_path / "a.sol").write_text("Route #1: 1 2 3\nCost 1\n")
    assert read(file).best_known == 88  # over capacity


def test_best_known_tour(tmp_path: Path) -> None:
    (tmp_path / "a.tsp").write_text(TSP)
    assert read(tmp_path / "a.tsp").best_known is None
    (tmp_path / "a.opt.tour").write_text("TYPE : TOUR\nTOUR_SECTION\n1 2 3 4 -1\n")
    assert read(tmp_path / "a.tsp").best_known == 14


@pytest.mark.parametrize("content", ["", "\0", "small,many\nsmall", 'small,"', "small,nan", "small,-3", "small,7.5"])
def test_broken_files_in_the_same_folder_are_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "small.vrp").write_text(CVRP)
    (tmp_path / "small.sol").write_text(content)
    (tmp_path / "optima.csv").write_text(content)
    assert read(tmp_path / "small.vrp").best_known is None


@pytest.mark.parametrize("name", ["a.vrp", "a.csv"])
def test_write_and_read_instance(tmp_path: Path, name: str) -> None:
    instance = replace(parse_tsplib(CVRP.replace("EUC_2D", "EXACT_2D")), best_known=20.0)
    write_instance(tmp_path / name, instance)
    assert_same(read(tmp_path / name), instance)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.tsp", "", "the file is empty"),
        ("x.tsp", " \n\n", "the file is empty"),
        ("x.txt", TSP, "suffix is '.txt', expected .tsp or .vrp or .csv"),
        ("x", TSP, "suffix is '', expected .tsp or .vrp or .csv"),
    ],
)
def test_broken_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    assert_rejected(tmp_path / name, text, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\0\0", "not a text file (byte 6 is zero)"),
        (TSP.encode("utf-16-be"), "not a text file (byte 0 is zero)"),
        ((TSP + "\0").encode("utf-16"), "not a text file (it has zero characters)"),
        (b"\xff\xfe\xfd garbage", "not a text file (byte 10 is not UTF-16)"),
        (b"\xef\xbb\xbfNAME : \xfd", "not a text file (byte 7 is not UTF-8)"),
        (b"\xfd\xfd garbage", "'ÝÝ' is not a supported keyword"),
    ],
)
def test_files_that_are_not_text(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.tsp").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        read(tmp_path / "x.tsp")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file: .*x\.vrp"):
        read(tmp_path / "x.vrp")
    with pytest.raises(FileNotFoundError, match=r"no such file: .*x\.sol"):
        read_solution(tmp_path / "x.sol", parse_tsplib(CVRP))
    (tmp_path / "folder.vrp").mkdir()
    with pytest.raises(ValueError, match=r"folder\.vrp: is a folder, expected a file$"):
        read(str(tmp_path / "folder.vrp"))
    with pytest.raises(ValueError, match=r": cannot be read \(File name too long\)$"):
        read("x" * 5000 + ".vrp")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x.vrp").write_text(CVRP)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ValueError, match=r"x\.vrp: cannot be read \(Permission denied\)$"):
        read(tmp_path / "x.vrp")


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """Whatever reads a FIFO or a device might wait for ever."""
    for name in ("x.vrp", "x.csv", "x.sol"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(ValueError, match=rf"{name}: is not a regular file$"):
            read(tmp_path / name) if name != "x.sol" else read_solution(tmp_path / name, parse_tsplib(CVRP))
    (tmp_path / "zero.tsp").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"zero\.tsp: is not a regular file$"):
        read(tmp_path / "zero.tsp")
    (tmp_path / "good.vrp").write_text(CVRP)
    (tmp_path / "good.sol").symlink_to("/dev/zero")
    assert read(tmp_path / "good.vrp").best_known is None


def cpu_seconds(parse: Callable[[str], object], text: str) -> float:
    """CPU time of parsing a text, best of three."""
    found = []
    for _ in range(3):
        start = time.process_time()
        parse(text)
        found.append(time.process_time() - start)
    return min(found)


@pytest.mark.parametrize("unit", ["optimal value", "optimal value ", "best known value:", " ", "\t:"])
def test_long_comments_take_linear_time(unit: str) -> None:
    def texts(size: int) -> tuple[str, str]:
        comment = unit * (size // len(unit))
        tsp = TSP.replace("TYPE", f"COMMENT : {comment}\nTYPE", 1)
        return tsp, f"# {comment}\n#{' ' * size}name\nx,y\n0,0\n1,0\n1,1\n"

    for parse, small, large in zip((parse_tsplib, parse_csv), texts(100_000), texts(1_000_000), strict=True):
        assert cpu_seconds(parse, large) < 40 * cpu_seconds(parse, small) + 0.1


def test_routes_beside_the_problem_files_are_no_problems(tmp_path: Path) -> None:
    for name in ("a.csv", "a.routes.csv", "optima.csv", "my-optima.csv"):
        (tmp_path / name).write_text("x,y\n0,0\n1,0\n1,1\n")
    assert [file.name for file in problem_files(tmp_path)] == ["a.csv", "my-optima.csv"]


def test_capacity_is_only_for_csv(tmp_path: Path) -> None:
    (tmp_path / "x.vrp").write_text(CVRP)
    with pytest.raises(ValueError, match=r"x\.vrp: capacity is given as 5, but only CSV files accept it$"):
        read(tmp_path / "x.vrp", capacity=5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.txt", "suffix is '.txt', expected .tsp, .vrp or .csv"),
        ("x.tsp", "suffix is '.tsp', but small is a CVRP"),
        ("x.csv", "metric is EUC_2D, but CSV files only have EXACT_2D and HAVERSINE"),
    ],
)
def test_instances_that_cannot_be_written(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'{tmp_path / name}: {message}')}$"):
        write_instance(tmp_path / name, parse_tsplib(CVRP))
    assert not list(tmp_path.iterdir())


def test_reading_takes_linear_time() -> None:
    rng = np.random.default_rng(0)
    coords = rng.uniform(0, 1000, (7000, 2))
    demand = np.append(0.0, rng.integers(1, 100, 6999))

    def parsing(instance: Instance) -> float:
        return cpu_seconds(parse_tsplib, format_tsplib(instance))

    small, large = (parsing(Instance("x", coords[:n], Metric.EUC_2D, demand[:n], 500.0)) for n in (700, 7000))
    assert large < 40 * small  # ten times as many nodes
    matrix = rng.integers(1, 10**6, (800, 800)).astype(float)
    np.fill_diagonal(matrix, 0.0)
    small, large = (parsing(Instance("x", coords[:n], Metric.EXPLICIT, matrix=matrix[:n, :n])) for n in (200, 800))
    assert large < 64 * small  # sixteen times as many distances


def test_reading_needs_nothing_but_numpy() -> None:
    code = f"""import sys, elgo.problem.files
elgo.problem.files.read({str(DATA / "odd.vrp")!r})
print([name for name in ("torch", "numba", "scipy", "vrplib", "matplotlib") if name in sys.modules])"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"


# The public collections, where they are at hand, against an independent reader.

needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no benchmark data at {SHARED} (set ELGO_DATA)")
SHARED_FILES = sorted([*SHARED.glob("tsplib/*.tsp"), *SHARED.glob("cvrplib/*/*.vrp")])


@needs_data
def test_pcb442_in_canonical_order() -> None:
    """The TSPLIB documentation gives 221440 for the tour 1, 2, ..., n."""
    instance = read(SHARED / "tsplib" / "pcb442.tsp")
    assert Solution(instance, (tuple(range(442)),)).cost == 221440


@needs_data
def test_the_collections_are_complete() -> None:
    assert len(SHARED_FILES) == 153


def nint_length(coords: np.ndarray, closed: list[int]) -> int:
    steps = np.diff(coords[[*closed, closed[0]]], axis=0)
    return int(np.floor(np.hypot(steps[:, 0], steps[:, 1]) + 0.5).sum())


@needs_data
@pytest.mark.parametrize("path", SHARED_FILES, ids=lambda path: path.stem)
def test_collections_against_vrplib(path: Path) -> None:
    vrplib = pytest.importorskip("vrplib")
    theirs = vrplib.read_instance(path, compute_edge_weights=False)
    ours = read(path)
    assert ours.name == str(theirs["name"])
    assert ours.size == theirs["dimension"]
    assert ours.metric.value == theirs["edge_weight_type"]
    assert np.array_equal(ours.coords, theirs["node_coord"])
    if ours.demand is None:
        optima = dict(line.split(",")[::2] for line in (path.parent / "optima.csv").read_text().split())
        assert ours.best_known == int(optima[path.stem])
        return
    assert np.array_equal(ours.demand, theirs["demand"])
    assert ours.capacity == theirs["capacity"]
    published = vrplib.read_solution(path.with_suffix(".sol"))
    solution = read_solution(path.with_suffix(".sol"), ours)
    assert [list(route) for route in solution.routes] == published["routes"]
    assert solution.violations == ()
    assert solution.cost == published["cost"] == ours.best_known
    assert solution.cost == sum(nint_length(theirs["node_coord"], [0, *route]) for route in published["routes"])
    loads = [theirs["demand"][route].sum() for route in published["routes"]]
    assert max(loads) <= theirs["capacity"]
    assert sorted(node for route in published["routes"] for node in route) == list(range(1, ours.size))


@needs_data
@pytest.mark.parametrize("path", SHARED_FILES[::25], ids=lambda path: path.stem)
def test_collections_round_trip(path: Path, tmp_path: Path) -> None:
    instance = read(path)
    write_instance(tmp_path / path.name, instance)
    assert_same(read(tmp_path / path.name), instance)
