"""The compiled log-probabilities and their gradient are those of torch, in every way that they are computed."""

import numpy as np
import pytest
import torch
from samples import KINDS, pad_walks, random_policy, random_task, random_walk, small_config
from torch import Tensor

from elgo.model.ensemble import Policy
from elgo.model.env import Batch, make_batch
from elgo.model.rollout import torch_threads
from elgo.train import log_prob as compiled

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


def sequences(problem: str, sizes: tuple[int, ...] = (3, 9, 17), walks: int = 4) -> tuple[Batch, Tensor]:
    """Tasks of mixed sizes with complete random solutions, so that some states are padding or have no choice."""
    rng = np.random.default_rng(1)
    tasks = [random_task(rng, problem, n, KINDS[i % 3]) for i, n in enumerate(sizes)]
    return make_batch(tasks), pad_walks([[random_walk(rng, task) for _ in range(walks)] for task in tasks])


def learned(policy: Policy, batch: Batch, actions: Tensor, steps: Tensor | None = None) -> tuple[Tensor, dict]:
    """Log-probabilities, and the gradient of a sum of them with different weights."""
    policy.zero_grad()
    log_p = compiled.log_prob(policy, batch, actions, steps)
    (log_p * torch.linspace(-1, 2, log_p.numel()).view_as(log_p)).sum().backward()
    return log_p.detach(), {name: p.grad for name, p in policy.named_parameters() if p.grad is not None}


def in_torch(patch: pytest.MonkeyPatch, *arguments) -> tuple[Tensor, dict]:
    with patch.context() as here:
        here.setattr(compiled, "fits", lambda policy, cache: False)
        return learned(*arguments)


def assert_same(found: tuple[Tensor, dict], expected: tuple[Tensor, dict]) -> None:
    torch.testing.assert_close(found[0], expected[0], atol=5e-4, rtol=1e-4)
    assert found[1].keys() == expected[1].keys()
    scale = max(float(gradient.abs().max()) for gradient in expected[1].values())
    for name, gradient in expected[1].items():
        assert (found[1][name] - gradient).abs().max() <= 2e-4 * scale, name


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_gradient_is_that_of_torch(problem: str, changes: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = random_policy(small_config(problem, **changes))
    batch, actions = sequences(problem)
    assert compiled.fits(policy, policy.encode(batch))
    assert_same(learned(policy, batch, actions), in_torch(monkeypatch, policy, batch, actions))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_some_steps_of_many_states(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one block and one slice of them, of the paper's width."""
    policy = random_policy(small_config(problem, width=128, heads=8, layers=1))
    batch, actions = sequences(problem, sizes=(30,), walks=120)
    steps = torch.arange(2, 29)
    assert actions[0, :, steps].numel() > compiled.SLICE
    assert_same(learned(policy, batch, actions, steps), in_torch(monkeypatch, policy, batch, actions, steps))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_factors_that_underflow(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = random_policy(small_config(problem))
    batch, actions = sequences(problem)
    as_usual = learned(policy, batch, actions)
    monkeypatch.setattr(compiled, "_factors", lambda scores: np.zeros(scores.shape, np.float32))
    assert_same(learned(policy, batch, actions), as_usual)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_same_bits_again_and_nearly_so_on_more_threads(problem: str) -> None:
    policy = random_policy(small_config(problem))
    batch, actions = sequences(problem, sizes=(30, 24), walks=90)
    with torch_threads(1):
        first, again = (learned(policy, batch, actions) for _ in range(2))
    with torch_threads(2):
        other = learned(policy, batch, actions)
    assert torch.equal(first[0], again[0])
    assert all(torch.equal(first[1][name], again[1][name]) for name in first[1])
    # Torch's own products, before and behind the kernels, may differ in their last bits on some processors.
    assert_same(other, first)


def test_states_without_a_choice_teach_nothing() -> None:
    policy = random_policy(small_config("cvrp"))
    batch, actions = sequences("cvrp", sizes=(2,), walks=1)
    log_p, gradients = learned(policy, batch, actions)
    assert not log_p.any()
    assert not any(gradient.any() for gradient in gradients.values())


def test_unlikely_moves_have_a_finite_log_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further below 0 than the logarithm of any float32."""
    policy = random_policy(small_config("tsp", clip=500.0), scale=2.0)
    batch, actions = sequences("tsp")
    found, expected = learned(policy, batch, actions), in_torch(monkeypatch, policy, batch, actions)
    assert float(found[0].min()) < -200
    torch.testing.assert_close(found[0], expected[0], atol=5e-3, rtol=1e-3)


@pytest.mark.parametrize("changes", [{"local_layers": 1}, {"global_policy": False}], ids=str)
def test_other_networks_are_left_to_torch(changes: dict) -> None:
    policy = random_policy(small_config("tsp", **changes))
    assert not compiled.fits(policy, policy.encode(sequences("tsp")[0]))


def test_half_precision_is_left_to_torch() -> None:
    policy, (batch, actions) = random_policy(small_config("tsp")), sequences("tsp")
    with torch.autocast("cpu", torch.bfloat16):
        assert not compiled.fits(policy, policy.encode(batch))
        assert torch.isfinite(compiled.log_prob(policy, batch, actions)).all()


@pytest.mark.parametrize("name", ["global_.embed.weight", "global_.combine.bias", "local.context"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_broken_weight_shows(problem: str, name: str) -> None:
    """The loop stops at a loss that is not finite: compiled arithmetic must not hide it."""
    policy, (batch, actions) = random_policy(small_config(problem)), sequences(problem)
    with torch.no_grad():
        policy.get_parameter(name).view(-1)[0] = torch.nan
    assert compiled.log_prob(policy, batch, actions).isnan().any()
