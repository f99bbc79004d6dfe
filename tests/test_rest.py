"""What savings make of the rest: by hand, feasible from any state, and the usual savings from the start."""

import numpy as np
import pytest
from samples import random_task, random_walk

from elgo.kin import find_kin
from elgo.rest import SHARE, join_rest, make_rest, read_rest
from elgo.search.construct import join_routes

DEMAND = np.array([0, 2, 2, 2, 2, 2])
PAIRS = np.array([[1, 2], [2, 3], [4, 5], [3, 4]])


def links(here: int, units: int, served: list[int], capacity: int = 6) -> list[set[int]]:
    rest, visited = make_rest(6), np.zeros(6, bool)
    visited[served] = True
    join_rest(PAIRS, DEMAND, capacity, here, units, visited, rest)
    return [set(pair) for pair in rest.links.tolist()]


def test_from_the_depot_all_are_joined_as_the_load_allows() -> None:
    assert links(0, 6, []) == [{0}, {0, 2}, {1, 3}, {2, 0}, {0, 5}, {4, 0}]


def test_the_route_that_is_driven_goes_on_while_there_is_room() -> None:
    assert links(1, 4, [1]) == [{0}, {2, 0}, {1, 3}, {2, 0}, {0, 5}, {4, 0}]
    assert links(1, 2, [1]) == [{0}, {2, 0}, {1, 0}, {0, 4}, {3, 5}, {4, 0}]
    assert links(1, 0, [1]) == [{0}, {0}, {0, 3}, {2, 0}, {0, 5}, {4, 0}]  # home


def test_where_we_are_has_one_way_on() -> None:
    assert links(2, 4, [2]) == [{0}, {0, 2}, {0, 1}, {0, 4}, {3, 5}, {4, 0}]


def test_windows_see_weak_plans() -> None:
    """In the window of 1 with room for one more are 2, 4 and 3."""
    rest, visited = make_rest(6), np.zeros(6, bool)
    visited[1] = True
    join_rest(PAIRS, DEMAND, 6, 1, 2, visited, rest)
    among, to_here, slot = np.zeros((4, 4), np.float32), np.zeros(4, np.float32), np.full(6, -1)
    among[0, 2] = among[2, 0] = 0.8  # by a plan
    read_rest(rest.links, 1, np.array([2, 4, 3]), 3, slot, among, to_here)
    assert to_here.tolist() == pytest.approx([0, SHARE, 0, 0])
    expected = [[0, SHARE, 0.8, SHARE], [SHARE, 0, 0, 0], [0.8, 0, 0, SHARE], [SHARE, 0, SHARE, 0]]
    np.testing.assert_allclose(among, expected, rtol=1e-6)
    assert (slot == -1).all()


def test_at_the_start_they_are_the_usual_savings() -> None:
    task = random_task(np.random.default_rng(0), "cvrp", 40)
    pairs, rest = find_kin(task).pairs, make_rest(40)
    join_rest(pairs, task.demand, task.capacity, 0, task.capacity, np.zeros(40, bool), rest)
    usual = join_routes(pairs[:, 0], pairs[:, 1], task.demand, task.capacity)
    np.testing.assert_array_equal(np.sort(rest.links, axis=1), np.sort(usual, axis=1))


@pytest.mark.parametrize("seed", range(10))
def test_the_rest_is_feasible(seed: int) -> None:
    """Whoever is left has two neighbours that agree, or ends at the depot; no route carries too much."""
    rng = np.random.default_rng(seed)
    task = random_task(rng, "cvrp", 30)
    walk = random_walk(rng, task, int(rng.integers(1, 25)))
    here, route = walk[-1], walk[len(walk) - walk[::-1].index(0) :] if 0 in walk else walk
    used, visited, rest = int(task.demand[route].sum()), np.isin(np.arange(30), walk), make_rest(30)
    visited[0] = False
    join_rest(find_kin(task).pairs, task.demand, task.capacity, here, task.capacity - used, visited, rest)
    left = [i for i in range(1, 30) if not visited[i]]
    for i in [*left, *([here] if here else [])]:
        for j in set(rest.links[i].tolist()) - {0}:
            assert i in rest.links[j]
            assert j in left or j == here
    for end in [i for i in left if rest.links[i, 0] == 0 or rest.links[i, 1] == 0]:
        load, before, at = 0, 0, end
        while at:
            load += used if at == here else task.demand[at]
            following = [j for j in rest.links[at].tolist() if j not in (0, before)] if at != here or not before else []
            before, at = at, following[0] if following else 0
        assert load <= task.capacity
