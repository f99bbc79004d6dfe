"""Start nodes: all of them, or a sample."""

import pytest
from samples import random_instance

from elgo.decode.multistart import make_task
from elgo.decode.starts import EVERY_START, STARTS, choose_starts
from elgo.problem.instance import Instance
from elgo.problem.task import PROBLEMS


def starts(instance: Instance, count: int | None = None, seed: int = 0) -> list[int]:
    return choose_starts(make_task(instance), count, seed).tolist()


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
