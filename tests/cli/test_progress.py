"""What is seen while instances are being solved, with and without a terminal."""

import os
import pty
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from samples import random_instance

from elgo.cli import progress as live
from elgo.cli.progress import Live
from elgo.problem.solution import Solution
from elgo.solve.batch import Job
from elgo.solve.solver import Improvement, Result, SolveConfig, Timings

ROOT = Path(__file__).parents[2]


def jobs(count: int, **changes: object) -> list[Job]:
    instance = replace(random_instance("tsp", 9), best_known=1000.0)
    return [Job(replace(instance, name=f"i{k}"), SolveConfig(**changes)) for k in range(count)]  # type: ignore[arg-type]


def result(job: Job, interrupted: bool = False) -> Result:
    solution = Solution(job.instance, (tuple(range(9)),))
    return Result(solution, Timings(0, 0, 0, 1.25), 0, 1, 1, interrupted=interrupted)


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "TICK", 0.01)
    monkeypatch.setattr(live, "SAY_SECONDS", 0.05)


@pytest.mark.usefixtures("_often")
def test_plain_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    work = jobs(2, time_limit=30.0)
    with Live(work, quiet=False) as shown:
        shown.begin(0)
        shown.improved(0, Improvement(0.1, 1020.0, "search"))
        time.sleep(0.2)
        shown.finished(0, result(work[0], interrupted=True))
    said = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"1/2 i0: cost 1020, gap 2.00 %, \d+ s left", said[0])
    cost = int(result(work[0]).cost)
    assert said[-1] == f"1/2 i0: cost {cost}, gap {(cost - 1000) / 10:.2f} %, 1.25 s, interrupted"


@pytest.mark.usefixtures("_often")
def test_the_policy_alone_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with Live(jobs(1, policy_only=True), quiet=False) as shown:
        shown.begin(0)
        shown.advanced(0, 0.4)
        time.sleep(0.2)
    assert capsys.readouterr().err.splitlines()[0] == "1/1 i0: 40 %"


@pytest.mark.usefixtures("_often")
def test_nothing_is_said_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    work = jobs(2, time_limit=30.0)
    with Live(work, quiet=True) as shown:
        shown.begin(0)
        time.sleep(0.1)
        shown.finished(0, result(work[0]))
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "elgo", "solve", "examples", "--time-limit", "1"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        written = b""
        while chunk := _read(ours):
            written += chunk
    os.close(ours)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode())
    assert re.search(r"1/2 clusters-n120 .*━.* cost \d,\d{3}  gap \d+\.\d\d %  \d s left", text)
    assert re.search(r"2/2 mixed-n116-k13: cost \d+, gap ", text)


def _read(terminal: int) -> bytes:
    """What there is to read; nothing once the other end is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
