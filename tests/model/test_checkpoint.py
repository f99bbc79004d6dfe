"""Weights files: round trips, one broken file per error."""

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from samples import after, random_policy, random_task, small_config

from elgo.model.checkpoint import (
    as_policy,
    load_model,
    load_policy,
    load_weights,
    model_file,
    model_names,
    save_policy,
)
from elgo.model.config import PolicyConfig
from elgo.model.shapes import tensor_shapes
from elgo.problem.task import PROBLEMS

Tensors = dict[str, torch.Tensor]


@pytest.mark.parametrize(
    "config",
    [
        small_config("tsp"),
        small_config("cvrp"),
        small_config("cvrp", xi=1.5, penalty=False, positional=False, coordinates="euclidean"),
        small_config("tsp", global_policy=False, local_layers=2, neighbours=7),
        PolicyConfig("cvrp", local_policy=False),
    ],
    ids=["tsp", "cvrp", "ablations", "local", "paper"],
)
def test_round_trip(config: PolicyConfig, tmp_path: Path) -> None:
    policy = random_policy(config)
    save_policy(tmp_path / "exact.safetensors", policy, "by hand", np.float32)
    exact = load_policy(tmp_path / "exact.safetensors", config.problem)
    assert exact.config == config
    assert not exact.training
    assert exact.state_dict().keys() == policy.state_dict().keys()
    assert all(torch.equal(value, exact.state_dict()[name]) for name, value in policy.state_dict().items())
    save_policy(tmp_path / "half.safetensors", policy, "by hand")
    half = load_policy(tmp_path / "half.safetensors")
    for name, value in policy.state_dict().items():
        assert half.state_dict()[name].dtype == torch.float32
        torch.testing.assert_close(half.state_dict()[name], value, rtol=1e-3, atol=1e-6)
    sizes = [os.path.getsize(tmp_path / f"{kind}.safetensors") for kind in ("half", "exact")]
    assert sizes[0] < 0.7 * sizes[1]


def test_a_loaded_policy_gives_the_same_logits(tmp_path: Path) -> None:
    policy = random_policy(small_config("cvrp"))
    task = random_task(np.random.default_rng(0), "cvrp", 9)
    save_policy(tmp_path / "w.safetensors", policy, "by hand", np.float32)
    loaded = load_policy(tmp_path / "w.safetensors")
    walk = [3, 1]
    assert torch.equal(loaded.logits(*after(loaded, task, walk)), policy.logits(*after(policy, task, walk)))


def test_saving_replaces_a_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    for seed in (0, 1):
        save_policy(tmp_path / "w.safetensors", random_policy(small_config("tsp"), seed), "by hand", np.float32)
    assert [file.name for file in tmp_path.iterdir()] == ["w.safetensors"]
    expected = random_policy(small_config("tsp"), 1).state_dict()
    assert all(torch.equal(expected[name], value) for name, value in load_file(tmp_path / "w.safetensors").items())


def test_a_model_is_found_by_name_or_file(tmp_path: Path) -> None:
    assert "elg" in model_names()
    for problem in PROBLEMS:
        assert model_file("elg", problem).name == f"elg-{problem}.safetensors"
        assert model_file("mine.safetensors", problem) == Path("mine.safetensors")
        assert load_model("elg", problem) is load_model("elg", problem)
        assert load_model("elg", problem).config == PolicyConfig(problem)
        assert load_model(f"elg-{problem}").config == PolicyConfig(problem)
        assert model_file(f"elg-{problem}", problem) == model_file("elg", problem)
    with pytest.raises(ValueError, match=r"model is 'elk'; there are elg, or name a FILE\.safetensors"):
        model_file("elk", "tsp")
    with pytest.raises(ValueError, match=r"model is 'elg'; there are elg-cvrp, elg-tsp, or name a FILE\.safetensors"):
        load_model("elg")


def test_what_is_a_policy_already_is_returned_itself() -> None:
    policy = random_policy(small_config("tsp"))
    assert as_policy(policy, "tsp") is policy
    assert as_policy("elg", "tsp") is load_weights("elg", "tsp")
    assert as_policy(load_weights("elg", "tsp"), "tsp") is load_weights("elg", "tsp")
    with pytest.raises(ValueError, match="the policy's problem is 'tsp', but the instance needs 'cvrp'"):
        as_policy(policy, "cvrp")
    with pytest.raises(ValueError, match=r"elg-tsp.safetensors: problem is 'tsp', but the instance needs 'cvrp'"):
        as_policy("elg-tsp", "cvrp")


def changed(name: str, value: torch.Tensor | None) -> Callable[[Tensors, dict], None]:
    def edit(tensors: Tensors, config: dict) -> None:
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value

    return edit


def configured(**changes: object) -> Callable[[Tensors, dict], None]:
    return lambda tensors, config: config.update(changes)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (changed("local.context", None), "tensor 'local.context' is missing"),
        (changed("local.extra", torch.zeros(2)), "tensor 'local.extra' is unknown"),
        (changed("local.context", torch.zeros(3)), "tensor 'local.context' is (3,), must be (16,)"),
        (changed("local.context", torch.full((16,), math.nan)), "tensor 'local.context' has a number that is not"),
        (changed("local.context", torch.full((16,), math.inf)), "tensor 'local.context' has a number that is not"),
        (configured(colour="red"), "unknown field config.colour; there are problem, neighbours,"),
        (configured(problem="vrptw"), "problem is 'vrptw', must be one of tsp, cvrp"),
        (configured(problem="cvrp"), "problem is 'cvrp', but the instance needs 'tsp'"),
        (configured(layers=0), "layers is 0, must be at least 1"),
        (configured(layers=3), "tensor 'global_.layers.2."),
        (configured(width=64), "tensor '"),
        (configured(width="wide"), "width is 'wide', must be int"),
        (configured(width=32.0), "width is 32.0, must be int"),
        (configured(neighbours=None), "neighbours is None, must be int"),
        (configured(penalty=1), "penalty is 1, must be bool"),
        (configured(neighbours=10**6), "neighbours is 1000000, must be at most 1000"),
        (configured(local_layers=10**6), "local_layers is 1000000, must be at most 100"),
        (configured(local_layers=100), "tensor 'local.layers.0."),
        (configured(layers=10**9), "layers is 1000000000, must be at most 100"),
        (configured(width=4096), "tensor '"),
        (configured(hidden=2**40), "hidden is 1099511627776, must be at most 32768"),
        (configured(local_width=10**30), "local_width is 1"),
        (configured(clip=1e308), "clip is 1e+308"),
        (configured(clip=10**400), "int too large"),
        (configured(problem="x" * 1000), "problem is 'xxx"),
        (changed("local.context", torch.zeros(16, dtype=torch.bfloat16)), "'local.context' is BF16, must be F16 or"),
        (changed("local.context", torch.zeros(16, dtype=torch.int32)), "tensor 'local.context' is I32, must be F16"),
        (changed("local.context", torch.full((16,), 1e300, dtype=torch.float64)), "'local.context' has a number"),
        (lambda tensors, config: config.pop("problem"), "problem"),
    ],
)
def test_a_broken_file_gives_one_line(edit: Callable, message: str, tmp_path: Path) -> None:
    policy = random_policy(small_config("tsp"))
    tensors, config = dict(policy.state_dict()), asdict(policy.config)
    edit(tensors, config)
    save_file(tensors, tmp_path / "w.safetensors", {"config": json.dumps(config), "training": "none"})
    refuses(tmp_path / "w.safetensors", message)


@contextmanager
def nothing_built() -> Iterator[None]:
    """Let no network be built: a config is checked against the tensors first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elgo.model.ensemble.LocalPolicy", None)
        patch.setattr("elgo.model.ensemble.GlobalPolicy", None)
        yield


def refuses(file: Path, message: str) -> None:
    """Loading raises one line that begins with the file and contains the message."""
    with pytest.raises(ValueError, match=r".") as caught, nothing_built():
        load_policy(file, "tsp")
    line = str(caught.value)
    if file.suffix:
        with pytest.raises(ValueError, match=r".") as without_torch:
            load_weights(file, "tsp")
        assert str(without_torch.value) == line
    assert len(line) < len(str(file)) + 400
    assert line.startswith(f"{file}: ")
    assert message in line
    assert "\n" not in line


@pytest.mark.parametrize("metadata", [None, {"training": "none"}])
def test_missing_config(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors", metadata)
    refuses(tmp_path / "w.safetensors", "config is missing")


@pytest.mark.parametrize("config", ["", "{", "[]", "3", "null", "[" * 10**5])
def test_config_that_is_no_object(config: str, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors", {"config": config})
    refuses(tmp_path / "w.safetensors", "config" if config in ("[]", "3", "null") else "")


def test_files_that_are_no_weights(tmp_path: Path) -> None:
    refuses(tmp_path / "none.safetensors", "no such weights file")
    refuses(tmp_path, "")
    good = tmp_path / "good.safetensors"
    save_policy(good, random_policy(small_config("tsp")), "by hand")
    for content in (b"", b"hello", b"x" * 1000, good.read_bytes()[:-10], good.read_bytes()[:100]):
        bad = tmp_path / "bad.safetensors"
        bad.write_bytes(content)
        refuses(bad, "not a safetensors file")
    os.mkfifo(tmp_path / "fifo.safetensors")
    refuses(tmp_path / "fifo.safetensors", "is not a regular file")


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("changes", [{}, {"local_layers": 2}, {"global_policy": False}, {"layers": 3}], ids=str)
def test_shapes_are_known_without_a_network(problem: str, changes: dict) -> None:
    config = small_config(problem, **changes)
    expected = {name: tuple(value.shape) for name, value in random_policy(config).state_dict().items()}
    assert tensor_shapes(config) == expected


def test_loading_leaves_the_callers_random_numbers_alone(tmp_path: Path) -> None:
    save_policy(tmp_path / "w.safetensors", random_policy(small_config("tsp")), "by hand")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    load_policy(tmp_path / "w.safetensors")
    assert torch.equal(torch.rand(3), expected)
