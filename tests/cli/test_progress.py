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

from elgo.cli import progress
from elgo.cli.progress import BatchProgress
from elgo.problem.solution import Solution
from elgo.solve.batch import BatchItem
from elgo.solve.config import SolveConfig
from elgo.solve.result import Improvement, Result, Timings

ROOT = Path(__file__).parents[2]


def items(count: int, **changes: object) -> list[BatchItem]:
    instance = replace(random_instance("tsp", 9), best_known=1000.0)
    return [BatchItem(replace(instance, name=f"i{k}"), SolveConfig(**changes)) for k in range(count)]  # type: ignore[arg-type]


def result(item: BatchItem, interrupted: bool = False) -> Result:
    solution = Solution(item.instance, (tuple(range(9)),))
    return Result(solution, Timings(0.5, 0, 0, 1.25), 0, 1, 1, interrupted=interrupted)


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REFRESH_SECONDS", 0.01)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)
    monkeypatch.setattr(progress, "ESTIMATE_SECONDS", 0.1)


@pytest.mark.usefixtures("_often")
def test_plain_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    batch = items(2, time_limit=30.0)
    with BatchProgress(batch, quiet=False) as shown:
        shown.started(0)
        shown.improved(0, Improvement(0.1, 1020.0, "search"))
        time.sleep(0.2)
        shown.finished(0, result(batch[0], interrupted=True))
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"1/2 i0: cost 1020, gap 2.00 %, \d+ s left", lines[0])
    cost = int(result(batch[0]).cost)
    assert (
        lines[-1] == f"1/2 i0: cost {cost}, gap {(cost - 1000) / 10:.2f} %, 1.25 s and 0.50 s for loading, interrupted"
    )


@pytest.mark.usefixtures("_often")
def test_the_policy_alone_says_how_many_rollouts_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    with BatchProgress(items(1, policy_only=True), quiet=False) as shown:
        shown.started(0)
        shown.advanced(0, 0.2)
        time.sleep(0.2)
        shown.advanced(0, 0.4)
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["1/1 i0: 72 rollouts (9 starts x 8 symmetries)", "1/1 i0: 20 %"]
    assert lines[-1] == "1/1 i0: 40 %, about 2 s left"


@pytest.mark.usefixtures("_often")
def test_loading_is_not_part_of_the_time_limit(capsys: pytest.CaptureFixture[str]) -> None:
    with BatchProgress(items(1, time_limit=30.0), quiet=False) as shown:
        shown.started(0)
        shown.improved(0, Improvement(0.0, 1100.0, "fallback"))
        time.sleep(0.2)
        shown.improved(0, Improvement(0.0, 1020.0, "savings"))
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("1/1 i0: cost 1100, gap 10.00 %, loading") == 1
    assert lines[-1] == "1/1 i0: cost 1020, gap 2.00 %, 30 s left"


@pytest.mark.usefixtures("_often")
def test_nothing_is_lines_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    batch = items(2, time_limit=30.0)
    with BatchProgress(batch, quiet=True) as shown:
        shown.started(0)
        time.sleep(0.1)
        shown.finished(0, result(batch[0]))
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
