"""The operations of a training step, which bound it on a GPU."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from elgo.model.config import PolicyConfig

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import operations


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_a_step_of_the_paper_has_few_operations(problem: str) -> None:
    """Their number depends neither on the widths of the network nor on the number of instances."""
    config = operations.load(problem, 100, 2)
    counts = operations.count_operations(replace(config, policy=PolicyConfig(problem, width=8, heads=2, hidden=8)))
    assert counts.total() <= operations.LIMIT
    assert counts["sampling"] > 99 * 50
    assert 500 < counts["loss"] + counts["backward"] < 2000  # of all instances at once
    assert counts["optimiser"] < 500


def test_the_benchmark_prints_all_phases(capsys: pytest.CaptureFixture[str]) -> None:
    operations.main(["--size", "6", "--batch", "2"])
    first = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert first[0] == "phase"
    assert first[2:7] == [*operations.PHASES, "all"]
