"""Imitation: teacher forcing on near-optimal solutions, cross-entropy on the ensemble's probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from elgo.model.ensemble import Policy
from elgo.model.env import Batch, make_batch
from elgo.problem.augment import normalise
from elgo.problem.task import Task
from elgo.train.labelling import Labelled


class Lesson(NamedTuple):
    """Labelled instances as the loss takes them: a batch, and M ways through each solution."""

    batch: Batch
    actions: Tensor  # (B, M, T)
    ends: Tensor | None  # (B, N) True at both ends of each route; None in TSP
    steps: tuple[int, int]  # the actions to imitate: from, and up to but without

    def select(self, rows: Tensor) -> Lesson:
        """The part of a process: some of the instances, padded as the whole is."""
        batch = self.batch
        demand, capacity, ends = (None if x is None else x[rows] for x in (batch.demand, batch.capacity, self.ends))
        part = Batch(batch.coords[rows], batch.size[rows], demand, capacity)
        return self._replace(batch=part, actions=self.actions[rows], ends=ends)

    def to(self, device: torch.device) -> Lesson:
        ends = None if self.ends is None else self.ends.to(device)
        return self._replace(batch=self.batch.to(device), actions=self.actions.to(device), ends=ends)


def make_lesson(labels: Sequence[Labelled], starts: int, rng: Generator) -> Lesson:
    """Rotate or reflect each instance at random, and walk its solution from random places."""
    tasks = [turned(label, rng) for label in labels]
    is_tour = labels[0].sample.demand is None
    walks = [[_walk(x, rng) if is_tour else _tour(x.routes, rng) for _ in range(starts)] for x in labels]
    longest = max(len(walk) for group in walks for walk in group)
    # A walk that is over stays where it is, as a rollout does.
    actions = np.stack([[np.pad(walk, (0, longest - len(walk)), mode="edge") for walk in group] for group in walks])
    if is_tour:
        return Lesson(make_batch(tasks), torch.from_numpy(actions), None, (1, longest))
    ends = np.zeros((len(labels), max(label.sample.size for label in labels)), dtype=bool)
    for row, label in enumerate(labels):
        for route in label.routes:
            ends[row, [route[0], route[-1]]] = True
    return Lesson(make_batch(tasks), torch.from_numpy(actions), torch.from_numpy(ends), (1, longest))


def turned(label: Labelled, rng: Generator) -> Task:
    """The instance under a random rotation and reflection, scaled into the unit square again."""
    angle = rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turn[0] *= rng.choice([-1, 1])
    return Task(normalise(label.sample.coords @ turn), label.sample.demand, label.sample.capacity)


def _walk(label: Labelled, rng: Generator) -> NDArray[np.int64]:
    """A closed tour from a random node in a random direction."""
    walk = np.roll(label.tour, rng.integers(len(label.tour)))
    return walk[::-1] if rng.random() < 0.5 else walk


def _tour(routes: Sequence[Sequence[int]], rng: Generator) -> NDArray[np.int64]:
    """Routes in random order and directions with the depot behind each."""
    walk: list[int] = []
    for k in rng.permutation(len(routes)):
        walk += routes[k][:: rng.choice([-1, 1])]
        walk.append(0)
    return np.array(walk)


def imitation_loss(policy: Policy, lesson: Lesson, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Summed -log p of the right next nodes at `steps` (S,) of the walks, and the number of them.

    At the depot every end of every route that is left is right: the loss takes their summed probability.
    """
    batch, actions = lesson.batch, lesson.actions
    state = policy.env.along(batch, actions, steps)
    log_p = policy.logits(policy.encode(batch), state).log_softmax(-1)  # (B, M * S, N)
    target = actions[:, :, steps].flatten(1, 2)
    walking = target != state.current  # not yet in the padding behind the end
    if lesson.ends is None:
        right = log_p.gather(2, target[:, :, None]).squeeze(2)
    else:
        answers = torch.zeros_like(state.visited).scatter(2, target[:, :, None], True)
        at_depot = (walking & (state.current == 0))[:, :, None]
        answers = torch.where(at_depot, lesson.ends[:, None, :] & ~state.visited, answers)
        walking = walking & (answers & log_p.isfinite()).any(-1)
        right = log_p.masked_fill(~answers & walking[:, :, None], -torch.inf).logsumexp(-1)
    walking = walking & right.isfinite()
    return -torch.where(walking, right, 0.0).sum(), walking.sum().float()
