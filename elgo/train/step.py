"""What the loop asks of a training method: the gradient of one step."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from elgo.model.ensemble import Policy
from elgo.train.run import RunState


class StepLoss(NamedTuple):
    """The loss of one process's share of a batch."""

    total: Tensor  # summed over states or instances
    divisor: Tensor  # their number; both are summed over the processes before the division
    instances: int  # in the whole batch, over all processes


class TrainingMethod(Protocol):
    """REINFORCE or imitation."""

    def backward(self, policy: Policy, state: RunState) -> StepLoss:
        """Add the gradient of the summed loss of this process's share to the policy's parameters."""

    def close(self) -> None:
        """End background work."""


def autocast(device: torch.device, enabled: bool) -> AbstractContextManager[object]:
    """Return the context of bfloat16 computation, or one that does nothing."""
    return torch.autocast(device.type, torch.bfloat16) if enabled else nullcontext()
