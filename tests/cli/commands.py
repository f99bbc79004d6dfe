"""Running the command in tests: in a process of its own, or in this one."""

import subprocess
import sys
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from elgo.cli.main import app

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TSP = EXAMPLES / "clusters-n120.tsp"
CVRP = EXAMPLES / "mixed-n116-k13.vrp"


def elgo_command(*args: object) -> subprocess.CompletedProcess[str]:
    """Run `elgo ARGS` in a process of its own."""
    return subprocess.run([sys.executable, "-m", "elgo", *map(str, args)], capture_output=True, text=True, cwd=ROOT)


def run(*args: object) -> Result:
    """Run `elgo ARGS` in this process, so that what a test replaces is used."""
    return CliRunner().invoke(app, [str(arg) for arg in args])


def check_refused(done: Result, *words: str) -> None:
    """Check for one line that has the words, and exit code 2."""
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("elgo: ")
    assert all(word in line for word in words), line
    assert done.stdout == ""
