"""REINFORCE with the shared baseline, the paper's training method.

Rollouts are sampled without gradients; their log-probabilities are then recomputed in parallel, of as many instances at
a time as fit into memory. That gives the gradient of stepping with autograd for a fraction of its time and memory. On a
CPU the compiled decoder makes the rollouts, from the encoding that the gradient then goes through. Elsewhere torch
does: they stay on the device, where they are also drawn.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elgo.decode.decoder import DecodeConfig, decode, use_compiled
from elgo.decode.multistart import all_starts
from elgo.decode.types import Rollouts
from elgo.model.ensemble import Policy
from elgo.model.env import Batch, make_batch
from elgo.model.global_policy import Encoding
from elgo.model.rollout import Rolled, device_generator, rollout
from elgo.problem.task import Task
from elgo.train.config import Config, ReinforceConfig, parse_set
from elgo.train.data import random_tasks, step_rng
from elgo.train.log_prob import Moves, weighted_log_prob
from elgo.train.prefetch import Prefetch
from elgo.train.processes import Processes, StepLoss
from elgo.train.run import RunState

STATE_BYTES = 250.0  # memory of the gradient, per state and node
CPU_MEMORY = 2.0**30  # that a gradient by torch may take on a CPU: more is no faster
CPU_NODES = 2000  # whose encoding is kept on a CPU for the gradient: more is no faster


class DataKey(NamedTuple):
    """What decides the instances of a step, besides the config."""

    step: int
    gaps: tuple[float, ...]  # of the last validation


class Instances(NamedTuple):
    """The instances of a step."""

    tasks: list[Task]  # of all processes
    mine: Sequence[Task]  # of this process
    batch: Batch  # of this process


class Reinforce:
    """The training method: policy gradient on sampled rollouts of random instances."""

    def __init__(self, config: Config, options: ReinforceConfig, processes: Processes) -> None:
        self.config, self.options, self.processes = config, options, processes
        self.decoding = DecodeConfig(threads=torch.get_num_threads())
        self.data = Prefetch(self.instances, ahead=processes.device.type != "cpu")

    def backward(self, policy: Policy, state: RunState) -> StepLoss:
        """Add the gradient of the summed loss of this process's share to the policy's parameters."""
        config, device = self.config, self.processes.device
        key = DataKey(state.step, tuple(state.gaps))
        tasks, mine, batch = self.data.get(key, key._replace(step=state.step + 1))
        numbers = self.processes.share(range(len(tasks)))
        rngs = [step_rng(config.train.seed, state.step, purpose=2 + number) for number in numbers]
        total = torch.zeros((), device=device)
        if mine:
            batch = batch.to(device, non_blocking=True)
            for part, encoding in sampled_parts(policy, mine, batch, self.options, rngs, self.decoding):
                with self.processes.autocast(config.train.amp):
                    loss = reinforce_loss(policy, *part, encoding)
                loss.backward()
                total += loss.detach()
        return StepLoss(total, torch.tensor(float(len(mine)), device=device), len(tasks))

    def instances(self, key: DataKey) -> Instances:
        """Return the instances of a step, where a GPU can fetch them without waiting."""
        rng = step_rng(self.config.train.seed, key.step)
        tasks = random_tasks(self.config.policy, self.config.data, self.distribution(key, rng), rng)
        mine = self.processes.share(tasks)
        batch = make_batch(mine or tasks)
        return Instances(tasks, mine, batch.pin_memory() if self.processes.device.type == "cuda" else batch)

    def distribution(self, key: DataKey, rng: np.random.Generator) -> str:
        """Return the distribution of a step's instances: the next given one, or one drawn by the validation gaps."""
        if self.config.data.distribution != "adaptive":
            given = self.config.data.distribution.split(",")
            return given[key.step % len(given)]
        sets = self.config.validation.sets
        gaps = dict[str, float]()  # of the first set of each distribution
        for name, gap in zip(sets, key.gaps or (0.0,) * len(sets), strict=True):
            gaps.setdefault(parse_set(name)[0], gap / 100)
        return str(rng.choice(list(gaps), p=distribution_probabilities(list(gaps.values()))))

    def close(self) -> None:
        """End the thread that makes instances."""
        self.data.close()


def distribution_probabilities(gaps: Sequence[float]) -> NDArray[np.float64]:
    """Return the probabilities of ELG*'s adaptive scheduler, proportional to exp(validation gap as a fraction)."""
    weight = np.exp(np.asarray(gaps, dtype=float))
    return weight / weight.sum()


class SampledRollouts(NamedTuple):
    """Rollouts of some tasks, as the loss takes them."""

    batch: Batch
    actions: Tensor  # (B, M, T); a finished rollout stays at its last node
    uncertain: Tensor | None  # (B, M, T - 1) False where the policy was so confident that the move teaches nothing


def sample_rollouts(
    policy: Policy,
    tasks: Sequence[Task],
    batch: Batch,
    options: ReinforceConfig,
    rngs: Sequence[np.random.Generator],
    config: DecodeConfig,
    encoding: Encoding | None = None,
) -> SampledRollouts:
    """Return sampled rollouts of the tasks, which are also given as a batch on the policy's device.

    - `rngs`: one for each task, so that its rollouts from compiled kernels do not depend on which other tasks are in
      this process; on a device the first one seeds the noise for all of them
    - `encoding`: of the batch, if it was made before; compiled kernels take it
    """
    starts = [_choose(all_starts(task), options.starts, rng) for task, rng in zip(tasks, rngs, strict=True)]
    threshold = options.confidence_threshold
    if use_compiled(policy, config):
        sampled = _stacked(decode(policy, tasks, starts, config, rngs, encoding=encoding))
    else:
        most = max(map(len, starts))  # a task with fewer nodes repeats its last start
        first = np.stack([np.pad(own, (0, most - len(own)), mode="edge") for own in starts])
        generator = device_generator(policy.device, rngs[0])
        with torch.no_grad():
            prepared = policy.prepare(policy.encode(batch))
            given = torch.from_numpy(first).to(policy.device)
            sampled = rollout(policy, prepared, given, generator, with_confidence=threshold < 1)
    uncertain = None
    if threshold < 1 and sampled.confidence is not None:
        uncertain = sampled.confidence[:, :, 1:] < threshold
    return SampledRollouts(batch, sampled.actions, uncertain)


def _choose(nodes: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return `count` random nodes; all of them if that is 0."""
    return nodes if count in (0, len(nodes)) else rng.choice(nodes, count, replace=count > len(nodes))


def _stacked(rollouts: Sequence[Rollouts]) -> Rolled:
    """Return actions and confidence (B, M, T) of rollouts that may differ in length; the policy is sure to stay."""
    shape = len(rollouts), len(rollouts[0].actions), max(own.actions.shape[1] for own in rollouts)
    actions, confidence = np.empty(shape, np.int64), np.ones(shape, np.float32)
    for i, own in enumerate(rollouts):
        length = own.actions.shape[1]
        actions[i, :, :length], confidence[i, :, :length] = own
        actions[i, :, length:] = own.actions[:, -1:]
    return Rolled(torch.from_numpy(actions), torch.from_numpy(confidence))


def sampled_parts(
    policy: Policy,
    tasks: Sequence[Task],
    batch: Batch,
    options: ReinforceConfig,
    rngs: Sequence[np.random.Generator],
    config: DecodeConfig,
) -> Iterator[tuple[SampledRollouts, Encoding | None]]:
    """Yield sampled rollouts of the tasks, those of a part of them at a time, and its encoding if that was needed."""
    if not use_compiled(policy, config) or policy.global_ is None or batch.real is not None:
        whole = sample_rollouts(policy, tasks, batch, options, rngs, config)
        yield from ((part, None) for part in parts_in_memory(whole, gradient_memory(policy.device)))
        return
    size = max(config.workers, CPU_NODES // batch.coords.shape[1])
    for begin in range(0, len(tasks), size):
        part = slice(begin, begin + size)
        own = batch.select(part)
        encoding: Encoding = policy.encode(own)
        yield sample_rollouts(policy, tasks[part], own, options, rngs[part], config, encoding), encoding


def gradient_memory(device: torch.device) -> float:
    """Return the bytes that a gradient may take: half of a GPU's memory, the same in every session of a run."""
    if device.type != "cuda":
        return CPU_MEMORY
    return torch.cuda.get_device_properties(device).total_memory / 2


def parts_in_memory(sampled: SampledRollouts, memory: float) -> Iterator[SampledRollouts]:
    """Yield the rollouts of as many tasks at a time as have gradients that fit into so many bytes; at least one."""
    batch, actions, uncertain = sampled
    each = actions[0].numel() * batch.coords.shape[1] * STATE_BYTES
    size = max(1, int(memory / each))
    for begin in range(0, len(actions), size):
        part = slice(begin, begin + size)
        yield SampledRollouts(batch.select(part), actions[part], None if uncertain is None else uncertain[part])


def advantages(length: Tensor) -> Tensor:
    """Return (B, M) how much shorter a rollout is than the mean of its instance, divided by the largest such value.

    The mean is the shared baseline. Where all rollouts are equally long up to rounding, advantages are 0.
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
    uncertain: Tensor | None = None,
    encoding: Any = None,
) -> Tensor:
    """Return the sum over instances of the mean over rollouts of -advantage * log p, of uncertain moves if given.

    - `encoding`: of the batch, if it was made before
    """
    each = -advantages(policy.env.length(batch, actions)) / actions.shape[1]
    moving = actions[:, :, 1:] != actions[:, :, :-1]  # False in the padding
    weight = each[:, :, None] * (moving if uncertain is None else moving & uncertain)
    encoding = policy.encode(batch) if encoding is None else encoding
    return weighted_log_prob(policy, encoding, Moves(actions, F.pad(weight, (1, 0))))
