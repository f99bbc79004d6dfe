"""Cooling: a branch with the whole state of a run, which falls to a rate of 0, resumes, and leaves the run alone."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_loop import make_config, one_thread, rows, silent, weights  # noqa: F401
from tiny import fill_validation
from typer.testing import CliRunner

import elgo.cli.main
from elgo.model.checkpoint import load_policy, read_weights
from elgo.train.config import ValidationConfig
from elgo.train.cool import branch
from elgo.train.loop import train
from elgo.train.run import read_log


def files(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 6 steps with Muon, after a warm-up of 4."""
    config = make_config(tmp_path, "imitate", "tsp", 6, optimiser="muon", warmup=4, ema=0.9, lr=0.02)
    train(config, tmp_path / "run", fill_validation(tmp_path / "data", "tsp"), silent)
    return tmp_path / "run"


def test_a_branch_has_the_whole_state_and_the_rate_falls_to_zero(run: Path, tmp_path: Path) -> None:
    before, began = files(run), weights(run)
    config, cooled = branch(run, tmp_path / "cooled", steps=5), tmp_path / "cooled"
    assert all(torch.equal(value, began[name]) for name, value in weights(cooled).items())
    assert set(weights(cooled)) == set(began)
    train(config, cooled, tmp_path / "data", silent)
    logged = rows(cooled)
    assert [row["step"] for row in logged] == [7, 8, 9, 10, 11]
    assert [row["lr"] for row in logged] == pytest.approx([0.02, 0.016, 0.012, 0.008, 0.004])
    assert [row["done"] for row in logged] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert files(run) == before
    first, last = next(read_log(cooled)), list(read_log(run))[-1]
    assert first["seconds"] > last["seconds"]  # time goes on, too
    assert first["cpu_seconds"] > last["cpu_seconds"]


def test_the_first_step_of_a_branch_is_the_next_of_the_run(run: Path, tmp_path: Path) -> None:
    cooled = tmp_path / "cooled"
    train(branch(run, cooled, steps=1), cooled, tmp_path / "data", silent)  # the rate has not fallen yet
    config = make_config(tmp_path, "imitate", "tsp", 7, optimiser="muon", warmup=4, ema=0.9, lr=0.02)
    train(config, run, tmp_path / "data", silent)
    assert rows(cooled)[-1]["loss"] == rows(run)[-1]["loss"]
    found = weights(cooled)
    assert all(torch.equal(found[name], value) for name, value in weights(run).items())


def test_a_stopped_branch_goes_on(run: Path, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    train(branch(run, whole, steps=5), whole, tmp_path / "data", silent)

    def stop(row: dict) -> None:
        if row["step"] == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(branch(run, stopped, steps=5), stopped, tmp_path / "data", stop)
    config = make_config(tmp_path, "imitate", "tsp", 8, optimiser="muon", warmup=4, ema=0.9, lr=0.02)
    train(config, run, tmp_path / "data", silent)  # the run has gone on meanwhile
    train(branch(run, stopped, steps=5), stopped, tmp_path / "data", silent)
    assert rows(stopped) == rows(whole)
    found = weights(stopped)
    assert all(torch.equal(found[name], value) for name, value in weights(whole).items())
    with pytest.raises(ValueError, match=r"stopped/config\.json: the run was started with another config"):
        branch(run, stopped, steps=6)


def test_best_weights_of_a_branch_are_its_own(run: Path, tmp_path: Path) -> None:
    saved = torch.load(run / "checkpoint.pt", weights_only=True)
    saved["state"] |= {"best": -1.0, "row": {"step": 6}}
    torch.save(saved, run / "checkpoint.pt")
    cooled = tmp_path / "cooled"
    train(branch(run, cooled, steps=2), cooled, tmp_path / "data", silent)
    assert [row["step"] for row in rows(cooled)] == [7, 8]
    assert load_policy(cooled / "best.safetensors")


def test_labels_made_on_the_fly_come_along(run: Path, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "store", run / "labels")
    (run / "labels" / ".00000002.npz.0a1b2c3d.part").touch()  # the run goes on and writes its next shard
    branch(run, tmp_path / "cooled", steps=2)
    assert {path.name for path in (tmp_path / "cooled" / "labels").iterdir()} == {"00000000.npz"}


def test_the_command(run: Path, tmp_path: Path) -> None:
    def cool(*arguments: object):
        words = ["cool", run, "--data", tmp_path / "data", "--quiet", *arguments]
        return CliRunner().invoke(elgo.cli.main.app, [str(word) for word in words])

    done = cool("--steps", 3)
    assert done.exit_code == 0, done.stderr
    target = tmp_path / "run-cooled" / "last.safetensors"
    summary = "imitate, 9 steps, 0.00 hours, 0.00 core-hours; cooled from step 6, 0.00 core-hours"
    assert done.stdout == f"wrote {target}: {summary}\n"
    assert read_weights(target).training == summary
    assert cool("--minutes", 0.01, "--folder", tmp_path / "other").exit_code == 0
    assert list(read_log(tmp_path / "other"))[-1]["done"] == 1
    for arguments in ((), ("--steps", 3, "--minutes", 2)):
        done = cool(*arguments)
        assert (done.exit_code, done.stderr) == (2, "elgo: give either --minutes or --steps: how long the rate falls\n")


def test_what_cannot_be_cooled(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing: no config\.json and checkpoint\.pt to cool"):
        branch(tmp_path / "nothing", tmp_path / "cooled", steps=2)
    branch(run, tmp_path / "cooled", steps=2)
    with pytest.raises(ValueError, match=r"config\.json: train\.schedule is 'linear', there is nothing to cool"):
        branch(tmp_path / "cooled", tmp_path / "twice", steps=2)
    assert not (tmp_path / "twice").exists()
    config = make_config(tmp_path, "imitate", "tsp", 6, optimiser="muon", warmup=4, ema=0.9, lr=0.02)
    train(replace(config, validation=ValidationConfig()), tmp_path / "plain", tmp_path / "data", silent)
    with pytest.raises(ValueError, match="another config"):
        branch(run, tmp_path / "plain", steps=2)
