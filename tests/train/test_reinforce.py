"""REINFORCE: the parallel gradient is that of stepping, advantages by hand, sampling that knows no neighbours."""

import naive
import numpy as np
import pytest
import torch
from samples import random_policy, random_task, small_config
from tiny import NETWORK, assert_same_gradients, gradients
from torch import Tensor

from elgo.decode.decoder import DecodeConfig
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import Batch
from elgo.problem.task import Task
from elgo.train.config import ReinforceConfig
from elgo.train.reinforce import advantages, reinforce_loss, rollout_batches, sample_rollouts

ONE = DecodeConfig(threads=1)
CPU = torch.device("cpu")


def generators(count: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, i]) for i in range(count)]


def stepped_log_prob(policy: Policy, batch: Batch, actions: Tensor) -> Tensor:
    """(B, M) log-probability of whole sequences, with autograd through every step."""
    cache = policy.encode(batch)
    state = policy.env.start(batch, actions[:, :, 0])
    total = torch.zeros(actions.shape[:2])
    for t in range(1, actions.shape[2]):
        log_p = policy.logits(cache, state).log_softmax(-1)
        total = total + log_p.gather(2, actions[:, :, t : t + 1]).squeeze(2)
        state = policy.env.step(batch, state, actions[:, :, t])
    return total


def small_policy(problem: str, seed: int = 0, **changes: object) -> Policy:
    return random_policy(PolicyConfig(problem, **{**NETWORK, "neighbours": 5, **changes}), seed).train()


def tasks_of(problem: str, sizes: list[int], seed: int = 0) -> list[Task]:
    rng = np.random.default_rng(seed)
    return [random_task(rng, problem, n) for n in sizes]


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
@pytest.mark.parametrize("changes", [{}, {"local_policy": False}, {"global_policy": False}], ids=str)
def test_parallel_gradient_equals_stepping(problem: str, changes: dict) -> None:
    policy = small_policy(problem, **changes)
    tasks = tasks_of(problem, [12, 9, 12])  # the middle one is padded
    rollouts = sample_rollouts(policy, tasks, 6, generators(3), ONE)
    ((batch, actions, _),) = rollout_batches(tasks, rollouts, ReinforceConfig(chunk=3), CPU)
    log_p = stepped_log_prob(policy, batch, actions)
    torch.testing.assert_close(policy.log_prob(batch, actions).sum(-1), log_p, rtol=1e-5, atol=1e-4)
    pairs = zip(tasks, rollouts, strict=True)
    lengths = [[naive.length(task, walk) for walk in walks.tolist()] for task, (walks, _) in pairs]
    mean = np.mean(lengths, axis=1, keepdims=True)
    weight = torch.tensor((mean - lengths) / (mean - lengths).max(axis=1, keepdims=True)).float()
    expected = gradients(policy, -(weight * log_p).sum() / 6)
    found = gradients(policy, reinforce_loss(policy, batch, actions))
    assert_same_gradients(found, expected)
    assert any(name.startswith("local.") for name in found) == policy.config.local_policy
    assert max(float(value.abs().max()) for value in found.values()) > 0.1


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_chunks_do_not_matter(problem: str) -> None:
    policy = small_policy(problem)
    tasks = tasks_of(problem, [10, 10, 7, 12])
    rollouts = sample_rollouts(policy, tasks, 5, generators(4), ONE)
    found = []
    for chunk in (4, 1):
        batches = rollout_batches(tasks, rollouts, ReinforceConfig(chunk=chunk), CPU)
        found.append(gradients(policy, sum(reinforce_loss(policy, *part) for part in batches)))
    assert_same_gradients(*found)


def test_advantages_by_hand() -> None:
    length = torch.tensor([[3.0, 5.0, 4.0], [2.0, 4.0, 9.0], [7.7, 7.7, 7.7]])
    expected = torch.tensor([[1.0, -1.0, 0.0], [1.0, 1 / 3, -4 / 3], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(advantages(length), expected)


def test_advantages_are_exact_under_autocast() -> None:
    length = 7.7 + 0.3 * torch.rand(4, 16, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        found = advantages(length)
    torch.testing.assert_close(found, advantages(length))


def test_equally_long_rollouts_teach_nothing() -> None:
    length = torch.full((1, 50), 7.1234567)
    length[0, ::2] += 5e-7  # a sum in another order
    assert advantages(length).abs().max() == 0
    assert advantages(length[:, :1]).abs().max() == 0


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_rollouts_are_solutions_from_different_starts(problem: str) -> None:
    policy = small_policy(problem)
    tasks = tasks_of(problem, [12, 12, 9])
    for task, (walks, _) in zip(tasks, sample_rollouts(policy, tasks, 0, generators(3), ONE), strict=True):
        assert all(naive.is_solution(task, walk) for walk in walks.tolist())
        assert walks[:, 0].tolist() == list(range(problem == "cvrp", len(task.coords)))
    for walks, _ in sample_rollouts(policy, tasks, 4, generators(3), ONE):
        assert len(set(walks[:, 0].tolist())) == len(walks) == 4
    many = sample_rollouts(policy, tasks, 30, generators(3), ONE)  # more than there are nodes
    assert [len(walks) for walks, _ in many] == [30, 30, 30]


def tours(*args: object) -> list[np.ndarray]:
    return [rollouts.actions for rollouts in sample_rollouts(*args)]


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_rollouts_do_not_depend_on_the_company(problem: str) -> None:
    policy, tasks = small_policy(problem), tasks_of(problem, [12, 12, 12, 12])
    together = tours(policy, tasks, 5, generators(4), ONE)
    again = tours(policy, tasks, 5, generators(4), ONE)
    half = tours(policy, tasks[1::2], 5, generators(4)[1::2], ONE)
    other = tours(policy, tasks, 5, generators(4, seed=1), ONE)
    for i in range(4):
        assert np.array_equal(together[i], again[i])
    for a, b in zip(together[1::2], half, strict=True):
        width = min(a.shape[1], b.shape[1])  # behind it, rollouts only wait at the depot
        assert np.array_equal(a[:, :width], b[:, :width])
    assert not all(np.array_equal(a[:, :7], b[:, :7]) for a, b in zip(together, other, strict=True))


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_rollouts_of_a_few_instances_become_shorter(problem: str) -> None:
    torch.manual_seed(0)
    policy = Policy(PolicyConfig(problem, **NETWORK))
    tasks = tasks_of(problem, [11, 11, 11], seed=3)
    optimiser = torch.optim.Adam(policy.parameters(), lr=5e-3)
    lengths = []
    for step in range(30):
        rollouts = sample_rollouts(policy, tasks, 0, generators(3, step), ONE)
        ((batch, actions, _),) = rollout_batches(tasks, rollouts, ReinforceConfig(chunk=3), CPU)
        lengths.append(float(policy.env.length(batch, actions).mean()))
        optimiser.zero_grad()
        (reinforce_loss(policy, batch, actions) / 3).backward()
        optimiser.step()
    assert np.mean(lengths[-5:]) < 0.95 * np.mean(lengths[:3])


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_confident_states_hardly_matter(problem: str) -> None:
    policy = random_policy(small_config(problem), scale=3.0)
    (task,) = tasks_of(problem, [20])
    rollouts = sample_rollouts(policy, [task], 6, generators(1), ONE)
    found = {}
    for threshold in (1.0, 0.999):
        options = ReinforceConfig(confidence_threshold=threshold, chunk=1)
        ((batch, actions, uncertain),) = rollout_batches([task], rollouts, options, CPU)
        found[threshold] = gradients(policy, reinforce_loss(policy, batch, actions, uncertain))
    assert uncertain is not None
    assert uncertain.shape == (1, 6, actions.shape[2] - 1)
    assert 0.1 < uncertain.float().mean() < 0.9
    everywhere = gradients(policy, reinforce_loss(policy, batch, actions, torch.ones_like(uncertain)))
    assert_same_gradients(everywhere, found[1.0])
    error = sum(float((found[0.999][name] - value).square().sum()) for name, value in found[1.0].items())
    assert error < 1e-3 * sum(float(value.square().sum()) for value in found[1.0].values())


def test_no_gradient_if_the_policy_is_confident_everywhere() -> None:
    policy, tasks = small_policy("cvrp"), tasks_of("cvrp", [9])
    rollouts = sample_rollouts(policy, tasks, 4, generators(1), ONE)
    ((batch, actions, _),) = rollout_batches(tasks, rollouts, ReinforceConfig(), CPU)
    loss = reinforce_loss(policy, batch, actions, torch.zeros(1, 4, actions.shape[2] - 1, dtype=torch.bool))
    assert float(loss) == 0
    assert not loss.requires_grad
