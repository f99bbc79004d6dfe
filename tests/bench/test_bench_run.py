"""Runs: what is written, and that a killed one ends as if it had not been."""

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import small

from elgo.bench.command import Forecast, bench, make_batches
from elgo.bench.methods import Method, Options, parse_methods
from elgo.bench.run import BenchFolder, describe, read_config, read_records
from elgo.bench.sets import BenchSet, Entry, Selection, load_set
from elgo.bulk.engines import open_engine
from elgo.problem.files import write_instance

ROOT = Path(__file__).parents[2]
METHODS = "nearest,insertion"
KILLED = """
import os, sys
from pathlib import Path
from elgo.bench import command
from elgo.bench import run
from elgo.bench.methods import Options, parse_methods
from elgo.bench.sets import load_set

add = run.BenchFolder.add
def cut_short(folder, records):
    if len(folder.records) == 5:
        folder.file.write('{"method": "nearest", "inst')
        folder.file.flush()
        os.kill(os.getpid(), 9)
    return add(folder, records)
run.BenchFolder.add = cut_short
command.bench(load_set(sys.argv[1]), parse_methods(sys.argv[2]), Options(), Path(sys.argv[3]))
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder of eight instances."""
    folder = tmp_path / "files"
    folder.mkdir()
    for seed in range(4):
        write_instance(folder / f"t{seed}.tsp", small.instance("tsp", 14 + seed, seed, f"t{seed}"))
        write_instance(folder / f"v{seed}.vrp", small.instance("cvrp", 14 + seed, seed, f"v{seed}"))
    return folder


def table(path: Path) -> list[dict[str, str]]:
    """results.csv without its times."""
    with open(path / "results.csv", newline="") as file:
        times = ("seconds", "latency", "throughput")
        return [{name: cell for name, cell in row.items() if name not in times} for row in csv.DictReader(file)]


def run(found: BenchSet, methods: str | list[Method], path: Path, options: Options | None = None) -> None:
    bench(found, parse_methods(methods) if isinstance(methods, str) else methods, options or Options(), path)


def test_what_a_run_leaves(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(load_set(str(files)), METHODS + ",savings", out)
    left = {file.name for file in out.iterdir()}
    assert {"config.json", "results.jsonl", "results.csv", "tables.txt", "tables.md", "report.html"} <= left
    assert {"gap-time.png", "gap-size.png", "scatter.png"} <= left
    rows = table(out)
    assert len(rows) == 8 + 8 + 4  # savings are for CVRP only
    assert [row["instance"] for row in rows[:8]] == ["t0", "t1", "t2", "t3", "v0", "v1", "v2", "v3"]
    assert [row["method"] for row in rows] == ["nearest"] * 8 + ["insertion"] * 8 + ["savings"] * 4
    assert all(float(row["cost"]) > 0 and row["error"] == "" for row in rows)
    config = json.loads((out / "config.json").read_text())
    assert config["methods"] == ["nearest", "insertion", "savings"]
    assert {"elgo", "python", "torch"} <= set(config["versions"])
    assert set(config["machine"]) == {"processor", "cores", "system"}


def test_records_say_how_they_were_made(weights: Callable[[str], Path], tmp_path: Path) -> None:
    found = load_set("uniform", selection=Selection("tsp", limit=4))
    run(found, f"w={weights('tsp')}:3x2,nearest", tmp_path / "out", Options(threads=2))
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").read_text().splitlines()))
    model = [row for row in rows if row["method"] == "w:3x2"]
    assert {(row["starts"], row["symmetries"], row["threads"]) for row in model} == {("3", "2", "2")}
    assert {(row["starts"], row["symmetries"]) for row in rows if row["method"] == "nearest"} == {("0", "0")}
    for row in model:  # four in one call
        assert float(row["latency"]) == pytest.approx(4 * float(row["seconds"]), abs=1e-5)
        assert float(row["throughput"]) == pytest.approx(1 / float(row["seconds"]), rel=0.01)
        assert row["metric"] == "EXACT_2D"
        assert row["hardware"].endswith(" cores")


def test_a_search_with_the_time_of_a_model(weights: Callable[[str], Path], tmp_path: Path) -> None:
    found = load_set("uniform", selection=Selection("tsp", limit=2))
    run(found, f"w={weights('tsp')}:9x8,fast_tsp@w:9x8,elgo@w:9x8", tmp_path / "out")
    records = {record.key: record for record in read_records(tmp_path / "out")}
    assert len(records) == 6
    limit = records["w:9x8", "TSP100-00000"].seconds
    assert records["fast_tsp@w:9x8", "TSP100-00000"].seconds >= 0.8 * limit


def test_reference_costs_that_come_later_count(files: Path, tmp_path: Path) -> None:
    found, out = load_set(str(files)), tmp_path / "out"
    run(found, "nearest", out)
    assert {record.gap for record in read_records(out)} == {None}
    entries = [Entry(x.group, replace(x.instance, best_known=100.0)) for x in found.entries]
    run(replace(found, entries=entries), "nearest", out)
    for record in read_records(out):
        assert record.gap == pytest.approx(record.cost - 100)


def test_kill_9_in_the_middle(files: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(files), METHODS, str(killed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(read_records(killed))) == 5
    assert not (killed / "results.jsonl").read_text().endswith("\n")
    found = load_set(str(files))
    run(found, METHODS, killed)
    run(found, METHODS, whole)
    assert table(killed) == table(whole)
    assert all(json.loads(line) for line in (killed / "results.jsonl").read_text().splitlines())


def test_a_batch_that_was_cut_short_is_completed(weights: Callable[[str], Path], tmp_path: Path) -> None:
    entries = load_set("uniform", selection=Selection("tsp", limit=6))
    methods = parse_methods(f"w={weights('tsp')}:2x2")
    run(entries, methods, tmp_path / "whole")
    run(entries, methods, tmp_path / "cut")
    file = tmp_path / "cut" / "results.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:2]) + lines[2][:20])
    run(entries, methods, tmp_path / "cut")
    assert table(tmp_path / "cut") == table(tmp_path / "whole")


def test_a_finished_run_is_not_run_again(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_set(str(files))
    run(found, METHODS, tmp_path / "out")
    before = (tmp_path / "out" / "results.jsonl").read_text()
    monkeypatch.setattr("elgo.bench.command.run_method", lambda *args: pytest.fail("nothing is left to do"))
    run(found, METHODS, tmp_path / "out")
    assert (tmp_path / "out" / "results.jsonl").read_text() == before


def test_another_benchmark_needs_another_folder(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(load_set(str(files)), "nearest", out)
    with pytest.raises(
        ValueError, match=r'config.json: methods is \["nearest"\], now it would be \["insertion"\]: .*new --folder'
    ):
        run(load_set(str(files)), "insertion", out)
    with pytest.raises(ValueError, match=r"config.json: options is .*name a new --folder"):
        run(load_set(str(files)), "nearest", out, Options(seed=1))
    write_instance(files / "t0.tsp", small.instance("tsp", 14, 9, "t0"))
    with pytest.raises(ValueError, match=r"config.json: data is "):
        run(load_set(str(files)), "nearest", out)
    with pytest.raises(ValueError, match="--folder is not empty and holds no benchmark"):
        run(load_set(str(files)), "nearest", files)


def test_two_processes_do_not_share_a_folder(files: Path, tmp_path: Path) -> None:
    found, methods = load_set(str(files)), parse_methods("nearest")
    first = BenchFolder(tmp_path / "out", describe(found, methods, Options()))
    with pytest.raises(ValueError, match="another process is running this benchmark"):
        BenchFolder(tmp_path / "out", describe(found, methods, Options()))
    first.close()
    BenchFolder(tmp_path / "out", describe(found, methods, Options())).close()


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not the folder of a benchmark \(it has no config.json\)"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text('{"set": "tsplib"}')
    with pytest.raises(ValueError, match=r"config.json: not the config of a benchmark"):
        read_config(tmp_path)


def test_all_methods_meet_an_instance_before_the_next_one(files: Path) -> None:
    found = make_batches(load_set(str(files)), parse_methods(METHODS))
    assert [(batch.method.name, batch.entries[0].instance.name) for batch in found[:4]] == [
        ("nearest", "t0"),
        ("insertion", "t0"),
        ("nearest", "t1"),
        ("insertion", "t1"),
    ]


def test_forecast() -> None:
    entries = tuple(Entry("g", small.instance("tsp", n, name=name)) for name, n in (("a", 10), ("b", 20), ("c", 20)))
    batches = make_batches(BenchSet("s", "s", entries), parse_methods("elg,pyvrp@3"))
    forecast = Forecast(batches, [])
    assert forecast.remaining() is None
    assert forecast.line() == "0/6"
    forecast.add([small.record("elg", "a", 100.0, seconds=1.0)])
    assert forecast.remaining() == pytest.approx(8 + 9)  # 20 nodes take four times as long as 10; three limits of 3 s
    forecast.add([small.record("pyvrp@3", "a", 100.0, seconds=4.0)])
    assert forecast.remaining() == pytest.approx(8 + 8)
    assert forecast.fraction() == pytest.approx(5 / 21)
    assert forecast.line() == "2/6, about 16 s left"


def test_workers_make_the_same_records(tmp_path: Path) -> None:
    small.tsplib(tmp_path / "set")
    given = load_set(str(tmp_path / "set")), parse_methods(METHODS), Options()
    bench(*given, tmp_path / "alone")
    with open_engine("local", 2) as engine:
        bench(*given, tmp_path / "together", engine=engine)
    alone, together = (
        {record.key: record.solution for record in read_records(tmp_path / name)} for name in ("alone", "together")
    )
    assert len(alone) == 6
    assert together == alone
