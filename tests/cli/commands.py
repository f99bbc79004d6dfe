"""Running the command in tests: in a process of its own, or in this one."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
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


def interrupted(*args: object, when: Callable[[int], bool], after: float = 0.0) -> tuple[str, str]:
    """Run `elgo ARGS`, press Ctrl-C so many seconds after `when(its process ID)`; return output and errors."""
    words = [sys.executable, "-m", "elgo", *map(str, args)]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not when(process.pid):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "elgo: interrupted"
    return printed, errors


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
