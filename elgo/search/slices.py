"""Slices of a search: after each of them threads exchange what they have found, and the search may stop."""

import time
from collections.abc import Iterable, Iterator

Slices = Iterable[tuple[int, float]]  # iterations of the slice, fraction of the search that is done before it

SHORTEST_SLICE = 0.005  # seconds that are worth another slice
FIRST_ITERATIONS = 100  # of the first slice, which measures the speed
MOST_ITERATIONS = 10**9  # of a slice, for work that takes no measurable time
COUNT = 100  # slices of a fixed number of iterations, at least
LONGEST = 5000  # iterations of such a slice


def time_slices(until: float, seconds: float) -> Iterator[tuple[int, float]]:
    """Yield slices of about `seconds` each.

    The speed of each slice decides how many iterations the next one gets. The slices end at `until`, a value of
    time.perf_counter(); the last ones are shorter, so that they end in time.
    """
    begin = time.perf_counter()
    speed = FIRST_ITERATIONS / seconds  # iterations per second
    while (left := until - (now := time.perf_counter())) > SHORTEST_SLICE:
        iterations = max(1, min(MOST_ITERATIONS, int(speed * min(seconds, left / 2))))
        yield iterations, (now - begin) / (until - begin)
        speed = min(iterations / (time.perf_counter() - now), 10 * speed)


def iteration_slices(total: int, least: int = 1) -> Iterator[tuple[int, float]]:
    """Yield slices of `total` iterations in all, at least `least` in each but the last. They never read the clock.

    None is so long that Ctrl-C would not be answered soon.
    """
    size = max(least, min(LONGEST, -(-total // COUNT)))
    for done in range(0, total, size):
        yield min(size, total - done), done / total
