"""The traced step: scores and probabilities of torch, at states of complete rollouts."""

import numpy as np
import pytest
import torch
from samples import after, random_instance, random_policy, small_config

import elgo
from elgo.decode.compiled import as_weights
from elgo.decode.explain import explain_step
from elgo.decode.multistart import make_task
from elgo.model.ensemble import Policy
from elgo.problem.instance import Instance, Metric
from elgo.problem.task import PROBLEMS


def assert_same_step(policy: Policy, instance: Instance, walk: list[int]) -> None:
    task = make_task(instance, policy.config.normalisation)
    step = explain_step(policy, instance, walk)
    with torch.inference_mode():
        encoding, state = after(policy, task, walk)
        u, mask = (x[0, 0].numpy() for x in policy.scores(encoding, state))
        p = policy.logits(encoding, state)[0, 0].softmax(-1).numpy()
        closed = torch.from_numpy(mask)[None, None]
        alone = np.zeros(task.size) if policy.global_ is None else policy.global_.scores(encoding, state, closed)[0, 0]
    valid = mask == 0
    np.testing.assert_array_equal(step.valid, valid)
    np.testing.assert_allclose(step.global_scores[valid], np.asarray(alone)[valid], atol=1e-4)
    whole = step.global_scores - step.penalty + step.local_scores
    np.testing.assert_allclose(whole[valid], u[valid], atol=1e-4)
    np.testing.assert_allclose(step.probability, p, atol=1e-3)
    assert step.probability.sum() == pytest.approx(1)
    for scores in (step.global_scores, step.penalty, step.local_scores, step.probability):
        assert not scores[~valid].any()
    outside = np.setdiff1d(np.arange(task.size), step.neighbours)
    assert not step.local_scores[outside].any()


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"neighbours": 5},
        {"penalty": False},
        {"coordinates": "euclidean"},
        {"global_policy": False},
        {"local_policy": False},
        {"normalisation": "official"},
        {"positional": False, "xi": 2.0, "clip": 10.0},
    ],
    ids=str,
)
def test_every_step_is_torchs(problem: str, changes: dict) -> None:
    policy = random_policy(small_config(problem, **changes), seed=3, scale=1.5)
    instance = random_instance(problem, 18)
    tour = elgo.rollouts(policy, instance, [3])[0][0].tolist()
    while tour[-1] == 0 and problem == "cvrp":
        tour.pop()
    for length in range(1, len(tour)):
        assert_same_step(policy, instance, tour[:length])


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_likeliest_node_of_a_shipped_model_is_the_greedy_one(problem: str) -> None:
    instance = random_instance(problem, 60)
    tour = elgo.rollouts("elg", instance, [5])[0][0].tolist()
    for length in (1, 7, 30):
        step = elgo.explain_step("elg", instance, tour[:length])
        assert step.probability.argmax() == tour[length]
    turned = elgo.explain_step("elg", instance, tour[:7], symmetry=1)
    assert not np.allclose(turned.global_scores, elgo.explain_step("elg", instance, tour[:7]).global_scores)


def small(problem: str) -> Instance:
    coords = np.array([[0, 0], [0, 9], [9, 9], [9, 0]])
    demand, capacity = (np.array([0, 2, 2, 1]), 3) if problem == "cvrp" else (None, None)
    return Instance("small", coords, Metric.EUC_2D, demand=demand, capacity=capacity)


@pytest.mark.parametrize(
    ("problem", "visited", "message"),
    [
        ("tsp", [], "small: visited is empty"),
        ("tsp", [4], r"small: visited\[0\] is 4, which may not come there"),
        ("tsp", [-1], r"small: visited\[0\] is -1"),
        ("tsp", [1, 2, 1], r"small: visited\[2\] is 1"),
        ("tsp", [0, 1, 2, 3], "small: visited is a complete solution"),
        ("cvrp", [1, 2], r"small: visited\[1\] is 2"),  # too much for one vehicle
        ("cvrp", [1, 0, 0], r"small: visited\[2\] is 0"),
        ("cvrp", [1, 3, 0, 2, 0], "small: visited is a complete solution"),
    ],
)
def test_what_is_no_partial_solution_is_refused(problem: str, visited: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain_step("elg", small(problem), visited)


def test_valid_nodes_by_hand() -> None:
    assert explain_step("elg", small("tsp"), [1]).valid.tolist() == [True, False, True, True]
    assert explain_step("elg", small("cvrp"), [1]).valid.tolist() == [True, False, False, True]
    assert explain_step("elg", small("cvrp"), [1, 3]).valid.tolist() == [True, False, False, False]
    assert explain_step("elg", small("cvrp"), [1, 3]).probability.tolist() == [1, 0, 0, 0]
    assert explain_step("elg", small("cvrp"), [1, 0]).valid.tolist() == [False, False, True, True]


def test_a_network_that_only_torch_knows_is_refused() -> None:
    policy = random_policy(small_config("tsp", local_layers=1))
    assert as_weights(policy) is None
    with pytest.raises(ValueError, match="only torch knows"):
        explain_step(policy, small("tsp"), [0])
