"""Optimisers: one step of Muon by its definition, which parameters it takes, and its state."""

import copy
import math

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.train.config import TrainConfig
from elgo.train.optimiser import Muon, make_optimiser, orthogonalise

SHAPES = ((64, 64), (96, 64), (64, 96), (64, 96), (64, 63), (3, 64), (7,))  # the last three are AdamW's


def make_parameters(seed: int) -> list[Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def give_gradients(parameters: list[Parameter], seed: int) -> None:
    for parameter, grad in zip(parameters, make_parameters(seed), strict=True):
        parameter.grad = grad.detach()


def newton_schulz(matrix: Tensor) -> Tensor:
    """Muon's five steps as they are published, one matrix at a time in doubles."""
    x = matrix.double() / matrix.double().norm()
    x = x.T if x.shape[0] > x.shape[1] else x
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


@pytest.mark.parametrize("shape", [(64, 64), (64, 96), (128, 512)])
def test_orthogonalise_is_newton_schulz(shape: tuple[int, int]) -> None:
    full = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    low_rank = full[:, :4] @ full[:4] + 1e-4 * full  # nearly singular
    for matrix in (full, low_rank, 1e-2 * full):
        torch.testing.assert_close(orthogonalise(matrix).double(), newton_schulz(matrix), rtol=0, atol=2e-4)
    values = torch.linalg.svdvals(orthogonalise(full[:, : shape[0] // 2].T))
    assert 0.6 < float(values.min()) < float(values.max()) < 1.3
    assert not orthogonalise(torch.zeros(64, 64)).any()


def test_steps_of_muon_by_its_definition() -> None:
    parameters, expected = make_parameters(0), make_parameters(0)
    momentum = [torch.zeros_like(p) for p in expected[:4]]
    optimiser = Muon(parameters, lr=0.02, adamw_lr=3e-3, weight_decay=0.1)
    adamw = torch.optim.AdamW(expected[4:], lr=3e-3, weight_decay=0.1)
    for step in (1, 2, 3):
        give_gradients(parameters, step)
        give_gradients(expected, step)
        optimiser.step()
        adamw.step()
        with torch.no_grad():
            for matrix, m in zip(expected[:4], momentum, strict=True):
                m.mul_(0.95).add_(0.05 * matrix.grad)
                update = newton_schulz(0.05 * matrix.grad + 0.95 * m) * 0.2 * math.sqrt(max(matrix.shape))
                matrix.copy_(matrix - 0.02 * (0.1 * matrix + update))
        for found, right in zip(parameters, expected, strict=True):
            torch.testing.assert_close(found, right, rtol=0, atol=1e-5)


def test_it_is_torch_s_muon_in_higher_precision() -> None:
    ours, theirs = make_parameters(0)[:4], make_parameters(0)[:4]
    rest = Parameter(torch.zeros(1))
    optimiser = Muon([*ours, rest], lr=0.02, adamw_lr=1.0, weight_decay=0.1)
    other = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for step in (1, 2):
        for some in (ours, theirs):
            give_gradients([*some, *make_parameters(0)[4:]], step)
        optimiser.step()
        other.step()
    for a, b, before in zip(ours, theirs, make_parameters(0), strict=False):
        assert ((a - b).norm() / (a - before).norm()).item() < 0.02  # bfloat16 has 8 bits


def test_parameters_without_a_gradient_stay() -> None:
    parameters, before = make_parameters(0), make_parameters(0)
    optimiser = Muon(parameters, lr=0.02, adamw_lr=3e-3, weight_decay=0.1)
    give_gradients(parameters, 1)
    parameters[1].grad = parameters[5].grad = None
    optimiser.step()
    same = [torch.equal(a, b) for a, b in zip(parameters, before, strict=True)]
    assert same == [False, True, False, False, False, True, False]


def test_a_saved_state_goes_on_as_if_nothing_had_happened() -> None:
    parameters = make_parameters(0)
    optimiser = Muon(parameters, lr=0.02, adamw_lr=3e-3, weight_decay=0.1)
    give_gradients(parameters, 1)
    optimiser.step()
    copies = [Parameter(parameter.detach().clone()) for parameter in parameters]
    again = Muon(copies, lr=1.0, adamw_lr=1.0, weight_decay=0.1)
    again.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    for some, each in ((parameters, optimiser), (copies, again)):
        give_gradients(some, 2)
        each.param_groups[0]["lr"], each.param_groups[1]["lr"] = 0.01, 1e-3
        each.step()
    assert all(torch.equal(a, b) for a, b in zip(parameters, copies, strict=True))
    assert again.momentum[0] is not optimiser.momentum[0]


def test_optimisers_of_a_config() -> None:
    policy = Policy(PolicyConfig("tsp"))
    for name, kind in (("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)):
        made = make_optimiser(TrainConfig(optimiser=name, lr=0.2, weight_decay=0.3), policy.parameters())
        assert type(made) is kind
        assert (made.defaults["lr"], made.defaults["weight_decay"]) == (0.2, 0.3)
    made = make_optimiser(TrainConfig(optimiser="muon", lr=0.2, adamw_lr=0.1), policy.parameters())
    assert isinstance(made, Muon)
    assert [group["lr"] for group in made.param_groups] == [0.2, 0.1]
    count = sum(matrix.numel() for matrix in made.matrices)
    assert count == 1_261_568  # all but 1 % of the paper's network
    assert count + sum(p.numel() for p in made.adamw.param_groups[0]["params"]) == sum(
        p.numel() for p in policy.parameters()
    )
