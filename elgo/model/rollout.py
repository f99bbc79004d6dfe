"""Rollouts and log-probabilities in torch: on any device, with any config. The reference for `elgo.decode.compiled`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elgo.model.env import Batch, make_batch
from elgo.model.protocols import PolicyLike
from elgo.problem.task import Task

CHECK = 16  # moves between looks at whether all CVRP rollouts are finished: for each look the host waits for the device


class Rolled(NamedTuple):
    """Complete rollouts, on the policy's device."""

    actions: Tensor  # (B, M, T)
    confidence: Tensor | None  # (B, M, T) probability of the likeliest node at each sampled move, 0 for the start


class _TorchThreads:
    """How many blocks of `torch_threads` overlap on several threads, and how many threads there were before them."""

    lock, users, before = Lock(), 0, 0


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads in the block. The last of several overlapping blocks takes it back."""
    state = _TorchThreads
    with state.lock:
        if state.users == 0:
            state.before = torch.get_num_threads()
        outer = torch.get_num_threads()
        state.users += 1
        torch.set_num_threads(count)
    try:
        yield
    finally:
        with state.lock:
            state.users -= 1
            torch.set_num_threads(outer if state.users else state.before)


@contextmanager
def inference(threads: int) -> Iterator[None]:
    """Compute without gradients, on so many threads."""
    with torch.inference_mode(), torch_threads(threads):
        yield


def encode_tasks(policy: PolicyLike, tasks: Sequence[Task], threads: int) -> Any:
    """Return the encoding of tasks of any sizes in one padded batch, prepared for rollouts."""
    with inference(threads):
        return policy.prepare(policy.encode(make_batch(tasks).to(policy.device)))


def device_generator(device: torch.device, rng: np.random.Generator) -> torch.Generator:
    """Return a generator on the device whose seed is the next number of `rng`."""
    return torch.Generator(device).manual_seed(int(rng.integers(2**63)))


def rollout_arrays(
    policy: PolicyLike,
    encoding: Any,
    starts: NDArray[np.int64],
    generator: torch.Generator | None,
    threads: int,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the rollouts (B, M, T) from starts (B, M), and their confidence, as arrays; see `rollout`."""
    with inference(threads):
        first = torch.from_numpy(starts).to(policy.device)
        rolled = rollout(policy, encoding, first, generator, generator is not None, on_steps)
        actions = rolled.actions.cpu().numpy()
        none = np.zeros(actions.shape, np.float32)
        return actions, none if rolled.confidence is None else rolled.confidence.cpu().numpy()


def rollout(
    policy: PolicyLike,
    encoding: Any,
    starts: Tensor,
    generator: torch.Generator | None = None,
    with_confidence: bool = False,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> Rolled:
    """Return rollouts from starts (B, M): greedy, or sampled if a generator is given.

    A finished rollout stays where it is until all of them are. `on_steps` is told of all steps made so far. Nothing in
    the loop waits for the device but a look every CHECK moves whether all rollouts are finished; in TSP not even that.
    """
    env, batch = policy.env, encoding.batch
    actions, confidence = [starts], [torch.zeros(starts.shape, device=starts.device)]
    state = env.start(batch, starts)
    least, most = env.move_bounds(batch.coords.shape[1])
    for move in range(most):
        if move >= least and (move - least) % CHECK == 0 and bool(env.finished(batch, state).all()):
            break
        if generator is None:
            scores, mask = policy.scores(encoding, state)
            chosen = (scores + mask).argmax(-1)
        else:
            logits = policy.logits(encoding, state)
            chosen = sample(logits, generator)
            if with_confidence:
                confidence.append(logits.softmax(-1).amax(-1))
        state = env.step(batch, state, chosen)
        actions.append(chosen)
        on_steps(len(actions) * starts.numel())
    length = len(actions) if least == most else _used(torch.stack(actions))
    made, sure = (torch.stack(x[:length], dim=2) for x in (actions, confidence))
    return Rolled(made, sure if with_confidence else None)


def _used(actions: Tensor) -> int:
    """The number of actions (T, B, M) up to the last return of all CVRP rollouts; afterwards they wait at the depot."""
    away = actions.flatten(1).any(1)
    return int((away * torch.arange(len(away), device=away.device)).max()) + 2


def sample(logits: Tensor, generator: torch.Generator) -> Tensor:
    """(B, M) nodes drawn from softmax(logits) (B, M, N): the largest logit after adding Gumbel noise."""
    noise = torch.empty_like(logits).exponential_(generator=generator)
    return (logits - noise.log_()).argmax(-1)  # torch never draws 0


def log_prob(policy: PolicyLike, batch: Batch, actions: Tensor) -> Tensor:
    """Return log p (B, M, T - 1) of each move of sequences (B, M, T), through which gradients flow.

    All moves are computed at once, and equal to stepping. Where a finished rollout stays, log p is 0.
    """
    state = policy.env.along(batch, actions, torch.arange(1, actions.shape[2], device=actions.device))
    log_p = policy.logits(policy.encode(batch), state).log_softmax(-1)  # (B, M * (T - 1), N)
    return log_p.gather(2, actions[:, :, 1:].flatten(1)[:, :, None]).view(*actions.shape[:2], -1)
