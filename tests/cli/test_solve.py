"""`elgo solve`: all of it by subprocess, and with a stand-in for the solver where only the command matters."""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import vrplib
from commands import CVRP, EXAMPLES, TSP, check_refused, elgo_command, interrupted, run
from samples import LATE

from elgo import __version__
from elgo.cli import outputs
from elgo.problem.solution import Solution
from elgo.solve.config import SolveConfig
from elgo.solve.result import Improvement, Result, Timings
from elgo.solve.worker import WorkerError

Solver = Callable[..., Result]


def trivial(instance, config=SolveConfig(), *, on_improvement=None, on_progress=None, **_) -> Result:  # noqa: B008
    """A feasible result without any thought: nodes in order, one route per customer."""
    if on_progress:
        on_progress(0.5)
    nodes = range(instance.size)
    routes = (tuple(nodes),) if instance.problem == "tsp" else tuple((i,) for i in nodes[1:])
    solution, seconds = Solution(instance, routes), Timings(0.1, 0.2, 0.3, 0.6)
    found = Improvement(0.25, solution.cost, "fallback")
    if on_improvement:
        on_improvement(found, solution)
    return Result(solution, seconds, config.seed, config.starts or 0, config.symmetries or 0, (found,))


@pytest.fixture
def use_solver(monkeypatch) -> Callable[[Solver], None]:
    return lambda solver: monkeypatch.setattr(sys.modules["elgo.solve.solver"], "solve", solver)


def failing_at(call: int, error: BaseException) -> Solver:
    """The trivial solver, raising the error at the given call."""
    calls = []

    def solver(*args, **options) -> Result:
        calls.append(args)
        if len(calls) == call:
            raise error
        return trivial(*args, **options)

    return solver


def length(coords: np.ndarray, closed: list[int]) -> int:
    """Rounded length of a closed walk, independent of the package."""
    steps = np.diff(coords[[*closed, closed[0]]], axis=0)
    return int(np.floor(np.hypot(*steps.T) + 0.5).sum())


# --- all of it, by subprocess


def test_solves_the_examples_and_all_outputs_agree_with_an_independent_check(tmp_path) -> None:
    out = tmp_path / "out.json"
    done = elgo_command(
        "solve",
        EXAMPLES,
        "--time-limit",
        2,
        "--json",
        out,
        "--solutions",
        tmp_path / "sol",
        "--plot",
        tmp_path,
        "--plot-history",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    tsp, cvrp = json.loads(out.read_text())

    coords = np.array([line.split()[1:] for line in TSP.read_text().splitlines() if line[0].isdigit()], dtype=float)
    assert sorted(tsp["routes"][0]) == list(range(120))
    assert tsp["cost"] == length(coords, tsp["routes"][0])
    assert tsp["gap"] == pytest.approx(100 * (tsp["cost"] - 6135) / 6135)

    data = vrplib.read_instance(CVRP)
    assert sorted(node for route in cvrp["routes"] for node in route) == list(range(1, 116))
    assert all(data["demand"][route].sum() <= data["capacity"] for route in cvrp["routes"])
    assert cvrp["cost"] == sum(length(data["node_coord"], [0, *route]) for route in cvrp["routes"])
    assert vrplib.read_solution(tmp_path / "sol" / "mixed-n116-k13.sol") == {
        "routes": cvrp["routes"],
        "cost": cvrp["cost"],
    }

    for entry in (tsp, cvrp):
        assert entry["feasible"]
        assert f" {entry['cost']} " in done.stdout
        assert entry["history"][-1][1] == entry["cost"]
        assert entry["seconds"] < 2 + LATE
        assert not entry["interrupted"]
        for ending in ("png", "history.png"):
            assert (tmp_path / f"{entry['name']}.{ending}").read_bytes().startswith(b"\x89PNG")
    assert "mean of 2" in done.stdout
    assert "2/2 mixed-n116-k13: cost" in done.stderr


def test_the_same_seed_gives_the_same_answer(tmp_path) -> None:
    entries = []
    for name in ("a.json", "b.json"):
        options = ("--starts", 3, "--symmetries", 2, "--seed", 5, "--threads", 1, "--json", tmp_path / name)
        assert elgo_command("solve", CVRP, "--policy-only", *options).returncode == 0
        (entry,) = json.loads((tmp_path / name).read_text())
        del entry["seconds"], entry["load_seconds"], entry["history"]
        entries.append(entry)
    assert entries[0] == entries[1]


# --- inputs are checked before any work


@pytest.fixture
def no_solver(use_solver) -> None:
    use_solver(failing_at(1, AssertionError("solved before everything was checked")))


@pytest.mark.usefixtures("no_solver")
def test_a_broken_file_among_good_ones_is_refused_first(tmp_path) -> None:
    broken = tmp_path / "broken.vrp"
    broken.write_text(CVRP.read_text().replace("CAPACITY : 453", "CAPACITY : 20"))
    check_refused(run("solve", TSP, broken, "--json", tmp_path / "out.json"), str(broken), "DEMAND", "20")
    assert not (tmp_path / "out.json").exists()


@pytest.mark.usefixtures("no_solver")
def test_missing_file_and_empty_folder_are_refused(tmp_path) -> None:
    check_refused(run("solve", tmp_path / "none.tsp"), "none.tsp", "no such file")
    (tmp_path / "optima.csv").write_text("a,1\n")
    check_refused(run("solve", TSP, tmp_path), str(tmp_path), "no problem files")


@pytest.mark.usefixtures("no_solver")
@pytest.mark.parametrize("option", ["--json", "--solutions", "--plot", "--plot-history"])
def test_outputs_that_cannot_be_written_are_refused(tmp_path, option: str) -> None:
    (tmp_path / "file").write_text("")
    check_refused(run("solve", TSP, option, tmp_path / "file" / "inside"), option, str(tmp_path / "file"))


@pytest.mark.usefixtures("no_solver")
def test_outputs_that_would_overwrite_each_other_are_refused(tmp_path) -> None:
    copy = tmp_path / TSP.name
    copy.write_text(TSP.read_text())
    check_refused(run("solve", TSP, copy, "--solutions", tmp_path / "out"), str(copy), str(TSP))
    one = tmp_path / "one.png"
    for option in ("--plot", "--plot-history"):
        check_refused(run("solve", TSP, CVRP, option, one), option, "one.png", "2 problem files")
        check_refused(run("solve", TSP, option, tmp_path / "one.bmp"), option, "one.bmp")
    check_refused(run("solve", TSP, "--plot", one, "--plot-history", one), "one.png", "same file")
    check_refused(run("solve", TSP, "--json", tmp_path), "--json", str(tmp_path))
    check_refused(run("solve", CVRP, "--solutions", EXAMPLES), "--solutions", str(CVRP))


@pytest.mark.usefixtures("no_solver")
def test_capacity_without_a_csv_file_is_refused() -> None:
    check_refused(run("solve", CVRP, "--capacity", 10), "--capacity")


@pytest.mark.usefixtures("no_solver")
@pytest.mark.parametrize("options", [["--start"], ["--policy-only", "--model"]])
def test_wrong_models_are_refused(tmp_path, weights, options: list[str]) -> None:
    check_refused(run("solve", TSP, *options, tmp_path / "none.safetensors"), "none.safetensors", "no such")
    check_refused(run("solve", TSP, *options, "nonsense"), "model is 'nonsense'", "elg")
    check_refused(run("solve", TSP, CVRP, *options, weights("tsp")), "problem is 'tsp'", "'cvrp'")


@pytest.mark.usefixtures("no_solver")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "elg"], ["--model is 'elg', but it needs --policy-only; --start names"]),
        (
            ["--start", "elg", "--policy-only"],
            ["--start is 'elg', but --policy-only does not search; name the model with --model"],
        ),
        (
            ["--start", "my_model.safetensors", "--policy-only"],
            ["--start is 'my_model.safetensors', but --policy-only does not search; name the model with --model"],
        ),
        (["--starts", 3], ["--starts is 3, but it needs a policy: --start or --policy-only"]),
        (["--symmetries", 2], ["--symmetries is 2", "--policy-only"]),
        (["--warm-start", CVRP.with_suffix(".sol"), "--start", "elg"], ["--warm-start and --start"]),
        (["--warm-start", CVRP.with_suffix(".sol"), "--policy-only"], ["--warm-start and --policy-only"]),
    ],
)
def test_options_without_effect_are_refused(options: list[object], words: list[str]) -> None:
    check_refused(run("solve", CVRP, *options), *words)


@pytest.mark.usefixtures("no_solver")
def test_wrong_limits_are_refused() -> None:
    check_refused(run("solve", TSP, "--time-limit", 0), "--time-limit is 0.0")
    check_refused(run("solve", TSP, "--time-limit", 5, "--policy-only"), "--time-limit is 5", "--policy-only")
    check_refused(run("solve", TSP, "--vehicles", 3), "--vehicles is 3", str(TSP))
    check_refused(run("solve", TSP, CVRP, "--vehicles", 12), "mixed-n116-k13", "vehicles is 12", "at least 13")


@pytest.mark.usefixtures("no_solver")
def test_wrong_warm_starts_are_refused(tmp_path) -> None:
    start = tmp_path / "start.sol"
    good = CVRP.with_suffix(".sol").read_text()
    for text, words in {
        "Route #1: 1 2 3\nCost 3\n": ("--warm-start is not feasible", "missing nodes: 4, 5"),
        "nonsense": (),
        good.replace("Route #1:", "Route #1: 5"): ("repeated nodes: 5",),
    }.items():
        start.write_text(text)
        check_refused(run("solve", CVRP, "--warm-start", start), str(start), *words)
    start.write_text(good)
    check_refused(run("solve", CVRP, TSP, "--warm-start", start), str(start), "2")
    check_refused(run("solve", TSP, "--warm-start", start), str(start))
    check_refused(run("solve", CVRP, "--warm-start", start, "--vehicles", 12), str(start), "13 routes", "12")
    check_refused(run("solve", CVRP, "--warm-start", tmp_path / "none.sol"), "none.sol", "no such file")
    check_refused(run("solve", CVRP, "--warm-start", CVRP), str(CVRP), ".sol or .tour")


# --- what comes out


def test_json_has_every_field(tmp_path, use_solver) -> None:
    use_solver(trivial)
    assert run("solve", TSP, CVRP, "--seed", 7, "--json", tmp_path / "out.json").exit_code == 0
    tsp, cvrp = json.loads((tmp_path / "out.json").read_text())
    assert tsp["routes"] == [list(range(120))]
    assert cvrp["routes"][:2] == [[1], [2]]
    assert isinstance(tsp["cost"], int)
    expected = {
        "problem": "tsp",
        "file": str(TSP),
        "best_known": 6135,
        "nodes": 120,
        "starts": 0,
        "symmetries": 0,
        "seed": 7,
        "seconds": 0.6,
        "load_seconds": 0.1,
        "source": "fallback",
        "warnings": [],
        "history": [[0.25, tsp["cost"], "fallback"]],
        "interrupted": False,
        "version": __version__,
        "time_limit": 5.0,
        "unit": None,
        "capacity": None,
        "route_costs": [tsp["cost"]],
        "route_loads": None,
    }
    assert expected.items() <= tsp.items()
    assert tsp["feasible"] is True
    assert cvrp["capacity"] == 453
    assert sum(cvrp["route_costs"]) == cvrp["cost"]
    assert len(cvrp["route_loads"]) == len(cvrp["routes"])
    assert max(cvrp["route_loads"]) <= 453


def test_unrounded_costs_without_a_best_known_cost(tmp_path, use_solver) -> None:
    use_solver(trivial)
    (tmp_path / "stops.csv").write_text("x,y,demand\n0,0,0\n1,1,2\n2,0,3\n")
    done = run("solve", tmp_path, "--capacity", 5, "--json", tmp_path / "out.json")
    assert done.exit_code == 0, done.stderr
    (entry,) = json.loads((tmp_path / "out.json").read_text())
    assert entry["gap"] is None
    assert entry["best_known"] is None
    assert "6.8284" in done.stdout


def test_json_on_stdout_leaves_nothing_else_there(use_solver) -> None:
    use_solver(trivial)
    done = run("solve", TSP, CVRP, "--json", "-")
    assert [entry["name"] for entry in json.loads(done.stdout)] == ["clusters-n120", "mixed-n116-k13"]
    assert "mean of 2" in done.stderr


def test_jsonl_grows_by_a_line_for_each_result(tmp_path, use_solver) -> None:
    out = tmp_path / "out.jsonl"
    use_solver(failing_at(2, KeyboardInterrupt()))
    assert run("solve", TSP, CVRP, "--json", out).exit_code == 130
    use_solver(trivial)
    assert run("solve", TSP, CVRP, "--json", out).exit_code == 0
    names = [json.loads(line)["name"] for line in out.read_text().splitlines()]
    assert names == ["clusters-n120", "clusters-n120", "mixed-n116-k13"]


def test_json_is_written_once(tmp_path, use_solver, monkeypatch) -> None:
    """Writing all results again for each one would take quadratic time."""
    use_solver(trivial)
    written = []
    monkeypatch.setattr(outputs, "atomic_write", lambda path, text: written.append((path, text)))
    assert run("solve", TSP, CVRP, "--json", tmp_path / "out.json").exit_code == 0
    ((_, text),) = written
    assert len(json.loads(text)) == 2


STOPS = "id;Name;lat;lng;demand_kg;colour\nd;Depot;52,5;13,4;;red\na;Ann;52,6;13,5;4;green\nb;Bob;52,4;13,3;5;blue\n"


def test_what_an_analyst_hands_on(tmp_path, use_solver) -> None:
    use_solver(trivial)
    file = tmp_path / "stops.csv"
    file.write_text(STOPS)
    options = ("--routes", tmp_path / "routes.csv", "--geojson", tmp_path / "r.geojson", "--map", tmp_path / "map.html")
    done = run("solve", file, "--capacity", 9, *options, "--quiet")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"elgo: warning: {file}: not used: column 'colour'\n"
    assert " km " in done.stdout
    assert (tmp_path / "routes.csv").read_text(encoding="utf-8-sig").splitlines()[2].startswith("1;1;a;Ann;4;4;13,0")
    assert len(json.loads((tmp_path / "r.geojson").read_text())["features"]) == 2 + 4
    assert "<title>stops</title>" in (tmp_path / "map.html").read_text()
    folder = tmp_path / "out"
    assert run("solve", file, TSP, "--capacity", 9, "--routes", folder, "--map", folder).exit_code == 0
    names = {"stops.routes.csv", "stops.html", "clusters-n120.routes.csv", "clusters-n120.html"}
    assert {path.name for path in folder.iterdir()} == names


def test_depot_and_matrix_reach_the_solver(tmp_path, use_solver) -> None:
    use_solver(trivial)
    file, matrix = tmp_path / "stops.csv", tmp_path / "m.csv"
    file.write_text("id,demand\na,4\nb,5\nhome,\n")
    matrix.write_text(",a,b,home\na,0,1,2\nb,3,0,4\nhome,5,6,0\n")
    done = run("solve", file, "--capacity", 9, "--matrix", matrix, "--depot", "home", "--json", "-", "--quiet")
    (entry,) = json.loads(done.stdout)
    assert entry["route_costs"] == [7, 10]  # home to a and back, home to b and back
    assert entry["route_loads"] == [4, 5]
    for options, words in (
        (["--map", tmp_path / "map.html"], ["--map needs coordinates"]),
        (["--geojson", tmp_path / "a.geojson"], ["--geojson needs latitude and longitude", "no coordinates"]),
        (["--json", matrix], ["m.csv: --json is an input"]),
    ):
        check_refused(run("solve", file, "--capacity", 9, "--matrix", matrix, "--depot", "3", *options), *words)
    check_refused(run("solve", CVRP, "--matrix", matrix), "--matrix", "only CSV files")
    check_refused(run("solve", CVRP, "--depot", "1"), "--depot is 1", "only CSV files")
    check_refused(run("solve", file, TSP, "--capacity", 9, "--matrix", matrix), "--matrix belongs to one file")


@pytest.mark.usefixtures("no_solver")
def test_maps_that_cannot_be_made_are_refused(tmp_path) -> None:
    check_refused(run("solve", TSP, "--geojson", tmp_path / "a.geojson"), str(TSP), "--geojson", "x, y")
    check_refused(run("solve", TSP, "--map", tmp_path / "a.html", "--tiles", "osm"), "--tiles", "latitude")
    check_refused(run("solve", TSP, "--tiles", "osm"), "--tiles is osm, but there is no --map")
    check_refused(run("solve", TSP, "--map", tmp_path / "a.pdf"), "--map ends in '.pdf'", ".html")


@pytest.mark.usefixtures("no_solver")
@pytest.mark.parametrize("option", ["--json", "--routes", "--map", "--plot"])
def test_outputs_never_replace_inputs_or_links(tmp_path, option: str) -> None:
    suffix = {"--json": ".json", "--routes": ".csv", "--map": ".html", "--plot": ".png"}[option]
    file = tmp_path / "stops.csv"
    file.write_text("x,y\n0,0\n1,0\n1,1\n")
    link = tmp_path / f"link{suffix}"
    link.symlink_to(file)
    check_refused(run("solve", file, option, link), str(link), f"{option} is a symbolic link")
    dangling = tmp_path / f"dangling{suffix}"
    dangling.symlink_to(tmp_path / "nowhere")
    check_refused(run("solve", file, option, dangling), str(dangling), f"{option} is a symbolic link")
    if option in ("--json", "--routes"):
        check_refused(
            run("solve", file, option, tmp_path / "." / "stops.csv"), "is an input, which is never overwritten"
        )
    assert file.read_text() == "x,y\n0,0\n1,0\n1,1\n"
    assert link.is_symlink()
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    check_refused(run("solve", file, option, loop / f"x{suffix}"), str(loop), f"{option} folder cannot be created")


@pytest.mark.usefixtures("no_solver")
def test_json_never_goes_into_a_file_of_another_kind(tmp_path) -> None:
    """A hard link to the input would grow by lines; the name of a problem file is a slip."""
    (tmp_path / "link.jsonl").hardlink_to(shutil.copy(TSP, tmp_path))
    check_refused(run("solve", tmp_path / TSP.name, "--json", tmp_path / "link.jsonl"), "--json is an input")
    check_refused(run("solve", TSP, "--json", tmp_path / "other.vrp"), "--json ends in '.vrp'", ".jsonl")


@pytest.mark.usefixtures("no_solver")
def test_control_characters_are_not_printed(tmp_path) -> None:
    done = run("solve", tmp_path / "\x1b[31mred\nline.vrp")
    check_refused(done, "no such file")
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("name", ["[/]", "[red]x", ":smile:", "$\\x$"])
def test_names_are_not_markup(tmp_path, use_solver, name: str) -> None:
    use_solver(trivial)
    file = tmp_path / "a.csv"
    file.write_text(f"# name: {name}\nx,y\n0,0\n1,0\n1,1\n")
    done = run("solve", file, "--plot", tmp_path / "a.png")
    assert done.exit_code == 0, done.stderr
    assert f"1/1 {name}: cost" in done.stderr
    assert done.stdout.splitlines()[-1].startswith(name)


def test_quiet_prints_the_table_only(use_solver) -> None:
    use_solver(trivial)
    done = run("solve", TSP, "--quiet")
    assert done.stderr == ""
    assert "clusters-n120" in done.stdout


def test_solutions_and_pictures_are_named_after_the_files(tmp_path, use_solver) -> None:
    use_solver(trivial)
    assert run("solve", TSP, CVRP, "--solutions", tmp_path, "--plot", tmp_path, "--plot-format", "svg").exit_code == 0
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"clusters-n120.tour", "mixed-n116-k13.sol", "clusters-n120.svg", "mixed-n116-k13.svg"}
    assert run("solve", TSP, "--plot", tmp_path / "one.png", "--plot-history", tmp_path / "two.svg").exit_code == 0
    assert (tmp_path / "one.png").exists()
    assert (tmp_path / "two.svg").exists()
    assert run("solve", TSP, CVRP, "--plot-history", tmp_path / "more").exit_code == 0
    assert {p.name for p in (tmp_path / "more").iterdir()} == {f"{f.stem}.history.png" for f in (TSP, CVRP)}


@pytest.mark.parametrize("name", ["a.vrp", "a.csv"])
def test_solutions_are_not_written_where_they_would_be_the_best_known(tmp_path, name: str) -> None:
    text = CVRP.read_text() if name == "a.vrp" else "# capacity: 3\nx,y,demand\n0,0,0\n1,0,2\n1,1,2\n"
    (tmp_path / name).write_text(text)
    done = run("solve", tmp_path / name, "--solutions", tmp_path)
    assert done.exit_code == 2
    assert "--solutions is its own folder, where NAME.sol is the best-known solution" in done.stderr


def test_options_reach_the_solver(use_solver) -> None:
    seen = []

    def solver(instance, config, *, warm_start, **options) -> Result:
        seen.append((config, warm_start))
        return trivial(instance, config)

    use_solver(solver)
    common = ("--seed", 4, "--threads", 1, "--memory", 2)
    few = (*common, "--starts", 3, "--symmetries", 2)
    start = CVRP.with_suffix(".sol")
    assert run("solve", CVRP, *few, "--policy-only", "--model", "elg").exit_code == 0
    assert run("solve", CVRP, *few, "--start", "elg", "--time-limit", 9).exit_code == 0
    assert run("solve", CVRP, *common, "--time-limit", 9, "--vehicles", 14, "--warm-start", start).exit_code == 0
    config = SolveConfig(seed=4, threads=1, memory_gb=2.0)
    (alone, nothing), (from_policy, _), (other, solution) = seen
    assert alone == replace(config, starts=3, symmetries=2, policy_only=True, model="elg")
    assert nothing is None
    assert from_policy == replace(config, starts=3, symmetries=2, start="elg", time_limit=9.0)
    assert other == replace(config, time_limit=9.0, vehicles=14)
    assert solution.cost == 15581


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("field is 3"), 2, "elgo: mixed-n116-k13: field is 3"),
        (OSError("no room"), 2, "elgo: mixed-n116-k13: no room"),
        (WorkerError("mixed-n116-k13: killed"), 1, "elgo: mixed-n116-k13: killed"),
        (KeyError("x"), 1, "elgo: mixed-n116-k13: KeyError at test_solve.py:"),
    ],
)
def test_a_file_that_fails_does_not_stop_the_others(
    tmp_path, use_solver, error: Exception, code: int, line: str
) -> None:
    use_solver(failing_at(2, error))
    (tmp_path / "third.tsp").write_text(TSP.read_text())
    done = run("solve", TSP, CVRP, tmp_path / "third.tsp", "--json", tmp_path / "out.json")
    assert done.exit_code == code
    names = [Path(entry["file"]).stem for entry in json.loads((tmp_path / "out.json").read_text())]
    assert names == ["clusters-n120", "third"]
    assert done.stderr.splitlines()[-1].startswith(line)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (ValueError("boom: field is 3"), 2)])
def test_what_is_finished_is_kept(tmp_path, use_solver, error: BaseException, code: int) -> None:
    use_solver(failing_at(2, error))
    done = run("solve", TSP, CVRP, "--json", tmp_path / "out.json", "--solutions", tmp_path)
    assert done.exit_code == code
    assert [entry["name"] for entry in json.loads((tmp_path / "out.json").read_text())] == ["clusters-n120"]
    assert (tmp_path / "clusters-n120.tour").exists()
    assert "clusters-n120" in done.stdout
    assert "Traceback" not in done.stderr


def test_ctrl_c_keeps_the_best_so_far_and_begins_no_other_file(tmp_path, use_solver) -> None:
    def interrupted(*args, **options) -> Result:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            return replace(trivial(*args, **options), interrupted=True)
        raise AssertionError("the search was not interrupted")

    use_solver(interrupted)
    before = signal.getsignal(signal.SIGINT)
    done = run("solve", TSP, CVRP, "--json", tmp_path / "out.json", "--solutions", tmp_path)
    assert done.exit_code == 130
    (entry,) = json.loads((tmp_path / "out.json").read_text())
    assert entry["interrupted"] is True
    assert (tmp_path / "clusters-n120.tour").exists()
    assert "clusters-n120" in done.stdout
    assert done.stderr.splitlines()[-1] == "elgo: interrupted"
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_before_there_is_a_solution(use_solver) -> None:
    use_solver(lambda *args, **options: os.kill(os.getpid(), signal.SIGINT))
    done = run("solve", TSP, CVRP)
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "elgo: interrupted\n")


def test_ctrl_c_between_two_files(tmp_path, use_solver, monkeypatch) -> None:
    """While an output is being written it waits until that is done."""
    use_solver(trivial)
    monkeypatch.setattr(outputs, "save_plot", lambda *args: os.kill(os.getpid(), signal.SIGINT))
    done = run("solve", TSP, CVRP, "--json", tmp_path / "out.json", "--plot", tmp_path)
    assert done.exit_code == 130
    assert len(json.loads((tmp_path / "out.json").read_text())) == 1


def test_an_infeasible_solution_is_reported(use_solver) -> None:
    def forgetful(instance, config, **options) -> Result:
        found = Improvement(0.0, 1.0, "search")
        return Result(Solution(instance, ((0, 1, 2),)), Timings(0, 0, 0, 0), 0, 1, 1, (found,))

    use_solver(forgetful)
    done = run("solve", TSP)
    assert done.exit_code == 1
    assert "infeasible" in done.stderr


# --- Ctrl-C, by subprocess


def loaded(pid: int, library: str) -> int:
    """Return how many processes of a command have loaded a library: llvmlite is that of the search."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return sum(library in Path(f"/proc/{pid}/maps").read_text() for pid in pids)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_the_command_soon_and_keeps_what_it_has(jobs: int, tmp_path: Path) -> None:
    words = ["solve", "examples", "--time-limit", 60, "--jobs", jobs, "--solutions", tmp_path]
    processes = jobs + (jobs > 1)  # the parent looks whether something must be compiled
    _, errors = interrupted(
        *words, "--json", tmp_path / "out.json", when=lambda pid: loaded(pid, "llvmlite") >= processes
    )
    assert "Traceback" not in errors
    entries = json.loads((tmp_path / "out.json").read_text())
    assert len(entries) == jobs  # the others were not begun
    assert all(entry["interrupted"] and entry["feasible"] for entry in entries)
    assert (tmp_path / "clusters-n120.tour").exists()
    assert (tmp_path / "mixed-n116-k13.sol").exists() == (jobs == 2)


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_ctrl_c_while_the_model_is_loading_or_decoding(seconds: float) -> None:
    words = ["solve", TSP, "--start", "elg", "--starts", 120, "--symmetries", 8, "--time-limit", 60]
    # scipy.libs has the BLAS of the decoder
    table, _ = interrupted(*words, when=lambda pid: loaded(pid, "scipy.libs") > 0, after=seconds)
    assert "clusters-n120" in table


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a TSP of 20,000 nodes, with a random tour beside it, whose improvement takes long."""
    rng, file = np.random.default_rng(0), tmp_path_factory.mktemp("large") / "large.csv"
    file.write_text("x,y\n" + "".join(f"{x:.6f},{y:.6f}\n" for x, y in rng.random((20_000, 2))))
    tour = "\n".join(map(str, rng.permutation(20_000) + 1))
    file.with_suffix(".tour").write_text(f"TOUR_SECTION\n{tour}\n-1\n")
    return file


def test_a_large_problem_and_a_short_limit(large: Path) -> None:
    done = elgo_command("solve", large, "--time-limit", 1, "--warm-start", large.with_suffix(".tour"))
    assert done.returncode == 0, done.stderr
    assert float(re.search(r" (\d+\.\d\d)  ", done.stdout)[1]) < 1 + LATE  # type: ignore[index]


@pytest.mark.parametrize("seconds", [0.0, 1.0, 2.0])
def test_the_first_ctrl_c_works_in_a_large_problem(large: Path, seconds: float, tmp_path: Path) -> None:
    words = ["solve", large, "--time-limit", 600, "--warm-start", large.with_suffix(".tour"), "--solutions", tmp_path]
    table, _ = interrupted(*words, when=lambda pid: loaded(pid, "llvmlite") > 0, after=seconds)
    assert "large" in table
    assert (tmp_path / "large.tour").exists()


def test_open_routes_and_fixed_ends(tmp_path: Path) -> None:
    file = tmp_path / "line.csv"
    file.write_text("id,x,y\n" + "".join(f"{10 * k},{k},0\n" for k in range(1, 7)))
    for options, cost, route in (
        ((), 10, None),
        (("--open",), 5, None),
        (("--first", 10, "--last", 60), 5, [0, 1, 2, 3, 4, 5]),
        (("--first", 30, "--open"), 7, [2, 1, 0, 3, 4, 5]),
    ):
        done = elgo_command("solve", file, *options, "--json", tmp_path / "out.json", "--plot", tmp_path / "out.svg")
        assert done.returncode == 0, done.stderr
        (record,) = json.loads((tmp_path / "out.json").read_text())
        assert (record["cost"], record["open"]) == (cost, cost < 10)
        assert route in (None, record["routes"][0])
        assert f" {cost} " in done.stdout


def test_wrong_ends(tmp_path: Path) -> None:
    check_refused(run("solve", CVRP, "--first", 3), str(CVRP), "--first is 3", "only a TSP")
    check_refused(run("solve", TSP, "--last", 1000), str(TSP), "--last is 1000", "no stop has this id, name or number")
    check_refused(
        run("solve", TSP, "--first", 4, "--last", 4), str(TSP), "--first and --last are both 4", "give --first"
    )
    file = tmp_path / "twice.csv"
    file.write_text("name,x,y\nann,0,0\nann,1,0\n")
    check_refused(run("solve", file, "--first", "ann"), str(file), "--first is ann, but 2 stops have this name")


def test_ends_are_ids_names_or_numbers(tmp_path: Path) -> None:
    file = tmp_path / "line.csv"
    file.write_text("id,name,x,y\n" + "".join(f"s{k},n{k},{k},0\n" for k in range(1, 7)))
    for first, last in (("s2", "n4"), ("n2", "4"), ("2", "s4")):
        done = run("solve", file, "--first", first, "--last", last, "--json", tmp_path / "out.json")
        assert done.exit_code == 0, done.stderr
        (record,) = json.loads((tmp_path / "out.json").read_text())
        assert (record["routes"][0][0], record["routes"][0][-1]) == (1, 3)


def test_options_without_effect_are_named(tmp_path: Path) -> None:
    file = tmp_path / "line.csv"
    file.write_text("x,y\n0,0\n1,0\n2,0\n")
    given = ("--memory", 2, "--plot-format", "svg")
    errors = run("solve", file, *given, "--plot", tmp_path / "one.png").stderr
    assert "warning: --memory had no effect" in errors
    assert "warning: --plot-format had no effect" in errors
    assert "no effect" not in run("solve", file, *given, "--start", "elg", "--plot", tmp_path / "pictures").stderr
    assert (tmp_path / "pictures" / "line.svg").exists()


def test_trivial_problems_do_not_stop_the_others(tmp_path: Path) -> None:
    texts = {
        "one.csv": "x,y\n1,2\n",
        "two.csv": "x,y\n0,0\n3,4\n",
        "equal.csv": "x,y\n" + "5,5\n" * 20,
        "depot.csv": "# capacity: 5\nx,y,demand\n0,0,0\n",
        "customer.csv": "# capacity: 5\nx,y,demand\n0,0,0\n3,4,1\n",
        "same.csv": "# capacity: 5\nx,y,demand\n" + "1,1,0\n" + "1,1,2\n" * 20,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    out = tmp_path / "out"
    options = ("--json", out / "all.json", "--solutions", out, "--plot", out / "pictures", "--time-limit", 20)
    done = elgo_command("solve", tmp_path, *options)
    assert done.returncode == 0, done.stderr
    costs = {record["name"]: record["cost"] for record in json.loads((out / "all.json").read_text())}
    assert costs == {"customer": 10, "depot": 0, "equal": 0, "one": 0, "same": 0, "two": 10}
    assert len(list((out / "pictures").iterdir())) == len(list(out.glob("*.*[rl]"))) == 6
