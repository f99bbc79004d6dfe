"""The command as a whole: help, version, wrong options."""

import subprocess
import sys

import pytest
from commands import ROOT, TSP, elgo_command

import elgo


def test_help_imports_nothing_heavy() -> None:
    done = elgo_command("--help")
    assert done.returncode == 0
    assert "solve" in done.stdout
    trace = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "elgo", "--help"], capture_output=True, text=True, cwd=ROOT
    ).stderr
    imported = {line.rsplit("|", 1)[-1].strip() for line in trace.splitlines()}
    assert "typer" in imported
    assert not imported & {"torch", "numba", "rich", "matplotlib", "scipy"}


@pytest.mark.parametrize(
    "args",
    [
        ["--nonsense"],
        ["solve", TSP, "--symmetries", 9],
        ["solve", TSP, "--starts", 0],
        ["solve", TSP, "--jobs", 0],
        ["solve", TSP, "--time-limit", "soon"],
        ["solve", TSP, "--time-limit", 5, "--policy-only"],
        ["solve", TSP, "--weights", "w.safetensors"],
        ["solve"],
        ["nonsense"],
    ],
)
def test_wrong_options_are_one_line(args: list[object]) -> None:
    done = elgo_command(*args)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("elgo: ")


def test_nothing_asks_for_help() -> None:
    done = elgo_command()
    assert done.returncode == 0
    assert "solve" in done.stdout


def test_version() -> None:
    assert elgo_command("--version").stdout == f"elgo {elgo.__version__}\n"
