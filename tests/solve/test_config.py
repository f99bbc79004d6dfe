"""SolveConfig: its defaults, and what it refuses."""

import math

import pytest
from samples import random_instance, random_policy, small_config

from elgo.problem.errors import ElgoError
from elgo.solve.config import SolveConfig


def test_the_time_limit_grows_with_the_size() -> None:
    for n, seconds in ((10, 5), (1000, 10), (9000, 60)):
        assert SolveConfig().limit(random_instance("tsp", n)) == seconds
    assert SolveConfig(time_limit=2.5).limit(random_instance("tsp", 10)) == 2.5


def test_the_model_whose_rollouts_are_made() -> None:
    assert SolveConfig().policy is None
    assert SolveConfig(start="pomo").policy == "pomo"
    assert SolveConfig(policy_only=True).policy == "elg"
    assert SolveConfig(policy_only=True, model="a.safetensors").policy == "a.safetensors"


def test_a_policy_is_named_by_its_class() -> None:
    policy = random_policy(small_config("tsp"))
    assert SolveConfig(start=policy).policy is policy
    with pytest.raises(ValueError, match=r"^start is Policy, but policy_only does not search"):
        SolveConfig(start=policy, policy_only=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"starts": 0}, "starts is 0, must be at least 1"),
        ({"symmetries": 0}, "symmetries is 0, must be 1..8"),
        ({"symmetries": 9}, "symmetries is 9, must be 1..8"),
        ({"seed": -1}, "seed is -1, must not be negative"),
        ({"threads": 0}, "threads is 0, must be at least 1"),
        ({"memory_gb": 0.0}, "memory_gb is 0.0, must be positive"),
        ({"policy_only": True, "device": "gpu"}, "device is 'gpu', must be auto, cpu, cuda or cuda:NUMBER"),
        ({"device": "cuda"}, "device is cuda, but it needs a policy: start or policy_only"),
        ({"vehicles": 0}, "vehicles is 0, must be at least 1"),
        ({"time_limit": 0.0}, "time_limit is 0.0, must be a number of seconds above 0"),
        ({"time_limit": math.inf}, "time_limit is inf, must be a number"),
        ({"time_limit": math.nan}, "time_limit is nan, must be a number"),
        ({"time_limit": 5.0, "policy_only": True}, "time_limit is 5, but policy_only has no time limit"),
        ({"start": "elg", "policy_only": True}, "start is 'elg', but policy_only does not search"),
        ({"model": "elg"}, "model is 'elg', but it needs policy_only"),
        ({"model": "elg", "start": "elg"}, "model is 'elg', but it needs policy_only"),
        ({"starts": 5}, "starts is 5, but it needs a policy"),
        ({"symmetries": 8}, "symmetries is 8, but it needs a policy"),
    ],
)
def test_config_errors(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SolveConfig(**changes)


def test_threads_and_vehicles_have_a_bound() -> None:
    with pytest.raises(ValueError, match="threads is 1025, must be at most 1024"):
        SolveConfig(threads=1025)
    with pytest.raises(ElgoError, match=f"vehicles is {10**20}, must be at most"):
        SolveConfig(vehicles=10**20)
