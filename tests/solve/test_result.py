"""Seconds as text; tests/solve/test_solver.py covers results."""

from elgo.solve.result import format_seconds


def test_seconds_in_words() -> None:
    assert [format_seconds(seconds) for seconds in (0.2, 45, 720, 12_240)] == ["1 s", "45 s", "12 min", "3.4 h"]
