"""`elgo bulk`: rows, exit codes, and wrong options in one line."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import CVRP, TSP, check_refused, interrupted, run

from elgo.bulk.many import BulkProgress
from elgo.cli.bulk import format_progress

SQUARE = [[0, 0], [0, 3], [4, 3], [4, 0]]


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_search_and_continue(tmp_path: Path) -> None:
    lines, out = tmp_path / "set.jsonl", tmp_path / "out.jsonl"
    lines.write_text(json.dumps({"name": "square", "coords": SQUARE, "best_known": 14}) + "\n")
    done = run("bulk", lines, TSP, "--out", out, "--jobs", 1, "--time-limit", 0.05, "-q")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{out}: 2 new rows in ")
    square, other = sorted(rows_of(out), key=lambda row: row["nodes"])
    assert (square["name"], square["cost"], square["gap"], square["error"]) == ("square", 14, 0, "")
    assert (other["input"], other["number"], other["nodes"]) == (str(TSP), 0, 120)
    assert square["settings"] == "time_limit=0.05, threads=1"
    done = run("bulk", lines, TSP, CVRP, "--out", out, "--jobs", 1, "--time-limit", 0.05, "-q")
    assert f"{out}: 1 new rows in " in done.stdout
    assert len(rows_of(out)) == 3


def test_policy_only(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    options = ("--policy-only", "--model", weights("cvrp"), "--starts", 1, "--symmetries", 1, "--jobs", 1, "-q")
    assert run("bulk", "random:cvrp:9:30", "--out", tmp_path / "a.jsonl", *options).exit_code == 0
    rows = rows_of(tmp_path / "a.jsonl")
    assert [row["source"] for row in rows] == ["policy"] * 30


def test_errors_are_rows(tmp_path: Path) -> None:
    lines, out = tmp_path / "set.jsonl", tmp_path / "out.jsonl"
    lines.write_text("\n".join([json.dumps({"coords": SQUARE}), "{", json.dumps({"coords": []})]))
    done = run("bulk", lines, "--out", out, "--jobs", 1, "-q")
    assert done.exit_code == 1
    assert "3 new rows" in done.stdout
    assert "2 failed" in done.stdout
    errors = [row["error"] for row in sorted(rows_of(out), key=lambda row: row["number"])]
    assert errors[0] == ""
    assert errors[1].startswith(f"{lines}: line 2: not JSON")


def test_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    check_refused(run("bulk", "none.vrp", "--out", out), "none.vrp: no such file")
    check_refused(run("bulk", TSP, "--out", tmp_path / "out.csv"), "expected .jsonl or .parquet")
    check_refused(run("bulk", TSP, "--out", out, "--policy-only", "--time-limit", 1), "--time-limit is 1")
    check_refused(run("bulk", TSP, "--out", out, "--address", "auto"), "address is 'auto'")
    lines = tmp_path / "set.jsonl"
    lines.write_text("{}\n")
    check_refused(run("bulk", lines, "--out", lines), "--out is an input, which is never overwritten")
    (tmp_path / "loop.vrp").symlink_to("loop.vrp")
    check_refused(run("bulk", tmp_path, "--out", tmp_path / "loop.vrp"), "--out is a symbolic link")


def test_another_capacity_is_another_run(tmp_path: Path) -> None:
    table, out = tmp_path / "stops.csv", tmp_path / "out.jsonl"
    table.write_text("x,y,demand\n0,0,0\n1,0,1\n0,1,1\n")
    options = ("--out", out, "--jobs", 1, "--time-limit", 0.05, "-q")
    assert run("bulk", table, *options, "--capacity", 1).exit_code == 0
    assert rows_of(out)[0]["settings"] == "time_limit=0.05, threads=1, capacity=1"
    check_refused(run("bulk", table, *options, "--capacity", 2), "has rows of a run with time_limit=0.05")


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    check_refused(run("bulk", TSP, "--out", tmp_path / "a.jsonl", "--engine", "ray"), "pip install 'elgo[ray]'")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    check_refused(run("bulk", TSP, "--out", tmp_path / "a.parquet"), "pip install 'elgo[parquet]'")


def test_ctrl_c_keeps_the_rows(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    words = ["bulk", "random:tsp:20:10000", "--out", out, "--jobs", 1, "--time-limit", 0.05]
    interrupted(*words, when=lambda pid: out.exists() and out.stat().st_size > 0)
    assert len(rows_of(out)) > 0


def test_progress_in_words() -> None:
    text = format_progress(BulkProgress(1200, 2, 10_000, 3.0))
    assert text == "1,200/10,000, 400.0/s, 2 failed, about 22 s left"
