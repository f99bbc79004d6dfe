"""REINFORCE with the shared baseline, the paper's training method.

Rollouts are sampled without gradients by the decoder; their log-probabilities are then recomputed in parallel, a few
instances at a time. That gives the gradient of stepping with autograd for a fraction of its time and memory.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.multistart import all_starts
from elgo.decode.types import Rollouts
from elgo.model.ensemble import Policy
from elgo.model.env import Batch, make_batch
from elgo.problem.task import Task
from elgo.train.config import Config, ReinforceConfig, parse_set
from elgo.train.data import random_tasks, step_rng
from elgo.train.log_prob import log_prob
from elgo.train.processes import Processes, StepLoss
from elgo.train.run import RunState


class Reinforce:
    """The training method: policy gradient on sampled rollouts of random instances."""

    def __init__(self, config: Config, options: ReinforceConfig, processes: Processes) -> None:
        self.config, self.options, self.processes = config, options, processes
        self.decoding = DecodeConfig(threads=torch.get_num_threads())

    def backward(self, policy: Policy, state: RunState) -> StepLoss:
        """Add the gradient of the summed loss of this process's share to the policy's parameters."""
        config, device = self.config, self.processes.device
        rng = step_rng(config.train.seed, state.step)
        tasks = random_tasks(config.policy, config.data, self.distribution(state, rng), rng)
        mine, numbers = self.processes.share(tasks), self.processes.share(range(len(tasks)))
        rngs = [step_rng(config.train.seed, state.step, purpose=2 + number) for number in numbers]
        rollouts = sample_rollouts(policy, mine, self.options.starts, rngs, self.decoding)
        total = torch.zeros((), device=device)
        for chunk in rollout_batches(mine, rollouts, self.options, device):
            with self.processes.autocast(config.train.amp):
                loss = reinforce_loss(policy, *chunk)
            if loss.requires_grad:  # False if the policy was confident everywhere
                loss.backward()
            total += loss.detach()
        return StepLoss(total, torch.tensor(float(len(mine)), device=device), len(tasks))

    def distribution(self, state: RunState, rng: np.random.Generator) -> str:
        """Return the distribution of a step's instances: the next given one, or one drawn by the validation gaps."""
        if self.config.data.distribution != "adaptive":
            given = self.config.data.distribution.split(",")
            return given[state.step % len(given)]
        sets = self.config.validation.sets
        gaps = dict[str, float]()  # of the first set of each distribution
        for name, gap in zip(sets, state.gaps or (0.0,) * len(sets), strict=True):
            gaps.setdefault(parse_set(name)[0], gap / 100)
        return str(rng.choice(list(gaps), p=distribution_probabilities(list(gaps.values()))))

    def close(self) -> None:
        """Nothing runs in the background."""


def distribution_probabilities(gaps: Sequence[float]) -> NDArray[np.float64]:
    """Return the probabilities of ELG*'s adaptive scheduler, proportional to exp(validation gap as a fraction)."""
    weight = np.exp(np.asarray(gaps, dtype=float))
    return weight / weight.sum()


def sample_rollouts(
    policy: Policy, tasks: Sequence[Task], starts: int, rngs: Sequence[np.random.Generator], config: DecodeConfig
) -> list[Rollouts]:
    """Return sampled rollouts of each task from `starts` random nodes, or from all nodes if that is 0.

    Each task has its own generator: its rollouts do not depend on which other tasks are in this process.
    """
    chosen = [_choose(all_starts(task), starts, rng) for task, rng in zip(tasks, rngs, strict=True)]
    return decode(policy, tasks, chosen, config, rngs)


def _choose(nodes: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return nodes if count in (0, len(nodes)) else rng.choice(nodes, count, replace=count > len(nodes))


class RolloutBatch(NamedTuple):
    """Rollouts of a few tasks, as the loss takes them."""

    batch: Batch
    actions: Tensor  # (B, M, T)
    uncertain: Tensor | None  # (B, M, T - 1) False where the policy was so confident that the move teaches nothing


def rollout_batches(
    tasks: Sequence[Task], rollouts: Sequence[Rollouts], options: ReinforceConfig, device: torch.device
) -> Iterator[RolloutBatch]:
    """Yield the rollouts, those of `chunk` tasks at a time, padded with the last node."""
    for begin in range(0, len(tasks), options.chunk):
        part = slice(begin, begin + options.chunk)
        longest = max(own.actions.shape[1] for own in rollouts[part])
        actions = [np.pad(x.actions, ((0, 0), (0, longest - x.actions.shape[1])), mode="edge") for x in rollouts[part]]
        uncertain = None
        if options.confidence_threshold < 1:  # one task: nothing is padded
            confidence = torch.from_numpy(rollouts[begin].confidence[None, :, 1:])
            uncertain = (confidence < options.confidence_threshold).to(device)
        batch = make_batch(tasks[part]).to(device)
        yield RolloutBatch(batch, torch.from_numpy(np.stack(actions)).long().to(device), uncertain)


def advantages(length: Tensor) -> Tensor:
    """Return (B, M) how much shorter a rollout is than the mean of its instance, divided by the largest such value.

    The mean is the shared baseline. Where all rollouts are equally long up to rounding, advantages are 0.
    """
    length64 = length.double()  # autocast leaves doubles alone
    mean = length64.mean(dim=1, keepdim=True)
    gain = mean - length64
    most = gain.amax(dim=1, keepdim=True)
    return torch.where(most > 1e-6 * mean, gain / most, 0.0).to(length.dtype)


def reinforce_loss(policy: Policy, batch: Batch, actions: Tensor, uncertain: Tensor | None = None) -> Tensor:
    """Return the sum over instances of the mean over rollouts of -advantage * log p; see log_prob for `uncertain`."""
    weight = advantages(policy.env.length(batch, actions))
    log_p = log_prob(policy, batch, actions, uncertain=uncertain).sum(2)
    return -(weight * log_p).mean(1).sum()
