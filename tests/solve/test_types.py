"""The types of the public interface: mypy finds wrong keywords, which are the fields of SolveConfig."""

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from elgo.solve.config import SolveConfig
from elgo.solve.solver import solve

CALLS = """
import elgo

instance = elgo.Instance.from_coords([[0, 0], [1, 0], [0, 1]], demand=[0, 1, 1], capacity=2)
matrix = elgo.Instance.from_matrix([[0, 1], [2, 0]])
result: elgo.Result = elgo.solve(instance, time_limit=3, stop=elgo.NoImprovement(1.0), seed=1)
elgo.solve(matrix, stop=lambda progress: progress.cost < 3 and progress.seconds > 1)
elgo.solve(instance, timelimit=3)
elgo.solve(instance, time_limit="3")
elgo.solve(instance, stop=3)
elgo.solve(instance, stop=lambda progress: progress.price)
"""


def test_mypy_finds_wrong_keywords(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "calls.py").write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    root = Path(__file__).parents[2]
    command += ["--cache-dir", str(tmp_path / "cache"), str(tmp_path / "calls.py")]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root, env={"MYPYPATH": str(root), "PATH": ""})
    errors = [line for line in run.stdout.splitlines() if ": error: " in line]
    assert [int(re.search(r":(\d+): error", line)[1]) for line in errors] == [8, 9, 10, 11], run.stdout + run.stderr  # type: ignore[index]
    assert 'Unexpected keyword argument "timelimit"' in errors[0]


def test_the_keywords_of_solve_are_the_fields_of_the_config() -> None:
    parameters = inspect.signature(solve).parameters
    others = {"instance", "config", "warm_start", "on_improvement", "on_progress"}
    assert set(parameters) - others == {field.name for field in fields(SolveConfig)}
    for field in fields(SolveConfig):
        assert parameters[field.name].annotation in (field.type, f"{field.type} | None")
        assert parameters[field.name].default is None
