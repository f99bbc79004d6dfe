"""Linear layers by oneDNN are torch's own, gradients included."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from elgo.model.linear import Linear, linear


@pytest.mark.parametrize("shape", [(7, 16), (3, 5, 16), (2, 3, 5, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_torch(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, requires_grad=True)
    weight = torch.randn(24, 16, requires_grad=True)
    inputs = [x, weight, *([torch.randn(24, requires_grad=True)] if bias else [])]
    grad = torch.randn(*shape[:-1], 24)
    found, expected = linear(*inputs), F.linear(*inputs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for a, b in zip(*(torch.autograd.grad(y, inputs, grad) for y in (found, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_inputs_and_weights_may_be_transposed_or_fixed() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(16, 5).T, torch.randn(16, 24, requires_grad=True)
    made = linear(x, weight.T)
    torch.testing.assert_close(made, x @ weight, rtol=1e-5, atol=1e-5)
    made.sum().backward()
    torch.testing.assert_close(weight.grad, x.T @ torch.ones(5, 24), rtol=1e-5, atol=1e-5)


def test_leaves_other_types_and_autocast_to_torch() -> None:
    layer = Linear(4, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.ones(2, 4)).dtype == torch.bfloat16
    assert layer.double()(torch.ones(2, 4, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.filterwarnings("ignore:TF32")
def test_torch_can_be_told_not_to_use_onednn() -> None:
    def products(x: Tensor) -> list[str]:
        with torch.profiler.profile() as profile:
            Linear(4, 3)(x)
        return [event.name for event in profile.events() if "linear" in event.name]

    x = torch.ones(2, 4)
    with torch.backends.mkldnn.flags(enabled=False):
        assert products(x) == ["aten::linear"]
