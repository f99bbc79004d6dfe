"""Data made in advance is the data of its key."""

import threading

from elgo.train.prefetch import Prefetch


def test_values_follow_from_their_keys() -> None:
    for ahead in (False, True):
        data = Prefetch(lambda key: 10 * key, ahead)
        assert [data.get(key, key + 1) for key in (3, 4, 5, 9, 10, 2)] == [30, 40, 50, 90, 100, 20]
        data.close()


def test_only_the_next_value_is_made_in_advance() -> None:
    made: list[tuple[int, bool]] = []
    here = threading.get_ident()
    data = Prefetch(lambda key: made.append((key, threading.get_ident() == here)), True)
    data.get(0, 1)
    data.get(1, 2)
    data.close()
    assert made in ([(0, True), (1, False)], [(0, True), (1, False), (2, False)])  # the last one may be cancelled
    made.clear()
    data = Prefetch(lambda key: made.append((key, threading.get_ident() == here)), False)
    data.get(0, 1)
    assert made == [(0, True)]


def test_an_error_reaches_the_step_that_needs_the_data() -> None:
    data = Prefetch(lambda key: 1 // key, True)
    assert data.get(1, 0) == 1
    try:
        data.get(0, 1)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError
    data.close()
