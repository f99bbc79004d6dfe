"""The process that trains: its device, its memory, and the others that torchrun started with it."""

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import cache
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from elgo.model.device import find_device
from elgo.model.ensemble import Policy

T = TypeVar("T")
WAIT = timedelta(hours=6)  # for the first process, while it makes the validation sets


class StepLoss(NamedTuple):
    """The loss of one process's share of a batch."""

    total: Tensor  # summed over states or instances
    divisor: Tensor  # their number; both are summed over the processes before the division
    instances: int  # in the whole batch, over all processes


class Processes:
    """This process among those of torchrun, or a single process."""

    def __init__(self, device: str = "auto") -> None:
        """Take a device by name; without a number, each process of torchrun takes the GPU of its own number."""
        self.device = find_device(device)
        use_gpu = self.device.type == "cuda"
        if use_gpu and self.device.index is None:
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if use_gpu:
            torch.cuda.set_device(self.device)
        if dist.is_torchelastic_launched() and not dist.is_initialized():
            dist.init_process_group("nccl" if use_gpu else "gloo", timeout=WAIT)
        together = dist.is_initialized()
        self.rank, self.count = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items of a global batch that belong to this process."""
        return items[self.rank :: self.count]

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Run the block in the first process before the others, which then find what it has written."""
        if self.rank > 0:
            dist.barrier()
        yield
        if self.rank == 0 and self.count > 1:
            dist.barrier()

    def agree(self, value: float) -> float:
        """Return the first process's value: clocks differ, but all must stop at the same step."""
        if self.count == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.broadcast(shared, 0)
        return float(shared)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over all processes."""
        if self.count > 1:
            values = values.to(self.device, copy=True)
            dist.all_reduce(values)
        return values

    def sum_gradients(self, policy: Policy, *extra: Tensor) -> None:
        """Sum gradients, and the extra numbers, over all processes in place.

        A parameter that has no gradient in any process keeps none, so that the optimiser skips it as in one process.
        """
        if self.count == 1:
            return
        parameters = list(policy.parameters())
        used = torch.tensor([float(p.grad is not None) for p in parameters], device=self.device)
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        parts = (used, *grads, *extra)
        flat = self.sum(torch.cat([x.flatten() for x in parts]))
        for part, into in zip(flat.split([x.numel() for x in parts]), parts, strict=True):
            into.copy_(part.view_as(into))
        for parameter, grad, uses in zip(parameters, grads, used.tolist(), strict=True):
            parameter.grad = grad if uses else None

    def autocast(self, enabled: bool) -> AbstractContextManager[object]:
        """Return the context of bfloat16 computation, or one that does nothing."""
        return torch.autocast(self.device.type, torch.bfloat16) if enabled else nullcontext()

    def close(self) -> None:
        """Wait for the other processes and leave the group."""
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


@cache
def keep_freed_memory() -> None:
    """Ask glibc to keep freed blocks of up to 64 MB for the next tensor, instead of returning and clearing them.

    Networks that allocate many middle-sized tensors run up to 1.5 times as fast. Elsewhere this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(-3, 2**26)  # M_MMAP_THRESHOLD
        mallopt(-1, 2**28)  # M_TRIM_THRESHOLD
