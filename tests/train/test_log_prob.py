"""The compiled sum of log-probabilities and its gradient are those of torch, in every way that they are computed."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from samples import KINDS, pad_walks, random_policy, random_task, random_walk, small_config
from torch import Tensor

from elgo.model.ensemble import Policy
from elgo.model.env import Batch, make_batch
from elgo.model.rollout import log_prob, torch_threads
from elgo.train.log_prob import Moves, compiled_sum, fits, torch_sum, weighted_log_prob
from elgo.train.log_prob_kernels import BLOCK

PROBLEMS = ["tsp", "cvrp"]
CHANGES = [
    {},
    {"penalty": False},
    {"local_policy": False},
    {"penalty": False, "local_policy": False},
    {"neighbours": 3},
    {"neighbours": 60},  # more than there are nodes
    {"coordinates": "euclidean", "positional": False},
]


def sequences(problem: str, sizes: tuple[int, ...] = (3, 9, 17), walks: int = 4) -> tuple[Batch, Moves]:
    """Tasks of mixed sizes with complete random solutions, so that some states are padding or have no choice."""
    rng = np.random.default_rng(1)
    tasks = [random_task(rng, problem, n, KINDS[i % 3]) for i, n in enumerate(sizes)]
    actions = pad_walks([[random_walk(rng, task) for _ in range(walks)] for task in tasks])
    weight = torch.rand(actions.shape, generator=torch.Generator().manual_seed(0)) * 3 - 1
    weight[:, :, 1:] *= actions[:, :, 1:] != actions[:, :, :-1]
    weight[:, :, 0] = 0
    return make_batch(tasks), Moves(actions, weight)


def to_any_end(batch: Batch, moves: Moves) -> Moves:
    """Moves away from the depot are to any of random route ends, among which is always the one that was chosen."""
    ends = torch.rand(batch.demand.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    actions = moves.actions
    for i, walks in enumerate(actions):
        ends[i, walks[:, 1:][walks[:, :-1] == 0]] = True
    ends[:, 0] = False
    return moves._replace(route_ends=ends)


def learned(policy: Policy, batch: Batch, moves: Moves, compute=compiled_sum) -> tuple[Tensor, dict]:
    """The sum and its gradient."""
    policy.zero_grad()
    total = compute(policy, policy.encode(batch), moves)
    total.backward()
    return total.detach(), {name: p.grad for name, p in policy.named_parameters() if p.grad is not None}


def assert_same(found: tuple[Tensor, dict], expected: tuple[Tensor, dict]) -> None:
    torch.testing.assert_close(found[0], expected[0], atol=5e-4, rtol=1e-5)
    assert found[1].keys() == expected[1].keys()
    scale = max(float(gradient.abs().max()) for gradient in expected[1].values())
    for name, gradient in expected[1].items():
        assert (found[1][name] - gradient).abs().max() <= 5e-5 * scale, name


def assert_as_in_torch(policy: Policy, batch: Batch, moves: Moves) -> None:
    assert fits(policy, policy.encode(batch))
    assert_same(learned(policy, batch, moves), learned(policy, batch, moves, torch_sum))


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_gradient_is_that_of_torch(problem: str, changes: dict) -> None:
    assert_as_in_torch(random_policy(small_config(problem, **changes)), *sequences(problem))


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_several_right_answers(changes: dict) -> None:
    """At the depot, the log of the summed probability of all of them."""
    batch, moves = sequences("cvrp")
    assert_as_in_torch(random_policy(small_config("cvrp", **changes)), batch, to_any_end(batch, moves))


@torch.no_grad()
def test_several_right_answers_by_hand() -> None:
    policy, (batch, moves) = random_policy(small_config("cvrp")), sequences("cvrp", sizes=(30,), walks=1)
    moves = to_any_end(batch, moves)
    assert moves.route_ends is not None
    state = policy.env.along(batch, moves.actions, torch.arange(1, moves.actions.shape[2]))
    p, total = policy.logits(policy.encode(batch), state).softmax(-1)[0], 0.0
    nodes, weights = moves.actions[0, 0].tolist(), moves.weight[0, 0].tolist()
    for t in range(1, len(nodes)):
        right = [n for n in range(1, 30) if moves.route_ends[0, n] and n not in nodes[:t]]
        total += weights[t] * math.log(sum(p[t - 1, n] for n in (right if nodes[t - 1] == 0 else nodes[t : t + 1])))
    assert nodes.count(0) > 2
    assert float(compiled_sum(policy, policy.encode(batch), moves)) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("compute", [compiled_sum, torch_sum])
@pytest.mark.parametrize("problem", PROBLEMS)
@torch.no_grad()
def test_the_sum_is_that_of_log_prob(problem: str, compute) -> None:
    policy, (batch, moves) = random_policy(small_config(problem)), sequences(problem)
    expected = (moves.weight[:, :, 1:] * log_prob(policy, batch, moves.actions)).sum()
    torch.testing.assert_close(compute(policy, policy.encode(batch), moves), expected, atol=5e-4, rtol=1e-5)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_some_of_many_moves(problem: str) -> None:
    """More than one block of them, in the paper's width, and many that do not count."""
    policy = random_policy(small_config(problem, width=128, heads=8, layers=1))
    batch, (actions, weight, _) = sequences(problem, sizes=(30,), walks=80)
    weight = weight * (torch.rand(weight.shape, generator=torch.Generator().manual_seed(2)) < 0.4)
    assert weight.count_nonzero() > 2 * BLOCK
    assert_as_in_torch(policy, batch, Moves(actions, weight))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_factors_that_underflow(problem: str) -> None:
    """Attention so sharp that products of table rows vanish and weights come from queries and keys."""
    policy = random_policy(small_config(problem, clip=2.0))
    other = "query_first" if problem == "tsp" else "query_load"
    with torch.no_grad():
        for name in ("query_last", other):
            policy.get_parameter(f"global_.{name}.weight").mul_(60)
    batch, moves = sequences(problem)
    found, expected = learned(policy, batch, moves), learned(policy, batch, moves, torch_sum)
    torch.testing.assert_close(found[0], expected[0], atol=5e-3, rtol=1e-3)
    scale = max(float(gradient.abs().max()) for gradient in expected[1].values())
    assert all((found[1][name] - gradient).abs().max() <= 5e-3 * scale for name, gradient in expected[1].items())


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_same_bits_again_and_nearly_so_on_more_threads(problem: str) -> None:
    policy = random_policy(small_config(problem))
    batch, moves = sequences(problem, sizes=(30, 24), walks=20)
    with torch_threads(1):
        first, again = (learned(policy, batch, moves) for _ in range(2))
    with torch_threads(2):
        other = learned(policy, batch, moves)
    assert torch.equal(first[0], again[0])
    assert all(torch.equal(first[1][name], again[1][name]) for name in first[1])
    # Torch's own products, before and after the kernels, may differ in their last bits on some processors.
    assert_same(other, first)


@pytest.mark.parametrize("compute", [compiled_sum, torch_sum])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_without_moves_the_gradient_is_zero(problem: str, compute) -> None:
    policy, (batch, moves) = random_policy(small_config(problem)), sequences(problem)
    total, gradients = learned(policy, batch, moves._replace(weight=torch.zeros_like(moves.weight)), compute)
    assert total == 0
    assert not any(gradient.any() for gradient in gradients.values())


def test_states_without_a_choice_teach_nothing() -> None:
    policy = random_policy(small_config("cvrp"))
    batch, moves = sequences("cvrp", sizes=(2,), walks=1)
    total, gradients = learned(policy, batch, moves)
    assert total == 0
    assert not any(gradient.any() for gradient in gradients.values())


def test_unlikely_moves_have_a_finite_log_probability() -> None:
    """Further below 0 than the logarithm of any float32."""
    policy = random_policy(small_config("tsp", clip=500.0), scale=2.0)
    batch, (actions, _, _) = sequences("tsp")
    log_p = log_prob(policy, batch, actions).detach()
    assert float(log_p.min()) < -200
    weight = F.pad((log_p == log_p.min()).float(), (1, 0))
    found = compiled_sum(policy, policy.encode(batch), Moves(actions, weight))
    torch.testing.assert_close(found, log_p.min(), atol=5e-3, rtol=1e-3)


@pytest.mark.parametrize("changes", [{"local_layers": 1}, {"global_policy": False}], ids=str)
def test_other_networks_are_left_to_torch(changes: dict) -> None:
    policy, (batch, moves) = random_policy(small_config("tsp", **changes)), sequences("tsp")
    assert not fits(policy, policy.encode(batch))
    assert torch.isfinite(learned(policy, batch, moves, weighted_log_prob)[0])


def test_half_precision_is_left_to_torch() -> None:
    policy, (batch, moves) = random_policy(small_config("tsp")), sequences("tsp")
    with torch.autocast("cpu", torch.bfloat16):
        assert not fits(policy, policy.encode(batch))
        assert torch.isfinite(weighted_log_prob(policy, policy.encode(batch), moves))


@pytest.mark.parametrize(
    "name", ["global_.embed.weight", "global_.query_last.weight", "global_.combine.bias", "local.context"]
)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_broken_weight_shows(problem: str, name: str) -> None:
    """The loop stops at a loss that is not finite: compiled arithmetic must not hide it."""
    policy, (batch, moves) = random_policy(small_config(problem)), sequences(problem)
    with torch.no_grad():
        policy.get_parameter(name).view(-1)[0] = torch.nan
    assert compiled_sum(policy, policy.encode(batch), moves).isnan()
