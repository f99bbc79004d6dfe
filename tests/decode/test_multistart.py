"""Tasks under the symmetries, start nodes, and rollouts as routes with their costs."""

import math
from itertools import pairwise

import numpy as np
import pytest
from samples import random_instance

from elgo.decode.multistart import (
    EVERY_START,
    STARTS,
    augmentations,
    choose_starts,
    costs,
    make_task,
    routes,
    with_few_routes,
)
from elgo.problem.augment import SYMMETRIES, symmetry
from elgo.problem.instance import Instance, Metric
from elgo.problem.task import PROBLEMS


def test_tasks_are_the_images_of_the_normalised_plane() -> None:
    wide = Instance("wide", np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 5.0], [0.0, 5.0]]), Metric.EUC_2D)
    upright = make_task(wide)
    np.testing.assert_array_equal(upright.coords, [[0, 0.25], [1, 0.25], [1, 0.75], [0, 0.75]])
    assert upright.demand is None
    for index in range(SYMMETRIES):
        np.testing.assert_array_equal(make_task(wide, "fit", index).coords, symmetry(upright.coords, index))


def test_demands_become_whole_units() -> None:
    coords = random_instance("tsp", 4).coords
    task = make_task(Instance("tenths", coords, Metric.EXACT, demand=np.array([0, 0.1, 0.2, 0.3]), capacity=0.3))
    assert task.demand.tolist() == [0, 1, 2, 3]
    assert task.capacity == 3


def test_costs_and_routes_of_rollouts() -> None:
    instance = random_instance("cvrp", 6, Metric.EXACT)
    actions = np.array([[3, 1, 0, 2, 5, 4, 0, 0], [5, 0, 4, 0, 3, 2, 1, 0]], np.int32)
    assert routes(instance, actions[0]) == ((3, 1), (2, 5, 4))
    assert routes(instance, actions[1]) == ((5,), (4,), (3, 2, 1))

    def length(*stops: int) -> float:
        return sum(math.dist(instance.coords[a], instance.coords[b]) for a, b in pairwise(stops))

    expected = [length(0, 3, 1, 0, 2, 5, 4, 0), length(0, 5, 0, 4, 0, 3, 2, 1, 0)]
    np.testing.assert_allclose(costs(instance, actions), expected)
    tsp = random_instance("tsp", 4)
    assert routes(tsp, np.array([2, 0, 3, 1], np.int32)) == ((2, 0, 3, 1),)


def test_only_rollouts_with_few_routes_count() -> None:
    few, many = [3, 1, 0, 2, 5, 4, 0, 0], [5, 0, 4, 0, 3, 2, 1, 0]
    uncut = [[5, 0, 4, 0, 3, 2, 1]]  # without the last return
    rollouts = [np.array([few, many], np.int32), np.array(uncut, np.int32)]
    (left,) = with_few_routes(rollouts, 2)
    assert left.tolist() == [few]
    assert [part.tolist() for part in with_few_routes(rollouts, 3)] == [[few, many], uncut]
    assert with_few_routes(rollouts, 1) == []


def starts(instance: Instance, count: int | None = None, seed: int = 0) -> list[int]:
    return choose_starts(make_task(instance), count, seed).tolist()


def test_a_task_is_normalised_before_its_symmetry() -> None:
    points = np.array([[0.0, 0.0], [10.0, 5.0], [10.0, 20.0]])
    tsp = Instance("x", points, Metric.EUC_2D)
    cvrp = Instance("x", points, Metric.EUC_2D, demand=np.array([0, 1, 1]), capacity=2)
    np.testing.assert_array_equal(make_task(tsp, "official", 1).coords, [[1, 0], [0.5, 0.25], [0.5, 1]])
    np.testing.assert_array_equal(make_task(cvrp, "official", 1).coords, [[1, 0], [0, 0.25], [0, 1]])
    inside = Instance("x", points / 40, Metric.EXACT)
    np.testing.assert_array_equal(make_task(inside, "raw", 4).coords, points[:, ::-1] / 40)


def test_official_starts_are_those_of_the_published_code() -> None:
    for problem, expected in (("tsp", [0, 1, 2, 3, 4, 5]), ("cvrp", [0, 1, 2, 3, 4])):
        instance = random_instance(problem, 6)
        _, found = augmentations(instance, "official", None, 2, 0)
        assert [nodes.tolist() for nodes in found] == [expected] * 2
        assert set(choose_starts(make_task(instance), 3, 0, "official")) <= set(expected)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_node_but_the_depot_is_a_start(problem: str) -> None:
    instance = random_instance(problem, 30)
    every = list(range(instance.size - instance.customers, 30))
    assert starts(instance) == starts(instance, 99) == every


@pytest.mark.parametrize("problem", PROBLEMS)
def test_large_instances_have_fewer_starts_unless_told_otherwise(problem: str) -> None:
    instance = random_instance(problem, EVERY_START + 9)
    assert len(starts(instance)) == STARTS
    assert len(starts(instance, EVERY_START)) == EVERY_START


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_sample_is_sorted_and_depends_on_the_seed(problem: str) -> None:
    instance = random_instance(problem, 30)
    some = [starts(instance, 6, seed) for seed in (0, 0, 1)]
    assert some[0] == some[1] != some[2]
    assert len(set(some[0])) == 6
    assert some[0] == sorted(some[0])
    assert min(some[0]) >= instance.size - instance.customers
