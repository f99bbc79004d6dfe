"""run_with_deadline: what comes of work that is ready in time, that fails, and that is late."""

import subprocess
import sys
import threading
import time

import pytest
from samples import LATE

from elgo.solve.deadline import DeadlineExceeded, run_with_deadline


def now() -> float:
    return time.perf_counter()


def test_what_is_ready_in_time_is_given() -> None:
    assert run_with_deadline(lambda: 3, now() + 10) == 3
    assert run_with_deadline(lambda: None, now() + 10) is None
    assert run_with_deadline(lambda: time.sleep(0.05) or "slow", now() + 10) == "slow"


@pytest.mark.parametrize("error", [ValueError("boom"), KeyboardInterrupt(), DeadlineExceeded()])
def test_what_goes_wrong_is_raised_here(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        run_with_deadline(work, now() + 10)
    assert raised.value is error


@pytest.mark.parametrize("seconds", [0.1, -1.0])
def test_nobody_waits_for_what_is_late(seconds: float) -> None:
    go_on, done = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(10)
        done.set()

    begin = now()
    with pytest.raises(DeadlineExceeded):
        run_with_deadline(work, begin + seconds)
    assert now() - begin < LATE
    go_on.set()
    assert done.wait(10)  # it went on in the background


@pytest.mark.parametrize(("exit_seconds", "ends"), [(10.0, True), (0.0, False)])
def test_the_exit_waits_for_late_work_if_asked_to(exit_seconds: float, ends: bool) -> None:
    code = f"""
import time
from elgo.solve.deadline import DeadlineExceeded, run_with_deadline
def work():
    time.sleep(0.5)
    print("ended", flush=True)
try:
    run_with_deadline(work, 0.0, {exit_seconds})
except DeadlineExceeded:
    print("late", flush=True)
"""
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.split() == (["late", "ended"] if ends else ["late"])
