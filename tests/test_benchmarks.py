"""The yardstick of benchmarks/decode.py must be the same policy as ours, and its count of operations right.

benchmarks/local_policy.py must compare the same instances.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from elgo.decode.decoder import DecodeConfig
from elgo.decode.decoder import decode as decode_ours
from elgo.model.checkpoint import save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.problem.task import ProblemName

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import baseline
import decode as benchmark
import local_policy
import throughput


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
    assert benchmark.matmul_flops(config, n, steps, 6, 8) == 8 * (encoder + once + 6 * steps * 2 * 2 * n * d)


def test_pareto_front() -> None:
    rows = [("a", 9, 5, 0), ("b", 5, 6, 0), ("c", 3, 1, 0), ("d", 3, 2, 0), ("failed", 1, 0, 1)]
    front = throughput.pareto_front([throughput.Point(*row) for row in rows])
    assert [point.method for point in front] == ["a", "c"]


def test_throughput_writes_table_and_plots(tmp_path: Path) -> None:
    """Two methods, the second better on both instances but slower; one has an instance that failed."""
    measured = [
        throughput.Measured("nearest", "tsp", 1.0, [11.0, 24.0]),
        throughput.Measured("elg:single", "tsp", 2.0, [10.0, 20.0]),
        throughput.Measured("nearest", "cvrp", 1.0, [None, 5.0]),
    ]
    methods = [throughput.parse_method(name) for name in ("nearest", "elg:single")]
    throughput.write_results(tmp_path, measured, methods, {"tsp": [8.0, 20.5], "cvrp": [4.0, 4.0]})
    lines = (tmp_path / "throughput.md").read_text().splitlines()
    # 37.5 % above the reference and 20 % above the better solution; the other one failed on an instance
    assert "| nearest | 2.0 | 28.75 * | 2.0 | 25.00 (1 failed) |" in lines
    assert "| elg:single | 1.0 | 12.50 * | - | - |" in lines
    assert (tmp_path / "throughput.png").stat().st_size > 0
    assert (tmp_path / "throughput-gpu.png").stat().st_size > 0


def test_local_policy_compares_two_networks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, local in (("elg", True), ("pomo", False)):
        save_policy(tmp_path / f"{name}.safetensors", Policy(PolicyConfig("tsp", layers=1, local_policy=local)), "test")
    monkeypatch.setattr(local_policy, "SETS", {"uniform 8": ("uniform", 8, 3), "cluster 40": ("cluster", 40, 3)})
    picture, gaps = tmp_path / "gaps.png", tmp_path / "gaps.json"
    weights = f"{tmp_path / 'elg.safetensors'},{tmp_path / 'pomo.safetensors'}"
    monkeypatch.setattr(sys, "argv", ["local_policy.py", weights, weights, "--json", str(gaps), "--plot", str(picture)])
    local_policy.main()
    found = json.loads(gaps.read_text())
    assert [list(found), list(found["cluster 40"])] == [["uniform 8", "cluster 40"], ["ELG", "POMO"]]
    assert np.shape(found["cluster 40"]["POMO"]) == (2, 3)  # seeds and instances
    assert np.min(found["uniform 8"]["ELG"]) > -1e-6  # percent: nothing is shorter than the reference
    assert picture.stat().st_size > 0
