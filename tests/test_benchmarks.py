"""The yardstick of benchmarks/decode.py must be the same policy as ours, and its count of operations right."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from elgo.decode.decoder import DecodeConfig
from elgo.decode.decoder import decode as decode_ours
from elgo.model.config import PolicyConfig
from elgo.problem.task import ProblemName

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import baseline
import decode as benchmark


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("size", [20, 45])  # fewer nodes than neighbours, and more
def test_baseline_makes_the_same_tours(problem: ProblemName, size: int) -> None:
    policy = benchmark.make_policy(problem, None)
    tasks, starts = benchmark.make_tasks(problem, size)
    ours = decode_ours(policy, tasks, [starts] * len(tasks), DecodeConfig(path="compiled", threads=2))
    np.testing.assert_array_equal(baseline.decode(policy, tasks, starts), benchmark.stack(ours))


def test_baseline_stops_after_steps_and_reports_each() -> None:
    policy = benchmark.make_policy("tsp", None)
    tasks, starts = benchmark.make_tasks("tsp", 12)
    calls: list[int] = []
    actions = baseline.decode(policy, tasks, starts, 3, lambda: calls.append(1))
    assert actions.shape == (8, 12, 4)
    assert len(calls) == 1 + 3  # the encoder, then each step


def test_baseline_refuses_networks_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="coordinates is 'euclidean'"):
        baseline.check(PolicyConfig("tsp", coordinates="euclidean"))


def test_matmul_flops_by_hand() -> None:
    config = PolicyConfig("tsp", width=2, heads=1, layers=1, hidden=3)
    n, d, hidden, steps = 4, 2, 3, 5
    encoder = 4 * 2 * n * d * d + 2 * 2 * n * n * d + 2 * 2 * n * d * hidden
    once = 5 * 2 * n * d * d + 2 * n * n * d + 2 * n * n * d
    assert benchmark.matmul_flops(config, n, steps) == 8 * (encoder + once + n * steps * 2 * 2 * n * d)
