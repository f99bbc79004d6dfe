"""tools/convert_weights.py: weights there and back, and checkpoints that training resumes from."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tiny import NETWORK

from elgo.model.checkpoint import load_policy, read_weights, save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.train.config import Config, DataConfig, ReinforceConfig, TrainConfig
from elgo.train.loop import Trainer
from elgo.train.processes import Processes
from elgo.train.run import RunFolder

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "weights"
PROBLEMS = ["tsp", "cvrp"]


def convert(to: str, source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools" / "convert_weights.py", to, source, target]
    return subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True)


def header(file: Path) -> dict:
    with safe_open(file, framework="numpy") as opened:
        return json.loads(opened.metadata()["config"])


def assert_same_weights(one: Path, two: Path) -> None:
    with safe_open(one, framework="numpy") as a, safe_open(two, framework="numpy") as b:
        assert set(a.keys()) == set(b.keys())
        for name in a.keys():  # noqa: SIM118
            assert a.get_tensor(name).dtype == b.get_tensor(name).dtype
            np.testing.assert_array_equal(a.get_tensor(name), b.get_tensor(name))
        assert a.metadata()["training"] == b.metadata()["training"]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_weights_there_and_back(problem: str, tmp_path: Path) -> None:
    ours, theirs, again = (tmp_path / f"{name}.safetensors" for name in ("ours", "theirs", "again"))
    save_policy(ours, Policy(PolicyConfig(problem, **NETWORK)), "random")
    assert convert("theirs", ours, theirs).returncode == 0
    gone = {"distance_bias": False, "log_temperature": False, "decoder_block": False, "local": "light", "kin": False}
    assert header(theirs) | {"normalisation": "fit"} == header(ours) | gone
    assert convert("ours", theirs, again).returncode == 0
    assert header(again) | {"normalisation": "fit"} == header(ours)
    assert "normalisation" not in header(theirs)  # a file without the field means "fit"
    assert_same_weights(ours, theirs)
    assert_same_weights(ours, again)
    assert load_policy(again, problem).config == PolicyConfig(problem, **NETWORK)


def test_another_normalisation_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    save_policy(file, Policy(PolicyConfig("tsp", **NETWORK, normalisation="raw")), "random")
    done = convert("theirs", file, tmp_path / "y.safetensors")
    assert done.returncode == 2
    assert done.stderr == f"{file}: normalisation is 'raw': the old code knows 'fit' alone\n"


def test_a_network_that_is_gone_is_refused(tmp_path: Path) -> None:
    file, theirs = tmp_path / "x.safetensors", tmp_path / "y.safetensors"
    save_policy(file, Policy(PolicyConfig("tsp", **NETWORK)), "random")
    convert("theirs", file, theirs)
    theirs.write_bytes(theirs.read_bytes().replace(b'kin\\": false', b'kin\\": true '))
    done = convert("ours", theirs, tmp_path / "z.safetensors")
    assert done.returncode == 2
    assert done.stderr == f"{theirs}: kin is True: that network is gone, see docs/lp-guided-policy.md\n"
    assert not (tmp_path / "z.safetensors").exists()


def resumed(run: Path, policy: PolicyConfig) -> Trainer:
    train = TrainConfig(steps=10**6, ema=0.99, lr=1e-3, optimiser="muon")
    config = Config(policy, DataConfig("8", batch=2), ReinforceConfig(starts=4), train)
    return Trainer(config, RunFolder(run, config), Processes())


@pytest.mark.parametrize("problem", PROBLEMS)
def test_training_resumes_from_a_state(problem: str, tmp_path: Path) -> None:
    config = PolicyConfig(problem, **NETWORK)
    trained, average = Policy(config), Policy(config).state_dict()
    policy, adam = trained.state_dict(), torch.optim.AdamW(trained.parameters()).state_dict()
    state = {"policy": policy, "average": dict(average), "adam": adam, "muon": [], "step": 123, "used": 456.5}
    torch.save(state, tmp_path / "state.pt")
    assert convert("checkpoint", tmp_path / "state.pt", tmp_path / "run" / "checkpoint.pt").returncode == 0
    trainer = resumed(tmp_path / "run", config)
    assert (trainer.state.step, trainer.state.seconds, trainer.state.cpu_seconds) == (123, 456.5, 456.5)
    assert all(torch.equal(value, policy[name]) for name, value in trainer.policy.state_dict().items())
    assert all(torch.equal(value, average[name]) for name, value in trainer.averaged().state_dict().items())
    assert np.isfinite(trainer.step()["loss"])
    trainer.save()
    assert resumed(tmp_path / "run", config).state.step == 124


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs the weights in {SHARED.parent.name}/weights")
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_weights_and_states_in_use(problem: str, tmp_path: Path) -> None:
    for file in sorted(SHARED.glob(f"elg-{problem}*.safetensors")):
        ours, again = tmp_path / "ours.safetensors", tmp_path / "again.safetensors"
        assert convert("ours", file, ours).returncode == 0
        assert convert("theirs", ours, again).returncode == 0
        assert header(again) == header(file)
        assert_same_weights(file, again)
        assert read_weights(ours, problem).config == PolicyConfig(problem)
        load_policy(ours, problem)
    assert convert("checkpoint", SHARED / f"elg-{problem}-state.pt", tmp_path / "run" / "checkpoint.pt").returncode == 0
    trainer = resumed(tmp_path / "run", PolicyConfig(problem))
    assert trainer.state.step > 0
    assert all(bool(momentum.any()) for momentum in trainer.optimiser.momentum)
    assert np.isfinite(trainer.step()["loss"])
