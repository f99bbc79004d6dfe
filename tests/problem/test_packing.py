"""Bin packing: feasible, exact on small cases, and an explanation where it is impossible."""

import itertools
import re
import time

import numpy as np
import pytest
from samples import LATE, random_instance

from elgo.problem import packing
from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance, Metric
from elgo.problem.packing import exact_packing, fill_vehicles, first_fit_decreasing, least_vehicles, pack_into
from elgo.problem.solution import Solution


@pytest.mark.parametrize("pack", [first_fit_decreasing, fill_vehicles])
def test_packing_is_feasible(pack) -> None:
    for seed in range(5):
        instance = random_instance("cvrp", 60, seed=seed)
        routes = pack(*instance.units())
        assert Solution(instance, tuple(map(tuple, routes))).feasible
        demand, capacity = instance.units()
        assert len(routes) <= 1.25 * demand.sum() / capacity + 1


def test_packing_finds_what_fits_exactly() -> None:
    demand = np.array([0, 7, 3, 6, 4, 5, 5, 8, 2])
    assert len(first_fit_decreasing(demand, 10)) == 4
    demand = np.array([0, 5, 4, 3, 3, 3, 2])  # the first fit takes 5 + 4, 3 + 3 + 3, 2
    assert len(first_fit_decreasing(demand, 10)) == 3
    assert fill_vehicles(demand, 10) == [[1, 3, 6], [2, 4, 5]]


def test_huge_capacities_are_no_reason_to_be_slow() -> None:
    rng = np.random.default_rng(0)
    demand = np.array([0, *rng.integers(10**10, 10**11, 300)])
    begin = time.perf_counter()
    assert fill_vehicles(demand, 10**12) == first_fit_decreasing(demand, 10**12)
    assert time.perf_counter() - begin < LATE


def fewest(demand: list[int], capacity: int) -> int:
    """The least number of vehicles, by trying all ways to share out."""
    for vehicles in itertools.count(1):
        for choice in itertools.product(range(vehicles), repeat=len(demand)):
            loads = [0] * vehicles
            for amount, number in zip(demand, choice, strict=True):
                loads[number] += amount
            if max(loads) <= capacity:
                return vehicles
    raise AssertionError


def test_bound_and_exact_packing_against_brute_force() -> None:
    rng, tight = np.random.default_rng(0), 0
    for _ in range(60):
        capacity = int(rng.integers(4, 30))
        demand = rng.integers(0, capacity + 1, rng.integers(1, 6))
        best, bound = fewest(demand.tolist(), capacity), least_vehicles(np.append(0, demand), capacity)
        assert bound <= best
        tight += bound == best
        found, _ = exact_packing(np.append(0, demand), capacity, best)
        assert found is not None
        assert sorted(itertools.chain(*found)) == list(range(1, len(demand) + 1))
        assert all(demand[np.array(route) - 1].sum() <= capacity for route in found)
        if best > 1:
            none, left = exact_packing(np.append(0, demand), capacity, best - 1)
            assert none is None
            assert left > 0
    assert tight > 50


def test_the_bound_sees_more_than_the_sum() -> None:
    assert least_vehicles(np.array([0, 6, 6, 6]), 10) == 3  # 18 would go into two
    assert least_vehicles(np.array([0, 6, 6, 5, 5]), 10) == 3
    assert least_vehicles(np.array([0, 7, 7, 7, 4, 4]), 10) == 4  # no 4 fits beside a 7
    assert least_vehicles(np.array([0, 0, 0]), 10) == 1
    assert least_vehicles(np.array([0]), 10) == 0


def packed(demand: list[float], capacity: float, vehicles: int) -> list[list[int]]:
    coords = np.random.default_rng(0).random((len(demand), 2))
    return pack_into(Instance("three", coords, Metric.EXACT, demand=np.array(demand), capacity=capacity), vehicles)


def test_what_only_the_exact_search_finds() -> None:
    """Demands that were cut out of full vehicles."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        cuts = [np.sort(rng.choice(np.arange(1, 50), 2, replace=False)) for _ in range(4)]
        demand = np.concatenate([[0], *(np.diff([0, *cut, 50]) for cut in cuts)])
        assert len(packed(demand.tolist(), 50, 4)) == 4


@pytest.mark.parametrize(
    ("demand", "capacity", "vehicles", "message"),
    [
        ([0, 6, 6, 6], 10, 1, "3 are needed: the demands add up to 18, and 1 x 10 is 10, which is 8 too little"),
        ([0, 6, 6, 6], 10, 2, "3 are needed: the demands add up to 18, and 2 x 10 is 20, but no way to share them"),
        ([0, 4, 4, 4, 4, 4], 10, 2, "3 are needed: the demands add up to 20, and 2 x 10 is 20, but no way to share"),
        ([0, 2.5, 2.5, 2.5], 5, 1, "2 are needed: the demands add up to 7.5, and 1 x 5 is 5, which is 2.5 too little"),
    ],
)
def test_too_few_vehicles_are_explained(demand: list[float], capacity: float, vehicles: int, message: str) -> None:
    with pytest.raises(ElgoError, match=f"^three: vehicles is {vehicles}, but at least {re.escape(message)}"):
        packed(demand, capacity, vehicles)


def test_a_search_that_is_given_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MOST_WORK", 3)
    message = "vehicles is 2, but the demands were not made to fit; 3 are enough, at least 2 are needed"
    with pytest.raises(ElgoError, match=f"^three: {message}$"):
        packed([0, 4, 4, 4, 4, 4], 10, 2)
