"""elgo.rollouts: shapes, starts, costs, samples."""

import numpy as np
import pytest
from samples import random_instance, random_policy, small_config

import elgo
from elgo.problem.solution import Solution
from elgo.problem.task import PROBLEMS, ProblemName


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_tour_from_every_start_with_its_cost(problem: ProblemName) -> None:
    policy, instance = random_policy(small_config(problem), scale=1.5), random_instance(problem, 11)
    tours, costs = elgo.rollouts(policy, instance)
    assert tours[:, 0].tolist() == list(range(11 - instance.customers, 11))
    assert len(costs) == instance.customers
    for tour, cost in zip(tours.tolist(), costs, strict=True):
        routes = [tour]
        if problem == "cvrp":
            routes = [list(map(int, part.split())) for part in " ".join(map(str, tour)).replace(" 0", " |").split("|")]
        solution = Solution(instance, tuple(tuple(route) for route in routes if route))
        assert solution.feasible
        assert solution.cost == pytest.approx(cost)


def test_starts_are_nodes_or_a_number() -> None:
    policy, instance = random_policy(small_config("tsp"), scale=1.5), random_instance("tsp", 11)
    every, _ = elgo.rollouts(policy, instance)
    assert np.array_equal(elgo.rollouts(policy, instance, [7, 3])[0], every[[7, 3]])
    assert elgo.rollouts(policy, instance, 4)[0].shape == (4, 11)
    with pytest.raises(ValueError, match=r"starts are \[11\]"):
        elgo.rollouts(policy, instance, [11])


def test_samples_differ_and_follow_the_generator() -> None:
    policy, instance = random_policy(small_config("tsp")), random_instance("tsp", 11)
    first, again = (elgo.rollouts(policy, instance, [0] * 20, rng=np.random.default_rng(3))[0] for _ in range(2))
    assert np.array_equal(first, again)
    assert len(np.unique(first, axis=0)) > 1


def test_symmetries_of_the_square_give_other_tours() -> None:
    policy, instance = random_policy(small_config("tsp"), scale=1.5), random_instance("tsp", 30)
    found = [elgo.rollouts(policy, instance, symmetry=index)[1].min() for index in range(8)]
    best = elgo.solve(instance, policy_only=True, model=policy)
    assert best.cost == min(found)
    assert len(set(found)) > 1


def test_a_policy_for_another_problem() -> None:
    with pytest.raises(ValueError, match=r"the policy's problem is 'tsp', but the instance needs 'cvrp'"):
        elgo.rollouts(random_policy(small_config("tsp")), random_instance("cvrp", 8))
