"""tools/mean_weights.py: the mean of weights files."""

import sys
from pathlib import Path

import pytest
import torch
from samples import random_policy, small_config

from elgo.model.checkpoint import load_policy, save_policy
from elgo.problem.errors import ElgoError

TOOLS = Path(__file__).parents[1] / "tools"


def test_the_mean_of_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    sys.modules.pop("mean_weights", None)
    from mean_weights import mean_policy

    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for seed, file in enumerate(files):
        save_policy(file, random_policy(small_config("tsp"), seed), "a test")
    first, second = (load_policy(file).state_dict() for file in files)
    for name, value in mean_policy(files).state_dict().items():
        torch.testing.assert_close(value, (first[name] + second[name]) / 2)
    save_policy(files[1], random_policy(small_config("cvrp")), "a test")
    with pytest.raises(ElgoError, match="its config is not that of"):
        mean_policy(files)
