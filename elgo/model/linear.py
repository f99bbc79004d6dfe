"""Products of matrices by oneDNN, which comes with torch.

Torch leaves them to MKL, which is half as fast on an AMD EPYC.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear(nn.Linear):
    """A linear layer, by oneDNN where `linear` uses it."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x @ weight.T + bias: by oneDNN on a CPU and in single precision, unless torch is told not to use it."""
    if not _HAS_ONEDNN or not torch.backends.mkldnn.enabled or x.dtype != torch.float32 or x.device.type != "cpu":
        return F.linear(x, weight, bias)
    if torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    if not torch.is_grad_enabled():
        return _product(x, weight, bias)
    made: Tensor = _Linear.apply(x, weight, bias)
    return made


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    made: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return made


class _Linear(Function):
    """The product by oneDNN, which has no gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows = grad.flatten(0, -2)
        return (
            _product(grad, weight.T) if of_x else None,
            _product(rows.T, x.flatten(0, -2).T) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )
