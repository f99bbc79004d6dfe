"""REINFORCE with the shared baseline (the paper's recipe), and imitation of one's own best rollouts.

Rollouts are sampled without gradients by the fast decoder; their log-probabilities are recomputed in parallel, a few
instances at a time. That is the same gradient as stepping with autograd, for a fraction of its time and memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elgo.decode.rollout import Certainty, DecodeConfig, decode
from elgo.decode.starts import all_starts, good_starts
from elgo.model.env import Batch, Task, make_batch
from elgo.model.policy import Policy

BRANCH_BEFORE = 0.9  # of a rollout: behind that hardly anything is left to decide


def sample_rollouts(
    policy: Policy,
    tasks: Sequence[Task],
    starts: int,
    rngs: Sequence[np.random.Generator],
    config: DecodeConfig,
    certainty: list[Certainty] | None = None,
) -> list[NDArray[np.int32]]:
    """Sampled rollouts (M, T_i) of each task, from M good start nodes (0: from all nodes); see decode.

    Each task has its own generator: its rollouts do not depend on which others are in this process.
    """
    first = [
        _some(good_starts(task, policy.config), starts, rng) if starts else all_starts(task)
        for task, rng in zip(tasks, rngs, strict=True)
    ]
    return decode(policy, tasks, first, config, rngs, certainty=certainty)


def sample_branches(
    policy: Policy,
    tasks: Sequence[Task],
    branches: int,
    where: float,
    rngs: Sequence[np.random.Generator],
    config: DecodeConfig,
    certainty: list[Certainty],
) -> tuple[list[NDArray[np.int32]], int]:
    """M rollouts (M, T_i) of each task that are one greedy rollout for P nodes and sampled from there on; and P.

    The tasks have one size. where: from 0 to 1, from the start to nearly the end.
    """
    if not tasks:
        return [], 1
    first = [_some(good_starts(task, policy.config), 1, rng) for task, rng in zip(tasks, rngs, strict=True)]
    trunks = decode(policy, tasks, first, config)
    shared = 1 + int(where * BRANCH_BEFORE * (len(all_starts(tasks[0])) - 1))  # no rollout is as short
    begun = [np.repeat(trunk[:, :shared], branches, axis=0).astype(np.int64) for trunk in trunks]
    return decode(policy, tasks, begun, config, rngs, certainty=certainty), shared


def _some(nodes: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return nodes if count == len(nodes) else rng.choice(nodes, count, replace=count > len(nodes))


def pieces(
    tasks: Sequence[Task], rollouts: Sequence[NDArray[np.int32]], size: int, device: torch.device
) -> Iterator[tuple[Batch, Tensor]]:
    """Batches of at most `size` tasks with their actions (B, M, T), padded by staying at the end."""
    for begin in range(0, len(tasks), size):
        part = rollouts[begin : begin + size]
        longest = max(actions.shape[1] for actions in part)
        padded = [_stay(actions, longest) for actions in part]
        yield (
            make_batch(tasks[begin : begin + size]).to(device),
            torch.from_numpy(np.stack(padded)).long().to(device),
        )


def _stay(actions: NDArray[np.int32], longest: int) -> NDArray[np.int32]:
    """Pad finished rollouts (M, T) by staying where they ended: at the depot, or at the last node of a tour."""
    return np.pad(actions, ((0, 0), (0, longest - actions.shape[1])), mode="edge")


def advantages(length: Tensor, best_of: int = 1) -> Tensor:
    """(B, M): how much better than the mean of its instance a rollout is, divided by the largest such value.

    Alone: by its length. With best_of = k: by the mean length of the best of k rollouts of which it is one; before the
    division, their gradient is that of the expected best of k, up to a factor. (With k >= M, it is M - 1.)
    Where all rollouts are equally long up to rounding, there is nothing to learn: 0.
    """
    count = length.shape[1]
    ordered, place = length.double().sort(dim=1)  # autocast leaves doubles alone
    best_of = max(1, min(best_of, count - 1))
    lead = F.pad(_chance_to_lead(count - 1, best_of - 1), (0, 1)).to(ordered)  # among the others, if before it
    better = lead.cumsum(0) - lead  # that one of those before it is the best of the team
    team = (lead * ordered).cumsum(1) - lead * ordered + (1 - better) * ordered
    gain = team.mean(dim=1, keepdim=True) - team
    most = gain.amax(dim=1, keepdim=True)
    gain = torch.where(most > 1e-6 * ordered.mean(dim=1, keepdim=True), gain / most, 0.0)
    return torch.empty_like(gain).scatter(1, place, gain).to(length.dtype)


def _chance_to_lead(count: int, size: int) -> Tensor:
    """(count,): how likely each, the best first, is the best of `size` drawn from `count`."""
    if size == 0:
        return torch.zeros(count, dtype=torch.float64)
    chance = [math.comb(count - 1 - i, size - 1) / math.comb(count, size) for i in range(count)]
    return torch.tensor(chance, dtype=torch.float64)


def reinforce_loss(
    policy: Policy,
    batch: Batch,
    actions: Tensor,
    steps: Tensor | None = None,
    doubtful: Tensor | None = None,
    credit: Tensor | None = None,
    best_of: int = 1,
    shared: int = 1,
) -> Tensor:
    """Sum over instances of the mean over rollouts of -advantage * log p.

    The advantage is that of whole rollouts, or of their moves if `credit` (B, M, T - 1) says it. Some of the steps
    stand for all of them behind the `shared` first: the gradient is right on average. See log_prob for `doubtful`.
    """
    if steps is None:
        steps = torch.arange(shared, actions.shape[2], device=actions.device)
    if credit is None:
        weight = advantages(policy.problem.length(batch, actions), best_of)[:, :, None]
    else:
        weight = credit[:, :, steps - 1]
    log_p = policy.log_prob(batch, actions, steps, doubtful)
    return -(weight * log_p).mean(dim=(1, 2)).sum() * (actions.shape[2] - shared)


def best_rollout_loss(
    policy: Policy, batch: Batch, actions: Tensor, steps: Tensor | None = None, doubtful: Tensor | None = None
) -> Tensor:
    """Sum over instances of the mean -log p per move, at all or the given steps, of the shortest rollout."""
    if steps is None:
        steps = torch.arange(1, actions.shape[2], device=actions.device)
    best = policy.problem.length(batch, actions).argmin(dim=1)
    chosen = actions.gather(1, best[:, None, None].expand(-1, -1, actions.shape[2]))
    moves = (chosen[:, :, steps] != chosen[:, :, steps - 1]).sum(-1)  # without those of a finished rollout, which stays
    if doubtful is not None:
        doubtful = doubtful.gather(1, best[:, None, None].expand(-1, -1, doubtful.shape[2]))
    return -(policy.log_prob(batch, chosen, steps, doubtful).sum(-1) / moves.clamp(min=1)).sum()
