"""What is left of plans: by hand, and joined."""

from itertools import pairwise

import numpy as np
import pytest

from elgo.plans import SHOWN, join_plans, make_plans, read_plans, show_ends

ROUTES = [np.array([1, 2, 3]), np.array([3, 4]), np.array([5])]
SHARES = [0.5, 0.25, 1.0]
N = 6


def read(here: int, visited: set[int], task: int = 0) -> tuple[dict[tuple[int, int], float], dict[int, float]]:
    """Shares among all customers who are left and the depot, and from here to them."""
    others = make_plans(N, [np.array([2, 1])], [0.75])
    plans = join_plans([make_plans(N, ROUTES, SHARES) if i == task else others for i in range(2)])
    left = np.array([i for i in range(1, N) if i not in visited])
    among, to_here = np.zeros((N, N), np.float32), np.zeros(N, np.float32)
    slot = np.full(N, -1)
    seen = np.isin(np.arange(N), [*visited])
    read_plans(plans, task * N, here, seen, left, len(left), slot, among, to_here)
    assert (slot == -1).all()
    np.testing.assert_array_equal(among, among.T)
    nodes = [0, *left.tolist()]
    pairs = {(nodes[a], nodes[b]): float(among[a, b]) for a, b in np.argwhere(np.triu(among)).tolist()}
    return pairs, {nodes[a]: float(to_here[a]) for a in np.nonzero(to_here)[0].tolist()}


@pytest.mark.parametrize("task", [0, 1])
def test_all_are_left_at_the_depot(task: int) -> None:
    among, here = read(0, set(), task)
    assert here == {1: 0.5, 3: 0.75, 4: 0.25, 5: 2.0}
    assert among == {(0, i): share for i, share in here.items()} | {(1, 2): 0.5, (2, 3): 0.5, (3, 4): 0.25}


@pytest.mark.parametrize(
    ("here", "visited", "leads_to"),
    [
        (1, {1}, {2: 0.5}),
        (2, {1, 2}, {3: 0.5}),
        (3, {1, 2, 3}, {0: 0.5, 4: 0.25}),  # the end of one plan, the beginning of another
        (3, {3}, {2: 0.5, 4: 0.25}),
        (2, {2}, {}),  # in the middle: one side would stay behind
        (4, {3, 4}, {0: 0.25}),
        (5, {5}, {0: 1.0}),
    ],
)
def test_the_way_on(here: int, visited: set[int], leads_to: dict[int, float]) -> None:
    among, found = read(here, visited)
    assert found == leads_to
    for route, share in zip(ROUTES, SHARES, strict=True):
        for a, b in pairwise(route.tolist()):
            assert among.get((a, b), 0) == (0 if visited & set(route.tolist()) else share)


LINE = np.array([[i, 0.0] for i in range(N)])  # the depot first, further away by 1 each


def show(visited: set[int], tokens: list[int], task: int = 0) -> list[int]:
    """What a window at the depot shows then."""
    others = make_plans(N, [np.array([2, 1])], [0.75])
    plans = join_plans([make_plans(N, ROUTES, SHARES) if i == task else others for i in range(2)])
    shown, rho = np.array(tokens), np.array(tokens, np.float32)  # on the line, distances are indices
    seen = np.isin(np.arange(N), [*visited])
    show_ends(plans, task * N, np.concatenate([LINE, LINE]), seen, shown, rho, len(tokens))
    np.testing.assert_array_equal(rho, shown)
    return shown.tolist()


@pytest.mark.parametrize("task", [0, 1])
def test_the_strongest_plans_are_shown(task: int) -> None:
    assert show(set(), [1, 2], task) == [1, 5]  # of [1, 2, 3] an end is there already, for [3, 4] there is no room
    assert show(set(), [1, 2, 3], task) == [1, 3, 5]
    assert show({5}, [1, 2], task) == [1, 3]
    assert show({3, 5}, [1, 2], task) == [1, 2]  # no plan is left
    assert show(set(), [1], task) == [5]


def test_only_so_many_plans_are_shown() -> None:
    n = 3 * SHOWN
    plans = make_plans(n, [np.array([i]) for i in range(1, n)], np.linspace(0.1, 0.9, n - 1).tolist())
    tokens, rho = np.arange(1, SHOWN + 3), np.zeros(SHOWN + 2, np.float32)
    show_ends(plans, 0, np.random.default_rng(0).random((n, 2)), np.zeros(n, bool), tokens, rho, len(tokens))
    assert tokens.tolist() == [1, 2, *range(n - SHOWN, n)]
