"""Rollouts in torch: on any device, with any config. The reference for the compiled path of `elgo.decode`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.model.global_policy import Encoding
from elgo.problem.task import Task


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def inference(threads: int) -> Iterator[None]:
    """Compute without gradients, on so many threads."""
    with torch.inference_mode(), torch_threads(threads):
        yield


def encode_tasks(policy: Policy, tasks: Sequence[Task], threads: int) -> Encoding:
    """Return the encoding of tasks of any sizes in one padded batch."""
    with inference(threads):
        return policy.encode(make_batch(tasks).to(policy.device))


def rollout(
    policy: Policy,
    encoding: Encoding,
    starts: NDArray[np.int64],
    uniforms: Callable[[int], NDArray[np.float32]] | None,
    threads: int,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the actions (B, M, T) of rollouts from starts (B, M) and the highest probability at each sampled move.

    Rollouts are greedy, or sampled if `uniforms` gives the numbers (B, M) that decide step t. Probabilities are 0 for
    the start and for greedy moves. A finished rollout stays where it is until all of them are. `on_steps` is told of
    all steps made so far.
    """
    env, batch = policy.env, encoding.batch
    with inference(threads):
        actions = [torch.from_numpy(starts).to(policy.device)]
        confidence = [torch.zeros(starts.shape)]
        state = env.start(batch, actions[0])
        while not bool(env.finished(batch, state).all()):
            scores, mask = policy.scores(encoding, state)
            if uniforms is None:
                confidence.append(torch.zeros(starts.shape))
                chosen = (scores + mask).argmax(-1)
            else:
                logits = torch.add(mask, scores.tanh(), alpha=policy.config.clip)
                confidence.append(logits.softmax(-1).amax(-1).cpu())
                chosen = invert(logits, torch.from_numpy(uniforms(len(actions))).to(policy.device))
            state = env.step(batch, state, chosen)
            actions.append(chosen)
            on_steps(len(actions) * starts.size)
        made = torch.stack(actions, dim=2).int().cpu().numpy()
        return made, torch.stack(confidence, dim=2).float().numpy()


def invert(logits: Tensor, uniform: Tensor) -> Tensor:
    """(B, M) nodes drawn from softmax(logits) (B, M, N) by inverting the distribution at uniform (B, M)."""
    mass = logits.double().softmax(-1).cumsum(-1)
    return torch.searchsorted(mass, (uniform * mass[..., -1])[..., None].contiguous(), right=True).squeeze(-1)
