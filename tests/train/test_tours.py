"""elgo.log_prob: that of stepping through the policy, and what it refuses."""

import numpy as np
import pytest
import torch
from samples import random_instance, random_policy, small_config

import elgo
from elgo.decode.multistart import make_task
from elgo.model.env import make_batch
from elgo.problem.task import PROBLEMS, ProblemName


@pytest.mark.parametrize("problem", PROBLEMS)
def test_log_prob_is_that_of_stepping(problem: ProblemName) -> None:
    policy, instance = random_policy(small_config(problem)), random_instance(problem, 9)
    tours, _ = elgo.rollouts(policy, instance, [1, 2, 5, 5], rng=np.random.default_rng(0))
    found = elgo.log_prob(policy, instance, tours)
    batch = make_batch([make_task(instance)])
    actions = torch.from_numpy(tours).long()[None]
    encoding, state = policy.encode(batch), policy.env.start(batch, actions[:, :, 0])
    expected = torch.zeros(4)
    for step in range(1, tours.shape[1]):
        chosen = actions[:, :, step]
        expected += policy.logits(encoding, state).log_softmax(-1).gather(2, chosen[:, :, None])[0, :, 0]
        state = policy.env.step(batch, state, chosen)
    assert found.shape == (4,)
    assert torch.allclose(found, expected, atol=1e-4)
    found.sum().backward()
    assert all(parameter.grad is not None for parameter in policy.parameters())


def test_tours_of_several_lengths() -> None:
    policy, instance = random_policy(small_config("cvrp")), random_instance("cvrp", 6)
    tours = [[1, 0, 2, 0, 3, 0, 4, 0, 5, 0], [1, 0, 2, 0, 5, 3, 0, 4, 0]]
    together = elgo.log_prob(policy, instance, tours)
    alone = [elgo.log_prob(policy, instance, [tour])[0] for tour in tours]
    assert torch.allclose(together, torch.stack(alone), atol=1e-5)
    without_the_last_return = elgo.log_prob(policy, instance, [tour[:-1] for tour in tours])
    assert torch.allclose(together, without_the_last_return, atol=1e-5)


def test_all_tours_of_a_tiny_instance_have_probability_1() -> None:
    from itertools import permutations

    policy, instance = random_policy(small_config("tsp")), random_instance("tsp", 6)
    tours = [(0, *rest) for rest in permutations(range(1, 6))]
    with torch.no_grad():
        total = elgo.log_prob(policy, instance, tours).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("problem", "tours", "complaint"),
    [
        ("tsp", [[0, 1, 2, 3], [0, 1, 2, 2]], r"tsp4: tours\[1\]: missing nodes: 3"),
        ("tsp", [[0, 1, 2, 4]], r"tsp4: tours\[0\]: unknown nodes: 4"),
        ("tsp", [[0.0, 1.0, 2.0, 3.0]], r"tsp4: tours\[0\] has shape \(4,\) and type float64, expected a sequence"),
        ("tsp", [0, 1, 2, 3], r"tsp4: tours\[0\] has shape \(\) and type int64, expected a sequence"),
        ("tsp", [], r"tsp4: tours is empty"),
        ("cvrp", [[1, 0, 2]], r"cvrp4: tours\[0\]: missing nodes: 3"),
        ("cvrp", [[1, 2, 3]], r"cvrp4: tours\[0\]: route 1 carries 60, more than CAPACITY"),
    ],
)
def test_what_is_no_tour(problem: ProblemName, tours: list, complaint: str) -> None:
    instance = random_instance(problem, 4)
    if problem == "cvrp":
        demand = [0.0, 20.0, 20.0, 20.0]
        instance = elgo.Instance("cvrp4", instance.coords, instance.metric, demand=demand, capacity=40.0)
    with pytest.raises(ValueError, match=complaint):
        elgo.log_prob(random_policy(small_config(problem)), instance, tours)
