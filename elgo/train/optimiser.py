"""Optimisers: Adam and AdamW of torch, and Muon for large matrices with AdamW for all other parameters."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from elgo.model.linear import linear
from elgo.train.config import TrainConfig

SMALLEST = 64  # rows and columns of a matrix that Muon updates
MOMENTUM = 0.95
STEPS = 5


class Muon:
    """Momentum with orthogonalised updates for matrices of 64 and more rows and columns; AdamW for the rest.

    It stands in for `torch.optim.Muon`, which computes in bfloat16: on a CPU with instructions for that it takes 0.8
    times as long as this, on others 20 times and more. It has of `torch.optim.Optimizer` what the training loop uses.
    """

    def __init__(self, parameters: Iterable[Parameter], lr: float, adamw_lr: float, weight_decay: float) -> None:
        matrices, rest = list[Parameter](), list[Parameter]()
        for parameter in parameters:
            large = parameter.ndim == 2 and min(parameter.shape) >= SMALLEST
            (matrices if large else rest).append(parameter)
        self.matrices, self.weight_decay = matrices, weight_decay
        self.momentum = [torch.zeros_like(matrix) for matrix in matrices]
        self.adamw = torch.optim.AdamW(rest, adamw_lr, weight_decay=weight_decay, fused=True)
        self.param_groups: list[dict[str, Any]] = [{"params": matrices, "lr": lr}, *self.adamw.param_groups]

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters that have a gradient."""
        self.adamw.step()
        lr = self.param_groups[0]["lr"]
        for matrix, momentum in zip(self.matrices, self.momentum, strict=True):
            if matrix.grad is None:
                continue
            momentum.lerp_(matrix.grad, 1 - MOMENTUM)
            update = matrix.grad.lerp(momentum, MOMENTUM)  # Nesterov's
            rows, columns = matrix.shape
            update = orthogonalise(update) if rows <= columns else orthogonalise(update.T).T
            size = 0.2 * math.sqrt(max(rows, columns))  # gives updates the size of AdamW's, so that their rates compare
            matrix.mul_(1 - lr * self.weight_decay)
            matrix.add_(update, alpha=-lr * size)

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs."""
        return {"momentum": self.momentum, "adamw": self.adamw.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        for own, saved in zip(self.momentum, state["momentum"], strict=True):
            own.copy_(saved)
        self.adamw.load_state_dict(state["adamw"])
        self.param_groups[1:] = self.adamw.param_groups


Optimiser = torch.optim.Optimizer | Muon


def make_optimiser(config: TrainConfig, parameters: Iterable[Parameter]) -> Optimiser:
    """Return a new optimiser; the `lr` of its groups are the highest rates, which a schedule scales."""
    if config.optimiser == "muon":
        return Muon(parameters, config.lr, config.adamw_lr, config.weight_decay)
    kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.AdamW
    return kind(parameters, lr=config.lr, weight_decay=config.weight_decay, fused=True)  # on a CPU 4 times as fast


def orthogonalise(matrix: Tensor) -> Tensor:
    """Return a matrix (R, C), R <= C, with its singular values brought near 1 by five Newton-Schulz steps.

    A step is X <- P X, where P = a + b G + c G^2 and G = X X^T. Only the (R, R) matrix G goes through the steps, as
    P G P, with the product of all P; X itself is multiplied once. That takes three quarters of the time. All these
    are symmetric, so `linear`, which transposes its second factor, multiplies them.
    """
    x = matrix / (matrix.norm() + 1e-7)
    gram = linear(x, x)
    polynomial = product = _polynomial(gram)
    for _ in range(STEPS - 1):
        gram = linear(linear(polynomial, gram), polynomial)
        polynomial = _polynomial(gram)
        product = linear(polynomial, product)
    return linear(product, x.T)


def _polynomial(gram: Tensor) -> Tensor:
    """Return a + b G + c G^2 with the coefficients published with Muon."""
    a, b, c = 3.4445, -4.7750, 2.0315
    out = linear(gram, gram).mul_(c).add_(gram, alpha=b)
    out.diagonal().add_(a)
    return out
