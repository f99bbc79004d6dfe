"""The yardstick of benchmarks/train.py is the same step as ours: same probabilities, same gradient."""

import sys
from pathlib import Path

import pytest
import torch
from tiny import NETWORK, assert_same_gradients, gradients

from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.model.rollout import log_prob
from elgo.train.reinforce import advantages, reinforce_loss

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import train as benchmark


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("neighbours", [5, 30])  # fewer than nodes, and more
def test_baseline_has_the_same_gradient(problem: str, neighbours: int) -> None:
    torch.manual_seed(0)
    policy = Policy(PolicyConfig(problem, **NETWORK, neighbours=neighbours)).train()
    tasks = benchmark.make_tasks(benchmark.Case(problem, 12, 3, 0, 1, 1))
    actions, log_p = benchmark.sampled_with_gradients(policy, tasks)
    batch = make_batch(tasks)
    torch.testing.assert_close(log_prob(policy, batch, actions).sum(-1), log_p, rtol=1e-5, atol=1e-4)
    weight = advantages(policy.env.length(batch, actions))
    expected = gradients(policy, -(weight * log_p).mean(dim=1).sum())
    assert_same_gradients(gradients(policy, reinforce_loss(policy, batch, actions)), expected)


def test_the_benchmark_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "in_child", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(benchmark, "make_policy", lambda problem: Policy(PolicyConfig(problem, **NETWORK)))
    benchmark.main(["--size", "8", "--batch", "2", "--nodes", "16", "--repeat", "1"])
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if line.strip().startswith(("tsp", "cvrp"))]
    assert [row[0] for row in rows] == ["tsp", "cvrp", "tsp", "tsp", "cvrp", "cvrp", "tsp", "cvrp"]
    assert [row[1] for row in rows[2:6]] == ["(c)", "(d)", "(c)", "(d)"]  # imitation with torch, and ours
    assert all(float(ms) > 0 for row in rows[6:] for ms in row[1:])  # a step of each optimiser
    for row in rows[2:6]:
        pace, encoder, log_p, other, rest = map(float, row[2:])
        assert encoder > 0
        assert rest == pytest.approx(log_p + other, abs=0.02)
        assert pace == pytest.approx(1e3 / (encoder + rest), rel=0.05)
