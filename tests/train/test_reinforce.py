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
from elgo.model.env import Batch, make_batch
from elgo.model.rollout import log_prob
from elgo.problem.task import Task
from elgo.train import reinforce
from elgo.train.config import ReinforceConfig
from elgo.train.reinforce import (
    SampledRollouts,
    advantages,
    parts_in_memory,
    reinforce_loss,
    sample_rollouts,
    sampled_parts,
)

PATHS = ("compiled", "torch")


def generators(count: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, i]) for i in range(count)]


def sampled(
    policy: Policy, tasks: list[Task], starts: int, seed: int = 0, threshold: float = 1.0, path: str = "auto"
) -> SampledRollouts:
    options = ReinforceConfig(starts, threshold)
    decoding = DecodeConfig(path=path, threads=1)
    return sample_rollouts(policy, tasks, make_batch(tasks), options, generators(len(tasks), seed), decoding)


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
    batch, actions, _ = sampled(policy, tasks, 6)
    log_p = stepped_log_prob(policy, batch, actions)
    torch.testing.assert_close(log_prob(policy, batch, actions).sum(-1), log_p, rtol=1e-5, atol=1e-4)
    lengths = [
        [naive.length(task, walk) for walk in walks] for task, walks in zip(tasks, actions.tolist(), strict=True)
    ]
    mean = np.mean(lengths, axis=1, keepdims=True)
    weight = torch.tensor((mean - lengths) / (mean - lengths).max(axis=1, keepdims=True)).float()
    expected = gradients(policy, -(weight * log_p).sum() / 6)
    found = gradients(policy, reinforce_loss(policy, batch, actions))
    assert_same_gradients(found, expected)
    assert any(name.startswith("local.") for name in found) == policy.config.local_policy
    assert max(float(value.abs().max()) for value in found.values()) > 0.1


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_memory_decides_how_many_tasks_are_taken_at_once(problem: str) -> None:
    """It does not change the gradient."""
    policy = small_policy(problem)
    whole = sampled(policy, tasks_of(problem, [10, 10, 7, 12]), 5)
    each = whole.actions[0].numel() * 12 * 250
    found = []
    for memory, sizes in ((1e9, [4]), (2.5 * each, [2, 2]), (0.0, [1, 1, 1, 1])):
        parts = list(parts_in_memory(whole, memory))
        assert [len(part.actions) for part in parts] == sizes
        found.append(gradients(policy, sum(reinforce_loss(policy, *part) for part in parts)))
    assert_same_gradients(found[0], found[1])
    assert_same_gradients(found[0], found[2])


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_one_encoding_for_rollouts_and_gradient(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts of some tasks: the rollouts and the gradient of encoding twice."""
    monkeypatch.setattr(reinforce, "CPU_NODES", 30)
    policy, tasks, options = small_policy(problem), tasks_of(problem, [12, 12, 12]), ReinforceConfig(5)
    whole = sampled(policy, tasks, 5)
    encoded = list[int]()
    encode = policy.encode
    monkeypatch.setattr(policy, "encode", lambda batch: encoded.append(len(batch.coords)) or encode(batch))
    parts = list(sampled_parts(policy, tasks, make_batch(tasks), options, generators(3), DecodeConfig(threads=1)))
    found = gradients(policy, sum(reinforce_loss(policy, *part, encoding) for part, encoding in parts))
    assert encoded == [2, 1]
    walks = [walk.tolist() for part, _ in parts for walk in part.actions.flatten(0, 1)]
    assert all(a[: len(b)] == b for a, b in zip(whole.actions.flatten(0, 1).tolist(), walks, strict=True))
    assert_same_gradients(found, gradients(policy, reinforce_loss(policy, *whole)))


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_rollouts_on_a_device_follow_from_their_generator(problem: str) -> None:
    """The torch path, as on a GPU: solutions, the same with the same seed, and confidence if it is needed."""
    policy, tasks = small_policy(problem, clip=5.0), tasks_of(problem, [12, 12, 9])
    first, again, other = (sampled(policy, tasks, 6, seed, path="torch").actions for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert first.shape != other.shape or not torch.equal(first, other)
    for task, walks in zip(tasks, first.tolist(), strict=True):
        assert all(naive.is_solution(task, list(dict.fromkeys(walk)) if problem == "tsp" else walk) for walk in walks)
    found = sampled(policy, tasks, 6, threshold=0.5, path="torch")
    assert torch.equal(found.actions, first)
    state = policy.env.along(found.batch, first, torch.arange(1, first.shape[2]))
    likeliest = policy.logits(policy.encode(found.batch), state).softmax(-1).amax(-1).view(found.uncertain.shape)
    assert torch.equal(found.uncertain, likeliest < 0.5)
    assert 0.1 < found.uncertain.float().mean() < 0.9


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
@pytest.mark.parametrize("path", PATHS)
def test_rollouts_are_solutions_from_different_starts(path: str, problem: str) -> None:
    policy = small_policy(problem)
    tasks = tasks_of(problem, [12, 12])
    walks = sampled(policy, tasks, 0, path=path).actions
    for task, own in zip(tasks, walks.tolist(), strict=True):
        assert all(naive.is_solution(task, walk) for walk in own)
        assert [walk[0] for walk in own] == list(range(problem == "cvrp", len(task.coords)))
    for own in sampled(policy, tasks, 4, path=path).actions.tolist():
        assert len({walk[0] for walk in own}) == len(own) == 4
    many = sampled(policy, tasks, 30, path=path).actions  # more than there are nodes
    assert many.shape[:2] == (2, 30)


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_rollouts_of_a_few_instances_become_shorter(problem: str) -> None:
    torch.manual_seed(0)
    policy = Policy(PolicyConfig(problem, **NETWORK))
    tasks = tasks_of(problem, [11, 11, 11], seed=3)
    optimiser = torch.optim.Adam(policy.parameters(), lr=5e-3)
    lengths = []
    for step in range(30):
        batch, actions, _ = sampled(policy, tasks, 0, step)
        lengths.append(float(policy.env.length(batch, actions).mean()))
        optimiser.zero_grad()
        (reinforce_loss(policy, batch, actions) / 3).backward()
        optimiser.step()
    assert np.mean(lengths[-5:]) < 0.95 * np.mean(lengths[:3])


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_confident_states_hardly_matter(problem: str) -> None:
    policy = random_policy(small_config(problem), scale=3.0)
    (task,) = tasks_of(problem, [20])
    found = {}
    for threshold in (1.0, 0.999):
        batch, actions, uncertain = sampled(policy, [task], 6, threshold=threshold)
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
    batch, actions, _ = sampled(policy, tasks, 4)
    loss = reinforce_loss(policy, batch, actions, torch.zeros(1, 4, actions.shape[2] - 1, dtype=torch.bool))
    assert not any(gradient.any() for gradient in gradients(policy, loss).values())
    assert loss == 0
