"""Linked routes: what is stored about them is true, and what is undone leaves no trace."""

import math

import numpy as np
import pytest
from search_samples import routes_of, tight

from elgo.problem.solution import Solution
from elgo.search.giant_tour import to_giant_tour
from elgo.search.linked_routes import NO_ROUTE, LinkedRoutes, accept, link_routes, undo, unlink
from elgo.search.sisr import _recreate, _ruin, _sort


def check_links(linked: LinkedRoutes, demand: np.ndarray) -> None:
    """All that is stored about the routes is true of them, and every empty one can be found."""
    nodes, routes, counters = linked.nodes, linked.routes, linked.counters[0]
    for number, route in enumerate(routes_of(linked)):
        assert nodes["previous"][route].tolist() == [0, *route][: len(route)]
        assert nodes["route"][route].tolist() == [number] * len(route)
        assert routes[number]["size"] == len(route)
        assert routes[number]["load"] == demand[route].sum()
    spare = linked.spare[: counters["spare"]].tolist()
    assert len(set(spare)) == len(spare)
    assert set(spare) == set(np.flatnonzero(routes["spare"]).tolist())
    empty = [number for number, route in enumerate(routes_of(linked)) if not route]
    assert set(empty) <= set(spare)
    assert counters["used"] == len(routes) - len(empty)
    assert counters["saved"] == 0
    assert not routes["saved"].any()


@pytest.mark.parametrize("most", [0, 30], ids=["few vehicles", "many vehicles"])
def test_what_is_undone_leaves_no_trace(most: int) -> None:
    """Iterations by hand, two thirds of them undone."""
    data, tour = tight(0)
    arrays, customers = data.arrays, tour[tour > 0]
    linked = link_routes(tour, arrays.demand)
    removed, keys, state = np.empty(30, np.int32), np.empty(30), np.array([4321], np.uint64)
    rng, failed, emptied, opened = np.random.default_rng(0), 0, 0, 0
    for _ in range(300):
        before = routes_of(linked)
        used = sum(map(bool, before))
        delta, count = _ruin(arrays, linked, customers, removed, state)
        gone = np.setdiff1d(customers, [node for route in routes_of(linked) for node in route])
        assert sorted(removed[:count].tolist()) == gone.tolist()
        assert (linked.nodes["route"][removed[:count]] == NO_ROUTE).all()
        emptied += linked.counters[0]["used"] < used
        _sort(arrays, removed[:count], keys, state)
        delta += _recreate(arrays, linked, max(most, used), customers, removed[:count], state)
        opened += linked.counters[0]["used"] > used
        failed += math.isinf(delta)
        if math.isinf(delta) or rng.random() < 0.67:
            undo(linked)
            assert routes_of(linked) == before
        else:
            accept(linked)
            costs = [Solution(data.instance, tuple(map(tuple, found))).cost for found in (before, routes_of(linked))]
            assert costs[1] - costs[0] == pytest.approx(delta, abs=1e-9)
        check_links(linked, arrays.demand)
    assert emptied
    assert failed if most == 0 else opened


def test_links_by_hand() -> None:
    demand = np.array([0, 7, 1, 1, 5, 2, 0, 9])
    linked = link_routes(to_giant_tour([[1, 3, 2], [4], [6, 5]]), demand)  # without customer 7
    assert linked.nodes[1:-1].tolist() == [(3, 0, 0), (0, 3, 0), (2, 1, 0), (0, 0, 1), (0, 6, 2), (5, 0, 2)]
    assert linked.nodes[7]["route"] == NO_ROUTE
    assert linked.routes[["first", "size", "load"]][:4].tolist() == [(1, 3, 9), (4, 1, 5), (6, 2, 2), (0, 0, 0)]
    assert linked.counters[0].tolist() == (3, 4, 0)  # of 7 routes
    check_links(linked, demand)
    assert unlink(linked.nodes, linked.routes).tolist() == [1, 3, 2, 0, 4, 0, 6, 5, 0]
