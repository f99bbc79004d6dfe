"""Work in slices of known length: how many iterations fit into the next one follows from the last."""

from __future__ import annotations

import time
from collections.abc import Iterator

LEAST = 0.005  # seconds that are worth another slice
FIRST = 100  # iterations, to see how fast they are
MOST = 10**9  # in a slice, where an iteration takes no time at all


def paced(until: float, seconds: float) -> Iterator[tuple[int, float]]:
    """For slices of so many seconds until that moment of time.perf_counter(): iterations, and the share of the time
    that is over. Towards the end slices become shorter, so that the last one is in time.
    """
    begin = time.perf_counter()
    pace = FIRST / seconds
    while (left := until - (now := time.perf_counter())) > LEAST:
        count = max(1, min(MOST, int(pace * min(seconds, left / 2))))
        yield count, (now - begin) / (until - begin)
        pace = min(count / (time.perf_counter() - now), 10 * pace)
