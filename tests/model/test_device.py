"""Devices by name."""

from pathlib import Path

import pytest
import torch
from samples import random_policy, small_config

from elgo.model.checkpoint import Weights, as_policy, load_model, save_policy
from elgo.model.device import check_device, find_device


def gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let torch find so many GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_auto_takes_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, expected in ((0, "cpu"), (1, "cuda"), (2, "cuda")):
        gpus(monkeypatch, count)
        assert find_device("auto") == torch.device(expected)
        assert find_device("cpu") == torch.device("cpu")
    assert find_device("cuda:1") == torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("count", "name", "message"),
    [
        (0, "cuda", "device is 'cuda', but torch finds no GPU$"),
        (1, "cuda:1", "device is 'cuda:1', but torch finds 1 GPU$"),
        (2, "cuda:2", "device is 'cuda:2', but torch finds 2 GPUs$"),
        (1, "gpu", "device is 'gpu', must be auto, cpu, cuda or cuda:NUMBER$"),
        (1, "meta", "device is 'meta', must be"),
        (1, "", "device is '', must be"),
    ],
)
def test_errors(count: int, name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, count)
    with pytest.raises(ValueError, match=message):
        find_device(name)


def test_names() -> None:
    for name in ("auto", "cpu", "cuda", "cuda:0", "cuda:12"):
        check_device(name)
    for name in ("cuda:", "cuda:x", "CPU", "cpu:0"):
        with pytest.raises(ValueError, match="must be auto"):
            check_device(name)


def test_a_model_is_loaded_once_for_each_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.safetensors"
    save_policy(file, random_policy(small_config("tsp")), "random")
    on_cpu = load_model(file, "tsp")
    assert on_cpu is load_model(file, "tsp")
    monkeypatch.setattr("elgo.model.checkpoint.find_device", lambda name: torch.device("meta"))  # stands for a GPU
    moved = load_model(file, "tsp", device="cuda")
    assert (moved.device.type, on_cpu.device.type) == ("meta", "cpu")
    assert as_policy(file, "tsp", "cuda") is moved
    assert isinstance(as_policy(file, "tsp", "cpu"), Weights)
    assert as_policy(on_cpu, "tsp", "cuda") is on_cpu  # a policy itself stays where it is
