"""Runs: resumed after a kill, over several processes, over stages, and every config of the package."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import NETWORK, OVERRIDES, fill, fill_validation, simple_labels
from torch import Tensor
from typer.testing import CliRunner

import elgo.cli.main
from elgo.decode.decoder import DecodeConfig
from elgo.model.checkpoint import load_policy, save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.train import imitate, loop
from elgo.train.config import (
    Config,
    DataConfig,
    ImitationConfig,
    ReinforceConfig,
    TrainConfig,
    ValidationConfig,
    load_config,
    named_configs,
    to_json,
)
from elgo.train.loop import Trainer, train
from elgo.train.prefetch import Prefetch
from elgo.train.processes import Processes
from elgo.train.reinforce import DataKey, Reinforce
from elgo.train.run import RunFolder, RunLog, read_log, versions
from elgo.train.validate import ValidationGaps

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def silent(row: object) -> None:
    pass


def rows(run: Path) -> list[dict]:
    """The log without what depends on the clock."""
    clocks = ("seconds", "cpu_seconds")
    return [{name: value for name, value in row.items() if name not in clocks} for row in read_log(run)]


def weights(run: Path) -> dict[str, Tensor]:
    """Everything that training changed: parameters, their average, the optimiser's moments."""
    saved = torch.load(run / "checkpoint.pt", weights_only=True)
    out = {f"policy.{name}": value for name, value in saved["policy"].items()}
    out |= {f"average.{name}": value for name, value in saved["average"].items()}
    optimiser = saved["optimiser"]
    out |= {f"momentum.{number}": value for number, value in enumerate(optimiser.get("momentum", ()))}
    for number, state in optimiser.get("adamw", optimiser)["state"].items():
        out |= {f"optimiser.{number}.{name}": value for name, value in state.items()}
    return out


def toml(config: Config, path: Path) -> Path:
    """The config as a file for the command line."""
    values = json.loads(to_json(config))
    lines = [f'method = "{values.pop("method")}"']
    for section, fields in values.items():
        lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in fields.items())]
    path.write_text("\n".join(lines))
    return path


def make_config(tmp_path: Path, method: str, problem: str, steps: int, **train_fields: object) -> Config:
    """A run of tiny steps on stored labels or random instances, validated now and then."""
    store = tmp_path / "store"
    if method == "imitate" and not store.exists():
        fill(store, simple_labels(problem, [8, 9, 9, 10, 10, 10]))
    imitates = method == "imitate"
    network = {"width": 64, "hidden": 64} if train_fields.get("optimiser") == "muon" else {}  # matrices for Muon
    return Config(
        PolicyConfig(problem, **NETWORK | network),
        DataConfig("10", batch=3),
        ImitationConfig(sequences=4, labels=(str(store),)) if imitates else ReinforceConfig(starts=4),
        TrainConfig(steps=steps, **{"lr": 1e-3, "checkpoint_minutes": 0.0, **train_fields}),
        ValidationConfig(("uniform-10-3",), every=10, starts=3),
    )


# --- resuming


@pytest.mark.parametrize(
    ("method", "problem", "fields"),
    [
        ("imitate", "tsp", {"ema": 0.9, "global_steps": 10, "schedule": "linear", "warmup": 5, "clip_norm": 1.0}),
        ("imitate", "cvrp", {"ema": 0.9, "optimiser": "muon", "weight_decay": 0.1, "warmup": 5, "clip_norm": 1.0}),
        ("reinforce", "cvrp", {"optimiser": "adam", "global_steps": 10, "ema": 0.5}),
    ],
)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    method: str, problem: str, fields: dict, tmp_path: Path
) -> None:
    config = make_config(tmp_path, method, problem, 28, **fields, checkpoint_minutes=0.001)
    data = fill_validation(tmp_path / "data", problem)
    train(config, tmp_path / "whole", data, silent)

    run = tmp_path / "killed"
    file = toml(config, tmp_path / "tiny.toml")
    command = ["-m", "elgo", "train", file, "--folder", run, "--data", data, "--threads", 1, "--quiet"]
    while not killed([sys.executable, *map(str, command)], run, random.randint(1, 16)):
        shutil.rmtree(run)  # it was done before we were: once more
    killed_at = torch.load(run / "checkpoint.pt", weights_only=True)["state"]["step"]
    assert 0 < killed_at < 28

    assert train(config, run, data, silent) == run / "best.safetensors"
    assert rows(run) == rows(tmp_path / "whole"), f"killed at {killed_at}"
    assert [row["step"] for row in rows(run)] == list(range(1, 29))
    found, expected = weights(run), weights(tmp_path / "whole")
    assert set(found) == set(expected)
    assert all(torch.equal(found[name], value) for name, value in expected.items()), f"killed at {killed_at}"
    for name in ("best.safetensors", "last.safetensors"):
        one, two = (load_policy(folder / name).state_dict() for folder in (run, tmp_path / "whole"))
        assert all(torch.equal(one[key], two[key]) for key in two)
    assert len(list((run).glob(".*"))) == 0  # nothing half-written is left


def killed(command: list[str], run: Path, after: int) -> bool:
    """Start a session and kill it when it has a checkpoint and that many rows; whether it was still running."""
    session = subprocess.Popen(command, cwd=ROOT)
    while session.poll() is None and not ((run / "checkpoint.pt").exists() and len(list(read_log(run))) >= after):
        time.sleep(0.002)
    session.send_signal(signal.SIGKILL)
    assert session.wait() in (0, -signal.SIGKILL)
    return session.returncode != 0


class Killed(BaseException):
    """Stands for kill -9 at a chosen place."""


def test_every_place_of_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While stepping, before and after logging, before, within and after writing a checkpoint, while validating."""
    config = make_config(tmp_path, "imitate", "tsp", 4, ema=0.9)
    config = replace(config, validation=ValidationConfig(("uniform-10-3",), every=1, starts=2))
    data = fill_validation(tmp_path / "data", "tsp")
    train(config, tmp_path / "whole", data, silent)

    def killing(original: Callable, call: int, before: bool) -> Callable:
        calls = []

        def stand_in(*args, **kwargs):
            calls.append(1)
            if len(calls) == call and before:
                raise Killed
            result = original(*args, **kwargs)
            if len(calls) == call:
                raise Killed
            return result

        return stand_in

    places = [
        (Trainer, "step"),
        (Trainer, "validate"),
        (RunLog, "add"),
        (torch, "save"),
        (os, "replace"),
        (loop, "save_policy"),
    ]
    for place, name in places:
        for call, before in ((2, False), (3, True)):
            run = tmp_path / f"{name}-{call}-{before}"
            with monkeypatch.context() as patch:
                patch.setattr(place, name, killing(getattr(place, name), call, before))
                with pytest.raises(Killed):
                    train(config, run, data, silent)
            train(config, run, data, silent)
            assert rows(run) == rows(tmp_path / "whole"), run.name
            found, expected = weights(run), weights(tmp_path / "whole")
            assert all(torch.equal(found[key], value) for key, value in expected.items()), run.name


def test_a_kill_while_writing_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path, make_config(tmp_path, "reinforce", "tsp", 1))
    folder.save({"step": 1})

    def half(state: object, file) -> None:
        file.write(b"half of it")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", half)
        with pytest.raises(Killed):
            folder.save({"step": 2})
    assert folder.load() == {"step": 1}
    folder.save({"step": 3})
    assert folder.load() == {"step": 3}
    assert not list(tmp_path.glob("*.part"))


def test_a_log_line_cut_short_is_passed_over(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, make_config(tmp_path, "reinforce", "tsp", 1))
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n' + "[" * 10**5 + '\n{"st')
    assert [row["step"] for row in read_log(tmp_path)] == [1, 2, 3]
    folder.cut_log(2)
    assert (tmp_path / "log.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n'


def test_a_finished_run_can_be_prolonged_but_not_changed(tmp_path: Path) -> None:
    data = fill_validation(tmp_path / "data", "tsp")
    run = tmp_path / "run"
    train(make_config(tmp_path, "reinforce", "tsp", 2), run, data, silent)
    before = weights(run)
    train(make_config(tmp_path, "reinforce", "tsp", 2), run, data, silent)
    assert all(torch.equal(before[name], value) for name, value in weights(run).items())
    train(make_config(tmp_path, "reinforce", "tsp", 3), run, data, silent)
    assert [row["step"] for row in rows(run)] == [1, 2, 3]
    with pytest.raises(ValueError, match=r"config\.json: the run was started with another config"):
        train(make_config(tmp_path, "reinforce", "tsp", 3, lr=0.5), run, data, silent)


def test_a_run_folder_tells_what_made_it(tmp_path: Path) -> None:
    data, run = fill_validation(tmp_path / "data", "tsp"), tmp_path / "run"
    train(make_config(tmp_path, "reinforce", "tsp", 1), run, data, silent)
    assert set(json.loads((run / "versions.json").read_text())) == set(versions())
    assert json.loads((run / "config.json").read_text())["train"]["seed"] == 0
    assert list((run / "tensorboard").iterdir())
    summary = "reinforce, 1 steps, 0.00 hours, 0.00 core-hours"
    done = CliRunner().invoke(elgo.cli.main.app, ["info", str(run / "last.safetensors")])
    assert summary in done.stdout


# --- several processes


@pytest.mark.parametrize(
    ("method", "problem", "fields"),
    [
        ("imitate", "cvrp", {"global_steps": 2, "weight_decay": 0.1}),
        ("reinforce", "tsp", {"optimiser": "adam"}),
    ],
)
def test_two_processes_make_the_steps_of_one(method: str, problem: str, fields: dict, tmp_path: Path) -> None:
    config = make_config(tmp_path, method, problem, 4, **fields, lr=1e-4)
    data = fill_validation(tmp_path / "data", problem)
    train(config, tmp_path / "one", data, silent)
    file = toml(config, tmp_path / "tiny.toml")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, "-m", "elgo", "train", file, "--folder", tmp_path / "two", "--data", data, "--quiet"]
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one, two = (torch.load(tmp_path / name / "checkpoint.pt", weights_only=True) for name in ("one", "two"))
    moments = one["optimiser"]["state"]
    assert set(moments) == set(two["optimiser"]["state"])
    largest = max(float(state["exp_avg"].abs().max()) for state in moments.values())
    for number, (name, value) in enumerate(one["policy"].items()):
        mean, square = moments[number]["exp_avg"], moments[number]["exp_avg_sq"]
        torch.testing.assert_close(two["optimiser"]["state"][number]["exp_avg"], mean, rtol=0, atol=1e-4 * largest)
        # Adam makes a step of the rate's size from any gradient: one that is only rounding goes either way.
        real = square.sqrt() > 1e-4 * largest
        assert not bool(((two["policy"][name] - value).abs()[real] > 2e-5).any()), name
    for a, b in zip(rows(tmp_path / "one"), rows(tmp_path / "two"), strict=True):
        assert a == pytest.approx(b, abs=1e-5, rel=1e-5)


class Half(Processes):
    """One of two processes; what they say to each other is done by the test."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank, self.count = rank, 2

    def sum(self, values: Tensor) -> Tensor:
        return values + self.other


def test_only_what_no_process_used_stays_without_gradient() -> None:
    policy = Policy(PolicyConfig("tsp", **NETWORK, local_policy=False))
    parameters = list(policy.parameters())
    used = [not name.startswith("local") for name, _ in policy.named_parameters()]
    for parameter, uses in zip(parameters, used, strict=True):
        parameter.grad = torch.full_like(parameter, 2.0) if uses else None
    size = len(parameters) + sum(p.numel() for p in parameters) + 1
    half = Half(0)
    half.other = torch.zeros(size)  # a process without instances
    loss = torch.tensor(3.0)
    half.sum_gradients(policy, loss)
    assert loss == 3
    for parameter, uses in zip(parameters, used, strict=True):
        assert (parameter.grad is not None) == uses
        assert not uses or bool((parameter.grad == 2).all())
    policy.zero_grad(set_to_none=True)  # and the other way round
    half.other = torch.cat([torch.tensor(used).float(), torch.full((size - len(used),), 5.0)])
    half.sum_gradients(policy, loss)
    for parameter, uses in zip(parameters, used, strict=True):
        assert (parameter.grad is not None) == uses
        assert not uses or bool((parameter.grad == 5).all())


# --- steps


def trainer_for(tmp_path: Path, config: Config) -> Trainer:
    return Trainer(config, RunFolder(tmp_path / "run", config), Processes())


def test_the_local_policy_rests_until_the_second_stage(tmp_path: Path) -> None:
    config = make_config(tmp_path, "reinforce", "tsp", 4, global_steps=2, weight_decay=0.1, optimiser="adam")
    trainer = trainer_for(tmp_path, config)
    first = {name: value.clone() for name, value in trainer.policy.state_dict().items()}
    moved = []
    for _ in range(4):
        trainer.step()
        now = trainer.policy.state_dict()
        moved.append({name.split(".")[0] for name, value in now.items() if not torch.equal(value, first[name])})
        first = {name: value.clone() for name, value in now.items()}
    assert moved == [{"global_"}, {"global_"}, {"global_", "local"}, {"global_", "local"}]
    assert trainer.policy.config.local_policy
    state = trainer.optimiser.state_dict()["state"]
    assert {int(value["step"]) for value in state.values()} == {2}  # a fresh optimiser for the second stage


def test_averaged_weights_by_hand(tmp_path: Path) -> None:
    trainer = trainer_for(tmp_path, make_config(tmp_path, "imitate", "tsp", 3, ema=0.15))
    name = "global_.embed.weight"
    expected = trainer.policy.state_dict()[name].clone()
    for decay in (0.1, 0.15, 0.15):  # min(ema, (step + 1) / (step + 10))
        trainer.step()
        expected = decay * expected + (1 - decay) * trainer.policy.state_dict()[name]
    torch.testing.assert_close(trainer.averaged().state_dict()[name], expected)
    assert not torch.equal(trainer.averaged().state_dict()[name], trainer.policy.state_dict()[name])


def test_states_take_a_share_of_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(tmp_path, "imitate", "tsp", 3)
    config = replace(config, method=replace(config.method, states=4))
    seen = []
    original = imitate.imitation_loss
    monkeypatch.setattr(imitate, "imitation_loss", lambda *args: seen.append(args[2]) or original(*args))
    trainer = trainer_for(tmp_path, config)
    for _ in range(3):
        assert np.isfinite(trainer.step()["loss"])
    assert [len(steps) for steps in seen] == [4, 4, 4]
    assert len({tuple(steps.tolist()) for steps in seen}) > 1
    assert all(min(steps) >= 1 and max(steps) <= 9 for steps in seen)


def test_a_loss_that_is_no_number_stops_the_run_before_the_weights_are_spoiled(tmp_path: Path) -> None:
    trainer = trainer_for(tmp_path, make_config(tmp_path, "imitate", "tsp", 3))
    with torch.no_grad():
        trainer.policy.global_.embed.weight[0, 0] = torch.nan
    before = trainer.policy.global_.key.weight.clone()
    with pytest.raises(ValueError, match=r"the loss is nan at step 0; try a lower train\.lr"):
        trainer.step()
    assert torch.equal(trainer.policy.global_.key.weight, before)


def test_training_starts_from_given_weights(tmp_path: Path) -> None:
    policy = Policy(PolicyConfig("tsp", **NETWORK, local_policy=False))
    file = tmp_path / "init.safetensors"
    save_policy(file, policy, "random", np.float32)
    config = make_config(tmp_path, "reinforce", "tsp", 3, init=str(file))
    trainer = trainer_for(tmp_path, config)
    assert trainer.policy.config.local_policy  # a stage may switch it on
    assert all(torch.equal(value, policy.state_dict()[name]) for name, value in trainer.policy.state_dict().items())
    trainer.step()
    trainer.save()
    file.unlink()  # going on does not need it
    assert Trainer(config, RunFolder(tmp_path / "run", config), Processes()).state.step == 1


def test_given_weights_must_fit_the_config(tmp_path: Path) -> None:
    file = tmp_path / "init.safetensors"
    save_policy(file, Policy(PolicyConfig("tsp", **{**NETWORK, "hidden": 32})), "random")
    with pytest.raises(ValueError, match=r"init\.safetensors: policy\.hidden is 32, in the config it is 16"):
        trainer_for(tmp_path, make_config(tmp_path, "reinforce", "tsp", 3, init=str(file)))
    with pytest.raises(ValueError, match="problem is 'tsp'"):
        trainer_for(tmp_path / "other", make_config(tmp_path, "reinforce", "cvrp", 3, init=str(file)))


def test_the_adaptive_scheduler_draws_by_the_last_gaps(tmp_path: Path) -> None:
    config = make_config(tmp_path, "reinforce", "tsp", 3)
    data = DataConfig(sizes="10", batch=2, distribution="adaptive")
    sets = ValidationConfig(("uniform-10-2", "cluster-10-2", "mixture-10-2", "uniform-20-2"))
    trainer = trainer_for(tmp_path, replace(config, data=data, validation=sets))
    assert isinstance(trainer.method, Reinforce)
    rng = np.random.default_rng(0)
    even = [trainer.method.distribution(DataKey(0, ()), rng) for _ in range(600)]
    assert all(160 < even.count(name) < 240 for name in ("uniform", "cluster", "mixture"))
    # in percent: cluster is 8 times as likely as the others, and the second uniform set is only watched
    gaps = (0.0, 100 * np.log(8.0), 0.0, 900.0)
    drawn = [trainer.method.distribution(DataKey(0, gaps), rng) for _ in range(600)]
    assert 440 < drawn.count("cluster") < 520


def test_distributions_in_turn(tmp_path: Path) -> None:
    config = make_config(tmp_path, "reinforce", "cvrp", 3)
    trainer = trainer_for(tmp_path, replace(config, data=replace(config.data, distribution="set_x,uniform")))
    assert isinstance(trainer.method, Reinforce)
    rng = np.random.default_rng(0)
    found = [trainer.method.distribution(DataKey(step, ()), rng) for step in range(4)]
    assert found == ["set_x", "uniform", "set_x", "uniform"]


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_a_run_by_torch_with_instances_made_in_advance_is_resumed_exactly(problem: str, tmp_path: Path) -> None:
    """What a GPU does, on a CPU."""
    config = make_config(tmp_path, "reinforce", problem, 4)

    def weights(folder: str, sessions: list[int]) -> dict[str, Tensor]:
        for steps in sessions:
            trainer = Trainer(config, RunFolder(tmp_path / folder, config), Processes("cpu"))
            assert isinstance(trainer.method, Reinforce)
            trainer.method.decoding = DecodeConfig(path="torch", threads=1)
            trainer.method.data = Prefetch(trainer.method.instances, ahead=True)
            for _ in range(steps):
                trainer.step()
            trainer.save()
            trainer.method.close()
        return trainer.policy.state_dict()

    once, resumed = weights("once", [4]), weights("resumed", [1, 3])
    assert all(torch.equal(value, resumed[name]) for name, value in once.items())


# --- validation


def scripted(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> None:
    """Validations find these gaps, one after the other."""
    found = iter(values)
    monkeypatch.setattr(loop, "instance_gaps", lambda policy, labels, *rest: [ValidationGaps(next(found), 50.0)])


def test_the_best_weights_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, run = fill_validation(tmp_path / "data", "tsp", count=1), tmp_path / "run"
    config = make_config(tmp_path, "imitate", "tsp", 4, checkpoint_minutes=60)
    sets = ValidationConfig(("uniform-10-1",), every=1)
    config = replace(config, validation=sets)
    scripted(monkeypatch, [5.0, 3.0, 4.0, 3.0])
    kept = []
    original = Trainer.save_weights

    def record(trainer: Trainer, name: str) -> None:
        original(trainer, name)
        kept.append((trainer.state.step, name))

    monkeypatch.setattr(Trainer, "save_weights", record)
    assert train(config, run, data, silent) == run / "best.safetensors"
    assert [(step, name) for step, name in kept if name == "best"] == [(1, "best"), (2, "best")]
    assert [row["uniform-10-1"] for row in rows(run)] == [5.0, 3.0, 4.0, 3.0]
    state = torch.load(run / "checkpoint.pt", weights_only=True)["state"]  # the end is kept, though not yet due
    assert (state["step"], state["best"]) == (4, 3.0)
    train(config, run, data, silent)  # nothing more to do
    assert len(rows(run)) == 4


def test_the_named_set_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets, labels = ("uniform-10-1", "cluster-10-1"), simple_labels("tsp", [10])
    for best_on, best in (("", 1.0), (sets[0], 1.0), (sets[1], 8.0)):
        config = make_config(tmp_path, "reinforce", "tsp", 2)
        config = replace(config, validation=ValidationConfig(sets, best_on))
        trainer = Trainer(config, RunFolder(tmp_path / f"run-{best_on}", config), Processes())
        scripted(monkeypatch, [1.0, 9.0, 2.0, 8.0])
        row = trainer.validate(dict.fromkeys(sets, labels))
        assert list(row.items()) == [(sets[0], 1.0), (sets[1], 9.0), *((f"{name}/single", 50.0) for name in sets)]
        trainer.validate(dict.fromkeys(sets, labels))
        assert (trainer.state.best, trainer.state.gaps) == (best, (2.0, 8.0))


def test_best_is_of_the_second_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, run = fill_validation(tmp_path / "data", "tsp", count=1), tmp_path / "run"
    config = make_config(tmp_path, "reinforce", "tsp", 4, global_steps=2)
    config = replace(config, validation=ValidationConfig(("uniform-10-1",), every=1))
    scripted(monkeypatch, [2.0, 1.0, 7.0, 6.0])
    seen = []

    def look(row: dict) -> None:
        seen.append(load_policy(run / "best.safetensors").config.local_policy)

    train(config, run, data, look)
    assert seen == [False, False, True, True]
    assert torch.load(run / "checkpoint.pt", weights_only=True)["state"]["best"] == 6.0
    # without a validation since the switch there is no best one, rather than one without the local policy
    trainer = trainer_for(tmp_path / "other", config)
    trainer.step()
    trainer.save_weights("best")
    trainer.step()
    trainer.step()
    assert not (tmp_path / "other" / "run" / "best.safetensors").exists()


def test_core_seconds_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100, 5))
    monkeypatch.setattr(loop.time, "process_time", lambda: float(next(clock)))
    trainer = trainer_for(tmp_path, make_config(tmp_path, "reinforce", "tsp", 2))
    assert [trainer.timed_step()["cpu_seconds"] for _ in range(2)] == [5.0, 10.0]
    trainer.save()
    assert trainer_for(tmp_path, trainer.config).state.cpu_seconds == 10.0


def test_a_run_without_an_end(tmp_path: Path) -> None:
    config = make_config(tmp_path, "reinforce", "tsp", 0)
    seen: list[float] = []

    def stop(row: dict) -> None:
        seen.append(row["done"])
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", fill_validation(tmp_path / "data", "tsp"), stop)
    assert seen == [0.0, 0.0, 0.0]


def test_new_labels_are_taken_in_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imitate, "READ_ON_STEPS", 4)
    config = make_config(tmp_path, "imitate", "tsp", 9)
    trainer, used = trainer_for(tmp_path, config), []
    for step in range(7):
        trainer.step()
        used.append(trainer.state.labels)
        if step == 1:
            fill(tmp_path / "store", simple_labels("tsp", [9, 10]))
            trainer.save()
    assert used == [(6,)] * 4 + [(8,)] * 3
    again = trainer_for(tmp_path, config)
    again.step()
    assert again.state.labels == (6,)  # as if it had not been stopped
    for _ in range(4):
        again.step()
    assert all(torch.equal(a, b) for a, b in zip(trainer.policy.parameters(), again.policy.parameters(), strict=True))


def test_processes_share_the_validation(tmp_path: Path) -> None:
    config = make_config(tmp_path, "reinforce", "tsp", 2)
    trainer, labels = trainer_for(tmp_path, config), simple_labels("tsp", [10, 10, 10])
    whole = trainer._mean_gaps(trainer.policy, labels)
    halves = [Half(rank) for rank in (0, 1)]
    for half in halves:
        half.other = torch.zeros(2, dtype=torch.float64)
    parts = []
    for half in halves:
        trainer.processes = half
        parts.append(trainer._mean_gaps(trainer.policy, labels))
    assert sum(part.best for part in parts) == pytest.approx(whole.best)
    assert sum(part.single for part in parts) == pytest.approx(whole.single)


def test_time_decides_without_steps(tmp_path: Path) -> None:
    config = make_config(tmp_path, "reinforce", "tsp", 0, minutes=0.004)
    run = tmp_path / "run"
    train(config, run, fill_validation(tmp_path / "data", "tsp"), silent)
    logged = list(read_log(run))
    assert logged[-1]["done"] == 1
    assert logged[-1]["seconds"] >= 0.24
    assert all(row["done"] < 1 for row in logged[:-1])
    assert "uniform-10-3" in logged[-1]


# --- labels made on the fly


# --- the configs of the package


@pytest.mark.parametrize("name", named_configs())
def test_every_config_trains(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    problem, imitates = config.policy.problem, config.method_name == "imitate"
    sets = [*OVERRIDES, "data.sizes=10", "data.batch=2"]
    sets += ['validation.sets=["uniform-10-2", "cluster-10-2"]', "validation.every=2", "validation.starts=2"]
    sets += ["validation.best_on=cluster-10-2"]
    sets += [f"train.global_steps={1 if config.train.global_steps else 0}"]
    if config.train.init:
        save_policy(tmp_path / "init.safetensors", Policy(PolicyConfig(problem, **NETWORK)), "random")
        sets.append(f"train.init={tmp_path / 'init.safetensors'}")
    if imitates:
        sets.append(f"imitate.labels={fill(tmp_path / 'store', simple_labels(problem, [10, 11, 12]))}")
    data = fill_validation(tmp_path / "data", problem, ["uniform", "cluster"], count=2)
    run = tmp_path / "run"
    arguments = ["train", name, "--folder", run, "--data", data, "--steps", 3, "--threads", 1, "--quiet"]
    for override in sets:
        arguments += ["--set", override]
    done = CliRunner().invoke(elgo.cli.main.app, [str(x) for x in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"wrote {run / 'best.safetensors'}\n"
    assert len(rows(run)) == 3
    assert all(np.isfinite(row["loss"]) for row in rows(run))
    assert [bool("cluster-10-2" in row) for row in rows(run)] == [False, True, True]
    trained = load_policy(run / "last.safetensors").config
    changed = {**NETWORK, "local_policy": config.policy.local_policy}
    assert vars(trained) == {**vars(config.policy), **changed}


# --- two at once, damaged files, Ctrl-C


def test_one_process_trains_in_a_folder(tmp_path: Path) -> None:
    config = make_config(tmp_path, "reinforce", "tsp", 1)
    data = fill_validation(tmp_path / "data", "tsp")
    run = tmp_path / "run"
    with (
        RunFolder(run, config).lock(),
        pytest.raises(ValueError, match="run: another process is training in this folder"),
    ):
        train(config, run, data, silent)
    train(config, run, data, silent)


def test_damaged_checkpoints_are_one_line(tmp_path: Path) -> None:
    config = make_config(tmp_path, "reinforce", "tsp", 1)
    data = fill_validation(tmp_path / "data", "tsp")
    run = tmp_path / "run"
    train(config, run, data, silent)
    good = (run / "checkpoint.pt").read_bytes()
    saved = torch.load(run / "checkpoint.pt", weights_only=True)
    contents: list[object] = [good[: len(good) // 2], b"", b"nonsense", [1, 2], {}, {**saved, "policy": {}}]
    contents += [{**saved, "state": {"nonsense": 1}}, {**saved, "optimiser": None}, {**saved, "average": 3}, print]
    for content in contents:
        if isinstance(content, bytes):
            (run / "checkpoint.pt").write_bytes(content)
        else:
            torch.save(content, run / "checkpoint.pt")
        with pytest.raises(ValueError, match=r"^\S*checkpoint\.pt: [^\n]*$") as raised:
            train(config, run, data, silent)
        assert "weights_only" not in str(raised.value)
    (run / "checkpoint.pt").write_bytes(good)
    (run / "log.jsonl").write_bytes(b'[1]\n{"step": "x"}\n\xff\n')
    train(config, run, data, silent)
    for text in ("", "[]", "[" * 10**5, '{"train": 1}'):
        (run / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"^\S*config\.json: "):
            train(config, run, data, silent)


@pytest.mark.parametrize("place", ["backward", "optimiser", "log"])
def test_ctrl_c_saves_the_run(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is saved fits together wherever Ctrl-C comes: the run goes on as if nothing had happened."""
    config = make_config(tmp_path, "imitate", "tsp", 4, ema=0.9)
    data = fill_validation(tmp_path / "data", "tsp")
    train(config, tmp_path / "whole", data, silent)
    owner, name = {
        "backward": (imitate.Imitation, "backward"),
        "optimiser": (Trainer, "_update_average"),
        "log": (RunLog, "add"),
    }[place]
    original, calls = getattr(owner, name), []

    def interrupted(*args: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*args)

    run, lines = tmp_path / "run", list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(config, run, data, silent, lines.append)
    step = 2 if place == "backward" else 3
    assert lines == [f"saved after step {step}; the same command continues the run"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train(config, run, data, silent)
    assert rows(run) == rows(tmp_path / "whole")
    found, expected = weights(run), weights(tmp_path / "whole")
    assert all(torch.equal(found[key], value) for key, value in expected.items())


def test_packages_are_looked_for_before_anything_is_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(tmp_path, "reinforce", "cvrp", 1)
    config = replace(config, validation=ValidationConfig(("uniform-10-2", "uniform-400-2"), every=1, starts=2))
    monkeypatch.setitem(sys.modules, "pyvrp", None)
    with pytest.raises(ImportError, match="labels need pyvrp"):
        train(config, tmp_path / "run", tmp_path / "data", silent)
    assert not (tmp_path / "data").exists()
