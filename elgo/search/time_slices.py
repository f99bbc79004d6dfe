"""Divide the time of a search into slices: the speed of each slice decides how many iterations the next one gets."""

from __future__ import annotations

import time
from collections.abc import Iterator

SHORTEST = 0.005  # seconds that are worth another slice
FIRST = 100  # iterations of the first slice, which measures the speed
MOST = 10**9  # iterations of a slice, for work that takes no measurable time


def time_slices(until: float, seconds: float) -> Iterator[tuple[int, float]]:
    """Yield (iterations, fraction of the time that has passed) for slices of about `seconds` each.

    The slices end at `until`, a value of time.perf_counter(); the last ones are shorter, so that they end in time.
    """
    begin = time.perf_counter()
    speed = FIRST / seconds  # iterations per second
    while (left := until - (now := time.perf_counter())) > SHORTEST:
        iterations = max(1, min(MOST, int(speed * min(seconds, left / 2))))
        yield iterations, (now - begin) / (until - begin)
        speed = min(iterations / (time.perf_counter() - now), 10 * speed)
