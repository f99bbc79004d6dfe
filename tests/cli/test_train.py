"""What `elgo train` and `elgo plot-training` show and draw, and how they fail."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from tiny import OVERRIDES, fill_validation
from typer.testing import CliRunner

import elgo.cli.main
from elgo.cli.train import StatusLine
from elgo.train.plot import plot_training, read_stages, smoothed
from elgo.train.run import validation_gaps

ROOT = Path(__file__).parents[2]


def elgo_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elgo", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def invoke(*arguments: object):
    return CliRunner().invoke(elgo.cli.main.app, [str(x) for x in arguments])


def row(step: int, loss: float, seconds: float, **gaps: float) -> dict:
    return {
        "step": step,
        "seconds": seconds,
        "cpu_seconds": seconds,
        "loss": loss,
        "instances": 8,
        "lr": 1e-3,
        "done": step / 10,
        **gaps,
    }


def write_log(run: Path, rows: list[dict]) -> Path:
    run.mkdir()
    (run / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return run


# --- progress


def test_the_command_trains_and_says_so(tmp_path: Path) -> None:
    data = fill_validation(tmp_path / "data", "cvrp")
    sets = [*OVERRIDES, "data.batch=2", "data.sizes=8", "validation.sets=uniform-10-3", "validation.every=60"]
    sets += ["validation.best_on=uniform-10-3", "train.global_steps=0"]
    overrides = [x for text in sets for x in ("--set", text)]
    run = tmp_path / "run"
    done = elgo_command(
        "train", "paper-cvrp", "--folder", run, "--data", data, "--steps", 101, "--threads", 1, *overrides
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"wrote {run / 'best.safetensors'}\n"
    lines = done.stderr.splitlines()
    assert [" left" in line for line in lines[:2]] == [False, True]  # the first step may have compiled kernels
    assert [line.split()[:4] for line in lines] == [
        ["1.0", "%", "step", "1"],
        ["2.0", "%", "step", "2"],
        ["59.4", "%", "step", "60"],
        ["99.0", "%", "step", "100"],
        ["100.0", "%", "step", "101"],
    ]
    assert all("loss" in line for line in lines)
    assert all("instances/s" in line and "gap uniform-10-3" in line for line in lines[2:])
    picture = tmp_path / "curves.png"
    assert invoke("plot-training", run, "--out", picture).stdout == f"wrote {picture}\n"
    assert imread(picture).shape == (630, 1950, 4)


def test_quiet_is_quiet(tmp_path: Path) -> None:
    overrides = [
        x for text in [*OVERRIDES, "data.sizes=8", "data.batch=1", "validation.sets=[]"] for x in ("--set", text)
    ]
    done = invoke("train", "paper-tsp", "--folder", tmp_path / "run", "--steps", 1, "--quiet", *overrides)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"wrote {tmp_path / 'run' / 'last.safetensors'}\n"


def test_the_line_by_hand() -> None:
    status = StatusLine()
    status.add(row(1, 2.0, 10.0))
    assert status.line() == "step 1  loss 2.000"
    status.add(row(2, 1.0, 12.0))
    assert status.line() == "step 2  loss 1.980  4.0 instances/s"
    status.add(row(3, 1.98, 16.0, **{"a-100-2": 3.14159, "a-100-2/single": 9.0}))
    assert status.validated
    pace = (0.98 * 8 + 8) / (0.98 * 2 + 4)
    assert status.line() == f"step 3  loss 1.980  {pace:.1f} instances/s  gap a-100-2 3.14 %"
    status.add(row(4, 1.98, 17.0))
    assert not status.validated
    assert status.line().endswith("gap a-100-2 3.14 %")  # the last known


def test_gaps_in_a_row() -> None:
    assert validation_gaps(row(1, 2.0, 3.0)) == {}
    assert validation_gaps(row(1, 2.0, 3.0, **{"x-1-1": 4.0, "x-1-1/single": 5.0})) == {"x-1-1": 4.0}


# --- pictures


def test_smoothed_by_hand() -> None:
    assert smoothed([1.0, 2.0, 2.0]) == pytest.approx([1.0, 1.02, 1.0396])
    assert smoothed([]) == []


def some_rows(level: float, names: list[str]) -> list[dict]:
    rng = np.random.default_rng(0)
    rows = []
    for step in range(1, 201):
        rows.append(row(step, level * (0.4 + 2 * np.exp(-step / 40)) + 0.1 * rng.random(), 20.0 * step))
        if step % 20 == 0:
            for number, name in enumerate(names):
                rows[-1] |= {name: level * (number + 1) * (2 + 20 * np.exp(-step / 60)), f"{name}/single": 30.0}
    return rows


def test_runs_are_drawn_together(tmp_path: Path) -> None:
    one = write_log(tmp_path / "imitation", some_rows(1.0, ["mixed-100-64", "mixed-500-8"]))
    two = write_log(tmp_path / "reinforce", some_rows(1.5, ["mixed-100-64", "mixed-500-8"]))
    bare = write_log(tmp_path / "bare", some_rows(0.7, []))
    plot_training([one, two, bare], tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text()
    for label in ("imitation: mixed-500-8", "reinforce: mixed-100-64", "core-hours of training", "gap %"):
        assert f"<!-- {label} -->" in text
    many = write_log(tmp_path / "many", some_rows(1.0, [f"mixed-{n}-8" for n in (100, 200, 300, 400, 500)]))
    plot_training([many], tmp_path / "many.svg")
    assert "<!-- many: mixed-500-8 -->" in (tmp_path / "many.svg").read_text()  # more sets than styles


def test_runs_of_one_model_follow_each_other(tmp_path: Path) -> None:
    first = write_log(tmp_path / "a", [row(1, 2.0, 3600.0), row(2, 2.0, 7200.0, cpu_seconds=3600.0)])
    second = write_log(tmp_path / "b", [row(1, 2.0, 1800.0, cpu_seconds=1800.0)])
    stages = read_stages(Path(f"{first}+{second}"))
    assert [[x["core_hours"] for x in rows] for rows in stages] == [[1.0, 1.0], [1.5]]
    with pytest.raises(ValueError, match=r"none: log\.jsonl has no rows"):
        read_stages(Path(f"{first}+{tmp_path / 'none'}"))


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        done = invoke("plot-training", folder, "--out", tmp_path / "x.png")
        assert done.exit_code == 2
        assert done.stderr == f"elgo: {folder}: log.jsonl has no rows; is this the folder of a run?\n"
    assert not (tmp_path / "x.png").exists()


def test_a_format_that_is_none(tmp_path: Path) -> None:
    run = write_log(tmp_path / "run", [row(1, 2.0, 3.0)])
    done = invoke("plot-training", run, "--out", tmp_path / "x.txt")
    assert done.exit_code == 2
    assert done.stderr.startswith("elgo: Format 'txt' is not supported")
    assert done.stderr.count("\n") == 1


def test_a_solver_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_tsp", None)
    missing = ("--set", "validation.sets=uniform-9-2", "--set", "validation.best_on=")  # not among those of the package
    done = invoke("train", "elg-tsp", "--folder", tmp_path / "run", "--data", tmp_path / "data", *missing)
    assert done.exit_code == 2
    assert done.stderr == "elgo: labels need fast_tsp, which is not installed: pip install 'elgo[train]'\n"


def test_tensorboard_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    overrides = [x for text in [*OVERRIDES, "validation.sets=[]"] for x in ("--set", text)]
    done = invoke("train", "paper-tsp", "--folder", tmp_path / "run", *overrides)
    assert done.exit_code == 2
    assert done.stderr == "elgo: training needs tensorboard, which is not installed: pip install 'elgo[train]'\n"
