"""REINFORCE with the shared baseline (the paper's recipe), and imitation of one's own best rollouts.

Rollouts are sampled without gradients by the fast decoder; their log-probabilities are recomputed in parallel, a few
instances at a time. That is the same gradient as stepping with autograd, for a fraction of its time and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.starts import all_starts
from elgo.decode.types import Rollouts
from elgo.model.ensemble import Policy
from elgo.model.env import Batch, make_batch
from elgo.problem.task import Task
from elgo.train.log_prob import log_prob


def sample_rollouts(
    policy: Policy,
    tasks: Sequence[Task],
    starts: int,
    rngs: Sequence[np.random.Generator],
    config: DecodeConfig,
) -> list[Rollouts]:
    """Sampled rollouts (M, T_i) of each task, from M start nodes (0: from all nodes); see decode.

    Each task has its own generator: its rollouts do not depend on which others are in this process.
    """
    first = [
        _some(all_starts(task), starts, rng) if starts else all_starts(task)
        for task, rng in zip(tasks, rngs, strict=True)
    ]
    return decode(policy, tasks, first, config, rngs)


def _some(nodes: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return nodes if count == len(nodes) else rng.choice(nodes, count, replace=count > len(nodes))


def pieces(
    tasks: Sequence[Task], rollouts: Sequence[Rollouts], size: int, device: torch.device
) -> Iterator[tuple[Batch, Tensor]]:
    """Batches of at most `size` tasks with their actions (B, M, T), padded by staying at the end."""
    for begin in range(0, len(tasks), size):
        part = [own.actions for own in rollouts[begin : begin + size]]
        longest = max(actions.shape[1] for actions in part)
        padded = [_stay(actions, longest) for actions in part]
        yield (
            make_batch(tasks[begin : begin + size]).to(device),
            torch.from_numpy(np.stack(padded)).long().to(device),
        )


def _stay(actions: NDArray[np.int32], longest: int) -> NDArray[np.int32]:
    """Pad finished rollouts (M, T) by staying where they ended: at the depot, or at the last node of a tour."""
    return np.pad(actions, ((0, 0), (0, longest - actions.shape[1])), mode="edge")


def advantages(length: Tensor) -> Tensor:
    """(B, M): how much shorter than the mean of its instance a rollout is, divided by the largest such value.

    Where all rollouts are equally long up to rounding, there is nothing to learn: 0.
    """
    length64 = length.double()  # autocast leaves doubles alone
    mean = length64.mean(dim=1, keepdim=True)
    gain = mean - length64
    most = gain.amax(dim=1, keepdim=True)
    return torch.where(most > 1e-6 * mean, gain / most, 0.0).to(length.dtype)


def reinforce_loss(
    policy: Policy,
    batch: Batch,
    actions: Tensor,
    steps: Tensor | None = None,
    doubtful: Tensor | None = None,
) -> Tensor:
    """Sum over instances of the mean over rollouts of -advantage * log p.

    Some of the steps stand for all of them: the gradient is right on average. See log_prob for `doubtful`.
    """
    if steps is None:
        steps = torch.arange(1, actions.shape[2], device=actions.device)
    weight = advantages(policy.env.length(batch, actions))[:, :, None]
    log_p = log_prob(policy, batch, actions, steps, doubtful)
    return -(weight * log_p).mean(dim=(1, 2)).sum() * (actions.shape[2] - 1)
