"""`elgo bench` and `elgo data` from the command line."""

import csv
import json
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import small
from typer.testing import CliRunner, Result

from elgo.bench.baselines import BASELINES
from elgo.cli.main import app
from elgo.problem.instance import Metric
from elgo.problem.solution import Solution


def elgo(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def fails(*args: object) -> str:
    """The one line on stderr of a command that ends with exit code 2."""
    done = elgo(*args)
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.strip().splitlines()
    return line


def test_a_set_by_its_name(tmp_path: Path, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = small.tsplib(tmp_path / "data" / "tsplib", ["eil51", "berlin52"])
    methods = f"mine={weights('tsp')}:2x1"
    done = elgo("bench", "tsplib", "--data", data, "--methods", methods, "--baselines", "nearest,insertion", "--quiet")
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["<=200", "seconds"] in lines
    assert {"mine:2x1", "nearest", "insertion", "ELG"} <= {line[0] for line in lines if line}
    assert "wrote bench/tsplib/report.html" in done.stdout
    assert (tmp_path / "bench" / "tsplib" / "report.html").is_file()
    again = elgo("bench", "report", "bench/tsplib", "--no-published")
    assert again.exit_code == 0
    assert "(published)" not in again.stdout
    assert elgo("bench", "compare", "bench/tsplib", "bench/tsplib").exit_code == 0
    assert elgo("bench", "compare", "bench/tsplib:insertion", "bench/tsplib:nearest").exit_code in (0, 1)


@pytest.mark.parametrize("suffix", [".npz", ".pkl"])
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_ones_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str, suffix: str) -> None:
    """Costs and tours of each instance are in the folder; the tours have these costs."""
    monkeypatch.chdir(tmp_path)
    given = [small.instance(problem, 9, seed, metric=Metric.EXACT) for seed in range(3)]
    if suffix == ".npz":
        arrays = {"coords": [it.coords for it in given]}
        if problem == "cvrp":
            arrays |= {"demand": [it.demand for it in given], "capacity": [it.capacity for it in given]}
        np.savez("mine.npz", **arrays)
    else:
        form = [it.coords.tolist() for it in given]
        if problem == "cvrp":
            form = [
                (it.coords[0].tolist(), it.coords[1:].tolist(), it.demand[1:].tolist(), it.capacity) for it in given
            ]
        Path("mine.pkl").write_bytes(pickle.dumps(form))
    done = elgo("bench", f"mine{suffix}", "--methods", "nearest,insertion", "--quiet")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == f"mine{suffix}: mean cost"
    assert f"mine{suffix} cost" in done.stdout.splitlines()[2]
    records = [json.loads(line) for line in Path("bench/mine/results.jsonl").read_text().splitlines()]
    assert len(records) == 6
    for record in records:
        instance = given[int(record["instance"].removeprefix("mine-"))]
        solution = Solution(instance, tuple(map(tuple, record["solution"])))
        assert solution.feasible
        assert solution.cost == record["cost"]
    with open("bench/mine/results.csv") as file:
        rows = list(csv.DictReader(file))
    records.sort(key=lambda record: record["method"] != "nearest")
    assert [float(row["cost"]) for row in rows] == [record["cost"] for record in records]
    assert "solution" not in rows[0]


def test_a_wrong_file_is_one_line(tmp_path: Path) -> None:
    file, none = tmp_path / "mine.pkl", tmp_path / "none.npz"
    file.write_bytes(pickle.dumps([Fraction(1)]))
    refusal = "has a fractions.Fraction; a pickle may hold lists, tuples, numbers and arrays alone"
    assert fails("bench", file) == f"elgo: {file}: {refusal}"
    file.write_bytes(pickle.dumps([[[0, 0], [1, 2], [float("inf"), 1]]]))
    assert fails("bench", file) == f"elgo: {file}: instance 0: COORDS of node 3 are (inf, 1), expected finite numbers"
    assert fails("bench", none) == f"elgo: {none}: cannot be read (No such file or directory)"


def test_a_regression_is_exit_code_1(tmp_path: Path) -> None:
    from dataclasses import asdict

    for name, factor in (("a", 1.0), ("b", 1.5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(asdict(small.config(["x"]))))
        lines = [json.dumps(asdict(small.record("x", f"i{k}", factor * (100 + k)))) for k in range(8)]
        (tmp_path / name / "results.jsonl").write_text("\n".join(lines) + "\n")
    assert elgo("bench", "compare", tmp_path / "a", tmp_path / "b").exit_code == 1
    assert elgo("bench", "compare", tmp_path / "b", tmp_path / "a").exit_code == 0


def test_progress_goes_to_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elgo.cli.progress.LINE_SECONDS", 0.0)
    small.tsplib(tmp_path / "data", ["eil51", "berlin52"])
    done = elgo("bench", tmp_path / "data", "--methods", "nearest", "--folder", tmp_path / "out")
    assert done.exit_code == 0
    assert "2/2, about 0 s left  nearest" in done.stderr


def test_wrong_input_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = small.tsplib(tmp_path / "data", ["eil51"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert fails("bench", "tsblib").startswith("elgo: tsblib: no such set or folder")
    assert fails("bench", "empty") == "elgo: empty: no problem files (.tsp, .vrp, .csv) in this folder"
    assert "empty: --data has no file of the set cvrplib-x" in fails("bench", "cvrplib-x", "--data", "empty")
    assert "--methods has 'pyvrp'" in fails("bench", "tsplib", "--data", data, "--methods", "pyvrp")
    missing = fails("bench", "tsplib", "--data", data, "--methods", "none.safetensors")
    assert missing == "elgo: none.safetensors: no such weights file"
    monkeypatch.setitem(
        BASELINES, "lkh", BASELINES["lkh"].__class__("lkh", ("tsp",), BASELINES["lkh"].solve, True, "no_elkai", "elkai")
    )
    assert "lkh: the baseline needs elkai" in fails("bench", "tsplib", "--data", data, "--methods", "lkh@1")
    (data / "optima.csv").write_text("name,optimum\neil51,abc\n")
    assert fails("bench", "tsplib", "--data", data).endswith(
        "optima.csv: cost of eil51 is 'abc', expected a whole number above 0"
    )
    assert "is not the folder of a benchmark" in fails("bench", "compare", "empty", "empty")
    assert "uniform: no such set to fetch" in fails("data", "fetch", "uniform")


def test_named_sets_are_listed(tmp_path: Path) -> None:
    done = elgo("data", "list", "--data", tmp_path)
    assert done.exit_code == 0, done.output
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "elgo data fetch cvrplib-x" in lines["cvrplib-x"]
    assert "1234" in lines["CVRP100"]


def test_reference_costs(tmp_path: Path) -> None:
    command = ("data", "reference", "tsp_rotation_200", "--data", tmp_path, "--seconds", "0.01", "--count")
    done = elgo(*command, 2)
    assert done.exit_code == 0, done.output
    assert "tsp_rotation_200: 2/2  mean cost " in done.stdout
    assert (tmp_path / "references" / "tsp_rotation_200.npz").is_file()
    assert "3/3  mean cost " in elgo(*command, 3).stdout
    assert "no such set of instances of one size" in fails("data", "reference", "tsplib", "--data", tmp_path)


def test_tables_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = elgo("bench", "paper", "--table", "6,8", "--data", small.tsplib(tmp_path / "data"), "--quiet")
    assert done.exit_code == 0, done.output
    assert "Table 6. Hyperparameters" in done.stdout
    assert "xi = 1.5 (published)" in done.stdout
    assert "wrote bench/paper/table-*.md" in done.stdout
    assert (tmp_path / "bench" / "paper" / "table-8.md").is_file()
    partly = elgo("bench", "paper", "--table", "3,6", "--data", tmp_path, "--quiet")
    assert partly.exit_code == 2
    assert partly.stderr.startswith(f"elgo: table 3: {tmp_path}: --data has no file of the set cvrplib-xxl")
    assert "Table 6. Hyperparameters" in partly.stdout
    assert fails("bench", "paper", "--table", "13") == (
        "elgo: --table has '13'; write numbers from 1 to 12, 1-3, or all"
    )
