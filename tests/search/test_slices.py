"""Time slices: they end in time, and their iterations follow the speed."""

import time

from samples import LATE

from elgo.search.slices import iteration_slices, time_slices


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


def test_slices_of_a_fixed_number_of_iterations() -> None:
    for total, least in ((0, 1), (1, 1), (99, 1), (100, 1), (12_345, 1), (12_345, 1000), (10**6, 1)):
        slices = list(iteration_slices(total, least))
        assert sum(count for count, _ in slices) == total
        assert max((count for count, _ in slices), default=0) <= max(least, 5000)
        assert all(count >= least for count, _ in slices[:-1])
        assert [share for _, share in slices] == [sum(c for c, _ in slices[:k]) / total for k in range(len(slices))]
