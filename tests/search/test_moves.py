"""Local search on routes that may be too full: every move gains what it says, and nothing gets lost."""

import numpy as np
import pytest
from samples import priced, random_cvrp, random_routes

from elg.search.ground import Ground, NodeArray, survey
from elg.search.moves import (
    AFTER,
    BEFORE,
    CHANGED,
    COUNT,
    LOAD,
    PLACE,
    ROUTE,
    SO_FAR,
    _exchange,
    _read,
    _reconnect,
    _swap_routes,
    _write,
    descend,
)
from elg.search.routes import to_routes, to_walk


def full_routes(seen: Ground, seed: int, count: int) -> NodeArray:
    """All customers in so many random routes, whatever fits."""
    rng = np.random.default_rng(seed)
    parts = np.array_split(rng.permutation(np.arange(1, seen.instance.size)), count)
    return to_walk([part.tolist() for part in parts if len(part)])


class Linked:
    """A walk as the kernels have it."""

    def __init__(self, seen: Ground, walk: NodeArray, vehicles: int) -> None:
        self.n = seen.instance.size
        self.demand, self.capacity = seen.instance.units()
        self.nodes = np.zeros((self.n + vehicles, 6), np.int64)
        self.routes = np.zeros((vehicles, 4), np.int64)
        self.done = np.zeros(1, np.int64)
        _read(self.n, walk, self.demand, self.nodes, self.routes)

    def check(self) -> None:
        """Links, places and loads are those of the routes."""
        visited = 0
        for route, (count, load) in enumerate(self.routes[:, [COUNT, LOAD]].tolist()):
            place, carried, left = 0, 0, self.n + route
            while (node := self.nodes[left, AFTER]) < self.n:
                place, carried = place + 1, carried + self.demand[node]
                assert self.nodes[node, [BEFORE, ROUTE, PLACE, SO_FAR]].tolist() == [left, route, place, carried]
                left = node
            assert node == self.n + route
            assert self.nodes[node, BEFORE] == left
            assert (place, carried) == (count, load)
            visited += place
        assert visited == self.n - 1


@pytest.mark.parametrize("price", [0.0, 0.5, 1000.0])
@pytest.mark.parametrize("kind", ["exchange", "reconnect", "swap"])
def test_moves_gain_and_keep_everybody(kind: str, price: float) -> None:
    """All moves of all pairs, depots and an empty route included: the priced cost falls, or nothing changes."""
    made = 0
    for seed in range(4):
        seen = survey(random_cvrp(seed, 14))
        walk = full_routes(seen, seed, 4)
        plan = Linked(seen, walk, 5)
        given = (seen.data, plan.demand, plan.capacity, price, plan.nodes, plan.routes)
        buffer, best, behind = np.empty(15, np.int64), np.empty((15, 3)), np.empty((15, 3), np.int64)
        cost = priced(seen, walk, price)
        for u in range(1, plan.n):
            for v in range(1, plan.n + 5):
                if u == v:
                    continue
                before, moves = _write(plan.n, plan.nodes, plan.routes), int(plan.done[0])
                if kind == "exchange":
                    _exchange(*given, plan.done, u, v)
                elif kind == "reconnect":
                    _reconnect(*given, buffer, plan.done, u, v)
                elif (r := plan.nodes[u, ROUTE]) != (s := plan.nodes[v, ROUTE]):
                    _swap_routes(*given, plan.done, best, behind, r, s)
                plan.check()
                after = _write(plan.n, plan.nodes, plan.routes)
                if plan.done[0] == moves:
                    assert np.array_equal(before, after)
                    continue
                assert priced(seen, after, price) < cost - 1e-9
                assert plan.routes[:, CHANGED].max() == plan.done[0]
                cost = priced(seen, after, price)
                made += 1
    assert made > 10


@pytest.mark.parametrize("kind", ["uniform", "clustered"])
@pytest.mark.parametrize("customers", [2, 3, 30, 80])
def test_descending(customers: int, kind: str) -> None:
    for seed in range(3):
        seen = survey(random_cvrp(seed, customers, kind))
        demand, capacity = seen.instance.units()
        walk = to_walk(random_routes(seen.instance, seed))
        vehicles = int((walk == 0).sum()) + 1
        state = np.array([seed + 1], np.uint64)
        found = descend(seen.data, seen.near, demand, capacity, vehicles, walk, 1000.0, state)
        assert sorted(found[found > 0].tolist()) == list(range(1, customers + 1))
        assert (found == 0).sum() <= vehicles
        assert priced(seen, found, 1000.0) <= priced(seen, walk, 1000.0)
        again = descend(seen.data, seen.near, demand, capacity, vehicles, found, 1000.0, state)
        assert priced(seen, again, 1000.0) == pytest.approx(priced(seen, found, 1000.0))


def test_a_high_price_makes_routes_fit() -> None:
    for seed in range(5):
        seen = survey(random_cvrp(seed, 40))
        demand, capacity = seen.instance.units()
        walk = full_routes(seen, seed, 1)
        state = np.array([seed + 1], np.uint64)
        found = descend(seen.data, seen.near, demand, capacity, 41, walk, 1e6, state)
        assert all(demand[route].sum() <= capacity for route in to_routes(found))
        free = descend(seen.data, seen.near, demand, capacity, 41, walk, 0.0, state)
        assert len(to_routes(free)) == 1
