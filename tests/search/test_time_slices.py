"""Time slices: they end in time, and their iterations follow the speed."""

import time

from samples import LATE

from elgo.search.annealing import time_slices


def test_slices_end_in_time_and_grow_with_the_speed() -> None:
    begin = time.perf_counter()
    counts, shares = [], []
    for count, share in time_slices(begin + 0.2, 0.05):
        counts.append(count)
        shares.append(share)
        time.sleep(0.005)
    assert time.perf_counter() - begin < 0.2 + LATE
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] < 1
    assert max(counts) > counts[0]
